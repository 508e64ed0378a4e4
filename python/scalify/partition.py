"""Partitions a sharded program into the program of one device, with explicit collectives.

Shardings are JAX's: of arguments, of results, of constraints, of `jax.shard_map`. jaxlib's Shardy
propagates them. Scalify replicates what cannot be split into equal, independent shards. Shardy
inserts collectives, and Scalify localises types to one device's shards.

    python -m scalify.partition step.mlir -o local.mlir
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from scalify import _compiler
from scalify.errors import CompileError
from scalify.scales import roles_option

__all__ = ["Partitioned", "data_parallel", "main", "mesh_of", "partition"]

SHARDY = pathlib.Path(__file__).with_name("_shardy.py")
PROPAGATE = ("sdy-propagation-pipeline",)
# Shardy's last pass, sdy-convert-global-to-local, is left out: it aborts on reduce-scatters that
# `canonicalize` forms and on products whose contraction is sharded. `scalify-localize` replaces it.
RESHARD = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize",
)
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


class Shardy:
    """jaxlib's Shardy in a process of its own, since a failure in it aborts its process."""

    def __init__(self, seconds: float) -> None:
        """Starts the process, which is killed after `seconds`."""
        self._seconds = seconds
        self._is_late = False
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed on exit
        self._process = subprocess.Popen(
            # -P: modules of this package do not hide those of the standard library.
            [sys.executable, "-P", str(SHARDY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._timer = threading.Timer(seconds, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> Shardy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if error:
            self._process.kill()
        self._end()
        self._errors.close()

    def run(self, text: str, pipelines: Sequence[str]) -> str:
        """Returns a program after Shardy's pipelines.

        Raises:
            CompileError: the process failed or was killed.
        """
        assert self._process.stdin and self._process.stdout
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([text, pipelines]), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            raise self._failure()
        after: str = json.loads(answer)
        return after

    def _kill(self) -> None:
        self._is_late = True
        self._process.kill()

    def _end(self) -> int:
        """Ends the input, at which the process exits, and returns its exit code."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # what a dead process has not read
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()

    def _failure(self) -> CompileError:
        code = self._end()
        if self._is_late:
            return failed(f"Shardy's partitioner took longer than {self._seconds:g} s")
        self._errors.seek(0)
        words = self._errors.read().strip() or "it printed no message"
        if code >= 0:
            return failed(f"Shardy cannot partition the program: {words}")
        return failed(
            f"Shardy's partitioner crashed ({signal.Signals(-code).name}); constraints by "
            f"jax.lax.with_sharding_constraint near the op it names may avoid it: {words}"
        )


def run_passes(
    text: str, pipeline: str, options: str = "{}"
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Returns a program of Shardy's after a pipeline, and remarks.

    Diagnostics quote no line, since it would be of Shardy's output, not of the user's text.
    """
    try:
        after, remarks = _compiler.run_passes(text, pipeline, debug_info=True, options=options)
    except CompileError as error:
        raise CompileError([{**entry, "source": ""} for entry in error.diagnostics]) from None
    return after, tuple({**entry, "source": ""} for entry in remarks)


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
    with Shardy(seconds) as shardy:
        flat = _compiler.opt(text, "scalify-before-shardy", debug_info=True)
        propagated = shardy.run(flat, PROPAGATE)
        splittable, _ = run_passes(propagated, "scalify-between-shardy")
        resharded = shardy.run(splittable, RESHARD)
    options = f"{{zero={zero} sum-each={str(reduce == 'each').lower()}}}"
    local, remarks = run_passes(resharded, f"scalify-after-shardy{options}")
    if zero:
        given = json.dumps(roles_option(roles))
        local, more = run_passes(local, f"scalify-zero{options}", given)
        remarks += more
    return Partitioned(local, mesh_of(local), remarks)


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
