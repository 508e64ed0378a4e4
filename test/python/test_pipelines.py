"""Steps cut over the stages of a pipeline: bits, schedules, messages."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pipeline_programs
import pytest
from rank_threads import on_meshes, on_ranks

import scalify
from scalify import _compiler, _runtime
from scalify._executable import Executable, build
from scalify._stages import build_stages, own
from scalify.errors import CompileError
from scalify.mesh import Mesh

SCRIPT = os.path.join(os.path.dirname(__file__), "pipeline_run.py")
STEPS = 3


@functools.cache
def program(
    stages: int, virtual: int, microbatches: int, dtype: Any = np.float32
) -> tuple[str, list[Any], list[Any]]:
    """Returns the text of a step, its state and its batches."""
    chunks = stages * virtual
    state = pipeline_programs.mlp_state(max(4, chunks), dtype)
    tokens = pipeline_programs.batches(STEPS, microbatches)
    text = pipeline_programs.lower(pipeline_programs.mlp_step(chunks), state, tokens[0])
    return text, jax.tree.leaves(state), tokens


@functools.cache
def stages_of(
    stages: int,
    virtual: int,
    microbatches: int,
    recipe: str = "none",
    dtype: Any = np.float32,
    *,
    plan_only: bool = False,
) -> list[bytes]:
    """Returns the artefact of each stage."""
    text, _, _ = program(stages, virtual, microbatches, dtype)
    options = {"recipe": recipe, "planOnly": plan_only}
    told = {"pipelineStages": stages, "pipelineVirtual": virtual}
    return build_stages(text, {**options, **told})[0]


def train_stage(mine: Executable, leaves: Sequence[Any], tokens: Sequence[Any]) -> Any:
    """Returns a stage's arrays by their index in the whole state, and all losses."""
    pipeline = mine.manifest["pipeline"]
    places = own(mine.manifest, "args", [*range(len(leaves)), -1])
    kept = {place: leaves[place] for place in places if place >= 0}
    losses = []
    for batch in tokens:
        results = mine(*(batch if place < 0 else kept[place] for place in places))
        for place, result in zip(pipeline["results"], results, strict=False):
            if place < len(leaves):
                kept[place] = result
            else:
                losses.append(np.asarray(result).item())
    return {place: np.asarray(array) for place, array in kept.items()}, losses


def train_both(
    text: str, leaves: Sequence[Any], tokens: Sequence[Any], recipe: str, artefacts: list[bytes]
) -> list[Executable]:
    """Trains alone and on stages, compares all bits, and returns the stages' executables."""
    alone = Executable(build(text, {"recipe": recipe})[0], 1)
    state, losses = list(leaves), []
    for batch in tokens:
        *state, loss = alone(*state, batch)
        losses.append(np.asarray(loss).item())
    assert np.all(np.isfinite(losses))
    assert len(set(losses)) == len(losses)

    def run(rank: int, mine: Executable, comm: _runtime.Communicator) -> Any:
        before = comm.bytes_sent
        trained = train_stage(mine, leaves, tokens)
        planned = sum(row["sent"] for row in mine.collectives)
        # What the transport counts is what the plan says.
        assert comm.bytes_sent - before == len(tokens) * planned
        return *trained, mine

    found = on_ranks(artefacts, len(artefacts), run)
    owners: dict[int, int] = {}
    for kept, said, _ in found:
        assert said == losses
        for place, array in kept.items():
            assert array.tobytes() == np.asarray(state[place]).tobytes()
            owners[place] = owners.get(place, 0) + 1
    # Every array of the state is one stage's; numbers, as the step's, are everyone's.
    for place, leaf in enumerate(leaves):
        assert owners[place] == (1 if np.size(leaf) > 1 else len(artefacts))
    return [mine for _, _, mine in found]


@pytest.mark.parametrize(
    ("stages", "virtual", "microbatches", "recipe", "dtype"),
    [
        (2, 1, 3, "none", np.float32),
        (2, 2, 4, "none", np.float32),
        (4, 1, 6, "none", jnp.bfloat16),
        (4, 2, 4, "fp8", np.float32),
        (2, 1, 2, "fp8-delayed", np.float32),
        # Scales of state that only the update reads, old and new.
        (2, 1, 2, "fp8-lm-o2", jnp.bfloat16),
    ],
)
def test_stages_train_as_one_process_does(
    stages: int, virtual: int, microbatches: int, recipe: str, dtype: Any
) -> None:
    text, leaves, tokens = program(stages, virtual, microbatches, dtype)
    artefacts = stages_of(stages, virtual, microbatches, recipe, dtype)
    train_both(text, leaves, tokens, recipe, artefacts)


