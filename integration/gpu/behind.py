"""Products with epilogues by the library: biases, ReLUs, GELUs, gradients, casts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cases import BF16, E4M3, E5M2, FORMATS, MLIR, Program, lower, normal

__all__ = ["epilogues"]


def _with_gelu(name: str, a: NDArray[Any], b: NDArray[Any], bias: NDArray[Any]) -> Program:
    """Returns a product with the library's GELU, which stores its operand."""

    def fn(a: Any, b: Any, bias: Any) -> Any:
        sums = jax.lax.dot_general(
            a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        sums = sums + bias.astype(jnp.float32)
        return jax.nn.gelu(sums, approximate=True), sums

    wide, other, added = (x.astype(np.float64) for x in (a, b, bias))
    sums = wide @ other.T + added
    return Program(
        f"gemm {name}, bias and GELU",
        lower(fn, a, b, bias),
        (a, b, bias),
        "product",
        {"epilogues": "all"},
        (0.5 * sums * (1 + np.tanh(np.sqrt(2 / np.pi) * (sums + 0.044715 * sums**3))), sums),
        np.abs(wide) @ np.abs(other).T + np.abs(added),
        {"accumulation": "gelu"},
    )


def _gelu_gradient_program(name: str, g: NDArray[Any], w: NDArray[Any], x: NDArray[Any]) -> Program:
    """Returns a gradient that continues through a GELU of x, which the library reads."""

    def fn(g: Any, w: Any, x: Any) -> Any:
        sums = jax.lax.dot_general(
            g, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        _, back = jax.vjp(functools.partial(jax.nn.gelu, approximate=True), x)
        return back(sums)[0]

    wide, other, at = (each.astype(np.float64) for each in (g, w, x))
    tanh = np.tanh(np.sqrt(2 / np.pi) * (at + 0.044715 * at**3))
    inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * at**2)
    slope = 0.5 * (1 + tanh + at * (1 - tanh**2) * inner)
    return Program(
        f"gemm {name}, gradient of GELU",
        lower(fn, g, w, x),
        (g, w, x),
        "product",
        {"epilogues": "all"},
        (wide @ other.T * slope,),
        np.abs(wide) @ np.abs(other).T,
        {"accumulation": "gelu"},
    )


def _behind_relu(name: str, m: int, n: int, k: int) -> Program:
    """Returns a product with a ReLU, and a gradient after it by the bits that the first stored.

    Sums of ones, and half a one as bias: no sum is near 0, so that both sides clamp the same.
    """

    def signs(*shape: int, seed: int) -> NDArray[Any]:
        return np.sign(normal(*shape, seed=seed)).astype(BF16)

    a, b, g, w = (signs(rows, k, seed=seed) for seed, rows in enumerate((m, n, m, n), start=1))
    bias = np.full(n, 0.5, np.float32)

    def fn(a: Any, b: Any, bias: Any, g: Any, w: Any) -> Any:
        def product(left: Any, right: Any) -> Any:
            dims = (((1,), (1,)), ((), ()))
            return jax.lax.dot_general(left, right, dims, preferred_element_type=jnp.float32)

        sums = product(a, b) + bias
        zeros = jnp.zeros_like(sums)
        return jax.lax.max(sums, zeros), jax.lax.select(sums > 0, product(g, w), zeros)

    sums, gradient = (x.astype(np.float64) @ y.astype(np.float64).T for x, y in ((a, b), (g, w)))
    return Program(
        f"gemm {name}, ReLU and its gradient",
        lower(fn, a, b, bias, g, w),
        (a, b, bias, g, w),
        "product",
        {"epilogues": "all"},
        (np.maximum(sums + 0.5, 0), np.where(sums + 0.5 > 0, gradient, 0)),
        np.full((m, n), k + 0.5),
        {"accumulation": "bf16"},
    )


def _cast(left: Any, right: Any, result: Any, m: int, n: int, k: int) -> Program:
    """Returns a product stored as FP8 with its amax, by a scale that is an argument.

    Sums of ones, which Hopper computes exactly: so rounding, saturation and amax are known to the
    bit. The scale moves some sums beyond the format and others to its ties.
    """
    kind, largest = MLIR[np.dtype(result)], FORMATS[MLIR[np.dtype(result)]][1]

    def fn(a: Any, b: Any, scale: Any) -> Any:
        sums = jax.lax.dot_general(
            a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        stored = jax.lax.clamp(jnp.float32(-largest), sums * scale, jnp.float32(largest))
        return stored.astype(result), jnp.max(jnp.abs(sums))

    a, b = (
        np.sign(normal(rows, k, seed=seed)).astype(dtype)
        for rows, seed, dtype in ((m, 1, left), (n, 2, right))
    )
    sums = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)
    scale = np.float32(largest / 2 ** np.floor(np.log2(np.abs(sums).max())))
    return Program(
        f"gemm {MLIR[a.dtype]} x {MLIR[b.dtype]} into {kind}",
        lower(fn, a, b, scale),
        (a, b, np.asarray(scale)),
        "bits",
        expected=(
            np.clip(sums * scale, -largest, largest).astype(result),
            np.asarray(np.abs(sums).max()),
        ),
    )


def _with_epilogue(
    name: str, a: NDArray[Any], b: NDArray[Any], bias: NDArray[Any] | None, result: Any, relu: bool
) -> Program:
    """Returns a product of [m, k] and [n, k] with the library's epilogue on its F32 sums."""

    def fn(a: Any, b: Any, *bias: Any) -> Any:
        sums = jax.lax.dot_general(
            a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        for vector in bias:
            sums = sums + vector.astype(jnp.float32)
        return (jax.lax.max(sums, jnp.zeros_like(sums)) if relu else sums).astype(result)

    inputs = (a, b) if bias is None else (a, b, bias)
    wide, other, added = (np.zeros(1) if x is None else x.astype(np.float64) for x in (a, b, bias))
    sums = wide @ other.T + added
    behind = [text for text, is_there in (("bias", bias is not None), ("ReLU", relu)) if is_there]
    return Program(
        f"gemm {name}, {' and '.join(behind)}",
        lower(fn, *inputs),
        inputs,
        "product",
        # A clamp at 0 increases no difference, so the bars of the sums hold after it.
        expected=(np.maximum(sums, 0) if relu else sums,),
        magnitude=np.abs(wide) @ np.abs(other).T + np.abs(added),
        tolerance={"accumulation": "f8" if a.itemsize == 1 else MLIR.get(a.dtype, "f32")},
    )


def epilogues(small: bool) -> Iterator[Program]:
    """Yields products with the library's epilogues, by the types of its table."""
    m, n, k = (32, 48, 64) if small else (128, 256, 512)
    f32 = np.float32
    table: list[tuple[str, Any, Any, Any, bool]] = [
        ("bf16 into bf16", BF16, BF16, BF16, True),
        ("f8E4M3FN into f32", E4M3, BF16, f32, True),
    ]
    if not small:
        table += [
            ("f32 into f32", f32, f32, f32, True),
            ("f32 into f32", f32, f32, f32, False),
            ("bf16 into f32", BF16, f32, f32, True),
            ("f16 into f16", np.float16, np.float16, np.float16, False),
            ("f16 into f32", np.float16, f32, f32, True),
            ("f8E4M3FN into bf16", E4M3, BF16, BF16, False),
            ("f8E4M3FN into f16", E4M3, np.float16, np.float16, True),
            ("f32 into f32", f32, None, f32, True),
            ("bf16 into bf16", BF16, None, BF16, True),
        ]
    for name, operand, bias, result, relu in table:
        a, b = normal(m, k, dtype=operand), normal(n, k, seed=1, dtype=operand)
        vector = None if bias is None else (8 * normal(n, seed=2)).astype(bias)
        yield _with_epilogue(name, a, b, vector, result, relu)
    a, b = normal(m, k, dtype=BF16), normal(n, k, seed=1, dtype=BF16)
    # Sums near 0, where the tanh is not constant.
    yield _with_gelu("bf16 into f32", a, (b / 16).astype(BF16), normal(n, seed=2))
    yield _gelu_gradient_program("bf16 into f32", a, b, 2 * normal(m, n, seed=3))
    yield _behind_relu("bf16 into f32", m, n, k)
    yield _cast(E4M3, E4M3, E4M3, m, n, k)
    if not small:
        yield _cast(E5M2, E4M3, E5M2, m, n, k)
        yield _cast(E4M3, E5M2, E4M3, m, n, k)
