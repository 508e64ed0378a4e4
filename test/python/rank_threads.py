"""Ranks as threads of the test's process, each with its communicator and executable."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from scalify import _runtime
from scalify._executable import Executable
from scalify.mesh import Mesh

__all__ = ["on_meshes", "on_ranks"]

_jobs = itertools.count()


def on_ranks(
    artefact: bytes | Sequence[bytes],
    size: int,
    body: Callable[[int, Executable, _runtime.Communicator], Any],
) -> list[Any]:
    """Returns what `body(rank, executable, communicator)` returns on each rank.

    Args:
        artefact: of all ranks, or one for each.
        size: the number of ranks.
        body: see above.

    Raises:
        Whatever the first of the ranks raised that raised anything.
    """

    def run(comm: _runtime.Communicator) -> Any:
        own = artefact if isinstance(artefact, bytes) else artefact[comm.rank]
        return body(comm.rank, Executable(own, 1, comm=comm), comm)

    return _run(size, run)


def on_meshes(axes: dict[str, int], body: Callable[[Mesh], Any]) -> list[Any]:
    """Returns what `body(mesh)` returns on each rank of a mesh.

    Raises:
        As `on_ranks`.
    """

    def run(comm: _runtime.Communicator) -> Any:
        mesh = Mesh(axes)
        mesh.__dict__["comm"] = comm  # in place of what the launch says
        return body(mesh)

    return _run(math.prod(axes.values()), run)


def _run(size: int, body: Callable[[_runtime.Communicator], Any]) -> list[Any]:
    job = f"rank-threads-{os.getpid()}-{next(_jobs)}"
    found: list[Any] = [None] * size
    failed: list[Exception] = []

    def run(rank: int) -> None:
        try:
            comm = _runtime.Communicator("local", 120, rank, size, job)
            found[rank] = body(comm)
            comm.barrier()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found
