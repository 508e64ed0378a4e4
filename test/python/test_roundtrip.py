"""Text in, the same text out: jaxlib's own parser and printer are the oracle.

Every program of `roundtrip_programs.py` goes through `scalify-opt` and comes back to jaxlib; what
jaxlib then prints, in the pretty and in the generic form, must equal its print of the original.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess

import pytest
from jaxlib.mlir import ir
from roundtrip_programs import PROGRAMS
from stablehlo_run import parse_stablehlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin" / "scalify-opt"

# A large boolean constant is a blob in JAX's text and a nested list in ours: MLIR 22 and 23 read
# such blobs differently, lists alike.
NOT_VERBATIM = {"constants"}


def scalify_opt(text: str, *options: str) -> str:
    """Returns what `scalify-opt` prints for `text`; fails the test on a diagnostic."""
    done = subprocess.run([OPT, "-", *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@functools.cache
def lowered_text(name: str, *, debug_info: bool = False) -> str:
    return PROGRAMS[name]().as_text(debug_info=debug_info)


def pretty(module: ir.Module, *, debug_info: bool = False) -> str:
    return module.operation.get_asm(enable_debug_info=debug_info).strip()


def generic(module: ir.Module) -> str:
    return module.operation.get_asm(print_generic_op_form=True).strip()


@pytest.mark.parametrize("name", PROGRAMS)
def test_pretty_form(name: str) -> None:
    text = lowered_text(name)
    printed = scalify_opt(text)
    original, ours = parse_stablehlo(text), parse_stablehlo(printed)
    assert pretty(ours) == pretty(original)
    assert generic(ours) == generic(original)
    if name not in NOT_VERBATIM:
        assert printed.strip() == text.strip()


@pytest.mark.parametrize("name", PROGRAMS)
def test_generic_form(name: str) -> None:
    original = parse_stablehlo(lowered_text(name))
    printed = scalify_opt(generic(original), "--mlir-print-op-generic")
    assert generic(parse_stablehlo(printed)) == generic(original)
    if name not in NOT_VERBATIM:
        assert printed.strip() == generic(original)


@pytest.mark.parametrize("name", PROGRAMS)
def test_debug_info(name: str) -> None:
    """Locations survive, those of arguments, fused and called ones included."""
    text = lowered_text(name, debug_info=True)
    printed = scalify_opt(text, "--mlir-print-debuginfo")
    original, ours = parse_stablehlo(text), parse_stablehlo(printed)
    assert pretty(ours, debug_info=True) == pretty(original, debug_info=True)


@pytest.mark.parametrize("name", ["llama_f32", "indexing", "reductions", "convolutions"])
def test_old_generic_form(name: str) -> None:
    """Inherent attributes in the plain dictionary, as MLIR wrote them before properties.

    Only ops without regions are rewritten, whose dictionary ends the line before the type.
    """
    original = parse_stablehlo(lowered_text(name))
    text, count = re.subn(r'("\(.*\)) <(\{.*\})> :', r"\1 \2 :", generic(original))
    assert count > 10
    printed = scalify_opt(text)
    assert generic(parse_stablehlo(printed)) == generic(original)


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytecode(name: str, tmp_path: pathlib.Path) -> None:
    """Our own bytecode keeps every attribute and type."""
    text = lowered_text(name)
    path = tmp_path / "module.mlirbc"
    scalify_opt(text, "--emit-bytecode", "-o", str(path))
    done = subprocess.run([OPT, path], capture_output=True, text=True, check=True)
    assert done.stdout == scalify_opt(text)
