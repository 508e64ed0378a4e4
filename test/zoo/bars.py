"""Puts the programs of the zoo to the bars: strict propagation, drift, and gradients.

    python test/zoo/bars.py [names or groups] --recipe fp8

For each program, at initial weights and after some steps of F32 training:

- strict: the whole step goes through with a rule for every op and no fallback;
- drift: log2(true rms / scale) of each quantised operand, and how many have an SQNR within 1 dB
  of what an amax scale gives;
- gradients: the cosine to F32's at equal weights, of all parameters and of the worst tensor, and
  the global one beside that of amax scaling.

Scales of weights are measured once, at the start, as training does. A recipe whose casts carry
their scales is judged twice: by the predicted scales, and by those that a step carries once it has
seen these weights. A program for several devices, or for a GPU, is judged by strict propagation
alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import catalogue  # first: it sets the number of devices
import jax
import numpy as np
from casts import Probe
from program import REGISTRY, Entry, Program, make
from strict import lower, propagate

import scalify
from scalify.numerics import Operand, cosine, operand

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks" / "numerics"))

from store import Store

__all__ = ["Look", "Result", "judge", "main", "table"]

FORWARD_BAR = (-4.0, 5.0)
BACKWARD_BAR = (-8.0, 8.0)
WITHIN_DB, SHARE_BAR = 1.0, 0.95
GLOBAL_BAR, WORST_BAR, AMAX_BAR = 0.98, 0.95, 0.003
AMAX_RECIPE = "fp8-current"
# A tensor whose gradient is nothing but rounding has no direction: that of a bias before a
# batch norm, of a key's bias under a softmax. F32 itself does not agree with itself there.
NOISE = 1e-6


@dataclasses.dataclass(frozen=True)
class Look:
    """What was seen at one set of weights; None where nothing was cast."""

    steps: int
    loss: float
    operands: list[Operand]
    whole: float
    amax: float
    worst: float
    worst_name: str
    amax_worst: float
    # The same by the scales that a step carries, where casts carry theirs.
    carried: Look | None = None

    def range_of(self, phase: str) -> tuple[float, float] | None:
        """Returns the smallest and largest drift of a phase."""
        drifts = [item.drift for item in self.operands if item.phase == phase]
        # NumPy's extremes keep a NaN, which no bar holds for.
        return (float(np.min(drifts)), float(np.max(drifts))) if drifts else None

    @property
    def share(self) -> float:
        """The share of operands whose SQNR is within 1 dB of an amax scale's."""
        near = sum(item.loss <= WITHIN_DB for item in self.operands)
        return near / max(len(self.operands), 1)

    def faults(self) -> list[str]:
        """Returns which bars fail, in words."""
        found = []
        for phase, (low, high) in (("forward", FORWARD_BAR), ("backward", BACKWARD_BAR)):
            span = self.range_of(phase)
            if span and not (span[0] >= low and span[1] <= high):
                found.append(f"{phase} drift {span[0]:+.1f} .. {span[1]:+.1f}")
        if self.operands and not self.share >= SHARE_BAR:
            found.append(f"SQNR {100 * self.share:.0f} %")
        if not self.whole >= GLOBAL_BAR:
            found.append(f"cosine {self.whole:.4f}")
        if not self.worst >= WORST_BAR:
            found.append(f"worst tensor {self.worst:.3f} `{self.worst_name}`")
        if not self.whole >= self.amax - AMAX_BAR:
            found.append(f"cosine {self.whole:.4f}, amax {self.amax:.4f}")
        if self.carried is not None:
            found += [f"carried: {fault}" for fault in self.carried.faults()]
        return found


@dataclasses.dataclass(frozen=True)
class Result:
    """One program's outcome under one recipe."""

    name: str
    recipe: str
    depth: int
    strict: list[str]
    casts: int
    looks: list[Look]
    seconds: float

    def faults(self) -> list[str]:
        """Returns what fails, in words."""
        found = [f"strict: {fault}" for fault in self.strict]
        for look in self.looks:
            found += [f"after {look.steps}: {fault}" for fault in look.faults()]
        return found


