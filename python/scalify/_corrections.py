"""What a `Jit` decides again along training: the formats of its steps' dots."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from scalify._counters import exceeds_format
from scalify._entry import Entry
from scalify._executable import Executable
from scalify._gradient_check import GradientCheck
from scalify._renewal import DotFormats, is_deleted, is_renewal_due, measure_after_step
from scalify.options import Distribution
from scalify.scales import Scales

__all__ = ["Corrections", "Renewal"]

_NO_MEMORY = {
    "severity": "remark",
    "message": "gradients are not measured, since their programs would need more than half of the "
    "memory that is free: predicted errors alone decide which dots are sensitive to rounding",
    "location": "",
    "source": "",
    "notes": [],
}


class Renewal(NamedTuple):
    """Decisions by which a step is to be compiled once more.

    Attributes:
        scales: of its arguments.
        correction: log2 of that of the model for sensitive dots.
        changed: how many dots have other formats.
        dots: the number of all.
    """

    scales: Scales
    correction: int
    changed: int
    dots: int


def _of_all_shapes(key: Hashable) -> Hashable:
    """Returns what the keys of all shapes of a call have in common: its structure and statics."""
    return key[:2] if isinstance(key, tuple) else key


class Corrections:
    """The corrections of a `Jit`'s steps, by the keys of its compilations."""

    def __init__(self, threads: int, distribution: Distribution) -> None:
        self._threads, self._distribution = threads, distribution
        self._checks: dict[Hashable, GradientCheck] = {}
        self._formats: dict[Hashable, DotFormats] = {}
        self._exponents: dict[Hashable, int] = {}
        self._latest: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """Returns log2 of a step's correction; for a new shape that of the last one."""
        return self._exponents.get(key, self._latest.get(_of_all_shapes(key), 0))

    def set(self, key: Hashable, exponent: int) -> None:
        """Sets log2 of a step's correction."""
        self._exponents[key] = self._latest[_of_all_shapes(key)] = exponent

    def is_due(self, key: Hashable, steps: int, every: int, executable: Executable | None) -> bool:
        """Returns whether to decide again after a number of steps.

        It is so after the first step of the first shape already if no scale holds a cast's values.
        The model of noise takes values to be of one size; those that reach from the top of a format
        to below its bottom, as massive activations of trained weights do, may be far from that.

        Args:
            key: of the compilation.
            steps: that have run.
            every: the number of steps between two checks of health.
            executable: the step, if its counters are all that count: those of all ranks would take
                a message.
        """
        if is_renewal_due(steps, every):
            return True
        others = {_of_all_shapes(known) for known in self._checks}
        if steps > 1 or executable is None or _of_all_shapes(key) in others:
            return False
        return executable.is_on_host and any(map(exceeds_format, executable.health()))

    def clear(self) -> None:
        """Forgets all corrections and their programs."""
        self._exponents.clear()
        self._latest.clear()
        self.drop_programs()

    def drop_programs(self) -> None:
        """Frees the programs of earlier checks; the next check compiles its own."""
        self._checks.clear()
        self._formats.clear()

    def renewal(
        self,
        key: Hashable,
        entry: Entry,
        options: Callable[[Scales, int], dict[str, Any]],
        arrays: tuple[Sequence[Any], Sequence[Any]],
        narrows: bool,
    ) -> Renewal | None:
        """Decides again by the state after a step; None if all dots keep their formats.

        Args:
            key: of the compilation.
            entry: the step, with the scales and the correction by which it was compiled.
            options: of the compiler, by the scales of arguments and a correction.
            arrays: the arguments of the step that has just run, and its results.
            narrows: whether dots may go back to FP8.
        """
        assert entry.scales is not None
        now = measure_after_step(entry, *arrays, entry.scales) or entry.scales
        both = options(entry.scales, 0), options(now, 0)
        correction = self.measure(key, entry, both, arrays, narrows)
        if correction is None or (now is entry.scales and correction == entry.correction):
            return None
        if key not in self._formats:
            self._formats[key] = DotFormats(entry.lowered.text, self._distribution)
        before, after = options(entry.scales, entry.correction), options(now, correction)
        changed, count = self._formats[key].changes(before, after)
        return Renewal(now, correction, changed, count) if changed else None

    def measure(
        self,
        key: Hashable,
        entry: Entry,
        options: tuple[dict[str, Any], dict[str, Any]],
        arrays: tuple[Sequence[Any], Sequence[Any]],
        narrows: bool,
    ) -> int | None:
        """Returns log2 of the correction by the gradients at the state after a step.

        None if the step keeps its formats. It is the correction until now where they are not
        measured: for a step that does not run on the CPU, calls back, stores state narrow, or whose
        batch was donated.

        Args:
            key: of the compilation.
            entry: the step.
            options: of the compiler, with the scales of the entry and with those of now.
            arrays: the arguments of the step that has just run, and its results.
            narrows: whether dots may go back to FP8.
        """
        executable = entry.executable
        is_packed = any(argument["storage"] is not None for argument in executable.args)
        lost = any(
            argument["alias_result"] is None and is_deleted(leaf)
            for argument, leaf in zip(executable.args, arrays[0], strict=False)
        )
        if not executable.is_on_host or executable.calls_back or is_packed:
            return entry.correction
        if lost:  # What was measured before outweighs predictions.
            return None if key in self._checks else entry.correction
        if key not in self._checks:
            text = entry.lowered.text
            self._checks[key] = GradientCheck(text, self._threads, self._distribution)
        check = self._checks[key]
        inputs = entry.inputs_after_step(*arrays)
        arena = executable.memory["arena"]
        found = check.corrected(*options, inputs, entry.correction, narrows, arena)
        if not check.fits and _NO_MEMORY not in executable.diagnostics:
            executable.diagnostics.append(_NO_MEMORY)
        return found
