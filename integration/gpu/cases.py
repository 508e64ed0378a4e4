"""Small programs for a GPU, each with its inputs: casts, kernels, products, attentions.

ml_dtypes and NumPy compute the expected results of casts and products. A kernel's expected result
is the CPU executable's, which the repository's tests compare with JAX.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
from numpy.typing import NDArray

from scalify import nn

__all__ = [
    "SCALINGS",
    "Program",
    "attentions",
    "conversions",
    "kernels",
    "lower",
    "lowered",
    "many_scales",
    "normal",
    "products",
]

Arrays = tuple[NDArray[Any], ...]
E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
FORMATS: dict[str, tuple[Any, float]] = {
    "f8E4M3FN": (E4M3, 448.0),
    "f8E5M2": (E5M2, 57344.0),
    "bf16": (BF16, 2.0**127 * (2 - 2.0**-7)),
    "f16": (np.float16, 65504.0),
}
MLIR = {np.dtype(dtype): name for name, (dtype, _) in FORMATS.items()}


@dataclasses.dataclass
class Program:
    """A program, its inputs, and the criterion of its results (judge.py).

    Attributes:
        expected: independent results, or None for those of the CPU executable.
        magnitude: of a product; see judge.product.
    """

    name: str
    text: str
    inputs: Arrays
    judge: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    expected: Arrays | None = None
    magnitude: NDArray[Any] | None = None
    tolerance: dict[str, Any] = dataclasses.field(default_factory=dict)


def lower(fn: Callable[..., Any], *inputs: Any, donate: tuple[int, ...] = ()) -> str:
    """Returns the function's text for these inputs."""
    return jax.jit(fn, donate_argnums=donate).lower(*inputs).as_text()


def _words() -> NDArray[np.float32]:
    """Every BF16 word, as many random F32 words, and the ties of both FP8 formats."""
    narrow = np.arange(1 << 16, dtype=np.uint16).view(BF16).astype(np.float32)
    rng = np.random.default_rng(0)
    random = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
    parts = [narrow, random.view(np.float32)]
    for dtype in (E4M3, E5M2):
        codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
        codes = np.unique(codes[np.isfinite(codes)])
        ties = ((codes[1:] + codes[:-1]) / 2).astype(np.float32)
        parts += [ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, -np.inf)]
    # Ties of the two formats of 16 bits: of the bits that are cut off, only the first is set.
    for bits in (7, 10):
        exact = random & ~np.uint32((1 << (23 - bits)) - 1) | np.uint32(1 << (22 - bits))
        parts.append(exact.astype(np.uint32).view(np.float32)[: 1 << 14])
    found = np.concatenate([part.astype(np.float32) for part in parts])
    return np.pad(found, (0, -len(found) % 1024))


def _saturated(x: NDArray[np.float32], name: str, exponent: int) -> NDArray[Any]:
    dtype, largest = FORMATS[name]
    # In F64 the division is exact. The cast starts from F32, since ml_dtypes rounds F64 twice.
    with np.errstate(all="ignore"):
        scaled = (x.astype(np.float64) * 2.0**-exponent).astype(np.float32)
        # Infinities become NaN in FP8.
        other = np.float32(np.nan) if np.dtype(dtype).itemsize == 1 else scaled
        finite = np.clip(scaled, -largest, largest)
        return np.where(np.isinf(scaled), other, finite).astype(dtype)


def _quantize(x: NDArray[np.float32], name: str, exponent: int) -> Program:
    text = f"""
      func.func public @main(%x: tensor<{x.size}xf32>) -> tensor<{x.size}x{name}> {{
        %s = stablehlo.constant dense<{2.0**exponent!r}> : tensor<f32>
        %q = scalify.quantize %x, %s {{cast = "c"}}
            : tensor<{x.size}xf32> -> tensor<{x.size}x{name}>
        return %q : tensor<{x.size}x{name}>
      }}"""
    options = {"compileFrom": "precision"}
    expected = (_saturated(x, name, exponent),)
    label = f"conversion f32 to {name} by 2^{exponent}"
    return Program(label, text, (x,), "bits", options, expected)