class Step:
    """A function under a recipe, with the scales that it carries from one look to the next."""

    def __init__(self, fn: Callable[..., Any], recipe: str, args: Any, scales: Any) -> None:
        step = scalify.transform(fn, recipe=recipe, numerics=scalify.Numerics(scales=scales))
        self._initial = step.init_state(*args) if step.is_carried else None
        self._state = self._initial
        self._run = jax.jit(
            step if self._initial is None else lambda *args, state: step(*args, state=state)
        )
        self._casts = [
            row["cast"] for row in step.report(*args).casts() if row["scaling"] == "carried"
        ]

    def predicted(self, *args: Any) -> Any:
        """Returns the results by the scales that are predicted."""
        if self._initial is None:
            return self._run(*args)
        return self._run(*args, state=self._initial)[0]

    def carried(self, *args: Any) -> tuple[Any, dict[str, float]] | None:
        """Returns the results by the scales that a step before has left, and those that moved."""
        if self._initial is None:
            return None
        self._state = self._run(*args, state=self._state)[1]
        values = np.asarray(self._state).ravel()
        moved = {
            cast: float(value) for cast, value in zip(self._casts, values, strict=True) if value > 0
        }
        return self._run(*args, state=self._state)[0], moved


class Judge:
    """One program compiled for every recipe that the bars compare, once."""

    def __init__(self, program: Program, recipes: list[str]) -> None:
        self.program = program
        args = (program.params, program.batch(0))
        scales = scalify.measure(args)
        self.names = [
            jax.tree_util.keystr(path)
            for path, _ in jax.tree_util.tree_leaves_with_path(program.params)
        ]
        self.probes = {name: Probe(program.grads, name, args, scales) for name in recipes}
        self.plain = jax.jit(program.grads)
        self.steps = {
            name: Step(program.grads, name, args, scales) for name in {*recipes, AMAX_RECIPE}
        }

    def look(self, params: Any, steps: int) -> dict[str, Look]:
        """Returns what both bars see at these weights, for each recipe."""
        args = (params, self.program.batch(steps))
        loss, reference = self.plain(*args)
        truth = wide(reference)
        amax = wide(self.steps[AMAX_RECIPE].predicted(*args)[1])
        looks = {}
        for recipe, probe in self.probes.items():
            step, rows = self.steps[recipe], probe(*args)

            def seen(found: Any, rows: list[dict[str, Any]]) -> Look:
                return self.measure(steps, float(loss), wide(found[1]), truth, amax, rows)

            look = seen(step.predicted(*args), rows)
            if (carried := step.carried(*args)) is not None:
                found, moved = carried
                rows = [row | {"scale": moved.get(row["name"], row["scale"])} for row in rows]
                look = dataclasses.replace(look, carried=seen(found, rows))
            looks[recipe] = look
        return looks

    def measure(
        self,
        steps: int,
        loss: float,
        found: list[np.ndarray],
        truth: list[np.ndarray],
        amax: list[np.ndarray],
        rows: list[dict[str, Any]],
    ) -> Look:
        """Returns what the bars see of gradients and of rows of casts.

        Args:
            steps: how often the weights were updated.
            loss: at these weights, in F32.
            found: the gradients that are judged.
            truth: those of F32.
            amax: those by amax scaling.
            rows: what the casts read, with their scales, as `Probe` returns them.
        """
        largest = max(float(np.sqrt(np.mean(leaf**2))) for leaf in truth)
        each = [
            (cosine([a], [b]), name, cosine([c], [b]))
            for a, b, name, c in zip(found, truth, self.names, amax, strict=True)
            if float(np.sqrt(np.mean(b**2))) > NOISE * largest
        ]
        worst, where, _ = min(each, default=(0.0, "no gradient", 0.0))
        return Look(
            steps=steps,
            loss=loss,
            operands=[one for row in rows if (one := operand(row)) is not None],
            whole=cosine(found, truth),
            amax=cosine(amax, truth),
            worst=worst,
            worst_name=where,
            amax_worst=min((other for _, _, other in each), default=0.0),
        )


def wide(tree: Any) -> list[np.ndarray]:
    """Returns the leaves of a tree in F64."""
    return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(tree)]


def train(program: Program, steps: int) -> Any:
    """Returns the parameters after some steps of the program as it is written."""
    step = jax.jit(program.step)
    params, state = program.params, program.state
    for index in range(steps):
        params, state, _ = step(params, state, program.batch(index))
    return params


