"""Reductions in the form for GPUs, on CPUs: the bits are those of the transport's sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from rank_steps import for_gpus
from rank_threads import on_ranks

import scalify
from scalify import _runtime
from scalify._executable import Executable, build, compile_text

RANKS = 8
DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
ALL = [list(range(RANKS))]
# Not in the order of ranks: parts and sums are in that of the group.
PAIRS = [[5, 0], [1, 4], [2, 3], [7, 6]]
FOURS = [[0, 2, 4, 6], [7, 5, 3, 1]]


@dataclasses.dataclass(frozen=True)
class Sum:
    """One op: an all-reduce, or with `dim` a reduce-scatter along that dimension."""

    shape: tuple[int, ...]
    groups: Sequence[Sequence[int]] = tuple(ALL)
    dim: int | None = None
    join: str = "add"

    def text(self, number: int, element: str) -> str:
        """Returns the line that makes `%r<number>` of `%x<number>`."""
        size = len(self.groups[0])
        groups = f"dense<{list(self.groups)}> : tensor<{RANKS // size}x{size}xi64>"
        kind, extra = "all_reduce", ""
        if self.dim is not None:
            kind, extra = "reduce_scatter", f"scatter_dimension = {self.dim} : i64, "
        channel = f"#stablehlo.channel_handle<handle = {number + 1}, type = 1>"
        scalar = f"tensor<{element}>"
        return (
            f'%r{number} = "stablehlo.{kind}"(%x{number}) <{{channel_handle = {channel}, '
            f"replica_groups = {groups}, {extra}use_global_device_ids}}> ({{\n"
            f"^bb0(%a: {scalar}, %b: {scalar}):\n"
            f"%s = stablehlo.{self.join} %a, %b : {scalar}\nstablehlo.return %s : {scalar}\n"
            f"}}) : ({self.type(element)}) -> {self.result(element)}"
        )

    def type(self, element: str) -> str:
        return "tensor<" + "".join(f"{extent}x" for extent in self.shape) + f"{element}>"

    def result(self, element: str) -> str:
        shape = list(self.shape)
        if self.dim is not None:
            shape[self.dim] //= len(self.groups[0])
        return dataclasses.replace(self, shape=tuple(shape)).type(element)


SUMS = [
    Sum(()),
    Sum((1,)),
    Sum((8,)),  # a piece is one element
    Sum((3, 5)),  # eight ranks do not divide it
    Sum((33, 1001)),  # nor this, which is exchanged in pieces
    Sum((17, 16), PAIRS),
    Sum((70001,), FOURS),
    Sum((9, 11), FOURS, join="multiply"),
    Sum((8,), dim=0),
    Sum((4096,), dim=0),
    Sum((3, 24, 5), dim=1),
    Sum((6, 4), PAIRS, dim=1),
    Sum((16, 33), FOURS, dim=0),
    Sum((2, 3, 16), dim=2, join="multiply"),
    Sum((40, 12), join="maximum"),
]


def program(sums: Sequence[Sum], element: str) -> str:
    types = [one.type(element) for one in sums]
    results = [one.result(element) for one in sums]
    dims = ", ".join("{}" for _ in sums[0].shape)
    types[0] += f" {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"  # or nobody names the mesh
    arguments = ", ".join(f"%x{i}: {one}" for i, one in enumerate(types))
    lines = "\n".join(one.text(i, element) for i, one in enumerate(sums))
    names = ", ".join(f"%r{i}" for i in range(len(sums)))
    return (
        f'module {{ sdy.mesh @mesh = <["data"={RANKS}]>\n'
        f"func.func public @main({arguments}) -> ({', '.join(results)}) {{\n{lines}\n"
        f"return {names} : {', '.join(results)}\n}} }}"
    )


def values(sums: Sequence[Sum], element: str) -> list[list[Any]]:
    """Returns the arguments of each rank, whose sums depend on their order."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(RANKS):
        arrays = []
        for one in sums:
            wide = rng.normal(size=one.shape) * np.exp2(rng.integers(-3, 4, one.shape))
            arrays.append(np.asarray(wide).astype(DTYPES[element]))
        found.append(arrays)
    return found


