"""Donated state stays in its memory: by addresses, and by the bytes that a process asks for.

A child process runs under a library that counts what malloc and its kin, and mmap, give out in
pieces of at least 64 KiB; each tensor of the state is larger.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, ROWS, STEPS = 256, 64, 5
RECIPES = ["none", "fp8", "fp8-lm-o2"]
OPTIMIZER = optax.adam(1e-3)

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#define LEAST (1 << 16)
static atomic_ulong bytes;
unsigned long counted_bytes(void) { return bytes; }
static void *saw(void *p, size_t n) { if (n >= LEAST) bytes += n; return p; }
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return saw(__libc_malloc(n), n); }
void *calloc(size_t k, size_t n) { return saw(__libc_calloc(k, n), k * n); }
void *realloc(void *p, size_t n) { return saw(__libc_realloc(p, n), n); }
void *memalign(size_t a, size_t n) { return saw(__libc_memalign(a, n), n); }
void *aligned_alloc(size_t a, size_t n) { return saw(__libc_memalign(a, n), n); }
int posix_memalign(void **p, size_t a, size_t n) {
  *p = saw(__libc_memalign(a, n), n);
  return *p ? 0 : 12;
}
void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t at) {
  static void *(*real)(void *, size_t, int, int, int, off_t);
  if (!real) real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  return saw(real(p, n, prot, flags, fd, at), n);
}
"""


def init() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    params = {name: jnp.asarray(rng.normal(0, 0.05, (WIDTH, WIDTH)), jnp.float32) for name in "ab"}
    return params, OPTIMIZER.init(params)


def batch() -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).normal(size=(ROWS, WIDTH)), jnp.float32)


def loss(params: Any, x: Any) -> Any:
    return jnp.mean(jnp.square(jnp.tanh(x @ params["a"]) @ params["b"] - x))


