"""Loops of known trip count on the CPU target, which are unrolled.

The oracles are `jax.jit`, which runs the loop, and the same program unrolled in Python.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import roundtrip_programs
from control_programs import PROGRAMS, normal
from cpu_run import check, compile_text
from jax import Array, lax
from stablehlo_run import compile_stablehlo

import scalify
from scalify import _compiler, _runtime

LAYERS, WIDTH = 5, 48


def stacked_layers(remat: bool, policy: Any = None) -> Callable[..., Array]:
    """Returns a loss of layers whose weights are one stack, with what each layer makes."""

    def layer(x: Array, weights: tuple[Array, Array]) -> tuple[Array, Array]:
        w, gain = weights
        y = jnp.tanh((x * gain) @ w)
        return x + y, y.sum(-1)

    body = jax.checkpoint(layer, policy=policy) if remat else layer

    def loss(params: tuple[Array, Array], x: Array) -> Array:
        x, sums = lax.scan(body, x, params)
        return jnp.mean(x * x) + jnp.mean(sums**2)

    return loss


def stack_arguments() -> tuple[Any, np.ndarray]:
    weights = normal((LAYERS, WIDTH, WIDTH), WIDTH**-0.5, seed=1)
    return (weights, normal((LAYERS, WIDTH), 0.5, seed=2)), normal((16, WIDTH), seed=3)


@pytest.mark.parametrize(
    "options",
    [(False, None), (True, None), (True, jax.checkpoint_policies.dots_saveable)],
    ids=["kept", "remat", "dots"],
)
def test_gradient_through_stacked_layers(options: tuple[bool, Any]) -> None:
    params, x = stack_arguments()
    check(jax.value_and_grad(stacked_layers(*options)), params, x)


def test_recurrent_scan_with_stacked_outputs() -> None:
    def run(w: Array, u: Array, rows: Array) -> Any:
        def step(state: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
            state = jnp.tanh(row @ w + state @ u)
            return state, (state, state.max())

        return lax.scan(step, jnp.zeros((4, 32)), rows)

    arrays = normal((32, 32), 0.2), normal((32, 32), 0.2, seed=1), normal((24, 4, 32), seed=2)
    check(run, *arrays)
    # Backwards in time, and with several iterations in a body.
    # Sums over 24 steps of numbers up to 10, in another order than XLA's.
    check(jax.grad(lambda *a: sum(jnp.sum(y) for y in run(*a)[1])), *arrays, atol=3e-5)
    check(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x, reverse=True), arrays[2])
    check(lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x, unroll=5), arrays[2])


@pytest.mark.parametrize("shape", [(7,), (70,), (9, 3), (9, 5, 7)])
def test_stacks_of_pieces_that_fill_no_line(shape: tuple[int, ...]) -> None:
    """Slices of a few bytes have offsets at which no buffer may start."""

    def run(x: Array) -> Any:
        return lax.scan(lambda c, row: (c * 0.5 + row, jnp.sin(c) * row), x[0], x)

    check(run, normal(shape))
    check(jax.grad(lambda x: run(x)[1].sum()), normal(shape))


@pytest.mark.parametrize("is_read_late", [False, True])
def test_a_donated_stack_is_read_by_parts(is_read_late: bool) -> None:
    """A part of a donated argument is read before, or after, its memory is overwritten."""

    def run(stack: Array, x: Array) -> tuple[Array, Array]:
        if is_read_late:
            made = jnp.tanh(stack)
            return made, made.sum() * stack[1]
        return stack * jnp.tanh(stack[1]).sum(), x

    arguments = normal((3, 64)), normal(64, seed=1)
    text = jax.jit(run, donate_argnums=0, keep_unused=True).lower(*arguments).as_text()
    executable = compile_text(text)
    # An array of the runtime is not copied before the step writes into it.
    got = executable.run([_runtime.array(arguments[0]), arguments[1]])
    for mine, theirs in zip(got, jax.jit(run)(*arguments), strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=2e-6, atol=1e-6)


def test_fori_loops() -> None:
    def power(w: Array, x: Array) -> Array:
        return lax.fori_loop(0, 6, lambda i, y: y @ w * (1.0 + i), x)

    check(power, normal((32, 32), 0.05), normal((8, 32)), atol=1e-5)
    # One iteration, and none.
    check(lambda x: lax.fori_loop(3, 4, lambda i, y: y * i, x), normal(5))
    check(lambda x: lax.fori_loop(4, 3, lambda i, y: y * i, x), normal(5))
    # An inner loop as long as the outer counter says.
    check(lambda x: lax.fori_loop(0, 4, lambda k, c: lax.fori_loop(0, k, inner, c), x), normal(5))
    # Rows of a buffer that are read before, and beyond its end.
    check(lambda x: lax.fori_loop(0, 5, running, x), normal((4, 16)))
    check(lambda x: lax.fori_loop(0, 5, running, x), np.arange(24, dtype=np.int32).reshape(4, 6))


def inner(index: Array, x: Array) -> Array:
    return x * 0.5 + index


def running(index: Array, rows: Array) -> Array:
    last = lax.dynamic_slice(rows, (index - 1, 0), (1, rows.shape[1]))
    return lax.dynamic_update_slice(rows, last + 1, (index, 0))


def test_cache_of_a_decoding_loop() -> None:
    """Each iteration reads all of what the ones before it wrote, and writes one row."""

    def decode(cache: Array, x: Array) -> Any:
        def step(carry: Any, index: Array) -> Any:
            cache, x = carry
            cache = lax.dynamic_update_slice(cache, x[None], (index + 2, 0))
            weights = jax.nn.softmax(cache @ x)
            return (cache, weights @ cache), weights

        return lax.scan(step, (cache, x), jnp.arange(4))

    check(decode, normal((8, 16)), normal(16, seed=1))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "early-exit"])
def test_control_program(name: str) -> None:
    """Without casts against jax.jit, in FP8 against the same step as StableHLO on XLA."""
    step, args = PROGRAMS[name]
    # Where a program computes in BF16, XLA keeps what it does not store in F32.
    tolerance = 2e-3 if name == "mixed-carry" else 1e-6
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(args)]
    text = jax.jit(step, keep_unused=True).lower(*args).as_text(debug_info=True)
    # Constants: scales that a step measures are no powers of two before a cast, and round more.
    declared: dict[str, Any] = {"declaredScales": True, "carryScales": False}
    fp8, _, _ = _compiler.transform(text, json.dumps({"recipe": "fp8", **declared}))
    for recipe, oracle in (("none", text), ("fp8", fp8)):
        executable = compile_text(text, recipe=recipe, **declared)
        # A BF16 ulp before a cast to FP8 moves elements by a step of E4M3.
        bound = 2e-2 if (name, recipe) == ("mixed-carry", "fp8") else tolerance
        for got, want in zip(
            executable.run(arrays), compile_stablehlo(oracle)(*arrays), strict=True
        ):
            largest = max(1e-3, float(np.abs(np.asarray(want)).max()))
            error = np.abs(np.asarray(got) - np.asarray(want))
            off = np.argwhere(error > bound * largest)
            if name == "buffer" and recipe == "fp8" and len(off):
                # A sum of F32 in another order moves one gradient that lies between two numbers of
                # E5M2 by a step, 2^-2 of one of 64 terms: one column of a weight's gradient.
                assert (off == off[0]).all(0).sum() == off.shape[1] - 1
                assert error.max() < 2.0**-2 / np.sqrt(64) * largest
                continue
            np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=bound * largest)


def llama_arguments() -> list[np.ndarray]:
    """Parameters, optimizer state, tokens and targets of the steps of `roundtrip_programs`."""
    shapes = jax.eval_shape(roundtrip_programs._init, jax.random.key(0))
    leaves, tree = jax.tree.flatten(shapes)
    values = [
        normal(leaf.shape, 0.1, seed=i) if len(leaf.shape) > 1 else np.ones(leaf.shape, np.float32)
        for i, leaf in enumerate(leaves)
    ]
    params = jax.tree.unflatten(tree, values)
    state = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)).init(params)
    tokens = np.random.default_rng(0).integers(0, roundtrip_programs.VOCAB, (2, 8), np.int32)
    everything = (params, state, tokens, np.roll(tokens, -1, 1))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(everything)]


@functools.cache
def llama_step(mode: str, recipe: str) -> tuple[list[np.ndarray], list[Any]]:
    lowered = roundtrip_programs._llama_step(mode, jnp.float32)
    executable = scalify.compile(
        lowered.as_text(debug_info=True), recipe, numerics=scalify.Numerics(scales="declared")
    )
    results = [np.asarray(result) for result in executable(*llama_arguments())]
    return results, executable.health()


@pytest.mark.parametrize("mode", ["scan", "scan remat"])
@pytest.mark.parametrize("recipe", ["none", "fp8-current"])
def test_scanned_llama_has_the_bits_of_the_unrolled_one(mode: str, recipe: str) -> None:
    """The same GEMMs and kernels in the same order: also where a cast measures its operand."""
    scanned, unrolled = llama_step(mode, recipe)[0], llama_step("", recipe)[0]
    for got, want in zip(scanned, unrolled, strict=True):
        np.testing.assert_array_equal(got, want)


def test_scanned_llama_in_fp8_is_near_the_unrolled_one() -> None:
    """All layers of a scan share one scale, each layer of a Python loop has its own.

    So gradients round at other places, by up to 2^-3 of an element in E5M2; moments are sums
    of such elements, and their direction keeps more.
    """
    scanned, casts = llama_step("scan", "fp8")
    unrolled, layers = llama_step("", "fp8")
    for got, want in zip(scanned, unrolled, strict=True):
        a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
        assert a @ b >= 0.95 * np.sqrt((a @ a) * (b @ b))
    assert abs(scanned[-1] - unrolled[-1]) <= 2.0**-9 * abs(unrolled[-1])
    # One row for a cast of the body, with the elements of all layers.
    assert len({row["cast"] for row in casts}) == len(casts) < len(layers)
    assert sum(row["elements"] for row in casts) == sum(row["elements"] for row in layers)


def test_iterations_add_to_one_counter() -> None:
    text = """