@pytest.mark.parametrize("recipe", ["fp8", "fp8-delayed"])
def test_micro_batches_may_be_written_out(recipe: str) -> None:
    # Of a cast the largest amax of all micro-batches is kept: one stage's after another's.
    state, tokens = pipeline_programs.mlp_state(4), pipeline_programs.batches(STEPS, 3)
    text = pipeline_programs.lower(pipeline_programs.mlp_step(2, unroll=True), state, tokens[0])
    told = {"recipe": recipe, "pipelineStages": 2}
    train_both(text, jax.tree.leaves(state), tokens, recipe, build_stages(text, told)[0])


def test_llama_trains_as_in_one_process() -> None:
    # Fewer micro-batches than stages: the second one waits, and then the first.
    text, leaves, tokens = pipeline_programs.llama(2, 1)
    told = {"recipe": "fp8", "pipelineStages": 2}
    train_both(text, leaves, tokens, "fp8", build_stages(text, told)[0])


def test_what_crosses_in_fp8() -> None:
    state, tokens = pipeline_programs.mlp_state(2), pipeline_programs.batches(2, 2)
    text = pipeline_programs.lower(pipeline_programs.mlp_step(2, "fp8"), state, tokens[0])
    told = {"recipe": "fp8", "pipelineStages": 2}
    first, last = train_both(
        text, jax.tree.leaves(state), tokens, "fp8", build_stages(text, told)[0]
    )
    # Of each micro-batch an activation there, and its gradient back, a byte for each element.
    elements = 2 * 8 * pipeline_programs.WIDTH
    for mine, dtype in ((first, "f8E4M3FN"), (last, "f8E5M2")):
        narrow = [row for row in mine.collectives if row["dtype"] == dtype and row["sent"]]
        assert [row["sent"] for row in narrow] == [elements, elements]
        wide = [row for row in mine.collectives if row["sent"] == 4 * elements]
        assert not wide


class Walk:
    """A simulation of stages: tasks take time, and messages none once both ends are ready.

    Streams wait for each other by events, as the artefact says.
    """

    def __init__(self, artefacts: Sequence[bytes]) -> None:
        """Runs the stages to their end."""
        self.lists: dict[tuple[int, int], list[Any]] = {}
        for stage, artefact in enumerate(artefacts):
            for command in commands_of(artefact):
                self.lists.setdefault((stage, command.get("stream", 0)), []).append(command)
        self.now = dict.fromkeys(self.lists, 0.0)
        self.events: dict[tuple[int, int], float] = {}
        self.begun: set[tuple[int, str]] = set()
        self.busy = [0.0] * len(artefacts)
        while any(self._step(*line) for line in self.lists):
            pass

    def _step(self, stage: int, stream: int) -> bool:
        line = (stage, stream)
        if not self.lists[line]:
            return False
        command = self.lists[line][0]
        if command["op"] == "record":
            self.events[stage, command["event"]] = self.now[line]
        elif command["op"] == "wait":
            if (stage, command["event"]) not in self.events:
                return False
            self.now[line] = max(self.now[line], self.events[stage, command["event"]])
        elif command["op"] == "collective":
            other = (command.get("to", command.get("from")), stream)
            meets = self.lists[other][:1]
            if not meets or not are_message_ends(command, meets[0], stage):
                return False
            self.lists[other].pop(0)
            self.now[line] = self.now[other] = max(self.now[line], self.now[other])
        else:
            # Products are what takes the time.
            self._compute(stage, command["task"] if command["op"] == "gemm" else "U")
        self.lists[line].pop(0)
        return True

    def _compute(self, stage: int, task: str) -> None:
        if task[0] == "U" or (stage, task) in self.begun:
            return
        self.begun.add((stage, task))
        time = {"F": 1.0, "B": 2.0}[task[0]]
        self.now[stage, 0] += time
        self.busy[stage] += time


