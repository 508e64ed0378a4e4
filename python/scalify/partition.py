"""Partitions a sharded program into the program of one device, with explicit collectives.

Shardings are JAX's: of arguments, of results, of constraints, of `jax.shard_map`. jaxlib's Shardy
propagates them and inserts collectives; Scalify then localises types to one device's shards.

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
MESH = re.compile(r'sdy\.mesh @[^\n=]+ = <\[((?:"[^"]+"=\d+(?:, )?)+)\]')
AXIS = re.compile(r'"([^"]+)"=(\d+)')


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """A program of one device.

    Attributes:
        text: StableHLO of `main` on the device's shards. `sdy.sharding` on arguments and results
            is their sharding, and `scalify.whole_type` the type of the whole value.
        mesh: sizes of the mesh's axes by their names; devices are numbered row-major over them.
        diagnostics: remarks, for example why state is replicated.
    """

    text: str
    mesh: dict[str, int]
    diagnostics: tuple[dict[str, Any], ...] = ()

    @property
    def devices(self) -> int:
        """The number of devices."""
        return math.prod(self.mesh.values())


def failed(message: str) -> CompileError:
    """Returns an error without a location in the program."""
    return CompileError(
        [{"severity": "error", "message": message, "location": "", "source": "", "notes": []}]
    )


def run_shardy(text: str, seconds: float) -> str:
    """Returns a program after Shardy's partitioner, which runs in a separate process."""
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
    words = done.stderr.strip() or "it printed no message"
    if done.returncode > 0:
        raise failed(f"Shardy cannot partition the program: {words}")
    name = signal.Signals(-done.returncode).name
    raise failed(
        f"Shardy's partitioner crashed ({name}); constraints by "
        f"jax.lax.with_sharding_constraint near the op it names may avoid it: {words}"
    )


def mesh_of(text: str) -> dict[str, int]:
    """Returns the largest mesh of a text; empty if there is none."""
    meshes = [{n: int(size) for n, size in AXIS.findall(found)} for found in MESH.findall(text)]
    return max(meshes, key=lambda mesh: math.prod(mesh.values()), default={})


def data_parallel(text: str, ranks: int) -> str:
    """Returns a step without a mesh with shardings for data parallelism.

    Batches are sharded by rows and other arguments are replicated, as
    `jax.jit(step, in_shardings=...)` would lower the step.

    Args:
        text: StableHLO of a step on the batch of all ranks.
        ranks: two or more; must divide the rows of each argument that is a batch.

    Raises:
        CompileError: the step has a mesh, no batch, or a batch that the ranks do not divide.
    """
    found = _compiler.opt(text, "scalify-find-roles", debug_info=True)
    shard, given = f"scalify-shard-batch{{ranks={ranks}}}", json.dumps(roles_option(None))
    return _compiler.run_passes(found, shard, debug_info=True, options=given)[0]


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
        text: StableHLO with shardings, as from
            `jax.jit(f, in_shardings=...).lower(...).as_text()`. Abstract meshes without devices
            (`jax.sharding.AbstractMesh`) are allowed.
        seconds: the time limit for Shardy.
        zero: level of ZeRO: with 1 and 2, replicated moments are sharded over the ranks, with 3
            parameters too.
        reduce: when ranks reduce gradients that a loop over micro-batches accumulates: "last",
            once after the loop, or "each", after each micro-batch, which sends that many times the
            bytes. With "last" and `zero`, gradients of scanned layers are reduced after the loop
            too; each layer's reduction overlaps with the layers that follow in the backward.
        roles: of arguments, as for `scalify.jit`; `zero` depends on them.

    Raises:
        ValueError: `reduce` is neither "last" nor "each".
        CompileError: nothing is sharded, Shardy failed (with its message), or an op would need
            elements of other devices (names the op, its location, and the values to constrain).
    """
    if reduce not in ("last", "each"):
        raise ValueError(f"reduce '{reduce}' is neither 'last' nor 'each'")
    mesh = mesh_of(text)
    if not mesh:
        raise failed(
            "the program has no mesh, so there is nothing to partition; give jax.jit "
            "in_shardings, or constrain a value"
        )
    if math.prod(mesh.values()) == 1:
        zero = 0  # nothing to shard over
    split = run_shardy(_compiler.opt(text, "scalify-before-shardy", debug_info=True), seconds)
    options = f"{{zero={zero} sum-each={str(reduce == 'each').lower()}}}"
    try:
        local, remarks = _compiler.run_passes(
            split, f"scalify-after-shardy{options}", debug_info=True
        )
        if zero:
            given = json.dumps(roles_option(roles))
            local, more = _compiler.run_passes(
                local, f"scalify-zero{options}", debug_info=True, options=given
            )
            remarks = [*remarks, *more]
    except CompileError as error:
        # Drop the quoted line, which is of Shardy's output, not of the user's text.
        raise CompileError([{**entry, "source": ""} for entry in error.diagnostics]) from None
    return Partitioned(local, mesh_of(local), tuple({**entry, "source": ""} for entry in remarks))


def main() -> int:
    """Partitions a file; prints the error and returns 1 on failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="StableHLO text")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="else standard output")
    parser.add_argument("--zero", type=int, default=0, help="shard state (ZeRO): level 1 to 3")
    parser.add_argument(
        "--reduce",
        choices=["last", "each"],
        default="last",
        help="reduce micro-batches' gradients over ranks after the last one, or after each",
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
