"""Scanned layers and micro-batches on ranks: gradients are reduced after the loops."""

from __future__ import annotations

import collections
import re
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs
import pytest
from jax.sharding import NamedSharding
from partition_programs import P
from rank_steps import check_ranks

from scalify.partition import partition
from scalify.recipe import Recipe, RecipeLike

LAYERS, WIDTH, MICRO = 3, 48, 2
# Whole gradients on all ranks: the sum is narrow, too, by the same scale.
ROOT = Recipe.preset("fp8-lm-o1").replace(gradient_scaling="inverse_sqrt")
LEAST = Recipe.preset("fp8-lm-o1").replace(gradient_scaling="minimum")


def loss_of(params: Any, x: Any) -> Any:
    y, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params["layers"])
    return jnp.mean((y @ params["out"] - x[:, :5]) ** 2)


def step(params: Any, moments: Any, batch: Any) -> Any:
    """One step of SGD with momentum on micro-batches of `batch` [micro-batch, row, column]."""

    def add(sums: Any, x: Any) -> Any:
        return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss_of)(params, x)), None

    zeros = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
    (loss, grads), _ = jax.lax.scan(add, zeros, batch)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g / MICRO, moments, grads)
    return jax.tree.map(lambda p, m: p - 0.5 * m, params, moments), moments, loss


@pytest.fixture(scope="module")
def args() -> Any:
    rng = np.random.default_rng(1)
    shapes = {"layers": (LAYERS, WIDTH, WIDTH), "out": (WIDTH, 5)}
    params = {
        name: rng.standard_normal(shape, np.float32) / np.float32(WIDTH) ** 0.5
        for name, shape in shapes.items()
    }
    moments = jax.tree.map(np.zeros_like, params)
    return params, moments, rng.standard_normal((MICRO, 16, WIDTH), np.float32)


def lower(args: Any) -> str:
    mesh = partition_programs.mesh_of({"data": 4})
    whole = NamedSharding(mesh, P())
    batch = NamedSharding(mesh, P(None, "data"))
    jitted = jax.jit(
        step,
        in_shardings=(whole, whole, batch),
        out_shardings=(whole, whole, whole),
        donate_argnums=(0, 1),
    )
    with jax.set_mesh(mesh):
        return jitted.lower(*args).as_text(debug_info=True)


def kinds(text: str) -> dict[str, int]:
    return collections.Counter(re.findall(r'"stablehlo\.(all_\w+|reduce_scatter)"', text))


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_sums_leave_loops(args: Any, zero: int) -> None:
    text = lower(args)
    last, each = partition(text, zero=zero), partition(text, zero=zero, reduce="each")
    # The loss in each micro-batch: a quotient follows it.
    wanted = {"all_reduce": 1, "reduce_scatter": 2, "all_gather": 2} if zero else {"all_reduce": 3}
    assert kinds(last.text) == kinds(each.text) == wanted
    # Lines of the function itself are indented by four; those of a loop by more.
    name = "reduce_scatter" if zero else "all_reduce"
    behind = rf'^    %\d+ = "stablehlo.{name}"'
    assert len(re.findall(behind, last.text, re.MULTILINE)) == 2
    assert not re.findall(behind, each.text, re.MULTILINE)


@pytest.mark.parametrize(
    ("recipe", "zero", "reduce", "narrow"),
    [
        ("none", 3, "last", set()),
        ("none", 2, "each", set()),
        ("fp8", 3, "last", {"all_gather f8E4M3FN"}),
        (Recipe.preset("fp8").replace(gradient_wire="f8E5M2"), 1, "last", {"all_to_all f8E5M2"}),
        (Recipe.preset("fp8").replace(gradient_wire="f8E5M2"), 1, "each", {"all_to_all f8E5M2"}),
        ("fp8-current", 1, "last", set()),
        ("fp8-current", 3, "last", set()),
        ("fp8-lm-o3", 3, "last", {"all_to_all f8E4M3FN"}),
        ("fp8-lm-o3", 3, "each", {"all_to_all f8E4M3FN"}),
        (ROOT, 0, "last", {"all_to_all f8E4M3FN", "all_gather f8E4M3FN"}),
        (LEAST, 0, "last", {"all_to_all f8E4M3FN", "all_gather f8E4M3FN"}),
    ],
)
def test_ranks_with_loops_have_the_bits_of_one_process(
    args: Any, recipe: RecipeLike, zero: int, reduce: Literal["last", "each"], narrow: set[str]
) -> None:
    local = partition(lower(args), zero=zero, reduce=reduce)
    *state, batch = jax.tree.leaves(args)
    options = {"recipe": str(recipe), "packState": False, "bucketBytes": 4096}
    options["declaredScales"] = True  # weights by scales of the step are gathered wide
    losses, found = check_ranks(local, options, state, [batch] * 4)
    assert {kind for kind in found if "f8" in kind} == narrow
    # JAX on whole values: F32 differs by the order of sums, FP8 by 2^-4 of an operand's elements.
    params, moments, _ = args
    wanted = []
    for _ in losses:
        params, moments, loss = jax.jit(step)(params, moments, batch)
        wanted.append(float(loss))
    assert np.allclose(losses, wanted, rtol=1e-5 if recipe == "none" else 0.05)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("recipe", ["fp8", "fp8-current", "fp8-delayed"])
def test_parts_of_products_in_loops_are_narrow_between_ranks(recipe: str) -> None:
    """Scanned layers on two tensor ranks, which reduce partial products, forward and backward."""

    def loss_of(params: Any, x: Any) -> Any:
        y, _ = jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w[0]) @ w[1], None), x, params)
        return jnp.mean((y - jnp.roll(x, 1, axis=1)) ** 2)

    def step(params: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), loss

    rng = np.random.default_rng(2)
    params = [rng.standard_normal((LAYERS, WIDTH, WIDTH), np.float32) / 7 for _ in range(2)]
    x = rng.standard_normal((16, WIDTH), np.float32)
    mesh = partition_programs.mesh_of({"data": 2, "tensor": 2})
    columns, rows = (
        NamedSharding(mesh, P(None, *axes)) for axes in ((None, "tensor"), ("tensor",))
    )
    jitted = jax.jit(
        step,
        in_shardings=([columns, rows], NamedSharding(mesh, P("data"))),
        out_shardings=([columns, rows], NamedSharding(mesh, P())),
        donate_argnums=0,
    )
    with jax.set_mesh(mesh):
        local = partition(jitted.lower(params, x).as_text(debug_info=True))
    # All dots are FP8, also those that would be BF16 where weights have grown.
    wired = Recipe.preset(recipe).replace(activation_wire="f8E4M3FN", sensitive=True)
    options = {"recipe": str(wired), "packState": False, "bucketBytes": 0}
    losses, found = check_ranks(local, options, params, [x] * 3)
    # Of each layer the sum of the forward, and but for the first that of its input's gradient.
    assert found["all_to_all f8E4M3FN"] == 2 * LAYERS - 1
    assert losses[-1] < losses[0]
