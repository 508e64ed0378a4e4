"""Steps that write in place: donated or not, the numbers are jax.jit's."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpu_run import compile_text
from in_place_programs import PROGRAMS, Step, state_of

import scalify
from scalify import _runtime

STEPS = 3


def run(step: Any, state: tuple[Any, ...]) -> list[tuple[np.ndarray, ...]]:
    """Returns the state after each of a few steps."""
    seen = []
    for _ in range(STEPS):
        state = step(*state)
        seen.append(tuple(np.array(x) for x in state))
    return seen


def check(fn: Step, state: tuple[np.ndarray, ...], *, donate: bool) -> None:
    numbers = tuple(range(len(state))) if donate else ()
    want = run(jax.jit(fn), tuple(jnp.array(x) for x in state))
    step = scalify.jit(fn, recipe="none", donate_argnums=numbers)
    got = run(step, tuple(jnp.array(x) for x in state))
    for mine, other in zip(got, want, strict=True):
        for g, w in zip(mine, other, strict=True):
            # Sums of up to 40,000 F32 numbers in another order, three times over.
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("donate", [False, True], ids=["kept", "donated"])
def test_numbers_are_those_of_jax(name: str, donate: bool) -> None:
    check(PROGRAMS[name][0], state_of(name), donate=donate)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.int8, np.bool_, np.float16])
def test_any_width_of_elements(dtype: Any) -> None:
    fn = PROGRAMS["shift up"][0]
    state = (jnp.array(np.arange(40) % 3, dtype),)
    want = run(jax.jit(fn), state)
    got = run(scalify.jit(fn, recipe="none", donate_argnums=0), state)
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine[0], other[0])


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "fp8", "fp8-lm-o2"])
def test_under_recipes(recipe: str) -> None:
    # Small integers, which every format here has, and no product.
    step = scalify.jit(lambda x: x.at[1:].set(x[:-1]), recipe=recipe)
    got = step(jnp.arange(8, dtype=jnp.float32))
    np.testing.assert_array_equal(np.asarray(got), [0, 0, 1, 2, 3, 4, 5, 6])


def donated(fn: Step, state: tuple[np.ndarray, ...]) -> _runtime.Executable:
    """Compiles a step whose whole state is donated."""
    jitted = jax.jit(fn, donate_argnums=tuple(range(len(state))))
    return compile_text(jitted.lower(*state).as_text(debug_info=True))


@pytest.mark.parametrize("name", ["shift far", "large transpose", "norm of two dimensions"])
def test_threads_have_the_same_bits(name: str) -> None:
    # Rows of one kernel are dealt out to threads, which read what others write.
    state = state_of(name)
    executable = donated(PROGRAMS[name][0], state)
    results = []
    for threads in (1, 4):
        executable.threads = threads
        results.append([np.array(x) for x in executable.run([x.copy() for x in state])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["histogram", "softmax", "norm of two dimensions"])
def test_nothing_is_copied_where_nothing_need_be(name: str) -> None:
    state = state_of(name)
    manifest = json.loads(donated(PROGRAMS[name][0], state).manifest)
    operations = [command["op"] for command in manifest["functions"]["step"]]
    assert "copy" not in operations, operations


def test_cache_is_updated_where_it_lies() -> None:
    def step(cache: jax.Array, row: jax.Array, place: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(cache, row[None], (place, 0))

    cache, row = np.zeros((16, 8), np.float32), np.ones(8, np.float32)
    text = jax.jit(step, donate_argnums=0).lower(cache, row, np.int32(3)).as_text()
    executable = compile_text(text)
    manifest = json.loads(executable.manifest)
    assert [command["op"] for command in manifest["functions"]["step"]] == ["kernel"]
    (got,) = executable.run([cache, row, np.int32(3)])
    np.testing.assert_array_equal(np.asarray(got), step(jnp.array(cache), row, jnp.int32(3)))
