"""Runs StableHLO text on XLA:CPU through jaxlib: the numeric oracle of the tests.

`run_stablehlo(text, *arrays)` compiles the text as `jax.jit` would and runs it
once. Discardable attributes that Scalify adds (`scalify.*`) are accepted.
The caller's arrays are copied in, so donation leaves them valid and unchanged.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

__all__ = ["Program", "compile_stablehlo", "parse_stablehlo", "run_stablehlo"]

_XLA_DIALECTS = frozenset({"builtin", "chlo", "func", "sdy", "stablehlo"})


def _check_dialects(operation: Any) -> None:
    """Raises ValueError at the first op that XLA does not know (XLA itself would crash)."""
    dialect = operation.name.split(".", 1)[0]
    if dialect not in _XLA_DIALECTS:
        raise ValueError(f"'{operation.name}' is not StableHLO ({operation.location})")
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                _check_dialects(inner.operation)


def parse_stablehlo(text: str) -> ir.Module:
    """Parses and verifies `text`; the module keeps its context alive.

    Raises:
        ValueError: the text does not parse or verify; the message holds the diagnostics.
    """
    context = jax_mlir.make_ir_context()
    # `scalify.*` attributes belong to a dialect that jaxlib does not have.
    context.allow_unregistered_dialects = True
    with context:
        try:
            module = ir.Module.parse(text, context)
        except ir.MLIRError as error:
            raise ValueError(f"jaxlib does not accept this StableHLO: {error}") from error
        _check_dialects(module.operation)
    return module


def _main_inputs(module: ir.Module) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Returns shape and element type of each argument of @main."""
    for operation in module.body.operations:
        if isinstance(operation, func.FuncOp) and operation.name.value == "main":
            avals = []
            for type_ in operation.type.inputs:
                tensor = ir.RankedTensorType(type_)
                avals.append((tuple(tensor.shape), _numpy_dtype(tensor.element_type)))
            return avals
    raise ValueError("the module has no function @main")


@functools.cache
def _numpy_dtypes() -> dict[str, np.dtype]:
    """Returns numpy's type for the spelling of each element type that JAX can lower."""
    dtypes: dict[str, np.dtype] = {}
    with jax_mlir.make_ir_context():
        for dtype, make in jax_mlir._dtype_to_ir_type.items():
            # float0 and the 1-bit integers share `i1` with bool, which is the one meant.
            if np.dtype(dtype).name != "void" and dtype != jax.dtypes.float0:
                dtypes.setdefault(str(make()), np.dtype(dtype))
    return dtypes


def _numpy_dtype(element_type: ir.Type) -> np.dtype:
    """Returns the numpy type (ml_dtypes for bf16 and f8) of an MLIR element type."""
    try:
        return _numpy_dtypes()[str(element_type)]
    except KeyError:
        raise ValueError(f"element type '{element_type}' has no numpy type") from None


class Program:
    """A StableHLO module compiled for one XLA:CPU device."""

    def __init__(self, text: str) -> None:
        """Compiles `text`, a module with one public `@main` of static shapes.

        Raises:
            ValueError: the text does not parse or verify.
            jax.errors.JaxRuntimeError: XLA cannot compile it.
        """
        module = parse_stablehlo(text)
        self._inputs = _main_inputs(module)
        self._device = jax.devices("cpu")[0]
        options = xla_client.CompileOptions()
        options.num_replicas = 1
        options.num_partitions = 1
        options.device_assignment = xla_client.DeviceAssignment.create(np.zeros((1, 1), np.int32))
        devices = xla_client.DeviceList((self._device,))
        with module.context:
            self._executable = self._device.client.compile_and_load(module, devices, options)

    def __call__(self, *arrays: Any) -> list[np.ndarray]:
        """Runs the program once on copies of `arrays` (numpy or JAX, in main's order).

        Raises:
            ValueError: the number, a shape or an element type does not fit main's arguments.
        """
        if len(arrays) != len(self._inputs):
            raise ValueError(f"@main takes {len(self._inputs)} arrays, not {len(arrays)}")
        buffers = []
        for index, (array, (shape, dtype)) in enumerate(zip(arrays, self._inputs, strict=True)):
            copy = np.array(array)
            if copy.shape != shape or copy.dtype != dtype:
                raise ValueError(
                    f"argument {index} of @main is {dtype}{list(shape)}, "
                    f"not {copy.dtype}{list(copy.shape)}"
                )
            buffers.append(jax.device_put(copy, self._device))
        outputs = self._executable.execute_sharded(buffers)
        return [np.array(shards[0]) for shards in outputs.disassemble_into_single_device_arrays()]


@functools.lru_cache(maxsize=16)
def compile_stablehlo(text: str) -> Program:
    """Returns the compiled program of `text`, cached by the text."""
    return Program(text)


def run_stablehlo(text: str, *arrays: Any) -> list[np.ndarray]:
    """Runs `text` on XLA:CPU and returns main's results as numpy arrays in order.

    Args:
        text: a StableHLO module; `scalify.*` attributes may be present.
        *arrays: main's arguments in order.

    Raises:
        ValueError: the text does not parse, or the arrays do not fit main's arguments.
        jax.errors.JaxRuntimeError: XLA cannot compile or run it.
    """
    return compile_stablehlo(text)(*arrays)
