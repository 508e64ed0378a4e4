"""Runs a random program by Scalify and by jax.jit and compares every result."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from random_ops import APPLY
from random_programs import Program, Step

import scalify
from scalify import _compiler, _runtime, _tensor_file

__all__ = [
    "check",
    "check_gradient",
    "check_recipe",
    "run_jit",
    "run_oracle",
    "run_ours",
    "run_tools",
]

#: A function, its arguments and which of them are donated, to its results.
Run = Callable[[Callable[..., Any], Sequence[Any], Sequence[int]], list[Any]]


def _jitted(fn: Callable[..., Any], donated: Sequence[int]) -> Any:
    """Returns the oracle, which JAX traces and lowers once for its own run and for ours."""
    return jax.jit(fn, keep_unused=True, donate_argnums=tuple(donated))


def _flat(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> str:
    with warnings.catch_warnings():
        # A donated argument of which no result has the type is one of the cases.
        warnings.filterwarnings("ignore", "Some donated buffers")
        return str(_jitted(fn, donated).lower(*inputs).as_text(debug_info=True))


def run_ours(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> list[Any]:
    """Returns the results of `fn` by the CPU target, run twice: state must not leak."""
    artefact, _ = _compiler.compile(_flat(fn, inputs, donated), json.dumps({"recipe": "none"}))
    executable = _runtime.Executable(artefact)
    return _twice(lambda: executable.run([np.array(one) for one in inputs]))


def run_jit(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> list[Any]:
    """As `run_ours`, by `scalify.jit` of JAX's arrays."""
    step = scalify.jit(fn, recipe="none", keep_unused=True, donate_argnums=tuple(donated))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers")
        return _twice(lambda: step(*(jnp.array(one) for one in inputs)))


