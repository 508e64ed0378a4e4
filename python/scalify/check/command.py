"""The command line of `scalify check`."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from scalify.check.results import Check, Result

__all__ = ["main", "make_parser"]

_EPILOG = """\
TARGET is a script, which runs until it first calls a compiled step that takes gradients and is then
stopped; or FILE.py:STEP or MODULE:STEP, with a function example_args beside the step that returns
its arguments as a tuple, or yields one tuple a step. Words after -- are the script's own.
Status: 0 if a recipe can be used, 1 if none, 2 if there was nothing to check."""


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    from scalify.check import RECIPES
    from scalify.check.sources import EXAMPLE

    parser = argparse.ArgumentParser(
        prog="scalify check",
        description="Says whether a training step can use low precision, by its own gradients.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help="SCRIPT.py, FILE.py:STEP or MODULE:STEP")
    parser.add_argument(
        "--recipe",
        action="append",
        help="to check; may be repeated, and the verdict is about the first "
        f"(a step's own, else {RECIPES[0]}; {RECIPES[-1]})",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="of training by each recipe, after which it is compared again (0)",
    )
    parser.add_argument(
        "--function", help="of a script: the step's name (the first that takes gradients)"
    )
    parser.add_argument("--args", default=EXAMPLE, help=f"the function of arguments ({EXAMPLE})")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "-o",
        "--out",
        type=pathlib.Path,
        help="a page to write, .html or .json (scalify-check.html)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    own = words.index("--") if "--" in words else len(words)
    options = make_parser().parse_args(words[:own])
    try:
        found = _check(options, words[own + 1 :])
        _show(found, options)
    except (OSError, ValueError, ImportError, FloatingPointError) as error:
        print(f"scalify check: {error}", file=sys.stderr)
        return 2
    except Exception:  # of the script or the step; 1 would be a verdict
        traceback.print_exc()
        return 2
    return 1 if found.verdict.outcome == "do not" else 0


def _check(options: argparse.Namespace, script_arguments: list[str]) -> Check:
    from scalify.check import check_calls
    from scalify.check.sources import calls_of_script, calls_of_target
    from scalify.recipe import Recipe

    if options.steps < 0:
        raise ValueError(f"--steps {options.steps}: expected 0 or more")
    recipes = options.recipe
    for recipe in recipes or ():  # before the script runs
        Recipe.of(recipe)
    name, colon, function = options.target.rpartition(":")
    if colon:
        calls = calls_of_target(name, function, options.args, options.steps)
        return check_calls(calls, recipes, options.steps)
    checks: list[Check] = []

    def found(calls: list[Any]) -> None:
        checks.append(check_calls(calls, recipes, options.steps))

    calls_of_script(options.target, script_arguments, options.function, options.steps, found)
    return checks[0]


def _show(found: Check, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print(_table(found))
        print(found.verdict)
    path = options.out
    if path is None and not options.json:
        path = pathlib.Path("scalify-check.html")
    if path is not None:
        try:
            found.save(path)
        except ImportError as error:  # the verdict stands without the page
            print(f"scalify check: no page: {error}", file=sys.stderr)
            return
        if not options.json:
            print(path)


def _table(found: Check) -> str:
    header = ("recipe", "cosine", "worst tensor", "narrow", "ms", "memory", "bars")
    rows = [header, _row_of_jax(found), *map(_row, found.results)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    title = f"{found.name}: {found.compared} of {found.judged} tensors beside F32"
    if found.is_first_iteration:
        title += ", in the first iteration of its loop"
    if found.noise:
        title += f"; {len(found.noise)} left out, zero or rounding noise in F32 already"
    return "\n".join([title, *lines, ""])


def _row_of_jax(found: Check) -> tuple[str, ...]:
    memory = "-" if found.jax_memory is None else f"{found.jax_memory / 1e6:.1f} MB"
    return ("jax.jit", "1", "1", "-", f"{1e3 * found.jax_seconds:.3g}", memory, "-")


def _row(result: Result) -> tuple[str, ...]:
    if not result.looks:
        return (result.label, *"-----", result.error)
    look = result.looks[-1]
    value, name = look.worst
    return (
        result.label,
        f"{look.whole:.4f}",
        f"{value:.4f} {name}",
        f"{100 * result.narrow:.0f} %",
        "-" if result.seconds is None else f"{1e3 * result.seconds:.3g}",
        "-" if result.memory is None else f"{result.memory / 1e6:.1f} MB",
        "holds" if result.holds else "; ".join(result.faults),
    )
