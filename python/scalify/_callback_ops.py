"""JAX's callbacks in modules: finds their functions, and moves them to another module."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.mlir import ir

from scalify._dtypes import to_numpy

__all__ = ["callbacks_of", "take_over"]

_TARGET = re.compile(r"xla_(ffi_)?(partitioned_)?python_(cpu|gpu)_callback")
_PACKED = re.compile(r"x(ui[24]|i[24])>|<(ui[24]|i[24])>")


def callbacks_of(lowered: jax.stages.Lowered) -> tuple[Callable[..., Any], ...]:
    """Returns the functions that a lowered program calls back, by their index in it.

    They take and return numpy arrays; tokens pass through.
    """
    # JAX has no public API for a program's callbacks.
    inner: Any = lowered
    functions = list(inner._lowering.compile_args.get("host_callbacks", ()))

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call" and _TARGET.fullmatch(
            ir.StringAttr(operation.attributes["call_target_name"]).value
        ):
            types = [_PACKED.search(str(operand.type)) for operand in operation.operands]
            if any(types):
                names = [match[1] or match[2] if match else None for match in types]
                target = ir.StringAttr(operation.attributes["call_target_name"]).value
                name = f"{operation.name} @{target} at {operation.location}"
                _renumber(operation, lambda number: _convert(functions, number, names, name))
        return ir.WalkResult.ADVANCE

    if functions:
        module: Any = lowered.compiler_ir("stablehlo")
        with module.context:
            module.operation.walk(visit)
    return tuple(functions)


def _convert(
    functions: list[Callable[..., Any]], number: int, names: list[str | None], operation: str
) -> int:
    """Lets a function take integers of less than a byte, which an executable has in whole bytes.

    Raises:
        TypeError: by the function, if it is called with other operands than the operation has.
    """
    function = functions[number]

    def converted(*args: Any) -> Any:
        if len(args) != len(names):
            raise TypeError(
                f"{operation}: the callback was called with {len(args)} arguments, but the "
                f"operation has {len(names)} operands, of which {sum(map(bool, names))} are "
                "integers of less than a byte to be converted; pass them as int8 or uint8"
            )
        return function(
            *(
                np.asarray(arg).astype(to_numpy(name)) if name else arg
                for arg, name in zip(args, names, strict=True)
            )
        )

    functions[number] = converted
    return number


def take_over(
    source: Any, callbacks: Sequence[Callable[..., Any]], context: Any, platform: str
) -> None:
    """Registers the callbacks of a module with the program that it is merged into.

    Args:
        source: the module, whose callback indices are renumbered.
        callbacks: by their index in the module.
        context: JAX's module context of the program.
        platform: of the program.

    Raises:
        NotImplementedError: the platform has no Python callbacks.
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
                    raise NotImplementedError(f"no callbacks of transformed steps on {platform}")
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
