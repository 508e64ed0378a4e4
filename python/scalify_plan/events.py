"""Streams of tasks that wait for each other: when everything is done, and what could go wrong."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence

__all__ = ["Disturbance", "Task", "Timeline", "run"]


@dataclasses.dataclass(frozen=True)
class Task:
    """A command on a stream: it starts behind those before it there and behind what it needs.

    Attributes:
        stream: 0 is the first.
        seconds: how long it takes undisturbed.
        needs: places of earlier tasks in the list.
        name: for reports.
        chunk: of an exchange, its number among all; -1 for what computes.
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
    """What makes exchanges slower than planned.

    Attributes:
        bandwidth: of the links, what is left.
        jitter: each exchange takes up to this much longer than planned, at random, relative.
        straggler: number of the exchange that is late, or -1.
        late: by how many seconds.
        seed: of the random numbers.
    """

    bandwidth: float = 1.0
    jitter: float = 0.0
    straggler: int = -1
    late: float = 0.0
    seed: int = 0

    def apply(self) -> Callable[[Task], float]:
        """Returns the seconds of a task, for tasks in the order of the list."""
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
    """When tasks ran.

    Attributes:
        spans: (start, end) of each task, in seconds.
        tasks: as given.
    """

    spans: Sequence[tuple[float, float]]
    tasks: Sequence[Task]

    @property
    def seconds(self) -> float:
        """Until the last one is done."""
        return max((end for _, end in self.spans), default=0.0)

    @property
    def compute(self) -> float:
        """Seconds in which something is computed."""
        return sum(end - start for start, end in self._computing())

    @property
    def exposed(self) -> float:
        """Seconds in which nothing is computed."""
        return self.seconds - self.compute

    @property
    def hidden(self) -> float:
        """Seconds of exchanges beside what is computed; two at once count twice."""
        return sum(self.beside())

    def beside(self) -> list[float]:
        """Returns of each exchange, in order, the seconds that it runs beside what is computed."""
        computes = self._computing()
        starts = [start for start, _ in computes]
        before = [0.0, *itertools.accumulate(end - start for start, end in computes)]

        def computed(time: float) -> float:
            """Returns the seconds computed until then."""
            count = bisect.bisect_right(starts, time)
            late = max(0.0, computes[count - 1][1] - time) if count else 0.0
            return before[count] - late

        spans = zip(self.spans, self.tasks, strict=True)
        return [computed(end) - computed(start) for (start, end), task in spans if task.chunk >= 0]

    def _computing(self) -> list[tuple[float, float]]:
        """Returns when something is computed, on one stream or on several, in order."""
        spans = zip(self.spans, self.tasks, strict=True)
        found: list[tuple[float, float]] = []
        for start, end in sorted(span for span, task in spans if task.chunk < 0):
            if found and start < found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((start, end))
        return found


def run(tasks: Sequence[Task], disturbance: Disturbance | None = None) -> Timeline:
    """Returns when tasks run: streams side by side, each in the order of the list.

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
