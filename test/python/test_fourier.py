"""Complex numbers and Fourier transforms without XLA: pairs of real numbers, and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_linalg import check, general

import scalify


def both(z: Any) -> tuple[Any, Any]:
    return jnp.real(z), jnp.imag(z)


def filtered(x: Any) -> Any:
    """A convolution with a decaying kernel, by the convolution theorem."""
    spectrum = jnp.fft.rfft(x)
    return jnp.fft.irfft(spectrum * jnp.exp(-jnp.arange(spectrum.shape[-1]) / 9.0), n=x.shape[-1])


def rotated(x: Any) -> Any:
    """Rotary embeddings as complex products."""
    z = jax.lax.complex(x[..., ::2], x[..., 1::2]) * jnp.exp(1j * jnp.arange(x.shape[-1] // 2))
    return jnp.stack(both(z), -1).reshape(x.shape)


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
        "rotary": (rotated, (general(5, 16),)),
        "gradient of a rotary embedding": (
            jax.grad(lambda x: jnp.sum(jnp.sin(rotated(x)))),
            (general(5, 16),),
        ),
        "quotient": (
            lambda x, y: both((x + 1j * y) / (y - 2j * x)),
            (general(9), general(9)),
        ),
        "magnitude": (lambda x, y: jnp.abs(x + 1j * y), (general(9), general(9))),
        "sign": (lambda x, y: both(jnp.sign(x + 1j * y)), (general(9), general(9))),
        "comparison": (
            lambda x, y: ((x + 1j * y) == (x + 1j * abs(y)), (x + 1j * y) != (x + 1j * abs(y))),
            (general(9), general(9)),
        ),
        "dot": (
            lambda x, y: both((x + 1j * y) @ (y - 1j * x)),
            (general(4, 4), general(4, 4)),
        ),
        "sum": (lambda x, y: both(jnp.sum(x + 1j * y, axis=0)), (general(9, 3), general(9, 3))),
        "moves": (
            lambda x, y: both(
                jnp.where(
                    x > 0, jnp.pad((x + 1j * y)[:, ::-1].T, ((1, 0), (0, 1)))[1:, :-1].T, 1 - 2j
                )
            ),
            (general(4, 5), general(4, 5)),
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
def test_complex(case: str, dtype: Any) -> None:
    fn, args = CASES[case]
    check(fn, *args, dtype=dtype)


def test_the_range_of_magnitudes_and_quotients() -> None:
    x = np.array([0, np.inf, 3e38, 1e-30, 3, 0, np.nan], np.float32)
    y = np.array([0, 1, 1e38, 1e-30, 0, 4, 1], np.float32)

    def step(x: Any, y: Any) -> Any:
        z = jax.lax.complex(x, y)
        return jnp.abs(z), jnp.real((z * 2) / z)

    size, ratio = scalify.jit(step, recipe="none")(x, y)
    np.testing.assert_allclose(
        np.asarray(size), np.hypot(x.astype(np.float64), y), rtol=4 * np.finfo(np.float32).eps
    )
    np.testing.assert_allclose(np.asarray(ratio)[3:6], 2, rtol=1e-6)


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

    def losses(step: Callable[..., Any]) -> list[float]:
        params, found = start, []
        for batch in batches:
            params, loss = step(params, *batch)
            found.append(float(loss))
        return found

    ours = scalify.jit(fourier_step, recipe=recipe, donate_argnums=0)
    np.testing.assert_allclose(losses(ours), losses(jax.jit(fourier_step)), rtol=bound)
    assert not ours.report().calls()
