"""Fourier transforms without XLA, by products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_linalg import check, general
from train_alike import assert_trains_alike


def both(z: Any) -> tuple[Any, Any]:
    return jnp.real(z), jnp.imag(z)


def filtered(x: Any) -> Any:
    """A convolution with a decaying kernel, by the convolution theorem."""
    spectrum = jnp.fft.rfft(x)
    return jnp.fft.irfft(spectrum * jnp.exp(-jnp.arange(spectrum.shape[-1]) / 9.0), n=x.shape[-1])


Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

# 131 is prime, 120 is one product, the others have two steps, 2048 in each of which is one product.
LENGTHS = (1, 2, 7, 16, 120, 131, 144, 1000, 2048)

CASES: dict[str, Case] = (
    {
        f"fft of {n}": (lambda x, y: both(jnp.fft.fft(x + 1j * y)), (general(3, n), general(3, n)))
        for n in LENGTHS
    }
    | {
        f"ifft of {n}": (
            lambda x, y: both(jnp.fft.ifft(x + 1j * y)),
            (general(3, n), general(3, n)),
        )
        for n in LENGTHS
    }
    | {f"rfft of {n}": (lambda x: both(jnp.fft.rfft(x)), (general(2, 3, n),)) for n in LENGTHS}
    | {
        f"irfft of {n}": (
            lambda x, y, n=n: jnp.fft.irfft(x + 1j * y, n=n),
            (general(3, n // 2 + 1), general(3, n // 2 + 1)),
        )
        for n in LENGTHS
    }
    | {
        "fft2": (lambda x: both(jnp.fft.fft2(x)), (general(2, 6, 200),)),
        "rfft2": (lambda x: both(jnp.fft.rfft2(x)), (general(2, 6, 200),)),
        "irfft2": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2j), (general(2, 10, 12),)),
        "fft3": (lambda x: both(jnp.fft.fftn(x)), (general(3, 4, 5),)),
        "along the first": (lambda x: both(jnp.fft.fft(x, axis=0)), (general(24, 3),)),
        "filter": (filtered, (general(4, 300),)),
        "gradient of a filter": (
            jax.grad(lambda x: jnp.sum(jnp.sin(filtered(x)))),
            (general(4, 31),),
        ),
        "power spectrum": (
            jax.value_and_grad(lambda x: jnp.mean(jnp.log1p(jnp.abs(jnp.fft.rfft(x)) ** 2))),
            (general(4, 64),),
        ),
        "in a scan": (
            lambda x: jax.lax.scan(
                lambda c, r: (c + filtered(r), jnp.abs(jnp.fft.rfft(c))), x[0], x
            ),
            (general(5, 16),),
        ),
    }
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_transforms(case: str, dtype: Any) -> None:
    fn, args = CASES[case]
    check(fn, *args, dtype=dtype)


def fourier_step(params: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """FNet: the tokens are mixed by the real part of a transform."""

    def loss(params: Any) -> Any:
        hidden = jax.nn.gelu(x @ params["a"])
        mixed = hidden + 0.1 * jnp.fft.fft2(hidden).real
        hidden = jax.nn.gelu(mixed @ params["b"])
        return jnp.mean((hidden @ params["c"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), value


@pytest.mark.parametrize(("recipe", "bound"), [("none", 1e-5), ("fp8", 0.1)])
def test_a_model_with_transforms_trains(recipe: str, bound: float) -> None:
    """The bound for fp8 follows from its casts' errors, 0.026 each in the root mean square."""
    rng = np.random.default_rng(1)
    start = {
        name: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in (("a", (16, 32)), ("b", (32, 32)), ("c", (32, 4)))
    }
    batches = [
        (
            rng.normal(size=(4, 8, 16)).astype(np.float32),
            rng.normal(size=(4, 8, 4)).astype(np.float32),
        )
        for _ in range(6)
    ]
    ours = assert_trains_alike(fourier_step, start, batches, bound, recipe=recipe)
    assert not ours.report().calls()
