"""Runs a random program by Scalify and by jax.jit and compares every result."""

from __future__ import annotations

import dataclasses
import itertools
import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from random_ops import APPLY
from random_programs import Program

import scalify
from scalify import _compiler, _runtime

__all__ = ["check", "check_gradient", "check_recipe", "run_oracle", "run_ours"]


def _flat(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> str:
    with warnings.catch_warnings():
        # A donated argument of which no result has the type is one of the cases.
        warnings.filterwarnings("ignore", "Some donated buffers")
        lowered = jax.jit(fn, keep_unused=True, donate_argnums=tuple(donated)).lower(*inputs)
    return str(lowered.as_text(debug_info=True))


def run_ours(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> list[Any]:
    """Returns the results of `fn` by the CPU target, run twice: state must not leak."""
    artefact, _ = _compiler.compile(_flat(fn, inputs, donated), json.dumps({"recipe": "none"}))
    executable = _runtime.Executable(artefact)
    first = [np.array(one) for one in executable.run([np.array(one) for one in inputs])]
    second = [np.array(one) for one in executable.run([np.array(one) for one in inputs])]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(_bits(a), _bits(b), "two runs of one executable differ")
    return second


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _wide(array: Any) -> np.ndarray:
    return np.asarray(array).astype(np.float64)


def _wanted(program: Program, inputs: Sequence[np.ndarray], jit: bool) -> tuple[list[Any], float]:
    """Returns JAX's results, and the largest finite magnitude of any value in between.

    Without `jit` each op is an executable of its own.
    """
    places = tuple(range(len(program.values)))
    whole = dataclasses.replace(program, results=places).function(APPLY)
    if jit:
        whole = jax.jit(whole, keep_unused=True)
    values = [np.asarray(one) for one in whole(*map(jnp.asarray, inputs))]
    largest = 1.0
    for value, array in zip(program.values, values, strict=True):
        if value.is_float:
            finite = np.abs(_wide(array))
            largest = max(largest, float(finite[np.isfinite(finite)].max(initial=0.0)))
    return [values[place] for place in program.results], largest


def run_oracle(program: Program) -> None:
    """Runs a program by jax.jit alone."""
    _wanted(program, program.inputs(), jit=True)


def _compare(program: Program, got: Sequence[Any], want: Sequence[Any], magnitude: float) -> None:
    for place, g, w in zip(program.results, got, want, strict=True):
        value = program.values[place]
        note = f"v{place} of\n{program}"
        assert (g.shape, g.dtype) == (w.shape, w.dtype), (
            f"{g.dtype}{g.shape}, not {w.dtype}{w.shape}: {note}"
        )
        if value.is_exact or not value.is_float:
            if value.is_float:
                np.testing.assert_array_equal(_wide(g), _wide(w), note)
            else:
                np.testing.assert_array_equal(g, w, note)
            continue
        eps = max(value.eps, float(jnp.finfo(jnp.float32).eps))
        np.testing.assert_allclose(
            _wide(g), _wide(w), rtol=64 * eps, atol=64 * eps * magnitude, err_msg=note
        )


def check(program: Program) -> None:
    """Raises AssertionError if a result of Scalify differs from JAX's.

    Values whose bits are defined must have them, any NaN being equal to any other. Of others the
    difference may be 64 roundings of the coarsest type that took part, of the largest number of
    the program: two orders of a sum of at most 64 terms, and a function of a few ulps, are within.
    Where jax.jit differs, JAX's ops one by one decide: XLA's CPU compiler writes some updates of
    slices in place while the same kernel still reads them (jax#7461).
    """
    fn = program.function(APPLY)
    inputs = program.inputs()
    got = run_ours(fn, inputs, program.donated)
    try:
        _compare(program, got, *_wanted(program, inputs, jit=True))
    except AssertionError:
        _compare(program, got, *_wanted(program, inputs, jit=False))


def _loss(program: Program) -> Callable[..., Any]:
    fn = program.function(APPLY)

    def loss(*arguments: Any) -> Any:
        total = jnp.zeros((), arguments[0].dtype if arguments[0].ndim == 0 else jnp.float32)
        for place, result in zip(program.results, fn(*arguments), strict=True):
            if program.values[place].is_float and result.size:
                weights = np.cos(np.arange(result.size)).reshape(result.shape)
                total = total + jnp.sum(result * weights.astype(result.dtype))
        return total

    return loss


def check_gradient(program: Program) -> None:
    """Raises AssertionError if gradients of the program's F32 arguments differ from jax.jit's.

    They may differ by 16 times what F32 differs from F64, and by 64 roundings of the largest.
    """
    inputs = program.inputs()
    places = [i for i, value in enumerate(program.arguments) if value.dtype == "float32"]
    if not places:
        return
    gradient = jax.grad(_loss(program), argnums=places, allow_int=True)
    want = [np.asarray(one) for one in jax.jit(gradient)(*inputs)]
    with jax.enable_x64(True):
        wider = [one.astype(np.float64) if one.dtype == np.float32 else one for one in inputs]
        exact = [np.asarray(one) for one in jax.jit(gradient)(*wider)]
    got = run_ours(gradient, inputs, ())
    with jax.disable_jit():
        eager = [np.asarray(one) for one in gradient(*map(jnp.asarray, inputs))]
    # XLA's program of a shift can have wrong gradients, by finite differences; its single
    # ops have right ones.
    if not all(np.allclose(w, one, 1e-3, 1e-3) for w, one in zip(want, eager, strict=True)):
        want, exact = eager, eager
    eps = float(jnp.finfo(jnp.float32).eps)
    for g, w, e in zip(got, want, exact, strict=True):
        assert np.isfinite(_wide(w)).all(), f"the oracle is not finite:\n{program}"
        own = float(np.abs(_wide(w) - _wide(e)).max(initial=0.0))
        largest = max(1.0, float(np.abs(_wide(e)).max(initial=0.0)))
        np.testing.assert_allclose(
            _wide(g), _wide(w), rtol=0, atol=16 * own + 64 * eps * largest, err_msg=str(program)
        )


# How much of a number a recipe's casts may round away: half of the spacing at a power of two.
_UNITS = {"fp8": 2.0**-4, "fp16": 2.0**-11, "bf16": 2.0**-8}
# Below its normal numbers a format's spacing stays as it is: for a scale at the root mean square
# E4M3 keeps what is above 2^-10 of that.
_FLOOR = 2.0**-10
# What reads casts: products, and in formats of 16 bits also tables.
_READERS = {"fp8": ("dot",), "fp16": ("dot", "take"), "bf16": ("dot", "take")}
_DRAWS = 8


def _noise_of(x: Any, salt: Any) -> Any:
    """Returns numbers in [-1, 1) by the bits of F32 numbers.

    Equal numbers round equally, so that a sum of one number repeated has that number's error as
    often. The mixing is that of MurmurHash3's finalizer.
    """
    word = jax.lax.bitcast_convert_type(x, jnp.uint32) ^ salt
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        word = (word ^ (word >> shift)) * jnp.uint32(factor)
    word = word ^ (word >> 16)
    return word.astype(jnp.float32) * 2.0**-31 - 1.0


def _noisy(program: Program, inputs: Sequence[np.ndarray], recipe: str) -> list[np.ndarray]:
    """Returns results, stacked, of runs in which casts are random errors of their size."""

    def run(key: Any, *arguments: Any) -> tuple[Any, ...]:
        count = itertools.count()

        def rounded(x: Any) -> Any:
            if x.dtype != jnp.float32:
                return x
            salts = jax.random.bits(jax.random.fold_in(key, next(count)), 2)
            share, rest = (_noise_of(x, salt) for salt in salts)
            mean_square = jnp.mean(jnp.square(x)) if x.size else 0.0
            return x * (1 + _UNITS[recipe] * share) + _FLOOR * jnp.sqrt(mean_square) * rest

        def reader(op: str) -> Callable[..., Any]:
            return lambda *xs, **params: APPLY[op](*map(rounded, xs), **params)

        casting = {op: reader(op) for op in _READERS[recipe]}
        return program.function({**APPLY, **casting})(*arguments)

    keys = jax.random.split(jax.random.key(0), _DRAWS)
    many = jax.vmap(run, in_axes=(0, *[None] * len(inputs)))
    return [np.asarray(one) for one in jax.jit(many, keep_unused=True)(keys, *inputs)]


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array))))


def check_recipe(program: Program, recipe: str) -> None:
    """Raises AssertionError if a recipe's results are further from F32's than its formats allow.

    The bound is the largest error of eight runs in which what casts may round has random errors of
    their size, times four: a single number of ours may be at the end of what such errors do, and
    those eight in its middle. What saturates, vanishes, or has the digits of a coarser format errs
    by more.
    """
    fn = program.function(APPLY)
    inputs = program.inputs()
    want, magnitude = _wanted(program, inputs, jit=True)
    noisy = _noisy(program, inputs, recipe)
    got = scalify.jit(fn, recipe=recipe, numerics=scalify.Numerics(health="off"))(*inputs)
    eps = float(jnp.finfo(jnp.float32).eps)
    for place, g, w, n in zip(program.results, got, want, noisy, strict=True):
        if program.values[place].is_float and w.size:
            error = _rms(_wide(g) - _wide(w))
            typical = max(_rms(_wide(one) - _wide(w)) for one in n)
            bound = 4 * typical + 64 * eps * magnitude
            assert error <= bound, f"v{place}: off by {error:.3g} of {bound:.3g}:\n{program}"
