"""Runs artefacts without the compiler: NumPy in, NumPy out, neither JAX nor LLVM.

    step = scalify_runtime.load("step.scalify")
    results = step.run(arrays)          # in the order of step.args

`Executable`, `Array` and `Communicator` are those that `scalify` itself runs on; results that alias
donated arguments are Arrays, which the next `run` takes. Arguments whose names start with
"scalify." are state that the compiler added: `initial` has their first values, except that of
"scalify.argument_amax", which the function "measure" computes.
"""

from __future__ import annotations

import os
import pathlib
import sys

from scalify_runtime._runtime import Array, Communicator, Executable, version

__all__ = ["Array", "Communicator", "Executable", "load", "main", "version"]


def load(
    path: str | os.PathLike[str],
    threads: int = 0,
    device: str = "cpu",
    comm: Communicator | None = None,
) -> Executable:
    """Loads an artefact from a file.

    Args:
        path: the file that `scalify-compile` or `Executable.save` wrote.
        threads: how many threads compute; 0 for one per core.
        device: "cpu", "cuda" or "null".
        comm: the communicator of an artefact for several ranks.

    Raises:
        OSError: the file cannot be read.
        RuntimeError: the artefact is damaged, or this machine cannot run it.
    """
    return Executable(os.fspath(path), threads, device, comm)


def main() -> int:
    """Becomes scalify-run."""
    path = pathlib.Path(__file__).resolve().parent / "bin" / "scalify-run"
    try:
        os.execv(path, [str(path), *sys.argv[1:]])
    except OSError as error:
        print(f"scalify: error: {path}: {error.strerror}", file=sys.stderr)
        return 1
