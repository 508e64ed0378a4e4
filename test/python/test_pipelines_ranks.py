"""Stages of several ranks each, with data and tensor parallelism over these."""

from __future__ import annotations

import dataclasses
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs
import pipeline_programs
import pytest
from partition_programs import P
from rank_threads import on_meshes
from test_pipelines import launch

import scalify
from scalify._executable import build
from scalify._scaled_array import Storage
from scalify.errors import CompileError
from scalify.mesh import Mesh, Owned, Shard
from scalify.recipe import Recipe


def llama(
    axes: dict[str, int], recipe: str, virtual: int, zero: int, bucket: int | None = None
) -> tuple[Callable[..., scalify.Jit], Any, list[Any]]:
    """Returns the function that makes the step on a mesh, its state, and three batches."""
    step, state, batches = pipeline_programs.llama_step(axes["pipe"] * virtual, 2)
    spec_of = partition_programs.tensor_parallel if "tensor" in axes else partition_programs.whole
    specs = jax.tree_util.tree_map_with_path(
        lambda path, leaf: spec_of(jax.tree_util.keystr(path), leaf), state
    )
    batch = P(None, "data") if "data" in axes else P()

    def make(mesh: Mesh, pipeline: scalify.Pipeline | None) -> scalify.Jit:
        return scalify.jit(
            step,
            recipe,
            distribution=scalify.Distribution(
                mesh=mesh, pipeline=pipeline, zero=zero, bucket_bytes=bucket
            ),
            donate_argnums=0,
            in_shardings=(specs, batch),
            out_shardings=(None if zero else specs, P()),
            threads=1,
        )

    return make, state, batches


def mlp(
    axes: dict[str, int], recipe: str, virtual: int, zero: int, wire: str = "given"
) -> tuple[Callable[..., scalify.Jit], Any, list[Any]]:
    """Returns the same for layers with a tied head, and clipping by the global norm."""
    chunks = axes["pipe"] * virtual
    state = pipeline_programs.mlp_state(max(2, chunks))
    batches = pipeline_programs.batches(3, 2)
    fn = pipeline_programs.mlp_step(chunks, wire)

    def make(mesh: Mesh, pipeline: scalify.Pipeline | None) -> scalify.Jit:
        return scalify.jit(
            fn,
            recipe,
            distribution=scalify.Distribution(mesh=mesh, pipeline=pipeline, zero=zero),
            donate_argnums=0,
            in_shardings=(None, P(None, "data")),
            threads=1,
        )

    return make, state, batches


def train(step: scalify.Jit, state: Any, batches: Sequence[Any]) -> tuple[list[float], Any]:
    """Returns the losses and the state; bytes that the transport counts are those of the plan."""
    comm = None if step.mesh is None else step.mesh.comm
    losses, planned, sent = [], 0, 0
    for batch in batches:
        planned += sum(row["sent"] for row in step.executable(state, batch).collectives)
        before = comm.bytes_sent if comm else 0
        state, loss = step(state, batch)
        sent += comm.bytes_sent - before if comm else 0
        losses.append(float(loss))
    assert comm is None or sent == planned > 0
    return losses, state


def whole(state: Any) -> list[Any]:
    """Returns the leaves of a state as arrays; all ranks must call it."""
    leaves = jax.tree.leaves(state)
    return [leaf.gather() if isinstance(leaf, Shard) else np.asarray(leaf) for leaf in leaves]


def stored(leaf: Any) -> Storage | None:
    """Returns how a leaf of a state is stored, if narrow."""
    data = leaf.data if isinstance(leaf, Shard) else leaf
    return data.storage if isinstance(data, scalify.ScaledArray) else None


