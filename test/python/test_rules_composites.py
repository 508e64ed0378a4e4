"""Composite rules and the generic rules they replace give scales within 4 binades, op by op."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_rules_reference import TOKENS, attention, cross_entropy, rms_norm, rope
from test_scaling import PROPAGATE, normal, normal_form, opt

X = normal(0, (2, 16, 32))
E = normal(2, (64, 32), 0.05)
G = normal(4, (2, 16, 32), 2.0**-9)


def layer_norm(x: jax.Array) -> jax.Array:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)


def log_probabilities(x: jax.Array) -> jax.Array:
    return x - jax.nn.logsumexp(x, -1, keepdims=True)


def decays(x: jax.Array) -> jax.Array:
    """exp of the sums of -|x| / 10 from each place to each later one."""
    sums = jnp.cumsum(-0.1 * jnp.abs(x), -1)
    causal = jnp.tril(jnp.ones((x.shape[-1], x.shape[-1]), bool))
    return jnp.exp(jnp.where(causal, sums[..., :, None] - sums[..., None, :], -jnp.inf))


def decayed(x: jax.Array) -> jax.Array:
    return jnp.einsum("bcls,bcs->bcl", decays(x), x)


def backward(fn: Callable[[jax.Array], jax.Array]) -> Callable[..., Any]:
    def both(x: jax.Array, g: jax.Array) -> Any:
        y, pull = jax.vjp(fn, x)
        return y, pull(g)

    return both


# The program, its arrays, and words of the rule that must have matched.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], str]] = {
    "softmax": (attention, (X,), "elements of a softmax matter"),
    "rms_norm": (rms_norm, (X,), "norm: unit size"),
    "layer_norm": (layer_norm, (X,), "norm: unit size"),
    "reciprocal_norm": (
        lambda x: x * (1 / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)),
        (X,),
        "norm: unit size",
    ),
    "flax_norm": (lambda x: jax.nn.standardize(x, -1), (X,), "norm: unit size"),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, -1), (X,), "log-softmax"),
    "logsumexp": (log_probabilities, (X,), "log-softmax"),
    "softmax_of_logs": (
        lambda x: jnp.exp(log_probabilities(x)),
        (X,),
        "softmax of log-probabilities",
    ),
    "gelu": (jax.nn.gelu, (X,), "x g(x), g a sigmoid"),
    "gelu_erf": (lambda x: jax.nn.gelu(x, approximate=False), (X,), "x g(x), g a sigmoid"),
    "silu": (jax.nn.silu, (X,), "x g(x), g a sigmoid"),
    "rope": (rope, (X,), "rotation"),
    "decay": (decayed, (X,), "decay between entries"),
}
for name, (fn, arrays, words) in list(PROGRAMS.items()):
    PROGRAMS[name + "_gradient"] = (backward(fn), (*arrays, G), words)
PROGRAMS["tanh_gradient"] = (backward(jnp.tanh), (4 * X, G), "gradient of tanh")
PROGRAMS["cross_entropy"] = (cross_entropy, (X, E, TOKENS), "elements of a softmax matter")
PROGRAMS["cross_entropy_gradient"] = (
    jax.grad(cross_entropy, (0, 1)),
    (X, E, TOKENS),
    "elements of a softmax matter",
)


def scales(text: str, composites: int) -> tuple[list[tuple[str, int]], str]:
    """Returns the name and the scale of each op, in order, and the text."""
    text = opt(text, f"{PROPAGATE} composites={composites}")
    found = re.findall(r"= \"?stablehlo\.(\w+).*?scalify.scale = (-?\d+) : i32", text)
    return [(name, int(exponent)) for name, exponent in found], text


@pytest.mark.parametrize("name", PROGRAMS)
def test_composites_agree_with_generic_rules(name: str) -> None:
    """No op of the program has scales further than 4 binades apart."""
    fn, arrays, words = PROGRAMS[name]
    text = normal_form(fn, *arrays)
    with_rules, composite = scales(text, 1)
    without, generic = scales(text, 0)
    assert words in composite
    assert words not in generic
    assert [op for op, _ in with_rules] == [op for op, _ in without]
    apart = [(a, b) for a, b in zip(with_rules, without, strict=True) if abs(a[1] - b[1]) > 4]
    assert not apart


@pytest.mark.parametrize("size", [0.1, 0.5, 1.0, 2.0, 8.0])
def test_the_gradient_of_tanh_has_its_size(size: float) -> None:
    """1 - t^2 is one for a small x, and nearly zero for a large one."""
    x, g = normal(0, (64, 64), size), normal(1, (64, 64))
    found, _ = scales(normal_form(backward(jnp.tanh), x, g), 1)
    _, gradient = backward(jnp.tanh)(x, g)
    measured = np.log2(np.sqrt(np.mean(np.square(gradient))))
    assert abs(found[-1][1] - measured) <= 1.5


@pytest.mark.parametrize("size", [0.1, 1.0, 8.0, 64.0, 512.0, 4096.0])
def test_the_gradient_of_gelu_has_its_size(size: float) -> None:
    """In its tanh form too, it is at most 1.13 of the incoming gradient, however large x is.

    A power of two may be off by half a binade, and by two more because of the two halves of the
    gradient, taken as independent, and its mean.
    """
    x, g = normal(0, (256, 64), size), normal(1, (256, 64))
    found, _ = scales(normal_form(backward(jax.nn.gelu), x, g), 1)
    _, gradient = backward(jax.nn.gelu)(x, g)
    measured = np.log2(np.sqrt(np.mean(np.square(gradient))))
    assert abs(found[-1][1] - measured) <= 2.5


@pytest.mark.parametrize("size", [0.02, 0.2, 2.0, 20.0])
def test_decays_have_their_size(size: float) -> None:
    """From sums that hardly decrease, all ones, to ones on the diagonal only."""
    x = normal(0, (16, 64), size)
    found, text = scales(normal_form(decays, x), 1)
    assert "decay between entries" in text
    measured = np.log2(np.sqrt(np.mean(np.square(decays(x)))))
    assert abs(found[-1][1] - measured) <= 1
