"""Partitions a sharded program: what each device runs, with explicit collectives.

Shardings are JAX's: of arguments, of results, of constraints, of `jax.shard_map`. Shardy, as jaxlib
has it, propagates them and decides which collectives there are; Scalify writes the program of one
device.

    python -m scalify.partition step.mlir -o local.mlir
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal

from scalify import _compiler
from scalify.errors import CompileError
from scalify.scales import roles_option

__all__ = ["Partitioned", "data_parallel", "main", "mesh_of", "partition"]

SHARDY = pathlib.Path(__file__).with_name("_shardy.py")
FLAT = "scalify-inline-calls,scalify-normalize-sharding,scalify-expand-chlo"
ROLES = (
    "scalify-canonicalize-stablehlo,scalify-normalize-donation,"
    "scalify-annotate-phases,scalify-annotate-roles"
)
BEFORE = f"builtin.module({FLAT},scalify-hide-marks)"
AFTER = "builtin.module(scalify-localize,scalify-restore-marks)"
SUM_LAST = "builtin.module(scalify-sum-behind-loops{{stacks={stacks}}})"
SHARD = "builtin.module(scalify-shard-state{{level={level}}})"
DATA_PARALLEL = f"builtin.module({FLAT},{ROLES}," + "scalify-shard-batch{{ranks={ranks}}})"
SCATTER_EACH = "builtin.module(scalify-scatter-in-loops)"
MESH = re.compile(r'sdy\.mesh @[^\n=]+ = <\[((?:"[^"]+"=\d+(?:, )?)+)\]')
AXIS = re.compile(r'"([^"]+)"=(\d+)')


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """A program of one device.

    Attributes:
        text: StableHLO of `main` on the device's parts. Arguments and results say by `sdy.sharding`
            how their parts make the whole, of type `scalify.whole_type`.
        mesh: sizes of the mesh's axes by their names; devices are numbered row-major over them.
        diagnostics: remarks, as of state that every device keeps whole, and why.
    """

    text: str
    mesh: dict[str, int]
    diagnostics: tuple[dict[str, Any], ...] = ()

    @property
    def devices(self) -> int:
        """How many devices run the program."""
        return math.prod(self.mesh.values())


def failed(message: str) -> CompileError:
    """Returns an error without a place in the program."""
    return CompileError(
        [{"severity": "error", "message": message, "location": "", "source": "", "notes": []}]
    )


def run_shardy(text: str, seconds: float) -> str:
    """Returns a program after Shardy's partitioner, which runs in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, str(SHARDY)],
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise failed(f"Shardy's partitioner took longer than {seconds:g} s") from None
    if done.returncode == 0:
        return done.stdout
    words = done.stderr.strip() or "it said nothing"
    if done.returncode > 0:
        raise failed(f"Shardy cannot partition the program: {words}")
    name = signal.Signals(-done.returncode).name
    raise failed(
        f"Shardy's partitioner broke down ({name}); constraints by "
        f"jax.lax.with_sharding_constraint near the op it names may avoid it: {words}"
    )


def mesh_of(text: str) -> dict[str, int]:
    """Returns the largest mesh of a text; empty where there is none."""
    meshes = [{n: int(size) for n, size in AXIS.findall(found)} for found in MESH.findall(text)]
    return max(meshes, key=lambda mesh: math.prod(mesh.values()), default={})


def data_parallel(text: str, ranks: int) -> str:
    """Returns a step without a mesh with shardings over ranks of data.

    Each has rows of the batch, and all else whole: the step with its batch sharded, as
    `jax.jit(step, in_shardings=...)` would lower it.

    Args:
        text: StableHLO of a step on the batch of all ranks.
        ranks: two or more, which divide the rows of each argument that is a batch.

    Raises:
        CompileError: it has a mesh, no batch, or one that the ranks do not divide.
    """
    return _compiler.opt(text, DATA_PARALLEL.format(ranks=ranks), debug_info=True)


def partition(
    text: str,
    *,
    seconds: float = 600,
    zero: int = 0,
    reduce: Literal["last", "each"] = "last",
    roles: Mapping[str, str] | None = None,
) -> Partitioned:
    """Returns the program that each device of a mesh runs.

    Args:
        text: StableHLO with shardings, as `jax.jit(f, in_shardings=...).lower(...).as_text()`
            gives it. Meshes of devices that are not there (`jax.sharding.AbstractMesh`) will do.
        seconds: after which Shardy is stopped.
        zero: level of ZeRO: with 1 and 2 moments that ranks would all keep alike are kept in
            shares, with 3 parameters too.
        reduce: of gradients that a loop over micro-batches adds up: whether ranks sum them behind
            the last one, or each as it comes, which moves as many times the bytes. With "last"
            and `zero` those of scanned layers stand behind the loop, too; each layer's is made
            beside the layers that follow in the backward.
        roles: of arguments, as for `scalify.jit`, by which `zero` goes.

    Raises:
        ValueError: `reduce` is neither.
        CompileError: nothing is sharded, Shardy failed (its words), or an op would need elements
            of other devices (the op, its place, and what to constrain).
    """
    if reduce not in ("last", "each"):
        raise ValueError(f"reduce '{reduce}' is neither 'last' nor 'each'")
    if not mesh_of(text):
        raise failed(
            "the program has no mesh, so there is nothing to partition; give jax.jit "
            "in_shardings, or constrain a value"
        )
    split = run_shardy(_compiler.opt(text, BEFORE, debug_info=True), seconds)
    said: list[dict[str, Any]] = []

    def run(program: str, passes: str, options: Mapping[str, Any] | None = None) -> str:
        told = json.dumps(options or {})
        made, remarks = _compiler.run_passes(program, passes, debug_info=True, options=told)
        # The line that it quotes is one of Shardy's text, which nobody has seen.
        said.extend({**entry, "source": ""} for entry in remarks)
        return made

    try:
        local = run(split, AFTER)
        # Shares are found behind loops, and added up in them afterwards.
        if reduce == "last" or zero:
            stacks = str(zero > 0).lower()
            local = run(local, SUM_LAST.format(stacks=stacks))
        # Of a mesh of one rank nothing is left, and that has nobody to share with.
        if zero and mesh_of(local):
            local = run(local, f"builtin.module({ROLES})")
            local = run(local, SHARD.format(level=zero), roles_option(roles))
            if reduce == "each":
                local = run(local, SCATTER_EACH)
    except CompileError as error:
        raise CompileError([{**entry, "source": ""} for entry in error.diagnostics]) from None
    return Partitioned(local, mesh_of(local), tuple(said))


def main() -> int:
    """Partitions a file; returns 1, with the error, where that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="StableHLO text")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="else standard output")
    parser.add_argument("--zero", type=int, default=0, help="keep state in shares: level 1 to 3")
    parser.add_argument(
        "--reduce",
        choices=["last", "each"],
        default="last",
        help="sum micro-batches' gradients over ranks behind the last one, or each",
    )
    options = parser.parse_args()
    try:
        done = partition(
            options.program.read_text(encoding="utf-8"), zero=options.zero, reduce=options.reduce
        )
    except (OSError, ValueError) as error:
        print(f"scalify.partition: error: {error}", file=sys.stderr)
        return 1
    for entry in done.diagnostics:
        print(f"scalify.partition: {entry['severity']}: {entry['message']}", file=sys.stderr)
    if options.out:
        options.out.write_text(done.text, encoding="utf-8")
    else:
        print(done.text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