@pytest.mark.parametrize(
    ("program", "axes", "recipe", "virtual", "zero"),
    [
        (llama, {"pipe": 2, "data": 2}, "fp8", 1, 1),
        (llama, {"pipe": 2, "tensor": 2}, "fp8", 2, 0),
        # Nothing says of results where they are.
        (llama, {"pipe": 2, "data": 2, "tensor": 2}, "none", 1, 1),
        # The history of amaxes is one stage's, and the largest of all its ranks.
        (mlp, {"pipe": 2, "data": 2}, "fp8-delayed", 2, 3),
        # State is narrow between steps, by scales of which every stage has all.
        (mlp, {"pipe": 2, "data": 2}, "fp8-lm-o3", 1, 1),
    ],
)
def test_stages_of_ranks_train_as_one_process_does(
    program: Any, axes: dict[str, int], recipe: str, virtual: int, zero: int
) -> None:
    make, state, batches = program(axes, recipe, virtual, zero)
    inner = {name: size for name, size in axes.items() if name != "pipe"}
    # One process that simulates the ranks of one stage, and knows of no stages.
    losses, wanted = train(make(scalify.make_mesh(**inner), None), state, batches)
    assert np.all(np.isfinite(losses))
    assert len(set(losses)) == len(losses)
    pipeline = scalify.Pipeline("pipe", "interleaved" if virtual > 1 else "1f1b", virtual)

    def run(mesh: Mesh) -> Any:
        found, trained = train(make(mesh, pipeline), state, batches)
        return (
            found,
            whole(trained),
            [getattr(leaf, "layout", None) for leaf in jax.tree.leaves(trained)],
            [stored(leaf) for leaf in jax.tree.leaves(trained)],
        )

    expected = [array.tobytes() for array in whole(wanted)]
    storages = [stored(leaf) for leaf in jax.tree.leaves(wanted)]
    assert any(storages) == Recipe.of(recipe).narrows_state
    for found, arrays, layouts, kinds in on_meshes(axes, run):
        assert found == losses
        # Also of what another stage has a rank knows how it is stored.
        assert kinds == storages
        assert [array.tobytes() for array in arrays] == expected
        # Each array of the state is one stage's; both have some.
        owners = [one.owner for one in layouts if isinstance(one, Owned)]
        assert set(owners) == set(range(axes["pipe"]))
        assert len(owners) == sum(np.size(leaf) > 1 for leaf in jax.tree.leaves(state))
    alone, trained = train(make(scalify.make_mesh(**axes), pipeline), state, batches)
    assert (alone, [array.tobytes() for array in whole(trained)]) == (losses, expected)


def test_a_bucket_is_of_one_chunk() -> None:
    """Fewer messages, the same bits, and no bucket that needs another stage's data."""
    axes = {"pipe": 2, "data": 2}
    pipeline = scalify.Pipeline("pipe", "interleaved", 2)
    make, state, batches = llama(axes, "fp8", 2, 3)
    losses, wanted = train(make(scalify.make_mesh(data=2), None), state, batches)
    expected = [array.tobytes() for array in whole(wanted)]
    counted = {}
    for bucket in (0, None):
        make, _, _ = llama(axes, "fp8", 2, 3, bucket)

        def run(mesh: Mesh, make: Any = make) -> Any:
            step = make(mesh, pipeline)
            found, trained = train(step, state, batches)
            bits = [array.tobytes() for array in whole(trained)]
            executable = step.executable()
            kinds = [row["kind"] for row in executable.collectives]
            strays = [said for said in executable.diagnostics if "no border between" in str(said)]
            return (found, bits), kinds, strays

        found = on_meshes(axes, run)
        assert all(results == (losses, expected) for results, _, _ in found)
        assert not any(strays for _, _, strays in found)
        counted[bucket] = [[k.count("message") for _, k, _ in found], len(found[0][1])]
    messages = [row[0] for row in counted.values()]
    assert messages[0] == messages[1]
    # Of each chunk a rank gathers and sums by itself what fits in one bucket.
    assert counted[None][1] < counted[0][1]


def test_state_that_a_step_leaves_as_it_is() -> None:
    """Frozen weights, read by one layer or by none, stay with a stage."""
    fn = pipeline_programs.mlp_step(2)

    def step(state: Any, tokens: Any) -> Any:
        trained, frozen = state
        new, loss = fn(trained, tokens)
        return (new, frozen), loss

    start = (pipeline_programs.mlp_state(2), np.arange(6, dtype=np.float32))
    batches = pipeline_programs.batches(2, 2)

    def run(mesh: Mesh | None) -> Any:
        pipeline = None if mesh is None else scalify.Pipeline("pipe")
        made = scalify.jit(
            step,
            "none",
            distribution=scalify.Distribution(mesh=mesh, pipeline=pipeline),
            donate_argnums=0,
        )
        state, losses = start, []
        for batch in batches:
            state, loss = made(state, batch)
            losses.append(float(loss))
        return losses, [one.tobytes() for one in whole(state)]

    wanted = run(None)
    assert wanted[1][-1] == start[1].tobytes()
    assert on_meshes({"pipe": 2}, run) == [wanted] * 2


