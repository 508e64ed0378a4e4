"""Ranks as threads of the test's process, each with its communicator and executable."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

from scalify import _runtime
from scalify._executable import Executable

__all__ = ["on_ranks"]

_jobs = itertools.count()


def on_ranks(
    artefact: bytes,
    size: int,
    body: Callable[[int, Executable, _runtime.Communicator], Any],
) -> list[Any]:
    """Returns what `body(rank, executable, communicator)` returns on each rank.

    Raises:
        Whatever the first of the ranks raised that raised anything.
    """
    job = f"rank-threads-{os.getpid()}-{next(_jobs)}"
    found: list[Any] = [None] * size
    failed: list[Exception] = []

    def run(rank: int) -> None:
        try:
            comm = _runtime.Communicator("local", 120, rank, size, job)
            found[rank] = body(rank, Executable(artefact, 1, comm=comm), comm)
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
