"""Puts programs to the bars as `scalify.jit` runs them, with and without priors.

The first batch calibrates the casts and the steps carry their scales: each step of a training in
F32 is run by the recipe as well, so that at the judged steps the scales have seen the steps before.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from typing import Any

import catalogue  # noqa: F401  (first: it sets the number of devices)
import jax
from bars import AMAX_BAR, AMAX_RECIPE, WITHIN_DB, Judge, Step, wide
from casts import Probe
from program import Entry, Program, make

import scalify
from scalify.numerics import cosine, operand

__all__ = ["Outcome", "judge_calibrated", "outcome_of", "recipe_of", "section"]

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One program at one step of its training; `faults` names the bars that it misses."""

    steps: int
    whole: float
    amax: float
    # By amax scaling of the same casts: `fp8-current` without priors casts other products.
    alike: float
    worst: float
    casts: int
    by_prior: int
    # Of those: the SQNR is more than the bar's 1 dB below that of an amax scale.
    far: int
    warnings: list[str]
    faults: list[str]

    @property
    def faults_alike(self) -> list[str]:
        """The faults with amax scaling of the same casts in place of `fp8-current`."""
        is_near = self.whole >= self.alike - AMAX_BAR
        return [fault for fault in self.faults if not (is_near and ", amax " in fault)]


def recipe_of(priors: list[str], base: str = "fp8") -> str:
    """Returns the text of a recipe with these priors."""
    return f'#scalify.recipe<"{base}", priors = {json.dumps(priors)}>'


class _Run:
    """The gradients of a program by `scalify.jit`, with all defaults but the recipe."""

    def __init__(self, program: Program, priors: list[str], args: Any) -> None:
        self._grads, self._recipe = program.grads, recipe_of(priors)
        self._step = scalify.jit(program.grads, recipe=self._recipe)
        self._alike = Step(
            program.grads, recipe_of(priors, AMAX_RECIPE), args, scalify.measure(args)
        )

    def __call__(self, *args: Any) -> Any:
        """Runs one step and returns its gradients."""
        return self._step(*args)[1]

    def look(self, judge: Judge, index: int, found: Any, args: Any) -> Outcome:
        """Returns what the bars see of the step that has just run.

        Args:
            judge: of the same program.
            index: the number of updates before the step.
            found: its gradients.
            args: its arguments.
        """
        loss, truth = judge.plain(*args)
        amax = judge.steps[AMAX_RECIPE].predicted(*args)[1]
        rows = self._rows(*args)
        look = judge.measure(index, float(loss), wide(found), wide(truth), wide(amax), rows)
        report = self._step.executable().report()
        guessed = {row["cast"] for row in report.prior_casts()}
        mine = [operand(row) for row in rows if row["name"] in guessed]
        return Outcome(
            steps=index,
            whole=look.whole,
            amax=look.amax,
            alike=cosine(wide(self._alike.predicted(*args)[1]), wide(truth)),
            worst=look.worst,
            casts=len(report.casts()),
            by_prior=len(guessed),
            far=sum(one is not None and one.loss > WITHIN_DB for one in mine),
            warnings=[],
            faults=look.faults(),
        )

    def _rows(self, *args: Any) -> list[dict[str, Any]]:
        """Returns what the casts read, with the formats and scales of the last step.

        Leaves out casts that the text for XLA does not have: it keeps Fourier transforms, which the
        step expands, and may choose other formats for what is around them.
        """
        entry = self._step._last
        assert entry is not None and entry.scales is not None
        formats = {"formatsStay": False, "noiseExponent": entry.correction}
        rows = Probe(self._grads, self._recipe, args, entry.scales, **formats)(*args)
        casts = {row["cast"]: row for row in self._step.executable().health()}
        return [
            row | {"scale": own["scale"] or row["scale"]}
            for row in rows
            if (own := casts.get(row["name"])) is not None and own["loc"] == row["loc"]
        ]