def test_a_weight_of_one_element_is_a_stages() -> None:
    def loss_of(params: Any, x: Any) -> Any:
        y = scalify.lax.stage_border(jnp.tanh(x @ params["first"]))
        return jnp.mean(jnp.square(y @ params["second"] * params["gate"] - x))

    def step(params: Any, xs: Any) -> Any:
        def turn(carry: Any, x: Any) -> Any:
            loss, grads = jax.value_and_grad(loss_of)(params, x)
            return (carry[0] + loss, jax.tree.map(jnp.add, carry[1], grads)), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(turn, (jnp.float32(0), zeros), xs)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    params = {"first": first, "second": second, "gate": np.ones(1, np.float32)}
    xs = rng.standard_normal((2, 4, 8)).astype(np.float32)

    def run(mesh: Mesh | None) -> Any:
        pipeline = None if mesh is None else scalify.Pipeline("pipe")
        made = scalify.jit(
            step,
            "none",
            distribution=scalify.Distribution(mesh=mesh, pipeline=pipeline),
            donate_argnums=0,
        )
        new, loss = made(params, xs)
        if mesh is not None:
            # By another recipe, or beside other collectives, it is the other stage's, and goes
            # where this step has it.
            gate = new["gate"]
            assert isinstance(gate.layout, Owned)
            other = dataclasses.replace(gate.layout, owner=1 - gate.layout.owner)
            new["gate"] = Shard(other.cut(gate.gather(), mesh.rank), other, mesh)
        new, again = made(new, xs)
        return float(loss), float(again), [one.tobytes() for one in whole(new)]

    assert on_meshes({"pipe": 2}, run) == [run(None)] * 2


def test_what_crosses_in_fp8_between_ranks() -> None:
    make, state, batches = mlp({"pipe": 2}, "fp8", 1, 0, "fp8")
    losses, wanted = train(make(scalify.make_mesh(data=2), None), state, batches)

    def run(mesh: Mesh) -> Any:
        step = make(mesh, scalify.Pipeline("pipe"))
        found, trained = train(step, state, batches)
        rows = [row for row in step.executable().collectives if row["kind"] == "message"]
        return found, whole(trained), rows

    # Of each micro-batch a rank has one of two examples; a byte for each element.
    elements = 1 * 8 * pipeline_programs.WIDTH
    for rank, (found, arrays, rows) in enumerate(on_meshes({"pipe": 2, "data": 2}, run)):
        assert found == losses
        assert [one.tobytes() for one in arrays] == [one.tobytes() for one in whole(wanted)]
        narrow = [row for row in rows if row["dtype"] == ("f8E4M3FN" if rank < 2 else "f8E5M2")]
        assert [row["sent"] for row in narrow if row["sent"]] == [elements] * 2
        # To and from the rank of the same place.
        assert all(
            sorted(pair) == [rank % 2, 2 + rank % 2] for row in rows for pair in row["groups"]
        )


