"""Steps on ranks: their results together are those of one process."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import partition_programs
import pytest
from partition_programs import Sharded
from rank_threads import on_meshes, on_ranks

import scalify
from scalify import CompileError
from scalify._executable import Executable, build
from scalify.mesh import Mesh, Parts, Shares, layout_of
from scalify.partition import partition

P = jax.sharding.PartitionSpec
SCRIPT = pathlib.Path(__file__).with_name("ranks_script.py")
NAMES = list(partition_programs.PROGRAMS)


def run_ranks(artefact: bytes, leaves: list[Any]) -> list[list[Any]]:
    """Returns each result's parts by rank, given each argument's parts by rank."""

    def run(rank: int, executable: Executable, _: Any) -> list[Any]:
        return [np.asarray(one) for one in executable(*(leaf[rank] for leaf in leaves))]

    return list(zip(*on_ranks(artefact, len(leaves[0]), run), strict=True))


def artefact_of(program: Sharded, recipe: str, overlap: bool = True) -> tuple[Executable, bytes]:
    """Returns the step of a rank; each array goes by a message of its own."""
    text = partition(partition_programs.lower(program)).text
    options = {"recipe": recipe, "overlap": overlap, "bucketBytes": 0}
    artefact, _ = scalify._executable.build(text, options)
    return Executable(artefact, device="null"), artefact


def parts_of(executable: Executable, arrays: list[Any], ranks: int) -> list[list[Any]]:
    """Returns the ranks' parts of each argument."""
    entries = executable.manifest["args"][: len(arrays)]
    return [
        [
            place.cut(np.asarray(array), rank) if place else np.asarray(array)
            for rank in range(ranks)
        ]
        for array, place in zip(arrays, map(layout_of, entries), strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_ranks_make_what_one_device_makes(name: str) -> None:
    program = partition_programs.PROGRAMS[name]()
    executable, artefact = artefact_of(program, "none")
    arguments = parts_of(executable, jax.tree.leaves(program.args), 8)
    results = run_ranks(artefact, arguments)
    with jax.set_mesh(program.mesh()):
        wanted = jax.tree.leaves(jax.jit(program.fn)(*program.args))
    for entry, parts, want in zip(executable.manifest["results"], results, wanted, strict=True):
        want = np.asarray(want)
        place = layout_of(entry)
        if place is None:
            # What ranks have alike they have to the bit.
            assert len({np.asarray(part).tobytes() for part in parts}) == 1
        whole = place.join(list(parts)) if place else parts[0]
        # Sums go in another order, over several ranks: a few roundings of F32 at the largest
        # element, more after AdamW's quotient.
        bound = 2e-5 * max(np.max(np.abs(want), initial=0), 1e-6)
        np.testing.assert_allclose(whole, want, rtol=0, atol=bound)


ROWS = "block = [1, 0], weight_block = [1, 0]"


@pytest.mark.parametrize("blocks", [ROWS, "block = [1, 32], weight_block = [32, 32]"])
def test_scales_of_rows_and_blocks_are_those_of_one_process(blocks: str) -> None:
    """Contractions are sharded over ranks; some rows are zeros, some a million times as large."""
    rng = np.random.default_rng(5)
    params = {
        "in": (rng.normal(size=(64, 64)) / 8).astype(np.float32),
        "out": (rng.normal(size=(64, 32)) / 8).astype(np.float32),
    }
    params["in"][:, :3] = 0
    x = rng.normal(size=(32, 64)).astype(np.float32)
    x[3], x[20], x[21] = 0, 0, x[21] * 2.0**20
    specs = {"in": P(None, "tensor"), "out": P("tensor", None)}

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            return jax.numpy.mean((jax.numpy.tanh(x @ params["in"]) @ params["out"] - 1) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), value

    def train(mesh: Mesh) -> list[float]:
        own = {"in_shardings": (specs, P("data")), "out_shardings": (specs, P())}
        recipe = f'#scalify.recipe<"fp8-block", head = true, sensitive = true, {blocks}>'
        fn = scalify.jit(step, recipe, distribution=mesh, donate_argnums=0, **own)
        state, losses = params, []
        for _ in range(4):
            state, loss = fn(state, x)
            losses.append(float(np.asarray(loss)))
        assert {row["format"] for row in fn.health()} == {"f8E4M3FN"}
        return losses

    wanted = train(scalify.make_mesh(data=2, tensor=2))
    assert np.isfinite(wanted).all() and wanted[-1] < wanted[0]
    for found in on_meshes({"data": 2, "tensor": 2}, train):
        assert found == wanted


def test_overlap_changes_no_bit() -> None:
    program = partition_programs.PROGRAMS["llama_data"]()
    found = []
    for overlap in (True, False):
        executable, artefact = artefact_of(program, "fp8", overlap)
        streams = {command.get("stream", 0) for command in executable.manifest["functions"]["step"]}
        assert streams == ({0, 1} if overlap else {0})
        parts = parts_of(executable, jax.tree.leaves(program.args), 8)
        found.append(run_ranks(artefact, parts))
    for one, other in zip(*found, strict=True):
        assert [part.tobytes() for part in one] == [part.tobytes() for part in other]


def test_sums_of_gradients_go_on_beside_the_backward() -> None:
    program = partition_programs.PROGRAMS["llama_data"]()
    executable, _ = artefact_of(program, "none")
    executable(*(part[0] for part in parts_of(executable, jax.tree.leaves(program.args), 8)))
    trace = executable.trace.splitlines()
    gemms = [i for i, line in enumerate(trace) if line.startswith("gemm")]
    issued = [i for i, line in enumerate(trace) if re.match("collective .* stream1", line)]
    waits = [i for i, line in enumerate(trace) if re.fullmatch(r"wait \w+ stream0", line)]
    # The gradients of a layer's seven matrices, of the head and of three norms; of matrices each
    # stands behind its product, with events alone between. The last products are those of wq.
    assert len(issued) >= 11
    for elements in (24576, 9216, 4608):
        at = [i for i in issued if f"elements={elements} " in trace[i]]
        assert len(at) >= 2
        for i in at:
            assert trace[i - 3].startswith("gemm")
    assert sum(i < gemms[-1] for i in issued) >= 9
    # Nothing of the backward waits; the update does, behind the last of what was issued.
    assert min(waits) > max(gemms[-1], issued[-1])


def launch(size: int, *args: str, **extra: str) -> list[tuple[int, str]]:
    """Runs the script on `size` ranks; returns status and output of each."""
    paths = os.pathsep.join(sys.path)
    env = {
        **os.environ,
        **extra,
        "PYTHONPATH": paths,
        "SCALIFY_SIZE": str(size),
        "SCALIFY_JOB": f"{os.getpid()}-{args}",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, *args],
            env={**env, "SCALIFY_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    return [(rank.returncode, output) for rank, output in zip(ranks, outputs, strict=True)]


def test_a_script_on_ranks() -> None:
    for status, output in launch(4, "train"):
        assert status == 0, output
        assert "trained on 4 ranks" in output


def test_a_script_on_ranks_that_meet_by_a_file(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "meeting"
    for status, output in launch(4, "train", SCALIFY_RENDEZVOUS=f"file:{place}"):
        assert status == 0, output
        assert "trained on 4 ranks" in output
    assert not place.exists()


def test_other_than_as_many_ranks_as_the_mesh_has() -> None:
    for status, output in launch(2, "train"):
        assert status == 1
        assert "has 4 ranks, and 2 were launched" in output


def test_an_error_of_the_compiler_is_every_rank_s() -> None:
    for status, output in launch(4, "refused"):
        assert status == 1
        assert "stablehlo.rng" in output


def test_a_rank_that_dies_is_named_and_the_others_go_on(tmp_path: pathlib.Path) -> None:
    results = launch(4, "dies", str(tmp_path))
    assert results[2][0] == -9
    for rank in (0, 1, 3):
        status, output = results[rank]
        assert status == 1
        assert "rank 2" in output
        assert "all_reduce" in output
        assert "step 1" in output
    # One process goes on with what four have saved, and comes to the same.
    ((status, output),) = launch(1, "train", str(tmp_path))
    assert status == 0, output
    assert "goes on from step 1" in output


def test_shards() -> None:
    parts = Parts((4, 6), ((), ((1, 2), (4, 3))))
    whole = np.arange(24).reshape(4, 6)
    # Of 12 ranks: digits of stride 1, of 2, which does not split it, and of 4.
    mine = [whole[parts.place(rank)] for rank in range(12)]
    np.testing.assert_array_equal(mine[5], whole[:, 4:5])
    np.testing.assert_array_equal(parts.join(mine), whole)
    mesh = scalify.make_mesh(data=12)
    with pytest.raises(ValueError, match="a part of shape"):
        scalify.Shard(whole, parts, mesh)
    with pytest.raises(TypeError, match="gather"):
        np.asarray(scalify.Shard(mine[0], parts, mesh))


def test_arrays_of_parts() -> None:
    spec = jax.sharding.PartitionSpec
    mesh = scalify.make_mesh(stage=2, data=3, one=1, tensor=2)
    parts = mesh.parts((4, 6, 5), spec(("tensor", "one"), "data"))
    # The last axis of the mesh has the smallest stride; one of one rank splits nothing.
    assert parts == Parts((4, 6, 5), (((1, 2),), ((2, 3),), ()))
    assert mesh.parts((12,), spec(("data", "tensor"))).digits == (((2, 3), (1, 2)),)
    whole = np.arange(24.0).reshape(4, 6)
    seen = []

    def part(place: tuple[slice, ...]) -> Any:
        seen.append(place)
        return whole[place]

    # Alone a process has the parts of all.
    found = mesh.array((4, 6), spec(None, "data"), part)
    np.testing.assert_array_equal(found, whole)
    assert [place[1].start for place in seen] == [0, 2, 4]
    for wrong, text in (
        (spec("data"), "4 elements are not a multiple of 3 ranks; leave the dimension unsharded"),
        (spec("rows"), "the mesh has no axis 'rows'"),
        (spec("tensor", "tensor"), "axis 'tensor' splits it twice"),
        (spec(None, None, "tensor"), "more entries than the array has dimensions"),
    ):
        with pytest.raises(ValueError, match=text):
            mesh.array((4, 6), wrong, part)
    with pytest.raises(ValueError, match=r"a part of shape \(4, 6\) for .* of shape \(4, 2\)"):
        mesh.array((4, 6), spec(None, "data"), lambda place: whole)


def test_shares() -> None:
    # Columns on two ranks of stride 1, of each half shares on three of stride 2: 15 elements and
    # one that stands for nothing, padded to 18 by shares of 6.
    halves = Parts((5, 6), ((), ((1, 2),)))
    shares = Shares(halves, Parts((36,), (((1, 2), (2, 3)),)))
    whole = np.arange(30.0).reshape(5, 6)
    parts = [shares.cut(whole, rank) for rank in range(6)]
    # Rank 3 has the second share of the second half.
    np.testing.assert_array_equal(parts[3], whole[:, 3:].ravel()[6:12])
    np.testing.assert_array_equal(parts[5], [*whole[:, 3:].ravel()[12:], 0, 0, 0])
    np.testing.assert_array_equal(shares.join(parts), whole)


def test_shares_of_slices() -> None:
    # Of a stack of two each slice is cut: halves of 9 elements, of which three ranks have 3 each.
    halves = Parts((2, 3, 6), ((), (), ((1, 2),)))
    shares = Shares(halves, Parts((2, 18), ((), ((1, 2), (2, 3)))))
    whole = np.arange(36.0).reshape(2, 3, 6)
    parts = [shares.cut(whole, rank) for rank in range(6)]
    # Rank 5 has the last row of the second half of each.
    np.testing.assert_array_equal(parts[5], whole[:, 2, 3:])
    np.testing.assert_array_equal(shares.join(parts), whole)


def test_shardings_without_a_mesh() -> None:
    with pytest.raises(ValueError, match="need a mesh"):
        scalify.jit(lambda x: x, in_shardings=jax.sharding.PartitionSpec("data"))


def test_a_mesh_needs_ranks() -> None:
    with pytest.raises(ValueError, match="axis 'data'"):
        scalify.make_mesh(data=0)


def test_collectives_that_no_rank_can_do() -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("data",))

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.pmean(x, "data")

    spec = jax.sharding.PartitionSpec("data")
    mapped = jax.jit(jax.shard_map(fn, mesh=mesh, in_specs=spec, out_specs=jax.P()))
    traced = mapped.trace(jax.ShapeDtypeStruct((4,), np.float32))
    text = partition(traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)).text
    broken = text.replace("stablehlo.add %", "stablehlo.subtract %")
    assert broken != text
    with pytest.raises(CompileError, match="reduces by other than a sum"):
        scalify.compile(broken)


def test_a_broadcast_is_what_the_first_of_a_group_has() -> None:
    """Groups of two of four ranks; the bytes sent are the plan's."""
    program = """
    module { sdy.mesh @mesh = <["data"=4]>
    func.func public @main(%x: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
        -> tensor<6xf32> {
      %0 = "stablehlo.collective_broadcast"(%x) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>}>
        : (tensor<6xf32>) -> tensor<6xf32>
      return %0 : tensor<6xf32>
    } }"""
    artefact, _ = build(program, {"recipe": "none"})

    def body(rank: int, mine: Executable, comm: Any) -> tuple[float, int]:
        before = comm.bytes_sent
        (found,) = mine(np.full(6, rank, np.float32))
        (row,) = mine.collectives
        assert row["kind"] == "broadcast"
        assert comm.bytes_sent - before == row["sent"]
        (value,) = set(np.asarray(found).tolist())
        return value, row["sent"]

    # A rank that hears sends nothing.
    assert on_ranks(artefact, 4, body) == [(2, 0), (1, 24), (2, 24), (1, 0)]


def test_what_a_mesh_refuses() -> None:
    with pytest.raises(ValueError, match="zero= needs a mesh"):
        scalify.jit(lambda x: x, distribution=scalify.Distribution(zero=1))


def test_what_fails_on_the_first_rank_fails_on_all() -> None:
    for rank, (status, output) in enumerate(launch(4, "other mesh")):
        assert status == 1
        assert "has 2 devices" in output
        assert ("RuntimeError: rank 0 could not compile" in output) == (rank > 0)
