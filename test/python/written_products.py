"""Every `plan.matmul` of whole matrices, as StableHLO ops, as PlanOps.td defines it.

A match has groups m, n, k; a, b, a0, a1, b0, b1, c0, c1: operands and strides; out.
"""

from __future__ import annotations

import re

import numpy as np

__all__ = ["element_of", "product", "size_of", "store"]


def size_of(tensor: str) -> int:
    """Returns the elements of a type as text."""
    return int(np.prod([int(extent) for extent in re.findall(r"(\d+)x", tensor)]))


def element_of(tensor: str) -> str:
    """Returns the element type of a type as text."""
    return tensor.rpartition("x")[2].rstrip(">")


def product(
    match: re.Match[str], types: tuple[str, str], starts: tuple[int, int] = (0, 0)
) -> tuple[list[str], str, str]:
    """Returns ops, the F32 product of two operands from their first elements on, and its type."""
    m, n, k = (int(match[name]) for name in "mnk")
    own, wide = f"%m{match['out'][1:]}", f"tensor<{m}x{n}xf32>"
    lines: list[str] = []
    shapes: list[str] = []
    sides = (("a", m, k), ("b", k, n))
    for (name, rows, columns), given, start in zip(sides, types, starts, strict=True):
        outer, inner = int(match[f"{name}0"]), int(match[f"{name}1"])
        lies = (rows, columns) if (outer, inner) == (columns, 1) else (columns, rows)
        assert lies == (rows, columns) or (outer, inner) == (1, rows)
        element, size = element_of(given), rows * columns
        whole = f"tensor<{size_of(given)}x{element}>"
        part, matrix = f"tensor<{size}x{element}>", f"tensor<{lies[0]}x{lies[1]}x{element}>"
        lines += [
            f"{own}_{name}f = stablehlo.reshape {match[name]} : ({given}) -> {whole}",
            f"{own}_{name}p = stablehlo.slice {own}_{name}f [{start}:{start + size}]"
            f" : ({whole}) -> {part}",
            f"{own}_{name} = stablehlo.reshape {own}_{name}p : ({part}) -> {matrix}",
        ]
        shapes.append(matrix)
    left = 1 if int(match["a1"]) == 1 else 0
    right = 0 if int(match["b1"]) == 1 else 1
    lines.append(
        f"{own}_0 = stablehlo.dot_general {own}_a, {own}_b, contracting_dims = [{left}] x [{right}]"
        f" : ({shapes[0]}, {shapes[1]}) -> {wide}"
    )
    return lines, f"{own}_0", wide


def store(match: re.Match[str], last: str, result: str) -> list[str]:
    """Returns ops that round F32 numbers to the elements of a result, in its order."""
    m, n = int(match["m"]), int(match["n"])
    own, kind = f"%m{match['out'][1:]}", element_of(result)
    stored = f"tensor<{m}x{n}x{kind}>"
    lines = [f"{own}_s = stablehlo.convert {last} : (tensor<{m}x{n}xf32>) -> {stored}"]
    last = f"{own}_s"
    if (int(match["c0"]), int(match["c1"])) != (n, 1):
        assert (int(match["c0"]), int(match["c1"])) == (1, m)
        turned = f"tensor<{n}x{m}x{kind}>"
        lines.append(
            f"{own}_t = stablehlo.transpose {last}, dims = [1, 0] : ({stored}) -> {turned}"
        )
        last, stored = f"{own}_t", turned
    return [*lines, f"{match['out']} = stablehlo.reshape {last} : ({stored}) -> {result}"]
