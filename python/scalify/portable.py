"""Converts portable artefacts of StableHLO, which only jaxlib reads, to text.

As a command, `python -m scalify.portable IN > OUT.mlir` converts a file.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import jax.export
from jax.interpreters import mlir as jax_mlir
from jaxlib.mlir.dialects import stablehlo

__all__ = ["main", "to_text"]

_BYTECODE = b"ML\xefR"


def to_text(program: str | bytes | bytearray) -> str:
    """Returns the StableHLO text of a program.

    Args:
        program: StableHLO text (as str or UTF-8 bytes), a portable artefact
            (`Exported.mlir_module_serialized`), or the bytes of `Exported.serialize()`.

    Raises:
        ValueError: the bytes are none of these.
    """
    if isinstance(program, str):
        return program
    data = bytes(program)
    if not data.startswith(_BYTECODE):
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _exported_text(data)
    try:
        with jax_mlir.make_ir_context() as context:
            return _print(stablehlo.deserialize_portable_artifact(context, data))
    except Exception as error:
        raise ValueError(f"not a portable StableHLO artefact that jaxlib reads: {error}") from error


def _exported_text(data: bytes) -> str:
    try:
        exported = jax.export.deserialize(bytearray(data))
    except Exception as error:
        raise ValueError(
            f"the bytes are neither StableHLO text nor an artefact of jax.export: {error}"
        ) from error
    return to_text(exported.mlir_module_serialized)


def _print(module: object) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))  # type: ignore[attr-defined]


def main() -> int:
    """Converts the file named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Prints a portable artefact as StableHLO text.")
    parser.add_argument("program", type=pathlib.Path, help="what jax.export serialized")
    options = parser.parse_args()
    try:
        sys.stdout.write(to_text(options.program.read_bytes()))
    except (OSError, ValueError) as error:
        print(f"scalify.portable: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
