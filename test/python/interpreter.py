"""Runs StableHLO text by the reference interpreter that jaxlib has."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

__all__ = ["interpret"]


def _widened(text: str) -> str:
    """The text with a main that returns what `@main` did, narrow floats as F32, which holds them.

    Elements of other floats cannot be read from Python.
    """
    result = text.split("-> (", 1)[1].split(") {", 1)[0]
    types = [part.strip() for part in result.split(", ")]
    lines, returned = [], []
    for i, type_ in enumerate(types):
        name, element = f"%r#{i}", type_[:-1].split("x")[-1]
        if element == "bf16" or element.startswith("f8"):
            wide = type_.replace(element, "f32")
            lines.append(f"%w{i} = stablehlo.convert {name} : ({type_}) -> {wide}")
            returned.append((f"%w{i}", wide))
        else:
            returned.append((name, type_))
    values = ", ".join(value for value, _ in returned)
    wides = ", ".join(wide for _, wide in returned)
    body = "\n    ".join(lines)
    main = (
        f"  func.func @main() -> ({wides}) {{\n"
        f"    %r:{len(types)} = func.call @inner() : () -> ({', '.join(types)})\n"
        f"    {body}\n    return {values} : {wides}\n  }}\n}}\n"
    )
    inner = text.replace("func.func @main", "func.func private @inner", 1)
    return inner.rstrip().removesuffix("}") + main


def interpret(text: str) -> list[np.ndarray]:
    """Returns the results of `@main`, which takes no arguments; BF16 and FP8 as F32.

    Args:
        text: a module of StableHLO alone. The interpreter ends the process where it divides
            integers by zero.
    """
    context = jax_mlir.make_ir_context()
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(_widened(text), context)
        stablehlo.register_interpreter_dialect(context)
        results: list[Any] = stablehlo.eval_module(module, [])
        return [np.array(result) for result in results]