def run_tools(fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]) -> list[Any]:
    """As `run_ours`, by `scalify-compile` and `scalify-run`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, step = folder / "step.mlir", folder / "step.scalify"
        text.write_text(_flat(fn, inputs, donated))
        _call("scalify-compile", text, "--recipe=none", "-o", step)
        executable = _runtime.Executable(step)
        alias = [one["alias_arg"] for one in executable.results]
        names = [
            one["name"] if at is None else executable.args[at]["name"]
            for one, at in zip(executable.results, alias, strict=True)
        ]
        given = {f"arg{i}": np.asarray(one) for i, one in enumerate(inputs)}
        _tensor_file.write(folder / "in", given)

        def run() -> list[Any]:
            _call("scalify-run", step, "--in", folder / "in", "--out", folder / "out")
            tensors, _ = _tensor_file.map_tensors(folder / "out")
            return [tensors[name] for name in names]

        return _twice(run)


def _call(program: str, *arguments: Any) -> None:
    command = [str(scalify._build_folder / "bin" / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{program}: exit {done.returncode}\n{done.stderr[-2000:]}"


def _twice(run: Callable[[], Sequence[Any]]) -> list[Any]:
    first = [np.array(one) for one in run()]
    second = [np.array(one) for one in run()]
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


def _jit_results(
    fn: Callable[..., Any], inputs: Sequence[Any], donated: Sequence[int]
) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers")
        return [np.asarray(one) for one in _jitted(fn, donated)(*map(jnp.array, inputs))]


def run_oracle(program: Program) -> None:
    """Runs a program by JAX alone, in each of the ways in which checks run it."""
    with jax.enable_x64(program.is_wide):
        inputs = program.inputs()
        _jit_results(program.function(APPLY), inputs, program.donated)
        for jit in (True, False):
            _wanted(program, inputs, jit)


def _compare(program: Program, got: Sequence[Any], want: Sequence[Any]) -> None:
    bounds: list[np.ndarray] = []
    for number, (place, g, w) in enumerate(zip(program.results, got, want, strict=True)):
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
        error = _distance(_wide(g), _wide(w))
        finite = np.abs(_wide(w)[np.isfinite(_wide(w))])
        eps = max(value.eps, 0.0 if value.dtype == "float64" else float(jnp.finfo("float32").eps))
        # Nearly all are within this; of the others the program itself says how much it may be.
        if (error <= eps * (1 if eps > 1e-5 else 8) * finite.max(initial=0.0)).all():
            continue
        bounds = bounds or _bounds(program)
        wrong = ~(error <= bounds[number])
        assert not wrong.any(), (
            f"{_wide(g)[wrong][:4]}, not {_wide(w)[wrong][:4]}, off by {error[wrong][:4]} of "
            f"{bounds[number][wrong][:4]} at {np.argwhere(wrong)[:4].tolist()}, {note}"
        )


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the differences of elements; none between infinities of one sign, or NaNs."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf))


def _bounds(program: Program) -> list[np.ndarray]:
    """Returns by how much each element of each result may differ between two right compilers.

    Measured: runs in which the operands and the results of every op that rounds have random errors
    of twice their rounding. A function of a few ulps, other orders of sums, contracted products and
    what later ops make of these are within sixteen times the largest effect of four such runs. An
    element that is infinite or NaN in some runs only may be anything.
    """

    def run(key: Any, *arguments: Any) -> tuple[Any, ...]:
        count = itertools.count()

        def change(step: Step, x: Any) -> Any:
            if step.value.is_exact or not jnp.issubdtype(x.dtype, jnp.floating):
                return x
            salt = jax.random.bits(jax.random.fold_in(key, next(count)), dtype=jnp.uint32)
            wide = jnp.promote_types(x.dtype, jnp.float32)
            noise = _noise_of(x.astype(jnp.float32), salt).astype(wide)
            eps = 2 * float(jnp.finfo(x.dtype).eps)
            return (x.astype(wide) * (1 + eps * noise)).astype(x.dtype)

        return program.function(APPLY, change)(*arguments)

    inputs = [jnp.asarray(one) for one in program.inputs()]
    want = jax.jit(program.function(APPLY), keep_unused=True)(*inputs)
    keys = jax.random.split(jax.random.key(0), _DRAWS // 2)
    many = jax.vmap(run, in_axes=(0, *[None] * len(inputs)))
    bounds = []
    for n, w in zip(jax.jit(many, keep_unused=True)(keys, *inputs), want, strict=True):
        off = _distance(_wide(n), _wide(w)[None])
        typical = _rms(off[np.isfinite(off)]) if np.isfinite(off).any() else 0.0
        bounds.append(16 * (off.max(axis=0, initial=0.0) + typical))
    return bounds


def check(program: Program, run: Run = run_ours) -> None:
    """Raises AssertionError if a result of Scalify differs from JAX's.

    Values whose bits are defined must have them, any NaN being equal to any other. Others may
    differ by a rounding of the coarsest type that took part (8 of F32), or by what the program
    makes of random errors of that size. Where jax.jit differs, JAX's ops one by one decide: XLA's
    CPU compiler writes some updates of slices in place while the same kernel still reads them
    (jax#7461).
    """
    with jax.enable_x64(program.is_wide):
        fn = program.function(APPLY)
        inputs = program.inputs()
        got = run(fn, inputs, program.donated)
        want = _jit_results(fn, inputs, program.donated)
        try:
            _compare(program, got, want)
        except AssertionError:
            _compare(program, got, _wanted(program, inputs, jit=False)[0])


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
    want = [np.asarray(one) for one in _jitted(gradient, ())(*inputs)]
    with jax.enable_x64(True):
        wider = [one.astype(np.float64) if one.dtype == np.float32 else one for one in inputs]
        exact = [np.asarray(one) for one in jax.jit(gradient)(*wider)]
    got = run_ours(gradient, inputs, ())
    try:
        _compare_gradients(program, got, want, exact)
    except AssertionError:
        # XLA's program of a shift can have wrong gradients, by finite differences; its single
        # ops have right ones.
        with jax.disable_jit():
            eager = [np.asarray(one) for one in gradient(*map(jnp.asarray, inputs))]
        if all(np.allclose(w, one, 1e-3, 1e-3) for w, one in zip(want, eager, strict=True)):
            raise
        _compare_gradients(program, got, eager, eager)


def _compare_gradients(
    program: Program, got: Sequence[Any], want: Sequence[Any], exact: Sequence[Any]
) -> None:
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
_PRODUCTS = ("dot", "dot_any", "conv", "matrix", "complex")
_TABLES = ("take", "get", "along")
_READERS = {"fp8": _PRODUCTS, "fp16": _PRODUCTS + _TABLES, "bf16": _PRODUCTS + _TABLES}
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
        # Its own products read what it computes: of large operands, tanh hides the errors.
        casting["matrix"] = functools.partial(casting["matrix"], cast=rounded)
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
            assert np.isfinite(_wide(w)).all(), f"v{place}: the oracle is not finite:\n{program}"
            error = _rms(_wide(g) - _wide(w))
            typical = max(_rms(_wide(one) - _wide(w)) for one in n)
            bound = 4 * typical + 64 * eps * magnitude
            assert error <= bound, f"v{place}: off by {error:.3g} of {bound:.3g}:\n{program}"
