"""Every elementwise op at every special value and every pair of them, against numpy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cpu_run import compile_text
from special_values import (
    DTYPES,
    Op,
    assert_near,
    cases,
    expected,
    program,
    spelling,
    values,
)


@functools.cache
def points(dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All values, and all pairs of them."""
    x = values(dtype)
    pairs = np.meshgrid(x, x)
    return x, pairs[0].ravel(), pairs[1].ravel()


def operands(dtype: Any) -> tuple[list[Op], list[Sequence[np.ndarray]]]:
    x, left, right = points(dtype)
    ops = cases(dtype)
    return ops, [(x,) if op.arity == 1 else (left, right) for op in ops]


def check(ops: Sequence[Op], given: Sequence[Sequence[np.ndarray]], results: Any) -> None:
    faults = []
    for op, group, result in zip(ops, given, results, strict=True):
        name = f"{op.text} {op.attributes} {group[0].dtype}"
        try:
            assert_near(np.asarray(result), expected(op, group), op.ulps, name, group)
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_of_arguments(dtype: Any) -> None:
    ops, given = operands(dtype)
    text, arrays = program(ops, given)
    check(ops, given, compile_text(text).run(arrays))


@pytest.mark.parametrize("dtype", DTYPES, ids=spelling)
def test_of_constants(dtype: Any) -> None:
    """What is folded is what kernels compute."""
    ops, given = operands(dtype)
    # The folder leaves larger constants alone.
    given = [[x[:1000] for x in group] for group in given]
    shared = {x.tobytes(): x for group in given for x in group}
    given = [[shared[x.tobytes()] for x in group] for group in given]
    text, arrays = program(ops, given, constants=True)
    check(ops, given, compile_text(text).run(arrays))