def judge(entry: Entry, recipes: list[str], steps: int, depth: int | None = None) -> list[Result]:
    """Puts one program to the bars; `steps` of 0 looks at initial weights only.

    The recipes share the training in F32 and the reference, which take most of the time.
    """
    started = time.monotonic()
    chosen = entry.depth if depth is None else depth
    program = make(entry.name, chosen)
    text = lower(program)
    outcomes = {recipe: propagate(program, recipe, text) for recipe in recipes}
    looks: list[dict[str, Look]] = []
    runnable = [name for name, outcome in outcomes.items() if outcome.text]
    if program.devices == 1 and program.platform == "cpu" and runnable:
        judging = Judge(program, runnable)
        looks.append(judging.look(program.params, 0))
        if steps:
            looks.append(judging.look(train(program, steps), steps))
    jax.clear_caches()
    seconds = time.monotonic() - started
    return [
        Result(
            name=entry.name,
            recipe=recipe,
            depth=chosen,
            strict=outcome.faults,
            casts=sum(row["op"] == "quantize" for row in outcome.rows),
            looks=[look[recipe] for look in looks if recipe in look],
            seconds=seconds,
        )
        for recipe, outcome in outcomes.items()
    ]


HEADER = (
    "program",
    "depth",
    "steps",
    "loss",
    "casts",
    "forward",
    "backward",
    "SQNR",
    "cosine",
    "amax",
    "worst",
    "amax worst",
    "bars",
)


def _span(look: Look, phase: str) -> str:
    span = look.range_of(phase)
    return f"{span[0]:+.1f} .. {span[1]:+.1f}" if span else "-"


def rows_of(result: Result) -> list[tuple[str, ...]]:
    """Returns the table's rows of one program."""
    if not result.looks:
        verdict = "holds" if not result.strict else "strict FAILS"
        middle = ["-"] * (len(HEADER) - 6)
        return [(result.name, str(result.depth), "-", "-", str(result.casts), *middle, verdict)]
    rows: list[tuple[str, ...]] = []
    looks = [
        (name, look)
        for first in result.looks
        for name, look in (
            (f"{first.steps}", dataclasses.replace(first, carried=None)),
            (f"{first.steps}, carried", first.carried),
        )
        if look is not None
    ]
    for steps, look in looks:
        failing = (["strict"] if result.strict else []) + look.faults()
        rows.append(
            (
                result.name,
                str(result.depth),
                steps,
                f"{look.loss:.3f}",
                str(result.casts),
                _span(look, "forward"),
                _span(look, "backward"),
                f"{100 * look.share:.0f} %" if look.operands else "-",
                f"{look.whole:.4f}",
                f"{look.amax:.4f}",
                f"{look.worst:.4f}",
                f"{look.amax_worst:.4f}",
                "holds" if not failing else "FAILS",
            )
        )
    return rows


def table(rows: list[tuple[str, ...]], markdown: bool = False) -> str:
    """Returns rows under the header, aligned, or as a table of Markdown."""
    whole = [HEADER, *rows]
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in whole]
        return "\n".join([lines[0], "|" + "---|" * len(HEADER), *lines[1:]])
    widths = [max(len(row[i]) for row in whole) for i in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in whole
    )


def key_of(name: str, depth: int | None, recipe: str) -> str:
    """Returns the name under which a program's outcome is kept."""
    return f"{name}.{REGISTRY[name].depth if depth is None else depth}.{recipe}"


PAGE = """# Numerics of the zoo

The distance of the propagated scales from the values, and the casts' effect on the gradients, for
the programs of `test/zoo`. Written by `make zoo`; last run {date}, jax {jax}, XLA's CPU.

- **forward**, **backward**: smallest and largest log2(true rms / scale) of the quantised operands.
  Bars: [-4, +5] and [-8, +8].
- **SQNR**: the share of operands within 1 dB of their SQNR under an amax scale. Bar: 95 %.
- **cosine**, **amax**, **worst**: cosine of the gradients to F32's at equal weights: under the
  recipe, under `fp8-current`, and under the recipe for the worst single tensor. Bars: 0.98, within
  0.003 of amax, 0.95.
- **steps**: steps of F32 training before the measurement, as the program itself trains. Scales of
  weights are measured once, at 0. "Carried" rows use the scales that a step carries after it has
  seen these weights, the others the predicted ones. Rows without numbers were only propagated,
  under strict: programs for several devices, or for another platform.
"""


NOTES = "\n## Notes\n"


