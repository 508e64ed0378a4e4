"""Ranks with a memory limit: rematerialised all-gathers, and when gradients are reduced."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs
import pytest
import test_ranks_loops
from jax.sharding import NamedSharding
from partition_programs import P
from rank_steps import check_ranks

import scalify
from scalify._executable import build
from scalify._within import choose_reduce, needs
from scalify.partition import Partitioned, partition

LAYERS, WIDTH, RANKS = 6, 64, 4


@pytest.fixture(scope="module")
def deep() -> tuple[Partitioned, list[Any], Any]:
    """Layers whose sharded weights are large compared with the activations of a few rows."""

    def loss_of(params: Any, x: Any) -> Any:
        y = x
        for w in params:
            y = y + jnp.tanh(y @ w)
        return jnp.mean((y - jnp.roll(x, 1, axis=1)) ** 2)

    def step(params: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return jax.tree.map(lambda w, g: w - 0.5 * g, params, grads), loss

    rng = np.random.default_rng(3)
    shape = (WIDTH, WIDTH)
    params = [rng.standard_normal(shape, np.float32) / np.float32(8) for _ in range(LAYERS)]
    x = rng.standard_normal((RANKS, WIDTH), np.float32)
    mesh = partition_programs.mesh_of({"data": RANKS})
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    jitted = jax.jit(
        step, in_shardings=(whole, rows), out_shardings=(whole, whole), donate_argnums=0
    )
    with jax.set_mesh(mesh):
        text = jitted.lower(params, x).as_text(debug_info=True)
    return partition(text, zero=3), params, x


@pytest.mark.parametrize("recipe", ["none", "fp8", "fp8-current"])
def test_weights_are_gathered_again_where_memory_is_short(
    deep: tuple[Partitioned, list[Any], Any], recipe: str
) -> None:
    local, params, x = deep
    options = {"recipe": recipe, "packState": False, "declaredScales": True, "bucketBytes": 0}
    most, sent = needs(local.text, options)
    least, sent_again = needs(local.text, {**options, "memoryLimit": 1})
    weight = WIDTH * WIDTH * (4 if recipe == "none" else 1)
    # All but the last layer's, whose backward follows its forward, and its neighbours, whose
    # reads are as near. A rank sends three parts of a gather: its share to each other rank.
    assert most - least >= 2 * weight
    again = (sent_again - sent) // (weight // RANKS * (RANKS - 1))
    assert 3 <= again < LAYERS
    # What costs no bytes comes first: collectives do not run ahead, and are waited for.
    waiting, sent_waiting = needs(local.text, {**options, "memoryLimit": most - 1})
    assert waiting < most
    assert sent_waiting == sent
    limit = waiting - 1
    fitting, sent_some = needs(local.text, {**options, "memoryLimit": limit})
    assert fitting <= limit
    assert sent < sent_some <= sent_again
    plain, _ = check_ranks(local, options, params, [x] * 3)
    losses, _ = check_ranks(local, {**options, "memoryLimit": limit}, params, [x] * 3)
    assert losses == plain


def test_what_no_gather_makes_fit(deep: tuple[Partitioned, list[Any], Any]) -> None:
    local, _, _ = deep
    with pytest.raises(scalify.CompileError, match=r"needs [\d]+ bytes, and the limit.* is 5000"):
        scalify.compile(
            local.text, distribution=scalify.Distribution(memory_limit=5000), strict=True
        )
    _, said = build(local.text, {"memoryLimit": 5000})
    (remark,) = [one for one in said if "the limit of memory is 5000" in one["message"]]
    assert remark["severity"] == "remark"
    # The plan that stays is the one that is spoken of, and none of a larger limit needs less.
    options = {"recipe": "fp8", "packState": False, "declaredScales": True}
    _, said = build(local.text, {**options, "memoryLimit": 1})
    (remark,) = [one for one in said if "the limit of memory is 1" in one["message"]]
    least, _ = needs(local.text, {**options, "memoryLimit": 1})
    assert f"needs {least} bytes" in remark["message"]
    for limit in (least - 1, least, least + 1000, least + 10000):
        assert needs(local.text, {**options, "memoryLimit": limit})[0] >= least
    # Nothing runs ahead that could wait: one turn less, and the same end.
    alone = {**options, "overlap": False}
    assert needs(local.text, {**alone, "memoryLimit": 1})[0] <= needs(local.text, alone)[0]


def test_gradients_are_summed_when_memory_allows() -> None:
    rng = np.random.default_rng(1)
    width, micro = test_ranks_loops.WIDTH, test_ranks_loops.MICRO
    shapes = {"layers": (test_ranks_loops.LAYERS, width, width), "out": (width, 5)}
    params = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    moments = jax.tree.map(np.zeros_like, params)
    batch = rng.standard_normal((micro, 16, width), np.float32)
    text = test_ranks_loops.lower((params, moments, batch))

    def local(how: Any) -> str:
        return partition(text, zero=2, reduce=how).text

    def within(limit: int) -> dict[str, Any]:
        return {"recipe": "none", "bucketBytes": 0, "memoryLimit": limit}

    last, each = (needs(local(how), within(1)) for how in ("last", "each"))
    assert last[0] > each[0]
    assert last[1] < each[1]
    assert choose_reduce(local, {"recipe": "none", "bucketBytes": 0}) == "last"
    assert choose_reduce(local, within(last[0])) == "last"
    assert choose_reduce(local, within(last[0] - 1)) == "each"
    assert choose_reduce(local, within(1)) == "each"
    # Strict or not, both are looked at.
    assert choose_reduce(local, {**within(last[0] - 1), "strict": True}) == "each"


def test_limits_that_nothing_would_look_at(deep: tuple[Partitioned, list[Any], Any]) -> None:
    local, _, _ = deep
    with pytest.raises(scalify.CompileError, match="one process has the memory of all ranks"):
        scalify.compile(
            local.text, distribution=scalify.Distribution(memory_limit=5000), simulate_ranks=True
        )
    mesh, pipeline = scalify.make_mesh(pipe=2), scalify.Pipeline("pipe")
    with pytest.raises(ValueError, match="memory_limit with pipeline="):
        scalify.jit(
            lambda x: x,
            distribution=scalify.Distribution(mesh=mesh, pipeline=pipeline, memory_limit=5000),
        )
