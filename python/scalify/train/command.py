"""The command line of `scalify train`."""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence

from scalify._extras import require

__all__ = ["main", "make_parser"]


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="scalify train", description="Trains a language model as a file describes it."
    )
    parser.add_argument("config", type=pathlib.Path, help="the configuration, in TOML")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="replaces a key of the configuration; may be repeated",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="refuse to continue from earlier checkpoints"
    )
    parser.add_argument(
        "--check", action="store_true", help="read the configuration, print it, train nothing"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = make_parser().parse_args(argv)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("scalify train: stopped; the last checkpoint stays", file=sys.stderr)
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    from scalify.train.config import read, to_json

    try:
        config = read(options.config, options.set)
        if options.check:
            print(to_json(config))
            return 0
        folder = pathlib.Path(config.checkpoint.folder or f"{config.log.folder}/checkpoints")
        if options.fresh and any(folder.glob("step-*")):
            raise ValueError(
                f"'{folder}' holds checkpoints of an earlier run: remove them, choose another "
                "log.folder, or leave out --fresh to continue"
            )
        require("training", "train", "optax")
        from scalify.train.loop import Run

        run = Run(config)
    except (OSError, ValueError, ImportError) as error:
        print(f"scalify train: {error}", file=sys.stderr)
        return 2
    try:
        number = run.train()
    except FloatingPointError as error:
        print(f"scalify train: {error}", file=sys.stderr)
        return 1
    finally:
        run.close()
    if number:
        if run.layout.is_first:
            name = signal.Signals(number).name
            print(f"{name}: saved after step {run.done}; the same command continues", flush=True)
        return 128 + number
    return 0
