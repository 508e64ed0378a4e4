"""Results of a check, as plain values."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from typing import Any, Literal

__all__ = ["BARS", "Bars", "CastHealth", "Check", "Look", "Result", "Verdict", "WideShare"]


@dataclasses.dataclass(frozen=True)
class Bars:
    """The bars of a recipe; docs/check.md has the reasons.

    Attributes:
        whole: least cosine of all gradients together to F32's.
        worst: least cosine of a single tensor's.
        amax: how far `whole` may be below that of amax scaling, recipe `fp8-current`.
        saturated: largest share of a cast's values that saturate.
        flushed: largest share of a cast's values that become zero.
        noise: least cosine of F32 by Scalify to F32 by XLA; a tensor below it is rounding noise
            in F32 already, and is not judged.
    """

    whole: float = 0.98
    worst: float = 0.95
    amax: float = 0.003
    saturated: float = 0.001
    flushed: float = 0.5
    noise: float = 0.999


BARS = Bars()


@dataclasses.dataclass(frozen=True)
class Look:
    """Gradients by a recipe beside those of the step as written, at equal weights and batch.

    Attributes:
        step: how many steps of the recipe led to the weights.
        whole: cosine of all tensors together.
        tensors: cosine of each tensor by its name.
        loss: the first scalar result that is no state, by the recipe; None if there is none.
        reference_loss: the same result by the step as written at the same weights.
    """

    step: int
    whole: float
    tensors: dict[str, float]
    loss: float | None
    reference_loss: float | None

    @property
    def worst(self) -> tuple[float, str]:
        """The lowest cosine of a tensor, and its name."""
        return min(((value, name) for name, value in self.tensors.items()), default=(1.0, ""))


@dataclasses.dataclass(frozen=True)
class CastHealth:
    """One cast in the last step that ran.

    Attributes:
        cast: its name in the report.
        location: in the user's source.
        phase: of the step.
        format: that it casts to.
        saturated: the share of its values above the format's largest.
        flushed: the share that became zero.
        nans: the number of NaNs that it read.
        drift: log2(true rms / scale); None if it was not measured.
    """

    cast: str
    location: str
    phase: str
    format: str
    saturated: float
    flushed: float
    nans: int
    drift: float | None


@dataclasses.dataclass(frozen=True)
class WideShare:
    """The products that stay wide for one reason.

    Attributes:
        reason: in the report's words.
        dots: their number.
        flops: their share of the FLOPs of all products.
        names: of some of their weights.
    """

    reason: str
    dots: int
    flops: float
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Result:
    """The effect of one recipe on the step.

    Attributes:
        label: for tables.
        recipe: a preset's name or the recipe's text.
        looks: at the given weights, and after steps of training.
        first: cosine of all gradients in the very first step, before scales have moved.
        amax: cosine of all gradients by amax scaling, for FP8 by propagated scales, else None.
        casts: the casts and their health.
        narrow: the share of the FLOPs of products that is narrow.
        weights: the names of the weights of narrow products.
        wide: why the rest is wide.
        seconds: median time of a step; None if it was not measured.
        memory: bytes that a step needs by its plan; None likewise.
        error: why the recipe cannot be used at all, or "".
        faults: the bars that it misses, in words; empty if it holds.
    """

    label: str
    recipe: str
    looks: tuple[Look, ...] = ()
    first: float | None = None
    amax: float | None = None
    casts: tuple[CastHealth, ...] = ()
    narrow: float = 0.0
    weights: tuple[str, ...] = ()
    wide: tuple[WideShare, ...] = ()
    seconds: float | None = None
    memory: int | None = None
    error: str = ""
    faults: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it holds all bars."""
        return not self.error and not self.faults

    def drift(self, phase: str) -> tuple[float, float] | None:
        """Returns the smallest and largest drift of the casts of "forward" or "backward"."""
        found = [
            cast.drift
            for cast in self.casts
            if cast.drift is not None and (cast.phase == "backward") == (phase == "backward")
        ]
        return (min(found), max(found)) if found else None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The advice.

    Attributes:
        outcome: "use" a recipe as it is, use it "with" settings, or "do not".
        recipe: the recipe's text; "" with "do not".
        lines: three lines: the advice, the evidence, the cost.
    """

    outcome: Literal["use", "with settings", "do not"]
    recipe: str
    lines: tuple[str, str, str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of `scalify.check.check`.

    Attributes:
        name: of the step.
        compared: "gradients"; "updates" or "results" of a step whose gradients were not found.
        is_first_iteration: whether the step loops over steps, and the gradients are the first's.
        judged: the number of tensors that are judged.
        noise: tensors that F32 itself does not reproduce, with the cosine of F32 to F32.
        results: of each recipe, in the order in which they were tried.
        jax_seconds: median time of a step by `jax.jit`.
        jax_memory: bytes that XLA's program needs, by its own report.
        none_seconds: median time of the step as written by Scalify.
        verdict: the advice.
    """

    name: str
    compared: Literal["gradients", "updates", "results"]
    is_first_iteration: bool
    judged: int
    noise: dict[str, float]
    results: tuple[Result, ...]
    jax_seconds: float
    jax_memory: int | None
    none_seconds: float | None
    verdict: Verdict

    def __str__(self) -> str:
        return str(self.verdict)

    def to_json(self) -> dict[str, Any]:
        """Returns the check as a dictionary for JSON."""
        content = {"schema": "scalify.check/1", **dataclasses.asdict(self)}
        return _finite(content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the check: `.json` as data, `.html` as one page that needs no network.

        Raises:
            ImportError: the page needs Bokeh.
            ValueError: the path has neither suffix.
            OSError: the file cannot be written.
        """
        target = pathlib.Path(path)
        if target.suffix == ".json":
            target.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        elif target.suffix in (".html", ".htm"):
            from scalify.check.page import write_page  # Bokeh is optional

            write_page(self, target)
        else:
            raise ValueError(f"'{target.name}' ends in neither .html nor .json")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