def _quantize_both_ways() -> Program:
    """Returns a cast whose codes are stored in order and transposed: one kernel computes both."""
    rows, width = 160, 96
    x = normal(rows, width)
    types = [f"tensor<{a}x{b}xf8E4M3FN>" for a, b in ((rows, width), (width, rows))]
    text = f"""
      func.func public @main(%x: tensor<{rows}x{width}xf32>) -> ({types[0]}, {types[1]}) {{
        %s = stablehlo.constant dense<0.015625> : tensor<f32>
        %q = scalify.quantize %x, %s {{cast = "c"}} : tensor<{rows}x{width}xf32> -> {types[0]}
        %t = stablehlo.transpose %q, dims = [1, 0] : ({types[0]}) -> {types[1]}
        return %q, %t : {types[0]}, {types[1]}
      }}"""
    codes = _saturated(x, "f8E4M3FN", -6)
    both = (codes, np.ascontiguousarray(codes.T))
    options = {"compileFrom": "precision"}
    return Program(
        "conversion f32 to f8E4M3FN and its transpose", text, (x,), "bits", options, both
    )


def conversions(small: bool) -> Iterator[Program]:
    """Yields casts of F32 to every narrow format and back."""
    yield _quantize_both_ways()
    x = _words()
    scaled = [("f8E4M3FN", 0), ("f8E4M3FN", 3), ("f8E4M3FN", -5), ("f8E5M2", 0), ("f8E5M2", 3)]
    for name, exponent in scaled[:1] if small else [*scaled, ("bf16", 0), ("f16", 0)]:
        yield _quantize(x, name, exponent)
    for name in [] if small else ["bf16", "f16"]:
        dtype, _ = FORMATS[name]
        text = lower(lambda x, dtype=dtype: x.astype(dtype), x)
        with np.errstate(all="ignore"):
            expected = (x.astype(dtype),)
        yield Program(f"conversion f32 to {name}, plain", text, (x,), "bits", {}, expected)
    for name in ["f8E4M3FN"] if small else list(FORMATS):
        dtype, _ = FORMATS[name]
        size = np.dtype(dtype).itemsize
        codes = np.arange(1 << 8 * size).astype(np.uint8 if size == 1 else np.uint16).view(dtype)
        text = lower(lambda x: x.astype(jnp.float32), codes)
        wide = (codes.astype(np.float32),)
        yield Program(f"conversion {name} to f32", text, (codes,), "bits", {}, wide)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    """Returns normal numbers of mean 0 and deviation 1."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(dtype)


def _rms_norm(x: Any, gain: Any) -> Any:
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5)
    return (x * scale * gain).astype(jnp.bfloat16)


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def _cross_entropy(logits: Any, labels: Any) -> Any:
    def loss(logits: Any) -> Any:
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    return jax.value_and_grad(loss)(logits)


def _update() -> tuple[Callable[..., Any], Arrays]:
    """Returns a training step whose optimizer's state a recipe may store narrow."""
    adamw = optax.adamw(1e-2)

    def step(params: Any, state: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean(jnp.square(jnp.tanh(x @ params["up"]) @ params["down"] - x))

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    params = {"up": normal(64, 128, seed=1) * 0.1, "down": normal(128, 64, seed=2) * 0.1}
    return step, (params, jax.tree.map(np.asarray, adamw.init(params)), normal(32, 64, seed=3))  # type: ignore[return-value]


def _updates() -> Iterator[Program]:
    step, inputs = _update()
    text = lower(step, *inputs, donate=(0, 1))
    leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(inputs))
    # A slightly different gradient may be rounded in the other direction; then an element of E4M3
    # or F16 state differs by one unit.
    loose = {"outliers": 0.02, "unit": 2.0**-3}
    for recipe in ("none", "fp8-lm-o2"):
        tolerance = {} if recipe == "none" else loose
        name = f"kernel adamw, state of {recipe}, stochastic rounding where it is narrow"
        yield Program(name, text, leaves, "near", {"recipe": recipe}, tolerance=tolerance)


