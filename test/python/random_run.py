"""Runs many random programs, a child process for each few hundred, and prints what disagreed.

    make random ARGS="--programs 10000 --seed 3"

A child that dies, or that hangs, is a finding as well: it writes each program before it runs it.
Where JAX by itself dies of that program, the fault is XLA's: this is said, and another child goes
on behind it. What is found is shrunk by hypothesis and printed as Python. Exits with 1 if there is
any.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import conftest  # noqa: F401 - XLA's flags, before JAX reads them
import hypothesis
import jax
from hypothesis import HealthCheck, given, settings
from random_check import (
    check,
    check_gradient,
    check_recipe,
    run_jit,
    run_oracle,
    run_tools,
)
from random_ops import grow, grow_smooth
from random_programs import Program, programs

KINDS = ("results", "gradients", "jit", "fp8", "wide", "tools", "bf16", "fp16")
SECONDS = 900  # of one program, on a machine that others use too
STEPS = 20
NUMBERS = ("float32", "float32", "int32", "uint8")


def _checked(kind: str) -> tuple[Callable[[Program], None], hypothesis.strategies.SearchStrategy]:
    if kind == "results":
        return check, programs(grow, steps=STEPS)
    if kind == "wide":
        return check, programs(grow, steps=STEPS, wide=True)
    if kind in ("jit", "tools"):
        run = run_jit if kind == "jit" else run_tools
        return lambda program: check(program, run), programs(grow, steps=STEPS)
    smooth = programs(grow_smooth, dtypes=NUMBERS, steps=STEPS, smooth=True)
    if kind == "gradients":
        return check_gradient, smooth
    return lambda program: check_recipe(program, kind), smooth


def run_child(kind: str, count: int, seed: int, last: Path) -> int:
    """Runs `count` programs drawn by a seed; returns 1 where one disagreed."""
    checked, strategy = _checked(kind)
    done, latest = 0, None

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(program: Program) -> None:
        nonlocal done, latest
        done, latest = done + 1, program
        if done % 100 == 0:
            jax.clear_caches()
        last.write_bytes(pickle.dumps((done, program)))
        checked(program)

    # Modules stay; to look through them takes a tenth of the time.
    gc.freeze()
    try:
        run()
    except Exception as error:
        # Hypothesis ran the smallest one last. Its own text of it would hide the error's.
        error.__notes__ = []
        traceback.print_exc()
        print(f"the smallest program:\n{latest}")
        return 1
    return 0


def _start(*options: str, last: Path | None = None) -> tuple[int, str]:
    """Returns the exit status of this script with other options, and what it printed.

    A child hangs if it ends no program, for each of which it writes `last`, for `SECONDS`.
    """
    command = [sys.executable, __file__, *options]
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True)
        try:
            hangs = _hangs(child, last)
        finally:
            child.kill()
            child.wait()
        output.seek(0)
        text = output.read()
    return (-1, f"{text}no answer for {SECONDS} s") if hangs else (child.returncode, text)


def _hangs(child: subprocess.Popen[str], last: Path | None) -> bool:
    """Waits for a child's end; returns whether it hangs."""
    begun = time.time()
    while time.time() - begun <= SECONDS:
        try:
            child.wait(timeout=10)
            return False
        except subprocess.TimeoutExpired:
            if last is not None and last.exists():
                begun = max(begun, last.stat().st_mtime)
    return True


def run_share(kind: str, count: int, seed: int, folder: Path) -> bool:
    """Runs children until `count` programs are done; returns whether one failed."""
    last = folder / "last"
    while count > 0:
        code, output = _start(
            *("--child", kind, "--seed", str(seed)),
            *("--programs", str(count), "--last", str(last)),
            last=last,
        )
        if code == 0:
            return False
        if code > 0 or not last.exists():
            print(f"{kind}, seed {seed}: exit {code}\n{output[-6000:]}")
            return True
        done, program = pickle.loads(last.read_bytes())
        status, _ = _start("--oracle", str(last))
        if status >= 0:
            print(f"{kind}, seed {seed}: exit {code}\n{output[-6000:]}")
            print(f"the program that it ran:\n{program}")
            return True
        print(f"{kind}, seed {seed}: JAX by itself ends with {status} at\n{program}")
        count, seed = count - done, seed + 500_000
    return False


def run_parent(arguments: argparse.Namespace) -> int:
    """Runs children until all programs are done; returns the number of failures."""
    found = done = 0
    started = time.monotonic()
    kinds = arguments.kinds.split(",")
    each = arguments.each
    for number in range(-(-arguments.programs // each)):
        # Most are of all ops; the others take turns.
        kind = kinds[0] if number % 2 == 0 else kinds[1:][number // 2 % max(1, len(kinds) - 1)]
        seed = arguments.seed * 1_000_003 + number
        with tempfile.TemporaryDirectory() as folder:
            found += run_share(kind, each, seed, Path(folder))
        done += each
        print(f"{done} programs, {found} findings, {time.monotonic() - started:.0f} s", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=250, help="programs of one child process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--child", choices=KINDS)
    parser.add_argument("--last", type=Path, default=Path(os.devnull))
    parser.add_argument("--oracle", type=Path, help="run JAX alone on what a child left")
    arguments = parser.parse_args()
    if arguments.oracle:
        run_oracle(pickle.loads(arguments.oracle.read_bytes())[1])
        return 0
    if arguments.child:
        return run_child(arguments.child, arguments.programs, arguments.seed, arguments.last)
    return 1 if run_parent(arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
