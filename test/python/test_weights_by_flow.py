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


def find_roles(fn: Callable[..., Any], *args: Any) -> dict[str, str]:
    text = jax.jit(fn).lower(*args).as_text(debug_info=True)
    found = re.findall(
        r'scalify\.name = "([^"]*)", scalify\.role = #scalify\.role<(\w+)>',
        scalify.opt(text, "scalify-import"),
    )
    return dict(found)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_parameters_and_the_batch_is_none(name: str) -> None:
    fn, q, x = CASES[name]
    roles = find_roles(fn, q, x)
    wanted = {f"q['{one}']": "param" for one in q} | {"x": "batch"}
    named = {key: role for key, role in roles.items() if key in wanted}
    # Functions that JAX wraps name their arguments in other ways.
    assert named == wanted if name != "gradients" else set(named.values()) <= {"param", "batch"}
    assert sorted(roles.values()) == sorted(wanted.values())


def perceptron(q: W, x: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ q["a"]) @ q["b"]) @ q["c"]


def merged(q: W, x: Any) -> Any:
    """A low-rank update is merged with its weight: products compute a weight."""
    return perceptron({**q, "a": q["a"] + q["b"] @ q["b"]}, x)


def graph(q: W, x: Any) -> Any:
    """The adjacency multiplies the features: both are data."""
    near = x.T
    h = jnp.tanh(near @ x @ q["a"])
    return jnp.tanh(near @ h @ q["b"]) @ q["c"]


def loss_of(forward: Callable[[W, Any], Any], q: W, x: Any) -> Any:
    return -jnp.mean(jax.nn.log_softmax(forward(q, x))[:, 0])


def descend(q: W, g: W, rate: float = 0.1) -> W:
    return jax.tree.map(lambda q, g: q - rate * g, q, g)


def sharpness_aware(q: W, x: Any) -> Any:
    first = jax.grad(loss_of, 1)(perceptron, q, x)
    return descend(q, jax.grad(loss_of, 1)(perceptron, descend(q, first, -0.05), x))


STEPS: dict[str, Callable[[W, Any], Any]] = {
    "sharpness_aware": sharpness_aware,
    "merged": lambda q, x: descend(q, jax.grad(loss_of, 1)(merged, q, x)),
    "graph": lambda q, x: descend(q, jax.grad(loss_of, 1)(graph, q, x)),
}


@pytest.mark.parametrize("name", STEPS)
def test_data_beside_computed_weights_and_other_data_stays_data(name: str) -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (32, 32), "b": (32, 32), "c": (32, 10)}
    q = {key: rng.normal(0, 0.2, shape).astype(np.float32) for key, shape in shapes.items()}
    x = rng.normal(size=(48, 32)).astype(np.float32) if name != "graph" else np.eye(32, dtype="f4")
    step = scalify.jit(STEPS[name], scalify.Recipe(head=False), donate_argnums=0)
    rows = step.report(q, x).dots()
    roles = {row["name"]: row["role"] for row in step.executable(q, x).manifest["args"]}
    assert {roles[f"q['{key}']"] for key in q} == {"param"}
    assert roles["x"] == "batch"
    heads = {row["weight"] for row in rows if "head:" in row["reason"]}
    assert heads == {"q['c']"}


def test_a_value_with_many_ways_to_its_readers_is_followed_once() -> None:
    """Each roll joins two slices, so that forty of them have 2^40 ways."""
    lines, w = [], "%w"
    for i in range(40):
        lines += [
            f"%a{i} = stablehlo.slice {w} [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>",
            f"%b{i} = stablehlo.slice {w} [1:4, 0:4] : (tensor<4x4xf32>) -> tensor<3x4xf32>",
            f"%w{i} = stablehlo.concatenate %b{i}, %a{i}, dim = 0 : "
            "(tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>",
        ]
        w = f"%w{i}"
    role = "{scalify.role = #scalify.role<param>}"
    body = "\n".join([*lines, f"return {w} : tensor<4x4xf32>"])
    text = f"func.func @main(%w: tensor<4x4xf32> {role}) -> tensor<4x4xf32> {{\n{body}\n}}"
    # As it feeds no dot, all ways are followed.
    assert "scalify.measured = 0 :" in scalify.opt(text, "scalify-measure-arguments")
