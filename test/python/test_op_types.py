"""The script that writes the table of ops and element types: its programs and its columns."""

from __future__ import annotations

import op_types
import pytest

TESTS = op_types.ROOT / "test" / "Dialect" / "StableHLO"


def compiled(file: str, op: str) -> set[str]:
    return {
        element
        for name, program in op_types.one_op_programs((TESTS / f"{file}.mlir").read_text())
        if name == op
        for element in op_types.TYPES
        if (text := op_types.substitute(program, element)) and op_types.compiles(text)
    }


def test_the_dialects_tests_have_most_ops() -> None:
    names = set()
    for path in TESTS.glob("*.mlir"):
        if not path.stem.endswith("invalid"):
            names |= {name for name, _ in op_types.one_op_programs(path.read_text())}
    assert len(names) > 100
    assert {"stablehlo.dot_general", "stablehlo.gather", "stablehlo.dynamic_pad"} <= names


@pytest.mark.parametrize(
    ("file", "op", "text"),
    [
        ("numeric", "stablehlo.cholesky", "f64 to f16, complex"),
        ("numeric", "stablehlo.rng", "none"),
    ],
)
def test_columns_name_the_types_that_compile(file: str, op: str, text: str) -> None:
    """LAPACK has no 8 bits; rng has no lowering."""
    assert op_types.column(compiled(file, op)) == text


def test_columns_name_groups() -> None:
    assert op_types.column(set(op_types.TYPES)) == "all"
    assert op_types.column({"f32", "f64", "bf16", "f16", "i8"}) == "f64 to f16, `i8`"


def test_substitution_keeps_other_types() -> None:
    program = 'func.func @main(%a: tensor<2xf32>, %b: tensor<2xi1>) { "op"(%a) : tensor<f32> }'
    assert op_types.substitute(program, "bf16") == program.replace("f32", "bf16")
