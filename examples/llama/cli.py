"""Command-line options from the fields of a configuration."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, TypeVar

__all__ = ["add_fields", "made"]

Config = TypeVar("Config")


def add_fields(parser: argparse.ArgumentParser, *configs: Any) -> None:
    """Adds an option for every field of the dataclasses: `kv_heads` becomes --kv-heads."""
    for config in configs:
        for field in dataclasses.fields(config):
            name = "--" + field.name.replace("_", "-")
            kind: Any = type(field.default)
            parser.add_argument(name, type=kind, default=field.default, help=f"({field.default})")


def made(options: argparse.Namespace, config: type[Config]) -> Config:
    """Returns the configuration that the options describe; a bad one ends the program."""
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    try:
        return config(**{name: getattr(options, name) for name in names})
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
