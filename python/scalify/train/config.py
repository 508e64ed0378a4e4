"""Reads a run's configuration from TOML, with every key and type checked."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import json
import pathlib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from scalify.train.settings import Config

__all__ = ["ConfigError", "differences", "read", "read_text", "to_json"]

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration is wrong; the text names the file and the key."""


def read(path: pathlib.Path, overrides: Sequence[str] = ()) -> Config:
    """Returns the configuration of a file.

    Args:
        path: of a TOML file.
        overrides: `section.key=value` each, where the value is TOML's, or a bare word.

    Raises:
        ConfigError: the file is no TOML, or a key or value is wrong.
        OSError: the file cannot be read.
    """
    try:
        return read_text(path.read_text(encoding="utf-8"), overrides)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_text(text: str, overrides: Sequence[str] = ()) -> Config:
    """Returns the configuration of a file's content; see `read`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}") from error
    for override in overrides:
        _override(table, override)
    return _section(Config, table, "")


def to_json(config: Config) -> str:
    """Returns the configuration with all defaults, as JSON."""
    return json.dumps(dataclasses.asdict(config), indent=2, sort_keys=True)


def differences(old: str, config: Config) -> list[str]:
    """Returns the keys in which the configuration differs from JSON of `to_json`."""
    before, now = _flat(json.loads(old)), _flat(json.loads(to_json(config)))
    return [
        f"{key}: {json.dumps(before.get(key))} -> {json.dumps(now.get(key))}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _override(table: dict[str, Any], text: str) -> None:
    """Sets one key of a table by `section.key=value`."""
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"--set {text}: expected section.key=value")
    try:
        made = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        made = value.strip()  # A shell takes quotes away, so a bare word is a string.
    for name in names[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {text}: '{name}' is no section")
    table[names[-1]] = made


def _section(kind: type[T], table: Any, prefix: str) -> T:
    """Returns a dataclass of a table's values; `prefix` is its name in messages."""
    name = prefix.rstrip(".") or "the file"
    if not isinstance(table, dict):
        raise ConfigError(f"{name} = {table!r}: expected a table")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key in table:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1, 0.5)
            guess = f"did you mean '{prefix}{near[0]}'?" if near else f"known: {', '.join(fields)}"
            raise ConfigError(f"unknown key '{prefix}{key}': {guess}")
    for key, field in fields.items():
        no_default = field.default is field.default_factory is dataclasses.MISSING
        if no_default and key not in table:
            raise ConfigError(f"'{prefix}{key}' is missing")
    values = {key: _value(hints[key], value, prefix + key) for key, value in table.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _value(kind: Any, value: Any, key: str) -> Any:
    """Returns a value of the wanted type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        kind = next(one for one in inner if one is not type(None))
        return _value(kind, value, key)
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(_value(inner[0], one, f"{key}[{at}]") for at, one in enumerate(items))
    if origin is collections.abc.Mapping:
        if not isinstance(value, dict):
            raise ConfigError(f"{key} = {value!r}: expected a table")
        return value
    if dataclasses.is_dataclass(kind):
        if isinstance(value, str) and "path" in {one.name for one in dataclasses.fields(kind)}:
            value = {"path": value}
        return _section(typing.cast(Any, kind), value, f"{key}.")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{key} = {value!r}: expected {_NAMES[kind]}, not {type(value).__name__}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
