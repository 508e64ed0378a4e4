"""Steps of a mesh for GPUs, on a recording: calls of NCCL are the plan's exchanges."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_pipelines_ranks
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import scalify
from scalify._dtypes import to_numpy
from scalify._executable import Executable, compile_text
from scalify._stages import build_stages
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
    # What is recorded needs no assembler.
    options = {"recipe": "bf16", "target": "sm_90a", "sums": sums, "ptxas": "none"}
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


def test_a_long_scan_sums_over_ranks_in_each_iteration() -> None:
    """Unrolled it would be too long: the sums are those of a loop, one behind another."""
    steps, rows, width = 8000, 2, 32
    on = functools.partial(NamedSharding, AbstractMesh((2,), ("tensor",)))

    def run(w: Any, x: Any) -> Any:
        def cell(h: Any, row: Any) -> Any:
            h = jnp.tanh(h @ w + row)
            return h, h

        return jax.lax.scan(cell, jnp.zeros((rows, width)), x)[1]

    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((width, width), (steps, rows, width))]
    sharded = jax.jit(
        run,
        in_shardings=(on(PartitionSpec("tensor", None)), on(PartitionSpec())),
        out_shardings=on(PartitionSpec()),
    )
    lowered = sharded.trace(*shapes).lower(lowering_platforms=("cpu",))
    local = partition(lowered.as_text(debug_info=True))
    options = {"recipe": "none", "target": "sm_90a", "sums": "nccl", "ptxas": "none"}
    exe = compile_text(local.text, options, device="null")
    exe(np.zeros((width // 2, width), np.float32), np.zeros((steps, rows, width), np.float32))
    calls = [line for line in exe.trace.splitlines() if re.match("nccl|cuLaunch", line)]
    # Behind each sum, of the rank's half, a kernel reads and stores a row, at its place.
    behind = [b for a, b in itertools.pairwise(calls) if a.startswith("ncclReduceScatter")]
    assert len(behind) == steps
    rows_at = [[int(at) for at in re.findall(r"arena\+(\d+)", line)] for line in behind]
    _, read, _, stored = zip(*rows_at, strict=True)
    for places in (read, stored):
        assert [at - places[0] for at in places] == [
            4 * rows * width // 2 * i for i in range(steps)
        ]
    assert "Capture" not in exe.trace


@pytest.mark.parametrize(
    ("recipe", "virtual", "zero", "bucket"),
    [("fp8", 2, 3, 4096), ("fp8-lm-o2", 1, 2, None)],
)
def test_stages_ask_nccl_for_their_messages(
    recipe: str, virtual: int, zero: int, bucket: int | None
) -> None:
    """Two stages of two ranks: sends of one match receives of the other, in the same order."""
    axes = {"pipe": 2, "data": 2}
    make, state, batches = test_pipelines_ranks.llama(axes, recipe, virtual, zero, bucket)
    whole = make(scalify.make_mesh(data=2), None).lower(state, batches[0]).as_text()
    options = {"recipe": recipe, "pipelineStages": 2, "pipelineVirtual": virtual}
    if bucket is not None:
        options["bucketBytes"] = bucket
    local = partition(whole, zero=zero).text
    artefacts, _ = build_stages(local, options | {"target": "sm_90a", "ptxas": "none"})
    traces, sent = [], []
    for stage, artefact in enumerate(artefacts):
        exe = Executable(artefact, device="null")
        arguments = [np.zeros(one["shape"], to_numpy(one["dtype"])) for one in exe.args]
        exe(*arguments)
        rows = exe.collectives
        # Sums are in the order of ranks, which NCCL's are not.
        assert {row["join"] for row in rows} <= {"none", "max"}
        asked = Counter(re.findall(r"^(ncclSend|ncclRecv|ncclAll\w+) ", exe.trace, re.M))
        kinds = Counter(row["kind"] for row in rows)
        exchanged = 2 * kinds["all_to_all"]
        assert asked["ncclAllGather"] == kinds["all_gather"]
        assert asked["ncclAllReduce"] == kinds["all_reduce"]
        assert asked["ncclSend"] + asked["ncclRecv"] == kinds["message"] + 2 * exchanged
        # Beside what is computed, which is on the first stream.
        assert all(" stream=1" in line for line in exe.trace.splitlines() if "ncclSend" in line)
        messages = [row for row in rows if row["kind"] == "message"]
        traces.append([(row["elements"], row["dtype"]) for row in messages])
        sent.append([row["sent"] > 0 for row in messages])
        # Of the rank of the first place, and so between ranks 0 and 2.
        assert {tuple(sorted(pair)) for row in messages for pair in row["groups"]} == {(0, 2)}
        assert exe.manifest["pipeline"]["stage"] == stage
    assert traces[0] == traces[1]
    assert sent[0] == [not one for one in sent[1]] and set(sent[0]) == {True, False}