def notes(path: pathlib.Path) -> str:
    """Returns what a page says under its heading of notes: people write it, and it stays."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[text.index(NOTES) :] if NOTES in text else ""


def page(store: Store) -> str:
    """Returns a page of Markdown with all outcomes of a store."""
    order = list(REGISTRY)
    found = [item for item in store.rows().values() if item["name"] in REGISTRY]
    found.sort(key=lambda item: order.index(item["name"]))
    date = max(item["date"] for item in found)
    parts = [PAGE.format(date=date, jax=jax.__version__)]
    for recipe in sorted({item["recipe"] for item in found}):
        rows = [tuple(row) for item in found if item["recipe"] == recipe for row in item["rows"]]
        parts.append(f"## Recipe `{recipe}`\n\n{table(rows, markdown=True)}\n")
    return "\n".join(parts)


def is_fresh(store: Store | None, keys: list[str], since: str) -> bool:
    """Returns whether a store holds all these outcomes, each of that date or a later one."""
    rows = store.rows() if store and since else {}
    return bool(since) and all(key in rows and rows[key]["date"] >= since for key in keys)


def _print_worst(result: Result, count: int) -> None:
    for look in result.looks:
        bad = sorted(look.operands, key=lambda item: -max(abs(item.drift) - 4, item.loss))
        for item in bad[:count]:
            print(
                f"    {look.steps:>4} {item.drift:+6.2f} {item.sqnr:6.1f} dB, amax "
                f"{item.amax_sqnr:5.1f}  {item.phase:<9}{item.format:<15}{item.name}"
            )


def _report(result: Result, store: Store | None, worst: int) -> None:
    """Keeps and prints one outcome."""
    rows = rows_of(result)
    if store:
        key = key_of(result.name, result.depth, result.recipe)
        store.add(key, {"name": result.name, "recipe": result.recipe, "rows": rows})
    outcome = table(rows).split("\n", 1)[1]
    print(f"{outcome}  {result.recipe} {result.seconds:.0f} s", flush=True)
    _print_worst(result, worst)
    for fault in result.faults():
        print(f"    {fault}", flush=True)


def select(names: list[str]) -> list[Entry]:
    """Returns the programs of these names or groups; all without any.

    Raises:
        SystemExit: a name is neither.
    """
    known = {*REGISTRY, *(entry.group for entry in REGISTRY.values())}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"error: no program or group '{unknown[0]}': {', '.join(sorted(known))}")
    return [
        entry
        for entry in REGISTRY.values()
        if not names or entry.name in names or entry.group in names
    ]


def main() -> int:
    """Runs the command; returns 0 where every bar holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs or groups (all)")
    parser.add_argument("--recipe", default="fp8", help="one, or some, parted by commas (fp8)")
    parser.add_argument("--steps", type=int, default=100, help="F32 steps between the looks (100)")
    parser.add_argument("--depth", type=int, help="layers, instead of each program's own")
    parser.add_argument("--worst", type=int, default=0, help="worst operands to print, each look")
    parser.add_argument("--keep", help="a file of outcomes, one JSON line a program, to add to")
    parser.add_argument("--page", help="a file for a page of Markdown with all that is kept")
    parser.add_argument("--since", default="", help="leave out what --keep has since this day")
    parser.add_argument("--list", action="store_true", help="print the programs and their groups")
    parser.add_argument(
        "--unseen", action="store_true", help="know the programs of unseen/ as well"
    )
    options = parser.parse_args()
    if options.unseen:
        catalogue.load_unseen()
    if options.page and not options.keep:
        parser.error("--page writes what --keep holds: give both")
    if options.list:
        for entry in REGISTRY.values():
            print(f"{entry.name:<28}{entry.group}, depth {entry.depth}")
        return 0
    store = Store(pathlib.Path(options.keep)) if options.keep else None
    rows, failed, skipped = [], [], 0
    recipes = options.recipe.split(",")
    for entry in select(options.names):
        if is_fresh(
            store, [key_of(entry.name, options.depth, name) for name in recipes], options.since
        ):
            skipped += 1
            continue
        steps = min(options.steps, 20) if entry.group == "llama sizes" else options.steps
        for result in judge(entry, recipes, steps, options.depth):
            rows += rows_of(result)
            _report(result, store, options.worst)
            if result.faults():
                failed.append(f"{result.name} ({result.recipe})")
    print(f"\n{table(rows)}")
    if store and options.page:
        target = pathlib.Path(options.page)
        text = page(store) + notes(target)
        target.write_text(text, encoding="utf-8")
    print(f"\nzoo: {len(failed)} of the runs fail a bar: {', '.join(failed) or 'none'}")
    if skipped:
        print(f"{skipped} programs were not run: their outcomes since {options.since} are kept")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
