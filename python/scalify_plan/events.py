"""Simulation of tasks on streams that wait for each other, with optional disturbances."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence

__all__ = ["Disturbance", "Task", "Timeline", "run"]


@dataclasses.dataclass(frozen=True)
class Task:
    """A command on a stream, which starts after its predecessors there and after its needs.

    Attributes:
        stream: 0 is the first.
        seconds: undisturbed duration.
        needs: indices of earlier tasks in the list.
        name: for reports.
        chunk: of an exchange, its number among all exchanges; -1 for computation.
        flops: of a product.
        moved: bytes of memory that it reads and writes.
    """

    stream: int
    seconds: float
    needs: tuple[int, ...] = ()
    name: str = ""
    chunk: int = -1
    flops: float = 0.0
    moved: float = 0.0


@dataclasses.dataclass(frozen=True)
class Disturbance:
    """Slows exchanges down.

    Attributes:
        bandwidth: share of the links' bandwidth that is left.
        jitter: largest relative increase of an exchange's time, which is random.
        straggler: number of the exchange that is late, or -1.
        late: its delay in seconds.
        seed: of the random numbers.
    """

    bandwidth: float = 1.0
    jitter: float = 0.0
    straggler: int = -1
    late: float = 0.0
    seed: int = 0

    def apply(self) -> Callable[[Task], float]:
        """Returns the function from a task to its seconds, for tasks in the order of the list."""
        dice = random.Random(self.seed)

        def seconds(task: Task) -> float:
            if task.chunk < 0:
                return task.seconds
            longer = 1 + self.jitter * dice.random()
            late = self.late if task.chunk == self.straggler else 0.0
            return task.seconds * longer / self.bandwidth + late

        return seconds


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The times of tasks.

    Attributes:
        spans: (start, end) of each task, in seconds.
        tasks: as given.
    """

    spans: Sequence[tuple[float, float]]
    tasks: Sequence[Task]

    @property
    def seconds(self) -> float:
        """Seconds until the last task ends."""
        return max((end for _, end in self.spans), default=0.0)

    @property
    def compute(self) -> float:
        """Seconds with computation on any stream."""
        return sum(end - start for start, end in self._compute_intervals())

    @property
    def exposed(self) -> float:
        """Seconds without computation."""
        return self.seconds - self.compute

    @property
    def hidden(self) -> float:
        """Seconds of exchanges concurrent with computation; two at once count twice."""
        return sum(self.beside())

    def beside(self) -> list[float]:
        """Returns for each exchange, in order, its seconds concurrent with computation."""
        computes = self._compute_intervals()
        starts = [start for start, _ in computes]
        before = [0.0, *itertools.accumulate(end - start for start, end in computes)]

        def computed(time: float) -> float:
            """Returns the seconds of computation until `time`."""
            count = bisect.bisect_right(starts, time)
            late = max(0.0, computes[count - 1][1] - time) if count else 0.0
            return before[count] - late

        spans = zip(self.spans, self.tasks, strict=True)
        return [computed(end) - computed(start) for (start, end), task in spans if task.chunk >= 0]

    def _compute_intervals(self) -> list[tuple[float, float]]:
        """Returns the disjoint intervals with computation on any stream, in order."""
        spans = zip(self.spans, self.tasks, strict=True)
        found: list[tuple[float, float]] = []
        for start, end in sorted(span for span, task in spans if task.chunk < 0):
            if found and start < found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((start, end))
        return found


def run(tasks: Sequence[Task], disturbance: Disturbance | None = None) -> Timeline:
    """Returns the times of tasks: streams run concurrently, each in the order of the list.

    Raises:
        ValueError: a task needs one that is not before it.
    """
    seconds = (disturbance or Disturbance()).apply()
    free: dict[int, float] = {}
    spans: list[tuple[float, float]] = []
    for place, task in enumerate(tasks):
        start = free.get(task.stream, 0.0)
        for need in task.needs:
            if need >= place:
                raise ValueError(f"task {place} needs task {need}, which is not before it")
            start = max(start, spans[need][1])
        end = start + seconds(task)
        free[task.stream] = end
        spans.append((start, end))
    return Timeline(spans, tasks)
