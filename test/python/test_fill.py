"""No step reads memory that it has not written: SCALIFY_FILL changes no bit.

All other tests run with it (conftest.py), so that what reads such memory gives NaN in them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpu_run import compiled
from hand_artefact import buffer, build_kernels, kernel, pack, train_step
from in_place_programs import PROGRAMS, state_of
from jax import lax

from scalify import _compiler, _runtime

FILLS = {"nan": 0xFF, "pattern": 0xA5}


def run_unwritten() -> list[bytes]:
    """Runs a step that copies its arena, which nothing has written, and leaves its loss unwritten.

    Returns:
        The bytes of these two results.
    """
    manifest = train_step()
    manifest["arena_bytes"] = 64
    manifest["buffers"].append(buffer("temp", 0, [2, 3], "bf16"))
    manifest["functions"]["step"] = [kernel("words", [6, 5], 6)]
    step = _runtime.Executable(pack(manifest, build_kernels()))
    w = np.arange(64, dtype=np.float32)
    new, loss, words = step.run([w, w, np.zeros((2, 3), jnp.bfloat16)])
    np.testing.assert_array_equal(np.asarray(new), w)  # a donated argument keeps its numbers
    return [np.asarray(words).tobytes(), np.asarray(loss).tobytes()]


@pytest.mark.parametrize("fill", FILLS)
def test_arena_and_results_are_filled(fill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALIFY_FILL", fill)
    words, loss = run_unwritten()
    assert set(words) == set(loss) == {FILLS[fill]}


def words_of_child(fill: str) -> set[int]:
    """Returns the bytes of the arena in a process of its own, where no step has used it."""
    code = "import test_fill; print(*test_fill.run_unwritten()[0])"
    child = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SCALIFY_FILL": fill}
    printed = subprocess.run(child, env=environment, check=True, capture_output=True, text=True)
    return set(map(int, printed.stdout.split()))


def test_nothing_is_filled_without_it() -> None:
    assert words_of_child("") == {0}  # as the system gives memory


def test_suites_run_with_it() -> None:
    fill = os.environ["SCALIFY_FILL"]
    words, loss = run_unwritten()
    assert fill not in FILLS or set(words) == set(loss) == {FILLS[fill]}
    assert words_of_child(fill) == {FILLS.get(fill, 0)}


def test_unknown_fill_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALIFY_FILL", "zeros")
    with pytest.raises(ValueError, match="SCALIFY_FILL must be 'nan' or 'pattern', not 'zeros'"):
        _runtime.Executable(pack(train_step(), build_kernels()))


def same_bits(fn: Callable[..., Any], args: tuple[np.ndarray, ...], monkeypatch: Any) -> Any:
    """Runs `fn`, whose arguments are donated, under each fill; returns the results."""
    jitted = jax.jit(fn, keep_unused=True, donate_argnums=tuple(range(len(args))))
    artefact, _ = _compiler.compile(jitted.lower(*args).as_text(debug_info=True), "{}")
    results = []
    for fill in ("", *FILLS):
        monkeypatch.setenv("SCALIFY_FILL", fill)
        step = _runtime.Executable(artefact)
        results.append([np.array(x) for x in step.run([x.copy() for x in args])])
    for other in results[1:]:
        for plain, filled in zip(results[0], other, strict=True):
            assert plain.tobytes() == filled.tobytes()
    return results[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    same_bits(PROGRAMS[name][0], state_of(name), monkeypatch)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "erf": lax.erf,
    "cbrt": jnp.cbrt,
    "sqrt": jnp.sqrt,
    "power": lambda x: jnp.power(2.0, x),
    "to int32": lambda x: x.astype(jnp.int32),
    "to uint8": lambda x: x.astype(jnp.uint8),
    "to bool": lambda x: x.astype(jnp.bool_),
    "to e4m3": lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32),
    "softmax": lambda x: jax.nn.softmax(x),
    "round": jnp.round,
}


@pytest.mark.parametrize("constant", [np.nan, np.inf, -np.inf, 1e38, -1e38])
def test_functions_of_constants_are_written(
    constant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(1, 20, dtype=np.float32)
    got = same_bits(lambda x: [f(x * constant) for f in FUNCTIONS.values()], (x,), monkeypatch)
    scalars = same_bits(
        lambda x: [f(jnp.full_like(x, constant)) for f in FUNCTIONS.values()], (x,), monkeypatch
    )
    if not np.isnan(constant):
        return
    for name, *both in zip(FUNCTIONS, got, scalars, strict=True):
        for result in both:
            if not name.startswith("to ") or name == "to e4m3":
                assert np.isnan(result).all(), name


def test_exponential_of_a_constant_nan() -> None:
    # What the compiler knows to be no number is still written.
    x = np.arange(8, dtype=np.float32)
    (got,) = compiled(lambda x: jnp.exp(x * jnp.nan), (x,)).run([x])
    assert np.isnan(got).all()
