"""Without donation, the flow of data says which result is an argument's next value. So roles are
those of the program that donates its state, and a name decides where the flow says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import scalify

Tree = Any
RNG = np.random.default_rng(0)
D = 16  # Weights, examples and labels have one type.


def square() -> np.ndarray:
    return RNG.normal(0, D**-0.5, (D, D)).astype(np.float32)


def perceptron(p: Tree, x: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"]


def loss(p: Tree, x: Any, y: Any) -> Any:
    return jnp.mean((perceptron(p, x) - y) ** 2)


def descend(p: Tree, g: Tree) -> Tree:
    return jax.tree.map(lambda p, g: p - 0.1 * g, p, g)


P = {key: square() for key in "abc"}
X, Y = square() * 4, square() * 4


def adam(p: Tree, s: Tree, x: Any, y: Any) -> Any:
    value, g = jax.value_and_grad(loss)(p, x, y)
    updates, s = optax.adam(1e-3).update(g, s, p)
    return optax.apply_updates(p, updates), s, value


def frozen(p: Tree, s: Tree, x: Any, y: Any) -> Any:
    """The first layer gets no gradient, and comes back as it was."""
    value, g = jax.value_and_grad(loss)(p, x, y)
    updates, s = optax.adam(1e-3).update({**g, "a": jnp.zeros((D, D))}, s, p)
    return {**optax.apply_updates(p, updates), "a": p["a"]}, s, value


def masters(w: Tree, m: Tree, v: Tree, x: Any, y: Any) -> Any:
    def narrow(w: Tree) -> Any:
        return loss(w, x.astype(jnp.bfloat16), y).astype(jnp.float32)

    value, g = jax.value_and_grad(narrow)(w)
    v = jax.tree.map(lambda v, g: 0.9 * v + g.astype(jnp.float32), v, g)
    m = descend(m, v)
    return jax.tree.map(lambda m: m.astype(jnp.bfloat16), m), m, v, value


def two_views(p: Tree, t: Tree, u: Any, v: Any) -> Any:
    """The target's weights follow the online ones, as in BYOL."""

    def distance(p: Tree) -> Any:
        target = lax.stop_gradient(jnp.tanh(v @ t["a"]) @ t["b"])
        return jnp.mean((perceptron(p, u) - target) ** 2)

    value, g = jax.value_and_grad(distance)(p)
    p = descend(p, g)
    return p, {key: 0.99 * old + 0.01 * p[key] for key, old in t.items()}, value


def graph(p: Tree, s: Tree, near: Any, x: Any) -> Any:
    def fit(p: Tree) -> Any:
        h = near @ (jnp.tanh(near @ (x @ p["a"])) @ p["b"])
        return jnp.mean((h @ p["c"]) ** 2)

    value, g = jax.value_and_grad(fit)(p)
    updates, s = optax.adam(1e-3).update(g, s, p)
    return optax.apply_updates(p, updates), s, value


def residuals(p: Tree, x: Any, y: Any) -> Any:
    """Gradients and residuals are results too."""
    value, g = jax.value_and_grad(loss)(p, x, y)
    return g, perceptron(p, x) - y, descend(p, g), value


ZEROS = {key: np.zeros((D, D), np.float32) for key in "abc"}
ADAM = optax.adam(1e-3).init(P)
NARROW = jax.tree.map(lambda p: jnp.asarray(p, jnp.bfloat16), P)
TARGET = {key: square() for key in "ab"}
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = {
    "adam": (adam, (P, ADAM, X, Y), (0, 1)),
    "frozen": (frozen, (P, ADAM, X, Y), (0, 1)),
    "masters": (masters, (NARROW, P, ZEROS, X, Y), (0, 1, 2)),
    "two_views": (two_views, (P, TARGET, X, Y), (0, 1)),
    "graph": (graph, (P, ADAM, X, Y), (0, 1)),
    "residuals": (residuals, (P, X, Y), (0,)),
}


def find_roles(step: Callable[..., Any], args: tuple[Any, ...], donate: Any) -> dict[str, str]:
    run = scalify.jit(step, "fp8", donate_argnums=donate).executable(*args)
    rows = [row for row in run.manifest["args"] if not row["name"].startswith("scalify.")]
    return {row["name"]: row["role"] for row in rows}


@pytest.mark.parametrize("name", CASES)
def test_roles_without_donation_are_those_with_it(name: str) -> None:
    step, args, state = CASES[name]
    roles = find_roles(step, args, state)
    # The arguments after the state are the batch.
    trees = {key.split("[")[0].split(".")[0] for key, role in roles.items() if role == "batch"}
    assert len(trees) == len(args) - len(state)
    assert find_roles(step, args, ()) == roles
    assert find_roles(step, args, state[:1]) == roles


@pytest.mark.parametrize("tree", [False, True])
def test_a_batch_with_a_name_of_parameters_is_data(tree: bool) -> None:
    def step(model: Tree, params: Any, variables: Any) -> Any:
        x, y = (params["x"], params["y"]) if tree else (params, variables)
        value, g = jax.value_and_grad(loss)(model, x, y)
        return descend(model, g), value

    args = (P, {"x": X, "y": Y}, np.float32(1)) if tree else (P, X, Y)
    roles = find_roles(step, args, (0,))
    assert {roles[f"model['{key}']"] for key in "abc"} == {"param"}
    assert {role for key, role in roles.items() if key.startswith("params")} == {"batch"}
    recipe = scalify.Recipe(head=False)
    rows = scalify.jit(step, recipe, donate_argnums=0).report(*args).dots()
    assert {row["weight"] for row in rows if "head:" in row["reason"]} == {"model['c']"}


def low_rank(p: Tree, frozen: Tree, x: Any, y: Any) -> Any:
    return loss({**frozen, "b": frozen["b"] + p["l"] @ p["r"]}, x, y)


LOW = {"l": square()[:, :4], "r": square()[:4]}


def test_a_frozen_weight_is_known_by_its_tree_or_its_name() -> None:
    def one_tree(p: Tree, x: Any, y: Any) -> Any:
        value, g = jax.value_and_grad(lambda own: low_rank(own, p, x, y))({k: p[k] for k in "lr"})
        return {**descend({k: p[k] for k in "lr"}, g)}, value

    def named(lora: Tree, params: Tree, x: Any, y: Any) -> Any:
        value, g = jax.value_and_grad(low_rank)(lora, params, x, y)
        return descend(lora, g), value

    for step, args in ((one_tree, ({**P, **LOW}, X, Y)), (named, (LOW, P, X, Y))):
        roles = find_roles(step, args, ())
        assert {key for key, role in roles.items() if role == "batch"} == {"x", "y"}
