"""Runs passes of jaxlib's Shardy on programs from standard input.

Each line of input is a JSON list: a program's text, and the pipelines to run on it. Each line of
output is a JSON string: the program after them, in the generic form, which other parsers read. It
is a separate program, since a failure in Shardy aborts the process. It imports nothing of scalify.
"""

from __future__ import annotations

import json
import sys

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = ["main"]


def _parse(pipeline: str) -> passmanager.PassManager:
    """Returns the pass manager of a pipeline, without an option that jaxlib 0.7 does not have."""
    try:
        return passmanager.PassManager.parse(pipeline)
    except ValueError as error:
        option = "{enable-full-version=true}"
        if "no such option enable-full-version" not in str(error):
            raise
        return passmanager.PassManager.parse(pipeline.replace(option, ""))


def run(text: str, pipelines: list[str]) -> str:
    """Returns a program after pipelines of passes."""
    module = ir.Module.parse(text)
    _parse(f"builtin.module({','.join(pipelines)})").run(module.operation)
    asm: str = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    return asm


def main() -> int:
    """Answers each line; at the first failure prints Shardy's error and returns 1."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        # Shardy ignores attributes of the scalify dialect and keeps them.
        context.allow_unregistered_dialects = True
        for dialect in (chlo, sdy, stablehlo):
            dialect.register_dialect(context)
        for line in sys.stdin:
            try:
                print(json.dumps(run(*json.loads(line))), flush=True)
            except (ir.MLIRError, ValueError) as error:
                print(error, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