def _scan(x: Any) -> Any:
    def cell(h: Any, row: Any) -> tuple[Any, Any]:
        h = jnp.tanh(0.5 * h + row)
        return h, 2 * h

    return jax.lax.scan(cell, x[0], x)


def _until(n: Any, x: Any) -> Any:
    def body(carry: Any) -> Any:
        i, v = carry
        return i + 1, jnp.tanh(v) + x

    return jax.lax.while_loop(lambda carry: carry[0] < n, body, (0, x))


def kernels(small: bool) -> Iterator[Program]:
    """Yields one program for each class of kernels."""
    rows, width = (16, 96) if small else (96, 768)
    x, y = normal(rows, width), normal(rows, width, seed=1)
    gain, bias = normal(width, seed=2), normal(width, seed=3)
    labels = np.random.default_rng(4).integers(0, width, rows).astype(np.int32)
    tokens = np.random.default_rng(5).integers(0, rows, 3 * rows).astype(np.int32)
    spread = normal(3 * rows, width, seed=6)
    table: list[tuple[str, Callable[..., Any], Arrays]] = [
        ("elementwise", lambda x, y: jax.nn.gelu(x) * jax.nn.sigmoid(y) + jnp.exp(-x * x), (x, y)),
        ("row softmax", lambda x: jax.nn.softmax(4 * x, axis=-1), (x,)),
        ("rmsnorm and cast", _rms_norm, (x, gain)),
        ("layernorm", _layer_norm, (x, gain, bias)),
        ("cross entropy", _cross_entropy, (x, labels)),
        ("gather", lambda x, i: jnp.take(x, i, axis=0), (x, tokens)),
        ("scatter-add", lambda x, i, u: x.at[i].add(u), (x, tokens, spread)),
        ("sum of rows", lambda x: jnp.sum(x, axis=1), (x,)),
        ("sum of columns", lambda x: jnp.sum(x, axis=0), (x,)),
        ("largest of rows and columns", lambda x: (jnp.max(x, 1), jnp.max(x, 0)), (x,)),
        ("sum of columns in bf16", lambda x: jnp.sum(x, axis=0), (x.astype(BF16),)),
    ]
    for name in ("f32", "bf16", "f8E4M3FN"):
        dtype = np.float32 if name == "f32" else FORMATS[name][0]
        table.append((f"transpose {name}", jnp.transpose, (x.astype(dtype),)))
    table.append(("loop of known length", _scan, (normal(1024, width, seed=7),)))
    table.append(("loop whose length is data", _until, (np.full((), 9, np.int32), x)))
    for name, fn, inputs in (table[1], table[-1]) if small else table:
        yield Program(f"kernel {name}", lower(fn, *inputs), inputs, "near")
    if not small:
        yield from _updates()


def lowered(m: int, n: int, k: int, dtype: Any, result: Any, count: int = 1) -> str:
    """Returns the text of products of [m, k] with `count` [n, k] each, in Hopper's FP8 layout."""
    dims = (((1,), (1,)), ((), ()))
    a, b = jax.ShapeDtypeStruct((m, k), dtype), jax.ShapeDtypeStruct((n, k), dtype)

    def fn(a: Any, *many: Any) -> Any:
        return [jax.lax.dot_general(a, b, dims, preferred_element_type=result) for b in many]

    return lower(fn, a, *[b] * count)


