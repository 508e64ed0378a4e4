"""Sharded state with stochastic rounding has the bits of one process, for any shares."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs
import pytest
from jax.sharding import NamedSharding
from partition_programs import P
from rank_steps import check_ranks

from scalify._executable import Executable, build
from scalify.partition import partition

RECIPE = (
    '#scalify.recipe<"fp16", linear = false, head = false, saved = given,'
    " state_rounding = stochastic>"
)
# Of 5 and 35 elements 4 ranks have unequal shares.
SHAPES = {"bias": (5,), "in": (8, 7), "out": (7, 5)}


def loss_of(params: Any, x: Any) -> Any:
    y = jnp.tanh(x @ params["in"]) @ params["out"] + params["bias"]
    return jnp.sum(y * y)


def step(params: Any, moments: Any, x: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    moments = jax.tree.map(lambda m, g: 0.875 * m + g, moments, grads)
    return jax.tree.map(lambda p, m: p - 2.0**-7 * m, params, moments), moments, loss


def turned(params: Any, moments: Any, x: Any) -> Any:
    """The same step, whose updates end with an op that moves all elements."""
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    moments = jax.tree.map(lambda m, g: 0.875 * m + g, moments, grads)
    update = lambda p, m: jnp.flip((p.T - 2.0**-7 * m.T).T)  # noqa: E731
    return jax.tree.map(update, params, moments), moments, loss


def scanned(params: Any, moments: Any, x: Any) -> Any:
    """One step with layers in a loop, of whose 49 elements each 4 ranks have unequal shares."""

    def loss_of(params: Any) -> Any:
        layer = lambda h, w: (jnp.tanh(h @ w), None)  # noqa: E731
        return jnp.sum((jax.lax.scan(layer, x[:, :7], params["in"])[0] @ params["out"]) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(params)
    moments = jax.tree.map(lambda m, g: 0.875 * m + g, moments, grads)
    return jax.tree.map(lambda p, m: p - 2.0**-7 * m, params, moments), moments, loss


def in_columns(params: Any, moments: Any, x: Any) -> Any:
    """One step; parameters are updated in columns, and then gathered."""
    params, moments, loss = step(params, moments, x)
    params["in"] = jax.lax.with_sharding_constraint(params["in"], P(None, "data"))
    return params, moments, loss


def arguments(shapes: Any = SHAPES) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return params, jax.tree.map(np.zeros_like, params), rng.normal(size=(8, 8)).astype(np.float32)


def lower(fn: Any, args: Any) -> str:
    mesh = partition_programs.mesh_of({"data": 4})
    whole, batch = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    jitted = jax.jit(
        fn,
        in_shardings=(whole, whole, batch),
        out_shardings=(whole, whole, whole),
        donate_argnums=(0, 1),
    )
    with jax.set_mesh(mesh):
        return jitted.lower(*args).as_text(debug_info=True)


def train(fn: Any, args: Any, zero: int) -> tuple[list[float], dict[str, int]]:
    *state, x = jax.tree.leaves(args)
    local = partition(lower(fn, args), zero=zero)
    options = {"recipe": RECIPE, "packState": False, "bucketBytes": 0}
    return check_ranks(local, options, state, [x] * 6)


@pytest.fixture(scope="module")
def alone() -> list[float]:
    """Losses of 6 steps of ranks that keep their state whole."""
    return train(step, arguments(), 0)[0]


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_levels_of_zero_round_alike(alone: list[float], zero: int) -> None:
    losses, kinds = train(step, arguments(), zero)
    assert losses == alone
    # Parameters: behind the update, or before the forward, where F32 comes in and is read.
    assert kinds["all_gather f16"] == (3 if zero < 3 else 0)


def test_moves_behind_an_update_change_no_words() -> None:
    args = arguments()
    alone = train(turned, args, 0)[0]
    for zero in (1, 3):
        assert train(turned, args, zero)[0] == alone


def test_shares_of_each_layer_of_a_stack_round_alike() -> None:
    args = arguments({"in": (3, 7, 7), "out": (7, 5)})
    alone = train(scanned, args, 0)[0]
    for zero in (1, 3):
        assert train(scanned, args, zero)[0] == alone


def test_what_is_gathered_by_columns() -> None:
    args = arguments({**SHAPES, "in": (8, 12), "out": (12, 5)})
    losses, kinds = train(in_columns, args, 0)
    assert losses == train(step, args, 0)[0]
    assert kinds["all_gather f16"] == 2  # its moment is made in columns, too


def test_shares_have_words_of_their_own() -> None:
    """Equal elements in the shares of two ranks do not round equally."""
    size = 4 * 4096
    params = {"w": np.full((size,), 1.0, np.float32)}
    x = np.full((4, size), 2.0**-13, np.float32)

    def add(master: Any, x: Any) -> Any:
        grads = jax.grad(lambda p: jnp.sum(p["w"] * x))(master)
        return jax.tree.map(jnp.add, master, grads), jnp.float32(0)

    mesh = partition_programs.mesh_of({"data": 4})
    whole, batch = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    jitted = jax.jit(
        add, in_shardings=(whole, batch), out_shardings=(whole, whole), donate_argnums=0
    )
    with jax.set_mesh(mesh):
        text = jitted.lower(params, x).as_text(debug_info=True)
    results = []
    for zero in (0, 3):
        local = partition(text, zero=zero)
        options = {"recipe": RECIPE, "packState": False, "simulateRanks": 4}
        # The gradient of a linear loss reads no weight, so that its flow names none.
        options |= {"roles": [["master", "master"]]}
        result, _ = Executable(build(local.text, options)[0], 1)(params["w"], x)
        results.append(np.asarray(result).reshape(4, -1))
    np.testing.assert_array_equal(*results)
    # Half a last place is added: each element is 1 or the next number, by equal chances.
    for other in results[1][1:]:
        assert 0.45 < np.mean(results[1][0] != other) < 0.55
