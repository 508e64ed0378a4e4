"""The command `lapack` of an artefact, assembled by hand: numbers, threads, and damaged fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hand_artefact import buffer, pack, tensor

from scalify import _runtime

BATCH, N = 5, 4
# For each task: a copy of a matrix.
FLOATS = 16


def manifest(dtype: str = "f32", tasks: int = 3) -> dict[str, Any]:
    """A step (a) -> (Cholesky factor, info) with work space for some tasks."""
    shape = [BATCH, N, N]
    return {
        "version": 5,
        "target": "cpu",
        "device": "cpu",
        "mcpu": "x86-64",
        "recipe": "none",
        "hash": "0",
        "arena_bytes": tasks * FLOATS * 8,
        "buffers": [
            buffer("arg", 0, shape, dtype),
            buffer("result", 0, shape, dtype),
            buffer("result", 1, [BATCH], "i32"),
            buffer("temp", 0, [tasks * FLOATS], dtype),
        ],
        "args": [tensor("a", shape, dtype, role="input", alias_result=None)],
        "results": [
            tensor("l", shape, dtype, alias_arg=None),
            tensor("info", [BATCH], "i32", alias_arg=None),
        ],
        "functions": {
            "step": [
                {
                    "op": "lapack",
                    "name": "potrf",
                    "loc": "step/cholesky",
                    "routine": "potrf",
                    "letters": "L",
                    "sizes": [BATCH, N, N, 0],
                    "reads": [0],
                    "writes": [1, 2],
                    "work": 3,
                }
            ]
        },
        "counters": [],
        "report": [],
        "remarks": [],
        "assumptions": [],
    }


def matrices(dtype: Any) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(BATCH, N, N))
    a = x @ x.swapaxes(1, 2) + np.eye(N)
    a[3] *= -1  # no factor
    return a.astype(dtype)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_factors_and_info(dtype: str) -> None:
    a = matrices({"f32": np.float32, "f64": np.float64}[dtype])
    factor, info = _runtime.Executable(pack(manifest(dtype))).run([a])
    np.testing.assert_array_equal(info, [0, 0, 0, 1, 0])
    good = [0, 1, 2, 4]
    lower = np.tril(np.asarray(factor))[good]
    # A backward error of some n roundings, of elements up to 20.
    bound = 20 * N * np.finfo(a.dtype).eps
    np.testing.assert_allclose(lower @ lower.swapaxes(1, 2), a[good], rtol=0, atol=bound)
    # The routine leaves the other triangle as it was.
    np.testing.assert_array_equal(np.triu(np.asarray(factor), 1), np.triu(a, 1))


def test_bits_do_not_depend_on_tasks_and_threads() -> None:
    a = matrices(np.float32)
    bits = {
        np.asarray(
            _runtime.Executable(pack(manifest(tasks=tasks)), threads=threads).run([a])[0]
        ).tobytes()
        for tasks in (1, 2, 5, 9)
        for threads in (1, 3)
    }
    assert len(bits) == 1


def changed(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda m: m["functions"]["step"][0].update(fields)


def narrowed(index: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda m: m["buffers"][index].update(fields)


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "routine": (changed(routine="potrs"), "'potrs', which this runtime does not call"),
    "letters": (changed(letters="X"), "option 'X'"),
    "no letters": (changed(letters=""), "needs 1"),
    "sizes": (changed(sizes=[BATCH, N, N]), "batch, m, n and k"),
    "negative": (changed(sizes=[BATCH, -1, -1, 0]), "at least 0"),
    "huge": (changed(sizes=[BATCH, 1 << 40, 1 << 40, 0]), "extent"),
    "huge batch": (changed(sizes=[1 << 62, N, N, 0]), "batch"),
    "too many": (changed(sizes=[BATCH + 1, N, N, 0]), "not 6 times 4 x 4"),
    "too large": (changed(sizes=[BATCH, N + 1, N + 1, 0]), "not 5 times 5 x 5"),
    "not square": (changed(sizes=[BATCH, N, N + 1, 0]), "needs a square"),
    "other routine": (changed(routine="getrf", letters=""), "must name 3 buffers"),
    "no reads": (changed(reads=[]), "is empty"),
    "reads": (changed(reads=[0, 0]), "must name 1 buffers"),
    "buffer": (changed(reads=[4]), "4 buffers"),
    "info of floats": (changed(writes=[1, 0]), "of i32"),
    "work of integers": (changed(work=2), "matrices' type"),
    "small work": (narrowed(3, shape=[FLOATS - 1]), "needs 16 elements"),
    "constant": (
        lambda m: m["buffers"].__setitem__(1, buffer("const", 0, [BATCH, N, N])),
        "read only",
    ),
    "work space of 64 bits": (
        changed(routine="syevd", letters="VL", sizes=[1, 1 << 20, 1 << 20, 0]),
        "32-bit integers",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged(damage: str) -> None:
    damaged = manifest()
    change, message = DAMAGES[damage]
    change(damaged)
    with pytest.raises(RuntimeError, match=message):
        _runtime.Executable(pack(damaged, constants=bytes(4 * BATCH * N * N)))


def test_recorded() -> None:
    step = _runtime.Executable(pack(manifest()), device="null")
    step.run([matrices(np.float32)])
    assert "lapack potrf 'L' 4x4x0 batch=5 tasks=3 bufs=[0,1,2,3]" in step.trace