def run(artefact: bytes, arguments: list[list[Any]]) -> tuple[list[list[NDArray[Any]]], list[Any]]:
    """Returns the results of each rank, and its plan; what it sends must be the plan's."""

    def body(rank: int, mine: Executable, comm: _runtime.Communicator) -> Any:
        before = comm.bytes_sent
        results = [np.asarray(one) for one in mine(*arguments[rank])]
        planned = sum(row["sent"] for row in mine.collectives)
        assert comm.bytes_sent - before == planned > 0
        return results, mine.collectives

    found = on_ranks(artefact, RANKS, body)
    return [results for results, _ in found], found[0][1]


@pytest.mark.parametrize("buckets", [0, 1 << 20])
@pytest.mark.parametrize("element", DTYPES)
def test_ordered_sums_have_the_bits_of_the_transport(element: str, buckets: int) -> None:
    text = program(SUMS, element)
    options = {"recipe": "none", "bucketBytes": buckets}
    arguments = values(SUMS, element)
    wanted, plan = run(build(text, options)[0], arguments)
    found, ordered = run(
        build(for_gpus(text, options), {"compileFrom": "distribution"})[0], arguments
    )
    assert {row["kind"] for row in plan} == {"all_reduce", "reduce_scatter"}
    # What is left to the transport is what has the same bits in any order.
    assert {row["join"] for row in ordered if row["join"] != "none"} == {"max"}
    for rank in range(RANKS):
        for one, mine, want in zip(SUMS, found[rank], wanted[rank], strict=True):
            assert mine.tobytes() == want.tobytes(), (rank, one)
    # In the order of ranks, from the first one on, in F32 or wider and rounded once.
    wide = np.promote_types(np.float32, np.float64) if element == "f64" else np.float32
    parts = [arguments[rank][4].astype(wide) for rank in range(RANKS)]
    own, other = parts[0], parts[-1]
    for rank in range(1, RANKS):
        own, other = own + parts[rank], other + parts[-1 - rank]
    assert wanted[0][4].tobytes() == own.astype(DTYPES[element]).tobytes()
    if element in ("f32", "f64"):
        assert np.mean(own != other) > 0.1


def test_few_bytes_are_gathered_and_many_exchanged() -> None:
    sums = [Sum((8192,)), Sum((8193,))]
    text = program(sums, "f32")
    options = {"recipe": "none", "bucketBytes": 0}
    _, plan = run(
        build(for_gpus(text, options), {"compileFrom": "distribution"})[0], values(sums, "f32")
    )
    assert [(row["kind"], row["elements"]) for row in plan] == [
        ("all_gather", 8192),
        ("all_to_all", 8200),
        ("all_gather", 1025),
    ]
    # As many bytes as a transport's own sum sends, but for what fills up the last piece.
    assert plan[1]["sent"] + plan[2]["sent"] == 2 * 7 * 1025 * 4


def test_sums_by_nccl_can_be_chosen() -> None:
    text = program([Sum((40, 12)), Sum((16,), dim=0)], "f32")
    options = {"recipe": "none", "target": "sm_90a"}
    plan = options | {"planOnly": True}
    found = {
        sums: [
            row["kind"]
            for row in compile_text(text, {**plan, "sums": sums}, device="null").collectives
        ]
        for sums in ("ordered", "nccl")
    }
    assert sorted(found["ordered"]) == ["all_gather", "all_to_all"]
    assert sorted(found["nccl"]) == ["all_reduce", "reduce_scatter"]
    with pytest.raises(scalify.CompileError, match="unknown sums 'ring': expected one of ordered"):
        compile_text(text, options | {"sums": "ring"})
    with pytest.raises(scalify.CompileError, match="target 'cpu' has no NCCL: its ranks sum in"):
        scalify.compile(text, distribution=scalify.Distribution(sums="nccl"))


def test_parts_are_summed_as_soon_as_they_are_there() -> None:
    size = 1 << 18
    text = program([Sum((size,), dim=0)] * 4, "bf16")
    options = {"recipe": "none", "target": "sm_90a", "bucketBytes": 0, "planOnly": True}
    exe = compile_text(text, options, device="null")
    commands = exe.manifest["functions"]["step"]
    assert [command["op"] for command in commands] == ["collective", "kernel"] * 4
    for exchange, kernel in zip(commands[::2], commands[1::2], strict=True):
        # Rounded in the kernel that sums.
        assert kernel["bufs"][0] == exchange["dst"] and len(kernel["bufs"]) == 2
    # The parts of one sum are in memory at a time.
    assert exe.manifest["arena_bytes"] == 2 * size