def are_message_ends(one: Any, other: Any, stage: int) -> bool:
    """Returns whether messages of two stages are the two ends of one."""
    back = other.get("to", other.get("from")) == stage and ("to" in one) != ("to" in other)
    return other["op"] == "collective" and one["name"] == other["name"] and back


def commands_of(artefact: bytes) -> list[Any]:
    """Returns the commands of a stage."""
    commands: list[Any] = Executable(artefact, device="null").manifest["functions"]["step"]
    return commands


@pytest.mark.parametrize(
    ("stages", "virtual", "microbatches", "more"),
    [
        (2, 1, 3, ()),
        (2, 2, 4, ()),
        (4, 1, 6, ("none", jnp.bfloat16)),
        (4, 2, 4, ("fp8", np.float32)),
    ],
)
def test_the_bubble_is_the_formula_s(
    stages: int, virtual: int, microbatches: int, more: tuple[Any, ...]
) -> None:
    artefacts = stages_of(stages, virtual, microbatches, *more, plan_only=True)
    for stage, artefact in enumerate(artefacts):
        tasks = {one["task"] for one in commands_of(artefact) if "task" in one}
        chunks = [stage + turn * stages for turn in range(virtual)]
        assert tasks - {f"U{stage}"} == {
            f"{kind}{chunk}.{one}"
            for kind in "FB"
            for chunk in chunks
            for one in range(microbatches)
        }
    walk = Walk(artefacts)
    assert not any(walk.lists.values())
    ideal = 3 * virtual * microbatches
    assert walk.busy == [ideal] * stages
    assert max(walk.now.values()) - ideal == pytest.approx(
        ideal * (stages - 1) / (virtual * microbatches), abs=1e-9
    )


def test_micro_batches_in_flight_are_as_many_as_the_stages_behind() -> None:
    artefacts = stages_of(4, 1, 6, "none", jnp.bfloat16, plan_only=True)
    for stage, artefact in enumerate(artefacts):
        tasks = dict.fromkeys(one["task"] for one in commands_of(artefact) if "task" in one)
        order = [task for task in tasks if task[0] in "FB"]
        ahead = [name[0] for name in order].index("B")
        assert ahead == 4 - stage
        assert order[:2] == [f"F{stage}.0", f"F{stage}.1" if stage < 3 else "B3.0"]


def test_what_a_stage_has() -> None:
    _, _, tokens = program(4, 1, 6, jnp.bfloat16)
    artefacts = stages_of(4, 1, 6, "none", jnp.bfloat16, plan_only=True)
    loaded = [Executable(artefact, device="null") for artefact in artefacts]
    # Only the stages with the table and the head have the batch.
    for stage, one in enumerate(loaded):
        names = [entry["name"] for entry in one.manifest["args"]]
        assert ("tokens" in names) == (stage in (0, 3))
    # Weights and their moments of one layer each, the first one's with the table beside; and the
    # number of the step.
    layer, table = 2 * 16 * 32 * (2 + 4), 32 * 16 * (2 + 4)
    held = [sum(one.memory["arguments"].values()) for one in loaded]
    batch = tokens[0].nbytes
    assert held == [layer + table + batch + 4, layer + 4, layer + 4, layer + batch + 4]


def test_borders_that_do_not_fit() -> None:
    state = pipeline_programs.mlp_state(4)
    tokens = pipeline_programs.batches(1, 3)[0]
    text = pipeline_programs.lower(pipeline_programs.mlp_step(2), state, tokens)
    with pytest.raises(CompileError, match="has 1 stage borders in sequence, and 4 st"):
        build_stages(text, {"pipelineStages": 4, "pipelineVirtual": 1})
    text = pipeline_programs.lower(pipeline_programs.mlp_step(4), state, tokens)
    with pytest.raises(CompileError, match="3 micro-batches, which do not go through the chunks"):
        build_stages(text, {"pipelineStages": 2, "pipelineVirtual": 2})


