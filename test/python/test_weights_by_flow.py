"""Arguments that are weights are known by the flow of data: in evaluations, which donate nothing,
and in gradients alone. No name in these programs is one that a framework uses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import scalify

W = dict[str, Any]


def weights(**shapes: tuple[int, ...]) -> W:
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def mlp(q: W, x: Any) -> Any:
    return jnp.tanh(x @ q["w"] + q["b"]) @ q["v"]


def experts(q: W, x: Any) -> Any:
    h = jax.nn.relu(jnp.einsum("ecd,edf->ecf", jnp.tanh(x), q["up"]))
    return jnp.einsum("ecf,efd->ecd", h, q["down"])


def stack(q: W, x: Any) -> Any:
    """Layers in a scan, with a result of the batch's type."""

    def layer(h: Any, own: W) -> tuple[Any, None]:
        return jnp.tanh(h @ own["w"] + own["b"]) * own["g"], None

    return lax.scan(layer, x, q)[0]


def ensemble(q: W, x: Any) -> Any:
    return jax.vmap(lambda own: jnp.tanh(x @ own["w"]) @ own["v"])(q)


def convolution(q: W, x: Any) -> Any:
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, q["k"], (1, 1), "SAME", dimension_numbers=dims)
    return jax.nn.relu(y * q["g"] + q["b"]).mean((1, 2)) @ q["w"]


def attention(q: W, x: Any) -> Any:
    h = q["e"][x]
    a, b, c = (h @ q[name] for name in "abc")
    scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", a, b))
    return jnp.einsum("bqk,bkd->bqd", scores, c) @ q["o"]


ATTENTION = weights(e=(50, 16), a=(16, 16), b=(16, 16), c=(16, 16), o=(16, 16))
TOKENS = np.zeros((2, 8), np.int32)
CASES: dict[str, tuple[Callable[[W, Any], Any], W, np.ndarray]] = {
    "mlp": (mlp, weights(w=(16, 32), b=(32,), v=(32, 4)), np.ones((8, 16), np.float32)),
    "experts": (
        experts,
        weights(up=(4, 16, 32), down=(4, 32, 16)),
        np.ones((4, 8, 16), np.float32),
    ),
    "stack": (stack, weights(w=(3, 16, 16), b=(3, 16), g=(3, 16)), np.ones((8, 16), np.float32)),
    "ensemble": (ensemble, weights(w=(5, 16, 32), v=(5, 32, 4)), np.ones((8, 16), np.float32)),
    "convolution": (
        convolution,
        weights(k=(3, 3, 3, 8), g=(8,), b=(8,), w=(8, 4)),
        np.ones((2, 8, 8, 3), np.float32),
    ),
    "attention": (attention, ATTENTION, TOKENS),
    "gradients": (jax.grad(lambda q, x: attention(q, x).sum()), ATTENTION, TOKENS),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_are_parameters_and_the_batch_is_none(name: str) -> None:
    fn, q, x = CASES[name]
    text = jax.jit(fn).lower(q, x).as_text(debug_info=True)
    roles = dict(
        re.findall(
            r'scalify\.name = "([^"]*)", scalify\.role = #scalify\.role<(\w+)>',
            scalify.opt(text, "scalify-import"),
        )
    )
    wanted = {f"q['{one}']": "param" for one in q} | {"x": "batch"}
    named = {key: role for key, role in roles.items() if key in wanted}
    # Functions that JAX wraps name their arguments in other ways.
    assert named == wanted if name != "gradients" else set(named.values()) <= {"param", "batch"}
    assert sorted(roles.values()) == sorted(wanted.values())
