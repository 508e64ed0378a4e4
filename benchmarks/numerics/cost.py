"""What a recipe costs and saves: memory and bytes between ranks of the long run's model.

Steps run on 1, 2 and 4 ranks, processes of this machine that share its memory bus: their number of
bytes is that of any link, their time is not. Time is only reported if nothing else ran.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from typing import Any

import corpus
import gradients
from long_run import machine
from store import RESULTS, Store

from scalify.train.config import read
from scalify.train.log import read_records

__all__ = ["Case", "main", "table"]

HERE = pathlib.Path(__file__).resolve().parent
PAGE = "docs/research/numerics-cost.md"
# By the level of ZeRO; fp8-lm-o3 is o2 with the state sharded.
RECIPES = {
    0: ("none", "bf16", "fp8", "fp8-lm-o1", "fp8-lm-o2"),
    1: ("none", "bf16", "fp8", "fp8-lm-o3"),
}
RANKS = (1, 2, 4)
BASE = "bf16"
STEPS = 3
# Above this load before a case, other programs ran, and its time means nothing.
QUIET = 0.5
MIB = 1 << 20
CONFIG = HERE / "long_run.toml"


@dataclasses.dataclass(frozen=True)
class Case:
    """A recipe on data ranks, at a level of ZeRO."""

    ranks: int
    zero: int
    recipe: str

    @property
    def key(self) -> str:
        """Its name in the store."""
        return f"{self.recipe}.{self.ranks}.zero{self.zero}"


def cases() -> list[Case]:
    """Returns all cases."""
    return [
        Case(ranks, zero, recipe)
        for ranks in RANKS
        for zero, recipes in RECIPES.items()
        if ranks > 1 or not zero
        for recipe in recipes
    ]


def child(case: Case, options: argparse.Namespace) -> None:
    """Runs the steps of one rank, and writes its figures."""
    from scalify.train.loop import Run

    folder = options.folder / "run"
    sets = [
        f"data.train=['{options.corpus}/corpus.tokens']",
        f"data.validation=['{options.corpus}/corpus.held.tokens']",
        f"recipe.name={case.recipe}",
        f"train.steps={STEPS + options.timed}",
        f"train.zero={case.zero}",
        f"log.folder='{folder}'",
        "schedule.kind=constant",
        "schedule.decay=0",
        "schedule.warmup=0",
        "evaluation.every=0",
        "log.page=false",
    ]
    if case.ranks > 1:
        sets.append(f"train.mesh={{data={case.ranks}}}")
    run = Run(read(CONFIG, sets))
    run.train()
    run.close()
    executable = run.step.executable()
    rows = [
        {key: row[key] for key in ("kind", "join", "dtype", "elements", "sent", "loc")}
        for row in executable.collectives
    ]
    rank = os.environ.get("SCALIFY_RANK", "0")
    found = {"memory": executable.memory, "collectives": rows}
    (options.folder / f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")


def measure(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a case on its ranks; returns the figures of the rank with most memory.

    Raises:
        RuntimeError: a rank failed.
    """
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    load = os.getloadavg()[0]
    ranks = []
    job = uuid.uuid4().hex[:8]
    for rank in range(case.ranks):
        where = {"SCALIFY_RANK": str(rank), "SCALIFY_SIZE": str(case.ranks), "SCALIFY_JOB": job}
        environment = {**os.environ, **(where if case.ranks > 1 else {})}
        command = [sys.executable, *sys.argv, "--one", case.key]
        ranks.append(subprocess.Popen(command, env=environment))
    statuses = [process.wait() for process in ranks]
    if any(statuses):
        raise RuntimeError(f"{case.key}: a rank failed; its error is above")
    found = [
        json.loads((options.folder / f"rank-{rank}.json").read_text()) for rank in range(case.ranks)
    ]
    most = max(found, key=lambda one: one["memory"]["peak"])
    sent: dict[str, int] = collections.Counter()
    for row in most["collectives"]:
        sent[f"{row['kind']} {row['dtype']}"] += row["sent"]
    seconds = [
        row["seconds"]
        for row in read_records(options.folder / "run" / "log.jsonl")
        if row["kind"] == "step"
    ]
    timed = seconds[STEPS:]
    return {
        "memory": most["memory"],
        "sent": dict(sent),
        "load": round(load, 2),
        "seconds": statistics.median(timed) if timed and load < QUIET else None,
    }


def _less(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.0f} %" if base else "-"


