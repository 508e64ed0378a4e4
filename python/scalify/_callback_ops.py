"""JAX's callbacks in modules: which functions they call, and how another module calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir

__all__ = ["callbacks_of", "take_over"]

_TARGET = re.compile(r"xla_(ffi_)?(partitioned_)?python_(cpu|gpu)_callback")


def callbacks_of(lowered: jax.stages.Lowered) -> tuple[Callable[..., Any], ...]:
    """Returns the functions that a lowered program calls back, by its numbers for them.

    They take numpy arrays and return numpy arrays, tokens as they are.
    """
    # JAX has no public way from a program to its callbacks.
    inner: Any = lowered
    return tuple(inner._lowering.compile_args.get("host_callbacks", ()))


def take_over(
    source: Any, callbacks: Sequence[Callable[..., Any]], context: Any, platform: str
) -> None:
    """Makes the callbacks of a module those of the program that it becomes a part of.

    Args:
        source: the module, whose numbers change.
        callbacks: by its own numbers.
        context: JAX's, of the program.
        platform: that the program is for.

    Raises:
        NotImplementedError: the platform has no such calls.
    """
    numbers: dict[int, int] = {}

    def renumbered(number: int) -> int:
        if number not in numbers:
            context.add_host_callback(callbacks[number])
            numbers[number] = len(context.host_callbacks) - 1
        return numbers[number]

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            if match := _TARGET.fullmatch(target):
                if platform not in ("cpu", "cuda", "rocm"):
                    raise NotImplementedError(f"callbacks of a transformed function on {platform}")
                device = "cpu" if platform == "cpu" else "gpu"
                name = target.replace(f"_{match[3]}_callback", f"_{device}_callback")
                operation.attributes["call_target_name"] = ir.StringAttr.get(name)
                _renumber(operation, renumbered)
        return ir.WalkResult.ADVANCE

    source.operation.walk(visit)


def _renumber(operation: Any, renumbered: Callable[[int], int]) -> None:
    for key in ("mhlo.backend_config", "backend_config"):
        if key in operation.attributes and isinstance(operation.attributes[key], ir.DictAttr):
            index = ir.IntegerAttr(ir.DictAttr(operation.attributes[key])["index"])
            number = renumbered(int(np.uint64(index.value)))
            new = ir.IntegerAttr.get(index.type, number)
            operation.attributes[key] = ir.DictAttr.get({"index": new})
