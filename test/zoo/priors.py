"""Leaves out each prior, and all of them: which programs move, and what becomes of their bars.

    python test/zoo/priors.py [names or groups] --page docs/research/priors.md

A program moves where its text under `fp8` is another one without the prior. Only those are put to
the bars (bars.py), at initial weights and after 20 and 100 steps of F32 training.

    python test/zoo/priors.py [names or groups] --calibrated --page docs/research/priors.md

runs the programs without priors as users do, by `scalify.jit` and its calibration (calibrated.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from typing import Any

import catalogue  # first: it sets the number of devices
import jax
from bars import Judge, Look, notes, select, train
from calibrated import outcome_of, recipe_of, section
from program import Entry, Program, make
from store import Store

import scalify
from scalify import _compiler

__all__ = ["main"]

STEPS = (0, 20, 100)
# The layers of the largest programs are alike.
DEPTH = 12
# Of cosines: less is what another rounding of the same values does.
DIFFERS = 0.002


@dataclasses.dataclass(frozen=True)
class Moved:
    """One program without a prior, beside itself with all of them."""

    name: str
    prior: str
    steps: int
    whole: tuple[float, float]
    worst: tuple[float, float]
    faults: tuple[list[str], list[str]]

    def crosses(self) -> bool:
        """Whether it holds all bars with the prior and not without, or the reverse."""
        return bool(self.faults[0]) != bool(self.faults[1])

    def differs(self) -> bool:
        """Whether the page has a row of it."""
        gaps = (abs(some - other) for some, other in (self.whole, self.worst))
        return self.crosses() or any(gap > DIFFERS for gap in gaps)

    def row(self) -> str:
        """Returns its row of the page."""
        crosses = "yes" if self.crosses() else "no"
        return (
            f"| {self.prior} | {self.name} | {self.steps} | {self.whole[0]:.4f} / "
            f"{self.worst[0]:.4f} | {self.whole[1]:.4f} / {self.worst[1]:.4f} | {crosses} |"
        )


def recipes() -> dict[str, str]:
    """Returns the recipe without each prior, and that without any, by what it leaves out."""
    names = [row["name"] for row in _compiler.priors()]
    found = {"all": ["none"]}
    found |= {name: [other for other in names if other != name] for name in names}
    return {out: recipe_of(kept) for out, kept in found.items()}


def text_of(program: Program, recipe: str, args: Any) -> str:
    """Returns the program's gradients as the recipe rewrites them, without locations."""
    step = scalify.transform(
        program.grads,
        recipe=recipe,
        numerics=scalify.Numerics(scales=scalify.measure(args), cast_scales="static"),
    )
    lines = str(step.text(*args)).splitlines()
    return "\n".join(line.split(" loc(")[0] for line in lines if not line.startswith("#loc"))


def ablate(entry: Entry) -> list[Moved]:
    """Returns what leaving out priors does to one program."""
    program = make(entry.name, min(entry.depth, DEPTH))
    if program.devices != 1 or program.platform != "cpu":
        return []
    args = (program.params, program.batch(0))
    whole = text_of(program, "fp8", args)
    moved = {out: text for out, text in recipes().items() if text_of(program, text, args) != whole}
    if not moved:
        return []
    judge = Judge(program, ["fp8", *moved.values()])
    rows = []
    for steps in STEPS:
        looks = judge.look(train(program, steps), steps)
        rows += [_moved(entry.name, out, steps, looks, text) for out, text in moved.items()]
    jax.clear_caches()
    return rows


def _moved(name: str, out: str, steps: int, looks: dict[str, Look], recipe: str) -> Moved:
    # Faults are those by predicted scales, too.
    faults = looks["fp8"].faults(), looks[recipe].faults()
    both = [looks[name].carried or looks[name] for name in ("fp8", recipe)]
    return Moved(
        name=name,
        prior=out,
        steps=steps,
        whole=(both[0].whole, both[1].whole),
        worst=(both[0].worst, both[1].worst),
        faults=faults,
    )


