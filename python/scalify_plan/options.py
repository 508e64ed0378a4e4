"""The command line of `scalify-plan`: its options, and checks that they are compatible."""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import pathlib
from collections.abc import Sequence

from scalify_plan.devices import DEVICES
from scalify_plan.models import MODELS

__all__ = ["parse"]

_DEFAULTS = {
    "device": "h100",
    "recipe": "fp8",
    "zero": "1",
    "batch": 1024,
    "micro": 1,
    "interleave": 1,
    "ranks": 8,
}
_STEP = {"step", "device", "json", "mesh", "recipe", "zero", "cap", "chakra", "ranks"}
_MODEL = {"model", "device", "json", "mesh", "recipe", "zero", "cap"}
_MODEL |= {"batch", "micro", "interleave"}
_SEARCH = {"model", "device", "json", "gpus", "recipe", "cap", "batch"}


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected a whole number of 1 or more")
    return count


def _positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"'{text}': expected a number above 0")
    return number


def _sizes(text: str) -> list[int]:
    try:
        return [_count(size) for size in text.split("x")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"'{text}': expected sizes of axes, as 64x8") from None


def _version() -> str:
    try:
        return importlib.metadata.version("scalify")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scalify-plan", description=description)
    add = parser.add_argument
    add("--version", action="version", version=f"scalify-plan {_version()}")
    add("step", nargs="?", type=pathlib.Path, help="StableHLO text, or an artefact")
    add("--model", choices=sorted(MODELS), help="a model instead of a step")
    mesh = (
        "sizes of the mesh's axes, as 64x8; for a model, data x tensor x stages; a step without a "
        "mesh is data parallel over all of it"
    )
    add("--mesh", type=_sizes, help=mesh)
    add("--device", choices=sorted(DEVICES), help="(h100)")
    add("--recipe", help="of a model a preset: gives products' format and FP8-LM's level (fp8)")
    add("--zero", choices=["0", "1", "2", "3", "best"], help="level of ZeRO (1)")
    add("--gpus", type=_count, help="search for a model's layout on so many GPUs")
    add("--batch", type=_count, help="sequences of a model's step (1024)")
    add("--micro", type=_count, help="sequences of a micro-batch (1)")
    add("--interleave", type=_count, help="pieces of the model on each stage (1)")
    add("--cap", type=_positive_number, help="GB that a rank may hold")
    add("--chakra", type=pathlib.Path, help="folder for a step's Chakra traces")
    add("--ranks", type=_count, help="number of ranks to trace, at most (8)")
    add("--json", action="store_true", help="print JSON")
    add("--published", action="store_true", help="published rows beside the planner's")
    return parser


def parse(description: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command line, with `given`: the names of the options that are set.

    Ends the process with an error if a number is out of range, or an option would be ignored.
    """
    parser = _parser(description)
    options = parser.parse_args(arguments)
    options.given = {
        name for name, value in vars(options).items() if value is not None and value is not False
    }
    what, known = "published rows", {"published"}
    if not options.published:
        if (options.step is None) == (options.model is None):
            parser.error("give a step, or --model")
        what, known = ("a step", _STEP) if options.step else ("a model in a mesh", _MODEL)
        if options.model and options.gpus:
            what, known = "a search for a layout, which --gpus asks for", _SEARCH
    for name in sorted(options.given - known):
        parser.error(f"--{name} does not apply to {what}" if name != "step" else "omit the step")
    if "cap" in options.given and known is not _SEARCH and options.zero != "best":
        parser.error("--cap is for a choice of levels: --zero best, or --gpus")
    if "ranks" in options.given and options.chakra is None:
        parser.error("--ranks is for --chakra")
    if options.model and options.mesh and len(options.mesh) > 3:
        sizes = "x".join(map(str, options.mesh))
        parser.error(f"--mesh {sizes}: a model's has data x tensor x stages")
    for name, value in _DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options
