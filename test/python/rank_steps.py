"""Steps on ranks against one process that simulates all ranks."""

from __future__ import annotations

import collections
import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rank_threads import on_ranks

from scalify import _runtime
from scalify._executable import Executable, build
from scalify.mesh import layout_of
from scalify.partition import Partitioned

__all__ = ["check_ranks", "for_gpus", "train", "train_alone", "train_on_ranks"]

BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD", pathlib.Path(__file__).parents[2] / "build"))


def for_gpus(text: str, options: Mapping[str, Any]) -> str:
    """Returns the program for GPUs after Distribution, to be compiled on from there."""
    names = {"recipe": "recipe", "bucketBytes": "bucket-bytes"}
    given = [f"--{names[key]}={options[key]}" for key in names if key in options]
    given += ["--declared-scales"] * bool(options.get("declaredScales"))
    tool = [str(BUILD / "bin" / "scalify-compile"), "-", "-o", "-", "--target=sm_90a"]
    stage = "--compile-to=distribution"
    done = subprocess.run([*tool, stage, *given], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(executable: Executable, state: Sequence[Any], batches: Sequence[Any]) -> Any:
    """Returns the state after all batches, and the losses."""
    losses = []
    for batch in batches:
        *state, loss = executable(*state, batch)
        losses.append(np.asarray(loss).item())
    return [np.asarray(one) for one in state], losses


def train_on_ranks(
    artefact: bytes, ranks: int, state: Sequence[Any], batches: Sequence[Any]
) -> tuple[list[Any], list[float], dict[str, int]]:
    """Trains on ranks, as threads; replicated arrays must have the same bits.

    Bytes that the transport counts must be those of the plan.

    Args:
        artefact: a step on state and a batch; it returns the state and a loss.
        ranks: how many.
        state: whole arrays.
        batches: whole arrays, one a step.

    Returns:
        The whole state, the losses, and the collectives of a rank: how many of each kind and
        format.
    """

    def run(rank: int, mine: Executable, comm: _runtime.Communicator) -> Any:
        at = [layout_of(entry) for entry in mine.manifest["args"]]

        def cut(leaf: Any, index: int) -> Any:
            layout = at[index]
            return leaf if layout is None else layout.cut(leaf, rank)

        before = comm.bytes_sent
        own = [cut(leaf, index) for index, leaf in enumerate(state)]
        trained = train(mine, own, [cut(batch, len(state)) for batch in batches])
        # What the transport counts is what the plan says.
        planned = sum(row["sent"] for row in mine.collectives)
        assert comm.bytes_sent - before == len(batches) * planned > 0
        kinds = collections.Counter(f"{row['kind']} {row['dtype']}" for row in mine.collectives)
        return *trained, at, kinds

    found = on_ranks(artefact, ranks, run)
    assert all(result[1] == found[0][1] for result in found)
    wholes = []
    for index, at in enumerate(found[0][2][: len(state)]):
        parts = [result[0][index] for result in found]
        whole = parts[0] if at is None else at.join(parts)
        # Those that have it alike have the same bits.
        for rank, part in enumerate(parts):
            want_part = whole if at is None else at.cut(whole, rank)
            assert part.tobytes() == want_part.tobytes()
        wholes.append(whole)
    return wholes, found[0][1], found[0][3]


def train_alone(
    local: Partitioned, options: Mapping[str, Any], state: Sequence[Any], batches: Sequence[Any]
) -> tuple[list[Any], list[float]]:
    """Trains in one process that simulates all ranks; returns whole state and losses."""
    artefact, _ = build(local.text, {**options, "simulateRanks": local.devices})
    one = Executable(artefact, 1)
    laid = [layout_of(entry) for entry in one.manifest["args"]]
    start = [leaf if at is None else at.cut(leaf, 0) for leaf, at in zip(state, laid, strict=False)]
    found, losses = train(one, start, batches)
    return [
        leaf if at is None else at.join([leaf]) for leaf, at in zip(found, laid, strict=False)
    ], losses


def check_ranks(
    local: Partitioned,
    options: Mapping[str, Any],
    state: Sequence[Any],
    batches: Sequence[Any],
    *,
    as_gpus: bool = False,
) -> tuple[list[float], dict[str, int]]:
    """Trains on ranks, as threads, and in one process, and compares all bits.

    The one process keeps values wide that ranks exchange narrow. Bytes that the transport counts
    must be those of the plan.

    Args:
        local: a step on state and a batch; it returns the state and a loss.
        options: of the compiler.
        state: whole arrays.
        batches: whole arrays, one a step.
        as_gpus: whether ranks exchange and reduce as those with GPUs would.

    Returns:
        The losses, and the collectives of a rank: how many of each kind and format.
    """
    if as_gpus:
        text = for_gpus(local.text, options)
        artefact, _ = build(text, {"compileFrom": "distribution"})
    else:
        artefact, _ = build(local.text, dict(options))
    wide = {"narrowCollectives": False, "memoryLimit": 0}
    wanted, losses = train_alone(local, {**options, **wide}, state, batches)

    found, of_ranks, kinds = train_on_ranks(artefact, local.devices, state, batches)
    assert of_ranks == losses
    for whole, want in zip(found, wanted, strict=True):
        assert whole.tobytes() == want.tobytes()
    return losses, kinds
