"""Runs Shardy's partitioner, as jaxlib has it, on a program from standard input.

A program of its own: a fault in Shardy aborts the process. Nothing of scalify is imported.
"""

from __future__ import annotations

import sys

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = ["main"]

# Shardy's last pass, sdy-convert-global-to-local, is left out: it aborts on reduce-scatters that
# `canonicalize` forms and on products whose sum is split. `scalify-localize` takes its place.
PASSES = (
    "sdy-propagation-pipeline",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize",
)


def main() -> int:
    """Prints the program with explicit collectives; returns 1, with Shardy's words, if it fails."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        # Attributes of scalify's own are nothing to Shardy, and stay.
        context.allow_unregistered_dialects = True
        for dialect in (chlo, sdy, stablehlo):
            dialect.register_dialect(context)
        try:
            module = ir.Module.parse(sys.stdin.read())
            manager = passmanager.PassManager.parse(f"builtin.module({','.join(PASSES)})")
            manager.run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        print(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