def _product(
    name: str, a: NDArray[Any], b: NDArray[Any], dims: Any, result: Any, kind: str
) -> Program:
    def fn(a: Any, b: Any) -> Any:
        return jax.lax.dot_general(a, b, dims, preferred_element_type=result)

    def exact(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        (left, right), (batch, _) = dims
        order = [*batch, *(i for i in range(a.ndim) if i not in (*batch, *left)), *left]
        turned = [*batch, *right, *(i for i in range(b.ndim) if i not in (*batch, *right))]
        return np.matmul(np.transpose(a, order), np.transpose(b, turned))

    wide, other = a.astype(np.float64), b.astype(np.float64)
    return Program(
        f"gemm {name}",
        lower(fn, a, b),
        (a, b),
        "product",
        expected=(exact(wide, other),),
        magnitude=exact(np.abs(wide), np.abs(other)),
        tolerance={"accumulation": kind},
    )


def _scaled_by_memory(m: int, n: int, k: int) -> Program:
    """Returns an FP8 product whose scales are arguments of the step."""
    a, b = normal(m, k, dtype=E4M3), normal(n, k, seed=1, dtype=E4M3)
    scales = np.float32(0.375), np.float32(2.0**-3)
    text = f"""
      func.func public @main(%a: tensor<{m}x{k}xf8E4M3FN>, %b: tensor<{n}x{k}xf8E4M3FN>,
                             %sa: tensor<f32>, %sb: tensor<f32>) -> tensor<{m}x{n}xbf16> {{
        %x = scalify.dequantize %a, %sa : tensor<{m}x{k}xf8E4M3FN> -> tensor<{m}x{k}xf32>
        %y = scalify.dequantize %b, %sb : tensor<{n}x{k}xf8E4M3FN> -> tensor<{n}x{k}xf32>
        %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
            : (tensor<{m}x{k}xf32>, tensor<{n}x{k}xf32>) -> tensor<{m}x{n}xbf16>
        return %z : tensor<{m}x{n}xbf16>
      }}"""
    factor = float(scales[0]) * float(scales[1])
    wide, other = a.astype(np.float64), b.astype(np.float64)
    return Program(
        "gemm f8E4M3FN x f8E4M3FN, scales in memory",
        text,
        (a, b, *(np.asarray(scale) for scale in scales)),
        "product",
        {"compileFrom": "precision"},
        (factor * (wide @ other.T),),
        factor * (np.abs(wide) @ np.abs(other).T),
        {"accumulation": "f8"},
    )


# Block shapes of both operands, [rows, along the sum]; 0 for the whole extent.
SCALINGS = {
    "by rows": ((1, 0), (1, 0)),
    "by 1x128 and 128x128": ((1, 128), (128, 128)),
    "by 1x128": ((1, 128), (1, 128)),
}


def many_scales(m: int, n: int, k: int, scaling: str) -> str:
    """Returns the text of an FP8 product of [m, k] and [n, k] whose scales are arguments."""
    types, casts = [], []
    for name, rows, block in zip("ab", (m, n), SCALINGS[scaling], strict=True):
        data, wide = f"tensor<{rows}x{k}xf8E4M3FN>", f"tensor<{rows}x{k}xf32>"
        scales = f"tensor<{'x'.join(map(str, _grid(rows, k, block)))}xf32>"
        types.append((data, scales))
        casts.append(
            f"%{name}w = scalify.dequantize %{name}, %s{name} by {scales} "
            f"{{block = array<i64: {block[0]}, {block[1]}>}} : {data} -> {wide}"
        )
    (a, sa), (b, sb) = types
    return f"""
      func.func public @main(%a: {a}, %b: {b}, %sa: {sa}, %sb: {sb}) -> tensor<{m}x{n}xbf16> {{
        {casts[0]}
        {casts[1]}
        %z = stablehlo.dot_general %aw, %bw, contracting_dims = [1] x [1]
            : (tensor<{m}x{k}xf32>, tensor<{n}x{k}xf32>) -> tensor<{m}x{n}xbf16>
        return %z : tensor<{m}x{n}xbf16>
      }}"""


def _grid(rows: int, columns: int, block: tuple[int, int]) -> tuple[int, int]:
    """Returns the number of blocks in each direction; the last ones may be partial."""
    down, along = (
        -(-extent // (size or extent)) for extent, size in zip((rows, columns), block, strict=True)
    )
    return down, along


def _with_many_scales(m: int, n: int, k: int, scaling: str) -> Program:
    """Returns that product with its inputs; scales are powers of two, as in every recipe."""
    draw = np.random.default_rng(2)
    data, scales, wide = [], [], []
    for rows, block in zip((m, n), SCALINGS[scaling], strict=True):
        values = normal(rows, k, seed=rows, dtype=E4M3)
        grid = np.exp2(draw.integers(-3, 4, _grid(rows, k, block))).astype(np.float32)
        spread = np.repeat(np.repeat(grid, block[0] or rows, 0), block[1] or k, 1)[:rows, :k]
        data.append(values)
        scales.append(grid)
        wide.append(values.astype(np.float64) * spread)
    return Program(
        f"gemm f8E4M3FN x f8E4M3FN, scales {scaling}",
        many_scales(m, n, k, scaling),
        (*data, *scales),
        "product",
        {"compileFrom": "precision"},
        (wide[0] @ wide[1].T,),
        np.abs(wide[0]) @ np.abs(wide[1]).T,
        {"accumulation": "f8"},
    )


def _filled(m: int, n: int, k: int) -> Program:
    """Returns a product of casts over a sum that is no multiple of 16, with an odd row count."""
    a, b = normal(m, k), normal(n, k, seed=1)
    types = [(f"tensor<{rows}x{k}xf32>", f"tensor<{rows}x{k}xf8E4M3FN>") for rows in (m, n)]
    casts = "\n".join(
        f'%{v}q = scalify.quantize %{v}, %s {{cast = "{v}"}} : {wide} -> {narrow}\n'
        f"%{v}w = scalify.dequantize %{v}q, %s : {narrow} -> {wide}"
        for v, (wide, narrow) in zip("ab", types, strict=True)
    )
    text = f"""
      func.func public @main(%a: {types[0][0]}, %b: {types[1][0]}) -> tensor<{m}x{n}xf32> {{
        %s = stablehlo.constant dense<0.125> : tensor<f32>
        {casts}
        %z = stablehlo.dot_general %aw, %bw, contracting_dims = [1] x [1]
            : ({types[0][0]}, {types[1][0]}) -> tensor<{m}x{n}xf32>
        return %z : tensor<{m}x{n}xf32>
      }}"""
    left, right = (0.125 * _saturated(x, "f8E4M3FN", -3).astype(np.float64) for x in (a, b))
    return Program(
        "gemm f8E4M3FN x f8E4M3FN, a sum that is filled up",
        text,
        (a, b),
        "product",
        {"compileFrom": "precision"},
        (left @ right.T,),
        np.abs(left) @ np.abs(right).T,
        {"accumulation": "f8"},
    )


def products(small: bool) -> Iterator[Program]:
    """Yields products of every pair of formats, layouts, and batches."""
    m, n, k = (32, 48, 64) if small else (128, 256, 512)
    # Partial blocks, and scales that must be copied to the library's layout.
    yield _filled(*((33, 52, 72) if small else (129, 260, 500)))
    for scaling in SCALINGS:
        yield _with_many_scales(*((32, 48, 144) if small else (144, 400, 656)), scaling)
    last, plain = (((1,), (1,)), ((), ())), (((1,), (0,)), ((), ()))
    first = (((0,), (0,)), ((), ()))
    yield _scaled_by_memory(m, n, k)
    for left, right, result in ((E4M3, E4M3, BF16), (E5M2, E4M3, np.float32), (E4M3, E5M2, BF16)):
        a, b = normal(m, k, dtype=left), normal(n, k, seed=1, dtype=right)
        name = f"{MLIR[np.dtype(left)]} x {MLIR[np.dtype(right)]}"
        yield _product(name, a, b, last, result, "f8")
        if small:
            return
    for name, dtype in (("bf16", BF16), ("f16", np.float16), ("f32", np.float32)):
        tall, wide = normal(m, k, dtype=dtype), normal(k, n, seed=1, dtype=dtype)
        turned, across = np.ascontiguousarray(tall.T), np.ascontiguousarray(wide.T)
        yield _product(f"{name} NN", tall, wide, plain, dtype, name)
        yield _product(f"{name} NT", tall, across, last, dtype, name)
        yield _product(f"{name} TN", turned, wide, first, dtype, name)
    each = (((2,), (2,)), ((0,), (0,)))
    for name, dtype in (("bf16", BF16), ("f8E4M3FN", E4M3)):
        a, b = normal(6, m, 64, dtype=dtype), normal(6, 64, 64, seed=1, dtype=dtype)
        kind = "f8" if dtype is E4M3 else name
        yield _product(f"{name}, a batch of 6", a, b, each, BF16, kind)


def _exact_attention(
    q: Any, k: Any, v: Any, grad: Any, causal: bool
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Returns result and gradients [B, T, N, H] in F64, and the sums of their terms' magnitudes."""
    group = q.shape[2] // k.shape[2]
    q, k, v, grad = (np.swapaxes(x.astype(np.float64), 1, 2) for x in (q, k, v, grad))
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = q.shape[-1] ** -0.5
    scores = q @ np.swapaxes(wide_k, 2, 3) * scale
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    weights = raised / raised.sum(-1, keepdims=True)
    inner = grad @ np.swapaxes(wide_v, 2, 3)
    shared = (weights * inner).sum(-1, keepdims=True)
    ds = weights * (inner - shared) * scale
    size = weights * (np.abs(grad) @ np.swapaxes(np.abs(wide_v), 2, 3) + np.abs(shared)) * scale

    def heads(x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    turned, large = np.swapaxes(ds, 2, 3), np.swapaxes(size, 2, 3)
    mixed = np.swapaxes(weights, 2, 3)
    found = [weights @ wide_v, ds @ wide_k, heads(turned @ q), heads(mixed @ grad)]
    terms = [
        weights @ np.abs(wide_v),
        size @ np.abs(wide_k),
        heads(large @ np.abs(q)),
        heads(mixed @ np.abs(grad)),
    ]
    return ([np.swapaxes(x, 1, 2) for x in each] for each in (found, terms))  # type: ignore[return-value]


def attentions(small: bool) -> Iterator[Program]:
    """Yields attentions of cuDNN, forward and gradients as one result."""
    batch, length = (1, 64) if small else (1, 256)
    table = [("bf16, causal, grouped", BF16, 4, 1, 128, True)]
    if not small:
        table.append(("bf16, all keys", BF16, 2, 2, 64, False))
        table.append(("f16, causal", np.float16, 2, 2, 64, True))
    for name, dtype, heads, kv_heads, size, causal in table:
        q, grad = (normal(batch, length, heads, size, seed=s, dtype=dtype) for s in (0, 3))
        k, v = (normal(batch, length, kv_heads, size, seed=s, dtype=dtype) for s in (1, 2))

        def fn(q: Any, k: Any, v: Any, grad: Any, causal: bool = causal) -> Any:
            out, pull = jax.vjp(lambda *x: nn.attention(*x, causal=causal), q, k, v)
            return jnp.concatenate([x.reshape(-1) for x in (out, *pull(grad))])

        inputs = (q, k, v, grad)
        exact, terms = _exact_attention(*inputs, causal)
        yield Program(
            f"attention {name}",
            lower(fn, *inputs),
            inputs,
            "product",
            expected=(np.concatenate([x.reshape(-1) for x in exact]),),
            magnitude=np.concatenate([x.reshape(-1) for x in terms]),
            tolerance={"accumulation": "attention"},
        )
