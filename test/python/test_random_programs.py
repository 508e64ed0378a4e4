"""A few hundred random programs against jax.jit, identical in each run; see `make random`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from random_check import check, check_gradient, check_recipe
from random_ops import grow, grow_smooth
from random_programs import Program, programs

FEW = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@FEW
@given(programs(grow))
def test_results(program: Program) -> None:
    check(program)


@FEW
@given(programs(grow_smooth, dtypes=["float32", "float32", "int32", "uint8"], smooth=True))
def test_gradients(program: Program) -> None:
    check_gradient(program)


@pytest.mark.parametrize("recipe", ["fp8", "bf16"])
@settings(FEW, max_examples=15)
@given(program=programs(grow_smooth, dtypes=["float32", "int32"], smooth=True))
def test_recipes(recipe: str, program: Program) -> None:
    check_recipe(program, recipe)