def test_ranks_of_a_stage_share_its_state() -> None:
    pipeline = scalify.Pipeline("pipe")

    def held(axes: dict[str, int], zero: int) -> list[dict[str, int]]:
        make, state, batches = mlp({"pipe": 2}, "none", 1, zero)
        given = pipeline if "pipe" in axes else None

        def run(mesh: Mesh) -> dict[str, int]:
            arguments = make(mesh, given).executable(state, batches[0]).memory["arguments"]
            return {role: arguments[role] for role in ("param", "moment")}

        return on_meshes(axes, run)

    both, _ = held({"data": 2}, 1)
    ranks = held({"pipe": 2, "data": 2}, 1)
    # What a rank would have without stages is dealt out to these.
    assert ranks[0] == ranks[1] != ranks[2] == ranks[3]
    assert {role: ranks[0][role] + ranks[2][role] for role in both} == both
    # A layer's moments are in halves; those of the table, which is the head too, stay whole.
    assert ranks[2] == {"param": 4 * 2 * 16 * 32, "moment": 4 * 2 * 16 * 32 // 2}


def test_a_checkpoint_of_stages_and_ranks_goes_on_elsewhere(tmp_path: pathlib.Path) -> None:
    axes = {"pipe": 2, "data": 2}
    make, state, batches = mlp(axes, "none", 1, 1)
    pipeline = scalify.Pipeline("pipe")

    def save(mesh: Mesh) -> Any:
        _, trained = train(make(mesh, pipeline), state, batches[:1])
        scalify.checkpoint.save(tmp_path, trained, 1, mesh=mesh)
        _, like = scalify.checkpoint.load(tmp_path, trained, mesh=mesh)
        # Read again by the same ranks, and as whole arrays of which each takes its part.
        losses, _ = train(make(mesh, pipeline), like, batches[1:])
        _, arrays = scalify.checkpoint.load(tmp_path, state, mesh=mesh)
        again, last = train(make(mesh, pipeline), arrays, batches[1:])
        return losses, again, whole(last)

    found = on_meshes(axes, save)
    losses = found[0][0]

    def go_on(mesh: Mesh) -> Any:
        _, arrays = scalify.checkpoint.load(tmp_path, state, mesh=mesh)
        losses, last = train(make(mesh, None), arrays, batches[1:])
        return losses, whole(last)

    others = on_meshes({"data": 2}, go_on)
    wanted = [array.tobytes() for array in others[0][1]]
    for one, again, arrays in found:
        assert one == again == losses == others[0][0]
        assert [array.tobytes() for array in arrays] == wanted


@pytest.mark.parametrize(
    ("recipe", "is_saved_by_stages"),
    [("fp8-delayed", False), ("fp8-lm-o2", True)],
)
def test_what_a_step_keeps_goes_from_stages_to_ranks_and_back(
    recipe: str, is_saved_by_stages: bool, tmp_path: pathlib.Path
) -> None:
    axes = {"pipe": 2, "data": 2}
    make, state, batches = mlp(axes, recipe, 1, 1)
    pipeline = scalify.Pipeline("pipe")

    def made(mesh: Mesh) -> scalify.Jit:
        return make(mesh, pipeline if "pipe" in mesh.axes else None)

    def save(mesh: Mesh) -> Any:
        step = made(mesh)
        _, trained = train(step, state, batches[:2])
        scalify.checkpoint.save(tmp_path, trained, 2, jit=step)
        losses, last = train(step, trained, batches[2:])
        return losses, [array.tobytes() for array in whole(last)]

    def go_on(mesh: Mesh) -> Any:
        step = made(mesh)
        _, arrays = scalify.checkpoint.load(tmp_path, state, jit=step)
        losses, last = train(step, arrays, batches[2:])
        return losses, [array.tobytes() for array in whole(last)]

    wanted = on_meshes(axes if is_saved_by_stages else {"data": 2}, save)
    # Histories of amaxes, by which the next scales are set, and scales that were measured.
    for other in (axes, {"data": 2}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert all(found == wanted[0] for found in on_meshes(other, go_on))
    assert go_on(scalify.make_mesh(**axes)) == wanted[0]


def test_state_alone_says_how_it_is_stored(tmp_path: pathlib.Path) -> None:
    # A step that starts anew takes the scales of all stages' state from the arrays.
    axes = {"pipe": 2, "data": 2}
    make, state, batches = mlp(axes, "fp8-lm-o2", 1, 1)

    def made(mesh: Mesh) -> scalify.Jit:
        return make(mesh, scalify.Pipeline("pipe") if "pipe" in mesh.axes else None)

    def save(mesh: Mesh) -> None:
        _, trained = train(made(mesh), state, batches[:2])
        scalify.checkpoint.save(tmp_path, trained, 2, mesh=mesh)

    def go_on(mesh: Mesh) -> Any:
        _, arrays = scalify.checkpoint.load(tmp_path, state, mesh=mesh)
        losses, last = train(made(mesh), arrays, batches)
        return losses, [array.tobytes() for array in whole(last)]

    on_meshes(axes, save)
    wanted = go_on(scalify.make_mesh(data=2))
    for other in (axes, {"data": 2}):
        assert all(found == wanted for found in on_meshes(other, go_on))


def test_a_script_on_stages_of_ranks() -> None:
    results = launch(4, "ranks") + launch(1, "ranks")
    assert [status for status, _ in results] == [0] * 5, results
    assert len({output for _, output in results}) == 1


def test_meshes_that_cannot_be() -> None:
    pipeline = scalify.Pipeline("pipe")

    def made(axes: dict[str, int], zero: Any = 0, **options: Any) -> scalify.Jit:
        mesh = scalify.make_mesh(**axes)
        ranks = scalify.Distribution(mesh=mesh, pipeline=pipeline, zero=zero)
        return scalify.jit(lambda x: x, distribution=ranks, **options)

    with pytest.raises(ValueError, match="'pipe' of the stages comes after 'data'"):
        made({"data": 2, "pipe": 2})
    with pytest.raises(ValueError, match=r"in \{'pipe': 2\} a stage has one"):
        made({"pipe": 2}, zero=1)
    with pytest.raises(ValueError, match="names the axis 'pipe' of the stages"):
        made({"pipe": 2, "data": 2}, in_shardings=P(("data", "pipe")))
    with pytest.raises(CompileError, match="simulates ranks has no stages"):
        build("module {}", {"pipelineStages": 2, "simulateRanks": 2})
    make, state, batches = mlp({"pipe": 2, "data": 2}, "none", 1, 0)

    def mixed(mesh: Mesh) -> None:
        shares, _ = mlp({"pipe": 2, "data": 2}, "none", 1, 1)[0](mesh, pipeline)(state, batches[0])
        make(mesh, pipeline)(shares, batches[1])

    with pytest.raises(ValueError, match="does not have the layout that the step takes"):
        on_meshes({"pipe": 2, "data": 2}, mixed)