func.func @main(%x: tensor<4x32xf32>) -> tensor<32xf32> {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<32xf32>
  %r:2 = stablehlo.while(%i = %i0, %sum = %z) : tensor<i32>, tensor<32xf32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %i1 = stablehlo.constant dense<1> : tensor<i32>
      %a = stablehlo.dynamic_slice %x, %i, %i0, sizes = [1, 32]
        : (tensor<4x32xf32>, tensor<i32>, tensor<i32>) -> tensor<1x32xf32>
      %b = stablehlo.reshape %a : (tensor<1x32xf32>) -> tensor<32xf32>
      %q = scalify.quantize %b, %one {cast = "c"} : tensor<32xf32> -> tensor<32xf8E4M3FN>
      %y = scalify.dequantize %q, %one : tensor<32xf8E4M3FN> -> tensor<32xf32>
      %s = stablehlo.add %sum, %y : tensor<32xf32>
      %j = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %j, %s : tensor<i32>, tensor<32xf32>
    }
  return %r#1 : tensor<32xf32>
}"""
    x = np.zeros((4, 32), np.float32)
    x[0, 0], x[1, 3], x[3, 31], x[3, 30] = 1000, -1000, 1000, 1e-9
    executable = compile_text(text, compileFrom="precision")
    executable.run([x])
    (row,) = executable.health()
    assert (row["cast"], row["elements"]) == ("c", x.size)
    assert (row["saturated"], row["flushed"]) == (3, 1)


def test_jit_of_a_scan() -> None:
    params, x = stack_arguments()
    step = scalify.jit(jax.value_and_grad(stacked_layers(True)), recipe="none")
    loss, _ = step(params, x)
    want = float(jax.jit(stacked_layers(False))(params, x))
    assert abs(float(loss) - want) <= 1e-6 * want


def test_one_key_of_several() -> None:
    # One integer of what Threefry computes in twenty rounds, each of which reads the last twice.
    def fn(key: Any) -> Any:
        keys = jax.random.split(jax.random.wrap_key_data(key), 3)
        total = jnp.zeros(8)
        for one in keys:
            total = total + jax.random.uniform(one, (8,))
        return total

    key = np.array([1, 2], np.uint32)
    found = scalify.jit(fn, "none", threads=1)(key)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(jax.jit(fn)(key)))
