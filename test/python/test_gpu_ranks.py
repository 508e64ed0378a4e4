"""Steps of a mesh for GPUs, on the recording: what the plan exchanges is what NCCL is asked for."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from scalify._executable import compile_text
from scalify.partition import partition


def step(w: Any, x: Any) -> Any:
    loss, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * grad, loss


def trace_of(sums: str) -> str:
    mesh = AbstractMesh((2, 2), ("data", "tensor"))

    def on(*axes: str | None) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*axes))

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 32), (16, 64))]
    sharded = jax.jit(
        step,
        in_shardings=(on(None, "tensor"), on("data", None)),
        out_shardings=(on(None, "tensor"), on()),
        donate_argnums=0,
    )
    lowered = sharded.trace(*shapes).lower(lowering_platforms=("cpu",))
    local = partition(lowered.as_text(debug_info=True))
    options = {"recipe": "bf16", "target": "sm_90a", "sums": sums}
    exe = compile_text(local.text, options, device="null")
    exe(np.zeros((64, 16), np.float32), np.zeros((8, 64), np.float32))
    return exe.trace


def test_a_sharded_step_asks_nccl_for_its_collectives() -> None:
    trace = trace_of("nccl")
    assert "ncclCommInitRank rank=0 of 4\n" in trace
    # The gradient's own part is 64 x 16, summed over `data`; the loss over all.
    asked = re.findall(r"^ncclAllReduce .* count=(\d+) type=(\w+) op=0 ", trace, re.MULTILINE)
    assert sorted(asked) == [("1", "f32"), ("1024", "f32")]
    assert trace.count("ncclCommSplit ") == 2


def test_sums_in_the_order_of_ranks_ask_nccl_for_no_sum() -> None:
    trace = trace_of("ordered")
    assert "ncclAllReduce" not in trace and "ncclReduceScatter" not in trace
    # Both are of few bytes: everyone gets all parts, and the kernel behind reads them.
    calls = "\n".join(line for line in trace.splitlines() if re.match("ncclAll|cuLaunch", line))
    asked = re.findall(r"^ncclAllGather (\S+) .* count=(\d+) .*\n.* args=\[(.*?),", calls, re.M)
    assert sorted(count for _, count, _ in asked) == ["4", "4096"]
    assert all(parts == read for parts, _, read in asked)