PAGE = """# Priors

After this page you know which assumptions about training remain in the compiler, the effect of
each, and how to disable them. Written by `make priors` (`test/zoo/priors.py`); last run {date}.

A rule derives a result's moments from those of the operands. A prior is an assumption about
training that does not follow from the program. Priors are the rows of one table
(`include/scalify/Scaling/Priors.h`, `lib/Scaling/Priors`). The part `priors` of a recipe, or
`--scalify-priors=none|NAME,...|default` of the tools, selects them. The report marks the casts
whose scales depend on priors, and `scalify.jit` [calibrates](../stages/rescaling.md#calibration)
these on its first batch.

| prior | predicts | constant | because |
|---|---|---|---|
{table}

## Effect of each prior

Of {count} programs of `test/zoo`, the table counts those whose casts change without the prior, and
names those that cross one of the [bars](numerics.md): they meet it only with the prior, or only
without. `unit-gain` applies to scales that are not given (all programs of the zoo have
them), and to formats that stay for all of training
([sensitive dots](../stages/precision.md#dots-whose-rounding-moves-gradients-too-far)).

| without | programs that move | held by it | held without it only |
|---|---|---|---|
{counts}

The rows below cross a bar, or differ in a cosine by more than 0.002. Cosines are those of all
gradients to F32's / of the worst tensor's, of a step that carries its scales, after some steps of
F32 training.

| without | program | steps | with | without | crosses |
|---|---|---|---|---|---|
{rows}
"""


def _counts(prior: str, rows: list[Moved]) -> str:
    """Returns the row of one prior of the first table."""
    both = [{row.name for row in rows if row.faults[side]} for side in (0, 1)]
    names = [", ".join(sorted(mine)) or "none" for mine in (both[1] - both[0], both[0] - both[1])]
    return f"| {prior} | {len({row.name for row in rows})} | {names[0]} | {names[1]} |"


def page(store: Store, calibrated: Store) -> str:
    """Returns the page of Markdown with all outcomes of two stores."""
    kept = store.rows().values()
    table = "\n".join(
        f"| `{row['name']}` | {row['predicts']} | {row['constant']:g} | {row['reason']} |"
        for row in _compiler.priors()
    )
    rows = [Moved(**row) for item in kept for row in item["rows"]]
    outs = {out: [row for row in rows if row.prior == out] for out in recipes()}
    without = section(list(calibrated.rows().values()))
    text = PAGE.format(
        date=max(item["date"] for item in kept),
        table=table,
        count=len(kept),
        counts="\n".join(_counts(out, moved) for out, moved in outs.items()),
        rows="\n".join(row.row() for moved in outs.values() for row in moved if row.differs()),
    )
    return text + without


def run_ablation(entries: list[Entry], store: Store) -> None:
    """Keeps and prints what leaving out priors does to programs that the store does not have."""
    done = store.rows()
    for entry in entries:
        if entry.name in done:
            continue
        rows = ablate(entry)
        store.add(entry.name, {"name": entry.name, "rows": [dataclasses.asdict(r) for r in rows]})
        for row in rows:
            print(row.row(), flush=True)


def run_calibrated(entries: list[Entry], store: Store, depth: int) -> None:
    """Keeps and prints what calibrated programs without priors hold, of those not in the store."""
    done = store.rows()
    for entry in entries:
        key = f"{entry.name}.none"
        if key in done:
            continue
        outcome = outcome_of(entry, ["none"], depth, STEPS)
        store.add(key, outcome)
        faults = [fault for row in outcome["rows"] for fault in row["faults"]]
        print(f"{entry.name}: {outcome['why'] or '; '.join(faults) or 'holds'}", flush=True)


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs or groups (all)")
    parser.add_argument("--keep", default="out/priors.jsonl", help="a file of outcomes to add to")
    parser.add_argument("--page", help="a file for a page of Markdown with all that is kept")
    parser.add_argument(
        "--calibrated",
        action="store_true",
        help="run programs calibrated and without priors; keeps calibrated.jsonl beside --keep",
    )
    parser.add_argument(
        "--depth", type=int, default=DEPTH, help=f"the most layers, with --calibrated ({DEPTH})"
    )
    options = parser.parse_args()
    catalogue.load_unseen()
    store = Store(pathlib.Path(options.keep))
    calibrated = Store(store.path.with_name("calibrated.jsonl"))
    # Small programs first: the page may be written before all are through.
    entries = sorted(select(options.names), key=lambda entry: entry.depth)
    if options.calibrated:
        run_calibrated(entries, calibrated, options.depth)
    else:
        run_ablation(entries, store)
    if options.page:
        path = pathlib.Path(options.page)
        path.write_text(page(store, calibrated) + notes(path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