def test_borders_change_nothing() -> None:
    weights = {"a": jnp.full((4, 4), 0.1), "b": jnp.full((4, 4), 0.2)}

    def loss(params: Any, x: jax.Array, mark: Any) -> Any:
        hidden, step = mark((jnp.tanh(x @ params["a"]), jnp.int32(3)))
        return jnp.sum((hidden @ params["b"]) ** 2) * step

    x = jnp.arange(8.0).reshape(2, 4)
    for transform in (
        jax.grad,
        lambda f: jax.vmap(jax.grad(f), in_axes=(None, 0)),
        jax.jacfwd,
    ):
        marked = transform(lambda p, y: loss(p, y, scalify.lax.stage_border))(weights, x)
        plain = transform(lambda p, y: loss(p, y, lambda z: z))(weights, x)
        jax.tree.map(np.testing.assert_array_equal, marked, plain)


def test_pipelines_that_cannot_be() -> None:
    mesh = scalify.make_mesh(pipe=2)
    with pytest.raises(ValueError, match="two or more"):
        scalify.Pipeline(schedule="interleaved")
    with pytest.raises(ValueError, match="unknown schedule"):
        scalify.Pipeline(schedule="gpipe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a mesh with its axis"):
        scalify.jit(lambda x: x, distribution=scalify.Distribution(pipeline=scalify.Pipeline()))
    with pytest.raises(ValueError, match="a stage counts its own casts"):
        scalify.jit(
            lambda x: x,
            distribution=scalify.Distribution(mesh=mesh, pipeline=scalify.Pipeline()),
            numerics=scalify.Numerics(adaptive_scales=True),
        )
    with pytest.raises(CompileError, match="'stablehlo' has no pipelines"):
        _compiler.compile("module {}", '{"target": "stablehlo", "pipelineStages": 2}')
    with pytest.raises(ValueError, match="unknown wire"):
        scalify.lax.stage_border(1.0, wire="fp4")  # type: ignore[arg-type]


def launch(size: int, mode: str) -> list[tuple[int, str]]:
    """Runs the script on `size` ranks; returns status and output of each."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SCALIFY_SIZE": str(size),
        "SCALIFY_JOB": f"{os.getpid()}-pipeline-{size}-{mode}",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, mode],
            env={**env, "SCALIFY_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    return [(rank.returncode, output) for rank, output in zip(ranks, outputs, strict=True)]


def test_a_script_on_stages() -> None:
    results = launch(2, "train") + launch(1, "train")
    assert [status for status, _ in results] == [0, 0, 0], results
    first, second, alone = (output for _, output in results)
    assert first == second == alone


def test_a_checkpoint_of_stages_goes_on_alone(tmp_path: pathlib.Path) -> None:
    tokens = pipeline_programs.batches(2, 2)
    pipeline = scalify.Pipeline("pipe")

    def step_of(mesh: Mesh, recipe: str, scales: Any = None) -> scalify.Jit:
        return scalify.jit(
            pipeline_programs.mlp_step(2),
            recipe,
            distribution=scalify.Distribution(mesh=mesh, pipeline=pipeline),
            donate_argnums=0,
            numerics=scalify.Numerics(scales=scales),
            threads=1,
        )

    def run(mesh: Mesh) -> Any:
        step = step_of(mesh, "fp8")
        state, _ = step(pipeline_programs.mlp_state(4), tokens[0])
        scalify.checkpoint.save(tmp_path, state, 1, mesh=mesh)
        _, like = scalify.checkpoint.load(tmp_path, state, mesh=mesh)
        # Read again by the stages, and as one process wants it.
        again, loss = step(like, tokens[1])
        leaf = again["params"]["layers"][3]["up"]
        return float(loss), leaf.gather(), step.scales()

    (loss, weight, scales), other = on_meshes({"pipe": 2}, run)
    assert (loss, scales) == (other[0], other[2])
    _, state = scalify.checkpoint.load(tmp_path, pipeline_programs.mlp_state(4))
    alone, wanted = step_of(scalify.make_mesh(pipe=2), "fp8", scales)(state, tokens[1])
    assert loss == float(wanted)
    found = np.asarray(alone["params"]["layers"][3]["up"])
    assert weight.tobytes() == other[1].tobytes() == found.tobytes()


def test_a_stage_that_dies_is_named() -> None:
    (_, first), (status, _) = launch(2, "dies")
    assert status == -9
    assert "rank 1" in first
    assert "message" in first
    assert "step 1" in first
