"""Trains an 8.6 M LLaMA on 33 M tokens by each recipe and seed; curves, gaps, casts that moved.

One command makes the corpus, then trains run after run by `scalify.train`. Each run has a folder
with its log and checkpoints, so that the same command goes on wherever it was stopped: `--minutes`
stops it, `--pause STEP` leaves each run at that step and goes to the next, for breadth first.

    python benchmarks/numerics/long_run.py --pause 200
    python benchmarks/numerics/long_run.py --recipes none fp8 --seeds 1 --minutes 60
    python benchmarks/numerics/long_run.py --table --write
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time
from typing import Any

import corpus
import long_run_table
from store import RESULTS

from scalify.train.config import read
from scalify.train.log import read_records
from scalify.train.settings import Config
from scalify.train.tokens import TokenFile

__all__ = ["Case", "main"]

HERE = pathlib.Path(__file__).resolve().parent
RECIPES = ("none", "fp8", "fp8-lm-o2", "bf16", "fp8-current", "mus")
# The best power of two in short runs of width 128 (transfer.py), which muS transfers to any width.
MUS_RATE = 0.25


@dataclasses.dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        recipe: a recipe of scalify, or "mus".
        seed: of weights and of the order of data.
        folder: of the run.
        config: what is trained.
    """

    recipe: str
    seed: int
    folder: pathlib.Path
    config: Config

    @property
    def done(self) -> int:
        """The step of the newest record of the log, 0 without one."""
        return max((row["step"] for row in read_records(self.folder / "log.jsonl")), default=0)


def case_of(recipe: str, seed: int, options: argparse.Namespace) -> Case:
    """Returns a run of the command's options."""
    folder = options.folder / f"{recipe}-{seed}"
    files = options.corpus or options.folder / "corpus"
    changes = [
        f"data.train=['{files}/corpus.tokens']",
        f"data.validation=['{files}/corpus.held.tokens']",
        f"train.seed={seed}",
        f"log.folder='{folder}'",
    ]
    if recipe == "mus":
        changes.append(f"optimizer.learning_rate={MUS_RATE}")
    else:
        changes.append(f"recipe.name={recipe}")
    config = read(HERE / "long_run.toml", [*changes, *options.set])
    if recipe == "mus":
        import mus

        config = mus.with_recipe(config)
    return Case(recipe, seed, folder, config)


def train(case: Case) -> int:
    """Trains a run in this process until it ends or gets a signal; returns the exit status."""
    import mus

    from scalify.train.loop import Run

    run = (mus.MusRun if case.recipe == "mus" else Run)(case.config)
    try:
        number = run.train()
    finally:
        run.close()
    return 128 + number if number else 0


def supervise(case: Case, until: int, end: float) -> bool:
    """Trains a run in a process of its own; returns whether there is time for another.

    The process gets SIGTERM after step `until`, or at the time `end`, and then saves.

    Raises:
        RuntimeError: the run failed.
    """
    if case.done >= min(until, case.config.train.steps):
        return True
    print(f"{case.recipe}, seed {case.seed}: from step {case.done}", flush=True)
    command = [sys.executable, *sys.argv, "--one", case.recipe, "--seed", str(case.seed)]
    process = subprocess.Popen(command, env=os.environ)

    def stop() -> None:
        process.send_signal(signal.SIGTERM)
        process.wait()

    try:
        while process.poll() is None:
            time.sleep(1)
            if time.monotonic() > end or case.done >= until:
                stop()
    except BaseException:
        stop()
        raise
    if process.returncode not in (0, 128 + signal.SIGTERM, -signal.SIGTERM):
        raise RuntimeError(
            f"{case.recipe}, seed {case.seed} ended with status {process.returncode}: its log is "
            f"'{case.folder}/log.jsonl'"
        )
    return time.monotonic() < end


def machine() -> str:
    """Returns the processor's name and number."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/long-run"))
    parser.add_argument("--corpus", type=pathlib.Path, help="its folder; by default in --folder")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--pause", type=int, default=1 << 30, help="leave each run at this step")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop all after this")
    parser.add_argument("--table", action="store_true", help="train nothing, print the tables")
    parser.add_argument("--write", action="store_true", help="the docs' page and the results' file")
    parser.add_argument("--quiet", action="store_true", help="nothing else ran: report times")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    return parser


def results_of(cases: list[Case], is_quiet: bool) -> dict[str, Any]:
    """Returns what the page needs of all logs, with date and machine."""
    runs = [
        long_run_table.summary(case.recipe, case.seed, list(read_records(path)))
        for case in cases
        if (path := case.folder / "log.jsonl").exists()
    ]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "quiet": is_quiet,
        "corpus": len(TokenFile(cases[0].config.data.train[0].path)),
        "steps": cases[0].config.train.steps,
        "tokens": cases[0].config.train.batch * cases[0].config.data.sequence,
        "runs": [run for run in runs if run["steps"]],
    }


def main() -> int:
    """Runs the command; returns its exit status."""
    options = make_parser().parse_args()
    if options.one is not None:
        return train(case_of(options.one, options.seed, options))
    # An exception, at which the run in progress saves and ends.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # Seed by seed, so that a stopped command leaves complete pairs.
    seeds = range(options.seeds)
    cases = [case_of(recipe, seed, options) for seed in seeds for recipe in options.recipes]
    if not options.table:
        end = time.monotonic() + 60 * options.minutes
        corpus.prepare(options.corpus or options.folder / "corpus")
        for case in cases:
            if not supervise(case, options.pause, end):
                print("stopped at the time limit: run again to go on")
                break
    results = results_of(cases, options.quiet)
    print(long_run_table.tables(results))
    if options.write:
        text = json.dumps(results, indent=1) + "\n"
        (RESULTS / "long-run.json").write_text(text, encoding="utf-8")
        long_run_table.write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
