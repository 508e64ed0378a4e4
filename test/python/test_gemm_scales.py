"""Operands with many scales, in the form that a GPU's GEMMs read, equal the originals."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text

import scalify

E4M3 = ml_dtypes.float8_e4m3fn
Shape = tuple[int, ...]
# Shapes and blocks of the operands, which of their dimensions are summed, and the marks that the
# GEMM's operands get; none for a product of BF16.
CASES: dict[str, tuple[Shape, Shape, int, Shape, Shape, int, tuple[str, ...]]] = {
    "a layer": ((48, 400), (1, 128), 1, (400, 272), (128, 128), 0, ("vectors", "blocks")),
    "its input": ((48, 272), (1, 128), 1, (400, 272), (128, 128), 1, ("vectors", "blocks")),
    "its weight": ((400, 48), (128, 1), 0, (400, 272), (128, 1), 0, ("vectors", "vectors")),
    "turned": ((272, 400), (128, 128), 1, (48, 400), (1, 128), 1, ("blocks", "vectors")),
    "rows": ((48, 400), (1, 0), 1, (400, 272), (0, 1), 0, ("rows", "rows")),
    "a short sum": ((48, 96), (1, 128), 1, (96, 272), (128, 128), 0, ("rows", "rows")),
    "two squares": ((272, 400), (128, 128), 1, (400, 144), (128, 128), 0, ("blocks", "vectors")),
    "rows and one": ((48, 400), (1, 0), 1, (400, 272), (0, 0), 0, ("rows", "rows")),
    "sequences": ((3, 16, 400), (1, 1, 128), 2, (400, 32), (128, 128), 0, ("vectors", "blocks")),
    "blocks of 32": ((48, 64), (1, 32), 1, (64, 32), (32, 1), 0, ()),
    "odd extents": ((47, 400), (1, 128), 1, (400, 272), (128, 128), 0, ()),
}


def grid(shape: Shape, block: Shape) -> Shape:
    """Returns how many blocks a tensor has along each dimension; 0 spans."""
    return tuple(-(-extent // (size or extent)) for extent, size in zip(shape, block, strict=True))


def spread(scales: np.ndarray, shape: Shape, block: Shape) -> np.ndarray:
    """Returns the scale of each element."""
    for axis, (extent, size) in enumerate(zip(shape, block, strict=True)):
        scales = np.repeat(scales, size or extent, axis)[(slice(None),) * axis + (slice(extent),)]
    return scales


def tensor(shape: Shape, dtype: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), dtype])}>"


def program(name: str) -> str:
    left, left_block, left_sum, right, right_block, right_sum, _ = CASES[name]
    lines, types = [], []
    for value, shape, block in (("a", left, left_block), ("b", right, right_block)):
        data, wide = tensor(shape, "f8E4M3FN"), tensor(shape, "f32")
        scales = tensor(grid(shape, block), "f32")
        types += [f"%{value}: {data}", f"%s{value}: {scales}"]
        sizes = ", ".join(map(str, block))
        lines.append(
            f"%{value}w = scalify.dequantize %{value}, %s{value} by {scales} "
            f"{{block = array<i64: {sizes}>}} : {data} -> {wide}"
        )
    result = tensor(
        (*np.delete(left, left_sum).tolist(), *np.delete(right, right_sum).tolist()), "f32"
    )
    lines.append(
        f"%d = stablehlo.dot_general %aw, %bw, contracting_dims = [{left_sum}] x [{right_sum}] "
        f": ({tensor(left, 'f32')}, {tensor(right, 'f32')}) -> {result}"
    )
    lines.append(f"return %d : {result}")
    body = "\n".join(lines)
    return f"func.func public @main({', '.join(types)}) -> {result} {{\n{body}\n}}"


@pytest.mark.parametrize("name", CASES)
def test_what_a_gemm_reads_stands_for_the_operands(name: str) -> None:
    left, left_block, left_sum, right, right_block, right_sum, marks = CASES[name]
    text = program(name)
    narrow = scalify.opt(text, "builtin.module(scalify-set-target,func.func(scalify-narrow-dots))")
    assert tuple(re.findall(r'plan.scaling = "(\w+)"', narrow)) == marks
    rng = np.random.default_rng(0)
    inputs, wide = [], []
    for shape, block in ((left, left_block), (right, right_block)):
        data = rng.normal(size=shape).astype(np.float32).astype(E4M3)
        scales = np.exp2(rng.integers(-6, 7, grid(shape, block))).astype(np.float32)
        inputs += [data, scales]
        wide.append(data.astype(np.float64) * spread(scales, shape, block))
    want = np.tensordot(wide[0], wide[1], ((left_sum,), (right_sum,)))
    # F32 sums of at most 400 exact products, relative to the sum of their magnitudes.
    bound = 400 * 2.0**-24 * np.tensordot(*map(np.abs, wide), ((left_sum,), (right_sum,)))
    exe = compile_text(narrow, compileFrom="precision", recipe="none")
    (got,) = exe.run(inputs)
    assert (np.abs(np.asarray(got) - want) <= bound).all()


@pytest.mark.parametrize(("m", "k", "n"), [(40, 100, 48), (33, 1000, 20), (5, 24, 12)])
def test_filled_sums_are_the_same_sums(m: int, k: int, n: int) -> None:
    """The three products of a layer: K, then N, then M are the sum, and one row is any number."""
    types = {"x": (m, k), "w": (k, n), "g": (m, n)}
    casts = [
        f'%{v}q = scalify.quantize %{v}, %s {{cast = "{v}"}} : {tensor(t, "f32")} -> '
        f"{tensor(t, 'f8E4M3FN')}\n%{v}w = scalify.dequantize %{v}q, %s : "
        f"{tensor(t, 'f8E4M3FN')} -> {tensor(t, 'f32')}"
        for v, t in types.items()
    ]
    dots = [("x", "w", 1, 0), ("g", "w", 1, 1), ("x", "g", 0, 0)]
    lines, results = ["%s = stablehlo.constant dense<0.5> : tensor<f32>", *casts], []
    for i, (a, b, left, right) in enumerate(dots):
        shape = (types[a][1 - left], types[b][1 - right])
        results.append(tensor(shape, "f32"))
        lines.append(
            f"%d{i} = stablehlo.dot_general %{a}w, %{b}w, contracting_dims = [{left}] x [{right}]"
            f" : ({tensor(types[a], 'f32')}, {tensor(types[b], 'f32')}) -> {results[-1]}"
        )
    given = ", ".join(f"%{v}: {tensor(t, 'f32')}" for v, t in types.items())
    wanted = ", ".join(results)
    lines.append(f"return %d0, %d1, %d2 : {wanted}")
    text = f"func.func public @main({given}) -> ({wanted}) {{\n" + "\n".join(lines) + "\n}"
    narrow = scalify.opt(text, "builtin.module(scalify-set-target,func.func(scalify-narrow-dots))")
    assert not re.search(r"dot_general.*bf16", narrow)
    for left, right in re.findall(
        r"dot_general .*: \(tensor<(.*?)xf8\w+>, tensor<(.*?)xf8", narrow
    ):
        assert int(left.split("x")[1]) % 16 == 0 and int(right.split("x")[1]) % 16 == 0
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=t).astype(np.float32) for t in types.values()]
    found = compile_text(narrow, compileFrom="precision", recipe="none").run(inputs)
    wide = {
        v: 0.5 * (x * 2).astype(E4M3).astype(np.float64) for v, x in zip(types, inputs, strict=True)
    }
    for got, (a, b, left, right) in zip(found, dots, strict=True):
        want = np.tensordot(wide[a], wide[b], ((left,), (right,)))
        bound = np.tensordot(np.abs(wide[a]), np.abs(wide[b]), ((left,), (right,)))
        # F32 sums of at most 1000 exact products.
        assert (np.abs(np.asarray(got) - want) <= 1000 * 2.0**-24 * bound).all()