def judge_calibrated(program: Program, priors: list[str], steps: tuple[int, ...]) -> list[Outcome]:
    """Returns what the bars see after each number of steps, ascending."""
    judge = Judge(program, [])
    run = _Run(program, priors, (program.params, program.batch(0)))
    update = jax.jit(program.step)
    params, state = program.params, program.state
    outcomes, said = [], list[str]()
    for index in range(steps[-1] + 1):
        args = (params, program.batch(index))
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            found = run(*args)
        said += [str(warning.message) for warning in issued]
        if index in steps:
            outcomes.append(
                dataclasses.replace(run.look(judge, index, found, args), warnings=list(said))
            )
        params, state, _ = update(params, state, program.batch(index))
    return outcomes


def outcome_of(entry: Entry, priors: list[str], depth: int, steps: tuple[int, ...]) -> Row:
    """Returns what is kept of one program: its outcomes, or why there are none.

    Args:
        entry: the program.
        priors: those in use.
        depth: the most layers.
        steps: the numbers of updates after which it is judged.
    """
    program = make(entry.name, min(entry.depth, depth))
    kept = {"name": entry.name, "priors": priors, "depth": min(entry.depth, depth)}
    if program.devices != 1 or program.platform != "cpu":
        return kept | {"why": "for several devices or a GPU", "rows": []}
    try:
        rows = judge_calibrated(program, priors, steps)
    except scalify.CompileError as error:
        return kept | {"why": str(error).splitlines()[0], "rows": []}
    finally:
        jax.clear_caches()
    return kept | {"why": "", "rows": [dataclasses.asdict(row) for row in rows]}


SECTION = """
## Without priors, calibrated on the first batch

Programs under `fp8` with `priors = ["none"]`, run by `scalify.jit` with its defaults: the first
batch [calibrates](../stages/rescaling.md#calibration) the casts whose scales would depend on
priors, and steps carry the scales. Each step of a training in F32 is run, and judged before the
first update and after 20 and 100. Programs have at most {depth} layers. Written by
`test/zoo/priors.py --calibrated`; last run {date}.

- Of {run} programs that were run, {cast} have casts. {held} of these hold all bars, {share:.0f} %.
- {alike} hold them, {alike_share:.0f} %, if the cosine is compared with amax scaling of the same
  casts. The bar compares it with `fp8-current`, whose priors keep other products wide.
- {guessed} casts have scales that depend on priors. In {far} of {looks} measurements of these, the
  SQNR is more than 1 dB below that of an amax scale.

The programs that miss a bar, with the cosines of all gradients and of the worst tensor's, and those
of all by `fp8-current` and by amax scaling of the same casts:

| program | steps | cosine / worst | `fp8-current` | same casts | misses |
|---|---|---|---|---|---|
{rows}
"""


def _row(name: str, outcome: Outcome) -> str:
    """Returns the row of a program that misses a bar."""
    return (
        f"| {name} | {outcome.steps} | {outcome.whole:.4f} / {outcome.worst:.4f} | "
        f"{outcome.amax:.4f} | {outcome.alike:.4f} | {'; '.join(outcome.faults)} |"
    )


def section(kept: list[Row]) -> str:
    """Returns the page's section of all outcomes, "" if there are none."""
    found = {
        item["name"]: [Outcome(**row) for row in item["rows"]] for item in kept if item["rows"]
    }
    if not found:
        return ""
    cast = {name: rows for name, rows in found.items() if rows[0].casts}
    held = sum(not any(row.faults for row in rows) for rows in cast.values())
    alike = sum(not any(row.faults_alike for row in rows) for rows in cast.values())
    return SECTION.format(
        date=max(item["date"] for item in kept),
        depth=max(item["depth"] for item in kept),
        run=len(found),
        cast=len(cast),
        held=held,
        share=100 * held / max(len(cast), 1),
        alike=alike,
        alike_share=100 * alike / max(len(cast), 1),
        guessed=sum(rows[0].by_prior for rows in cast.values()),
        far=sum(row.far for rows in cast.values() for row in rows),
        looks=sum(row.by_prior for rows in cast.values() for row in rows),
        rows="\n".join(
            _row(name, row) for name, rows in cast.items() for row in rows if row.faults
        ),
    )