def split(row: dict[str, Any]) -> tuple[int, int]:
    """Returns the bytes that a rank sends of gradients, and of weights that ZeRO gathers."""
    sent = row["sent"]
    # Only the gather after an exchange of FP8 data is of gradients.
    weights = sum(
        count
        for name, count in sent.items()
        if name.startswith("all_gather") and not name.endswith("f8E4M3FN")
    )
    return sum(sent.values()) - weights, weights


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Returns the table in Markdown."""
    lines = []
    # Elements of the embedding and of the head.
    edges = 2 * corpus.VOCABULARY * read(CONFIG, []).model.override["hidden_size"]
    for case in cases():
        row, base = rows.get(case.key), rows.get(dataclasses.replace(case, recipe=BASE).key)
        if row is None or base is None:
            continue
        memory, other = row["memory"], base["memory"]
        cells = [str(case.ranks), str(case.zero), case.recipe]
        for name in ("state", "kept", "peak"):
            cells += [f"{memory[name] / MIB:.1f}", _less(memory[name], other[name])]
        (found, weights), (usual, gathered) = split(row), split(base)
        # Embedding and head are exchanged in F32 by all recipes.
        wide = edges * 4 * (case.ranks - 1) // case.ranks * (1 if case.zero else 2)
        cells += [f"{found / MIB:.2f}", _less(found, usual), _less(found - wide, usual - wide)]
        seconds = row["seconds"]
        cells += [f"{weights / MIB:.2f}", _less(found + weights, usual + gathered)]
        cells += ["-" if seconds is None else f"{seconds:.2f}"]
        lines.append(cells)
    header = ["ranks", "ZeRO", "recipe"]
    for name in ("weights and moments", "kept for the backward", "peak"):
        header += [f"{name}, MiB", "to bf16"]
    header += ["gradients sent, MiB", "to bf16", "of hidden matrices alone"]
    return gradients.table([*header, "weights sent, MiB", "all sent, to bf16", "time, s"], lines)


def described() -> str:
    """Returns a description of the table."""
    return (
        f"On {machine()}: the model of the [long run](numerics-long-run.md) (8.6 M parameters, of "
        "which the embedding and the head are 4.2 M; 32 x 256 tokens a step over all ranks), "
        f"trained {STEPS} steps by `scalify.train` on 1, 2 and 4 ranks. Ranks are simulated: "
        "processes of one machine with shared memory between them. Bytes are those of any link, "
        "time is not that of "
        "a cluster. Memory is of the rank that has most, by the compiled plan, in which a step "
        "runs: without the program, its libraries and JAX. Bytes are what one rank sends in a "
        "step, without headers. No amount depends on the load; time does, and is left out (-) "
        "where other programs ran.\n\n"
        "`fp8-lm-o3` is `fp8-lm-o2` with its state sharded (ZeRO 1). `bf16` keeps F32 weights and "
        "moments, sends F32 gradients and, under ZeRO, F32 weights; FP8-LM's own baseline sends "
        "weights in BF16. Embedding and head keep F32 gradients under all "
        "recipes; they are half of this model, and 3 % of GPT-7B and 0.4 % of GPT-175B (50,304 "
        "tokens, one table for both), so that the column of hidden matrices alone is the one to "
        "compare.\n\n"
        "`fp8` saves no memory beside `bf16` here: it leaves what the forward saves in its own "
        "format, F32 (the recipe's part `saved`), where `bf16` and the FP8-LM recipes save BF16, "
        "and its weights and moments are F32.\n\n"
        "FP8-LM (arXiv 2310.18313) reports 27 to 42 % less memory than BF16, and 63 to 65 % fewer "
        "bytes of weight-related communication, for GPT-7B to 175B on H100s; "
        "[memory of large GPTs](gpt-memory.md) and the [planner](planner-tables.md) simulate those."
    )


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/cost"))
    long_run = pathlib.Path("build/long-run/corpus")
    parser.add_argument("--corpus", type=pathlib.Path, default=long_run)
    parser.add_argument("--timed", type=int, default=0, help="steps to time, on a quiet machine")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no case after")
    parser.add_argument("--store", type=pathlib.Path, default=RESULTS / "cost.jsonl")
    parser.add_argument("--write", action="store_true", help=f"to {PAGE}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Runs the command; returns 0."""
    options = make_parser().parse_args()
    known = {case.key: case for case in cases()}
    if options.one is not None:
        child(known[options.one], options)
        return 0
    corpus.prepare(options.corpus)
    store, end = Store(options.store), time.monotonic() + 60 * options.minutes
    for case in known.values():
        row = store.get(case.key)
        is_done = row is not None and not (options.timed and row["seconds"] is None)
        if not is_done and time.monotonic() < end:
            store.add(case.key, {"machine": machine(), **measure(case, options)})
            print(f"{case.key}: done", flush=True)
    rows = store.rows()
    found = table(rows)
    if left := [case.key for case in known.values() if case.key not in rows]:
        found += f"\n\nStill to be made: {', '.join(left)}."
    print(found)
    if options.write:
        text = f"{described()}\n\n{found}"
        gradients.write(PAGE, "What a recipe costs and saves", text, "make cost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
