"""Ctrl-C, and the signal by which a scheduler ends a job, end a run after its current step."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

import numpy as np

from scalify.mesh import Mesh

__all__ = ["Stop"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether the run shall end: `with Stop(mesh) as stop: ... if stop.wanted(): break`.

    The second Ctrl-C is an ordinary KeyboardInterrupt.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        self._mesh = mesh
        self._signal = 0

    def __enter__(self) -> Stop:
        self._before = {one: signal.signal(one, self._take) for one in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = number

    def wanted(self) -> int:
        """Returns the signal that any rank got, 0 for none; collective over the ranks."""
        if self._mesh is None or self._mesh.comm is None:
            return self._signal
        mine = np.array([self._signal], np.int32)
        return int(max(found[0] for found in self._mesh.all_gather(mine)))
