"""Console commands of the installed package: `scalify` and one for each program.

Apart from the package `scalify`, whose import takes most of a second.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pathlib
import sys
from collections.abc import Sequence

__all__ = ["main", "run_compile", "run_opt", "run_run"]

# Subcommands that are programs: what each does.
PROGRAMS = {
    "opt": "run passes on StableHLO text",
    "compile": "compile StableHLO to an artefact",
    "run": "run an artefact",
}
# Subcommands that are Python modules: the module, and what each does.
MODULES = {
    "plan": ("scalify_plan.__main__", "predict a step's time and memory on GPUs"),
    "check": ("scalify.check", "say whether a training step can use low precision"),
    "train": ("scalify.train", "train a model from a configuration file"),
    "tokenize": ("scalify.tokenize", "make token files from text"),
}


def program(name: str) -> pathlib.Path:
    """Returns the path of a program of the package, or else of the build tree.

    Raises:
        FileNotFoundError: neither has it.
    """
    here = pathlib.Path(__file__).resolve()
    build = pathlib.Path(os.environ.get("SCALIFY_BUILD") or here.parents[2] / "build")
    places = (here.parents[1] / "scalify" / "bin" / name, build / "bin" / name)
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"{name} is neither {places[0]} nor {places[1]}: install scalify again")


def _run_program(name: str, arguments: Sequence[str]) -> int:
    """Becomes a program; returns 1 if there is none."""
    try:
        path = program(name)
        # Programs convert what jax.export serialized by this Python.
        os.environ.setdefault("SCALIFY_PYTHON", sys.executable)
        sys.stdout.flush()
        os.execv(path, [str(path), *arguments])
    except OSError as error:
        print(f"scalify: error: {error}", file=sys.stderr)
        return 1


def _run_module(command: str, arguments: list[str]) -> int:
    """Runs a module's `main`; if it or what it imports is missing, says what to install."""
    name = MODULES[command][0]
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            why = f"this installation has no module {name}: install a scalify that has it"
        else:
            why = f"it needs the package '{error.name}': pip install {error.name}"
        print(f"scalify {command}: error: {why}", file=sys.stderr)
        return 1
    sys.argv = [f"scalify {command}", *arguments]
    # The planner's reads sys.argv.
    status = module.main() if command == "plan" else module.main(arguments)
    return int(status or 0)


def run_opt() -> int:
    """Becomes scalify-opt."""
    return _run_program("scalify-opt", sys.argv[1:])


def run_compile() -> int:
    """Becomes scalify-compile."""
    return _run_program("scalify-compile", sys.argv[1:])


def run_run() -> int:
    """Becomes scalify-run."""
    return _run_program("scalify-run", sys.argv[1:])


def _version() -> str:
    try:
        return importlib.metadata.version("scalify")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"


def _usage() -> str:
    rows = {**PROGRAMS, **{name: text for name, (_, text) in MODULES.items()}}
    lines = [f"  {name:10}{text}" for name, text in rows.items()]
    return "\n".join(["usage: scalify COMMAND [ARGUMENT ...]", "", *lines, ""])


def main() -> int:
    """Runs the subcommand that the first argument names."""
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command in PROGRAMS:
        return _run_program(f"scalify-{command}", arguments)
    if command in MODULES:
        return _run_module(command, arguments)
    if command in ("-h", "--help"):
        print(_usage(), end="")
        return 0
    if command == "--version":
        print(f"scalify {_version()}")
        return 0
    given = f"there is no command '{command}'" if command else "a command is missing"
    print(f"scalify: error: {given}\n{_usage()}", end="", file=sys.stderr)
    return 2