def step(params: Any, opt: Any, x: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    updates, opt = OPTIMIZER.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, value


def stored(tree: Any) -> list[jax.Array]:
    """Returns the arrays that store a tree's values."""
    leaves = jax.tree.leaves(tree)
    return [leaf.data if isinstance(leaf, scalify.ScaledArray) else leaf for leaf in leaves]


def addresses(tree: Any) -> list[int]:
    return [array.unsafe_buffer_pointer() for array in stored(tree)]


def compiled(recipe: str) -> scalify.Jit:
    return scalify.jit(step, recipe, donate_argnums=(0, 1))


@pytest.mark.parametrize("recipe", RECIPES)
def test_state_stays_where_it_is(recipe: str) -> None:
    run, x = compiled(recipe), batch()
    state = init()
    params, opt, _ = run(*state, x)
    places = addresses((params, opt))
    assert all(place % 64 == 0 for place in places)
    assert all(leaf.is_deleted() for leaf in stored(state[0])) or recipe == "fp8-lm-o2"
    for _ in range(STEPS):
        before = stored((params, opt))
        params, opt, value = run(params, opt, x)
        assert addresses((params, opt)) == places
        assert all(array.is_deleted() for array in before)
    assert isinstance(value, jax.Array) and np.isfinite(value)


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_user_still_has_keeps_its_values(recipe: str) -> None:
    """With a view of numpy or DLPack, or pending work of JAX, the step copies."""

    def second_step(holds: bool) -> Any:
        run, x = compiled(recipe), batch()
        params, opt, _ = run(*init(), x)
        if not holds:
            return run(params, opt, x)
        first, values = stored(params)[0], [np.array(leaf) for leaf in jax.tree.leaves(params)]
        views, wanted = (np.asarray(first), jax.dlpack.from_dlpack(first)), np.array(first)
        late = jax.jit(lambda p: jax.tree.map(lambda w: w + 1, p))(params)
        results = run(params, opt, x)
        for view in views:
            np.testing.assert_array_equal(np.asarray(view), wanted)
        for leaf, value in zip(jax.tree.leaves(late), values, strict=True):
            np.testing.assert_array_equal(leaf, value + 1)
        return results

    pairs = zip(*map(jax.tree.leaves, (second_step(True), second_step(False))), strict=True)
    assert all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_outside_of_xla_do_the_same(recipe: str) -> None:
    """Such as those that call back into Python: they copy, with the same bits and types."""

    def run_two(outside: bool) -> Any:
        run, x, state = compiled(recipe), batch(), init()
        run.executable(*state, x).__dict__["calls_back"] = outside
        for _ in range(2):
            before = state
            *state, value = run(*state, x)
        assert all(leaf.is_deleted() for leaf in stored(before))
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            run(*before, x)
        return state, value

    found, wanted = run_two(True), run_two(False)
    pairs = zip(*map(jax.tree.leaves, (found, wanted)), strict=True)
    for one, other in pairs:
        assert type(one) is type(other)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_an_interrupt_ends_a_step() -> None:
    """Between two of its commands; the next step runs."""

    def slow(w: Any, x: Any) -> Any:
        for _ in range(300):
            x = jnp.tanh(x @ w)
        return 1.5 * w, jnp.sum(x)

    run, x = scalify.jit(slow, "none", donate_argnums=0), jnp.ones((512, 512))
    w, wanted = run(jnp.ones((512, 512)) / 512, x)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                while True:
                    w, _ = run(w, x)
            w = jnp.ones((512, 512)) / 512
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert run(w, x)[1] == wanted


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("counter")
    (folder / "counter.c").write_text(COUNTER)
    library = folder / "counter.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "counter.c", "-o", str(library), "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return library


def test_a_step_asks_for_no_memory(counter: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "LD_PRELOAD": str(counter), "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    leaf = 4 * WIDTH * WIDTH
    # The counter counts: a copy of a leaf, and jax.jit that does not donate.
    assert found["copy"] >= leaf and found["not donated"] >= 6 * leaf
    for recipe in RECIPES:
        assert found[recipe] == [0] * STEPS, recipe


def test_update_overwrites_the_caller_s_arrays() -> None:
    def scaled(params: Any, x: Any) -> Any:
        return {name: one - x.sum() * one for name, one in params.items()}, 2 * x

    run = scalify.jit(scaled, recipe="none", donate_argnums=0)
    params = {"a": np.ones((4, 4), np.float32), "b": np.full(7, 2, np.float32)}
    view = params["a"][1:]
    new, doubled = run.update(params, np.full(2, 0.25, np.float32))
    assert np.array_equal(view, np.full((3, 4), 0.5)) and np.array_equal(params["b"], np.ones(7))
    assert np.asarray(new["b"]).ctypes.data == params["b"].ctypes.data
    assert np.array_equal(doubled, [0.5, 0.5])
    for wrong in (np.ones((4, 8), np.float32)[:, ::2], np.ones((4, 4), np.float32)):
        if wrong.flags.c_contiguous:
            wrong.flags.writeable = False
        before = wrong.copy()
        with pytest.raises(ValueError, match=r"'params\['a'\]' .* a dense, writable NumPy array"):
            run.update({**params, "a": wrong}, np.ones(2, np.float32))
        assert np.array_equal(wrong, before)


def child() -> None:
    counted = ctypes.CDLL(None).counted_bytes
    counted.restype = ctypes.c_ulong
    x, found = batch(), {}
    leaf = jnp.ones((WIDTH, WIDTH))
    jnp.array(leaf).block_until_ready()
    before = counted()
    jnp.array(leaf).block_until_ready()
    found["copy"] = counted() - before
    plain = jax.jit(step)
    state = plain(*init(), x)[:2]
    before = counted()
    jax.block_until_ready(plain(*state, x))
    found["not donated"] = counted() - before
    for recipe in RECIPES:
        run = compiled(recipe)
        params, opt, _ = run(*init(), x)
        params, opt, _ = run(params, opt, x)
        counts = []
        for _ in range(STEPS):
            before = counted()
            params, opt, _ = run(params, opt, x)
            counts.append(counted() - before)
        found[recipe] = counts
    print(json.dumps(found))


if __name__ == "__main__":
    child()
