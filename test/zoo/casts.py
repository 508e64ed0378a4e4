"""What the quantizing casts of a rewritten function read, at any depth of loops and branches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import instrument
import jax
import numpy as np
from jax.extend.mlir import ir

import scalify
from scalify import _compiler
from scalify._dtypes import to_numpy

__all__ = ["Probe", "physical"]


def _defining(value: Any, name: str) -> Any | None:
    """Returns the op that makes a value, if it is of this name."""
    owner = value.owner
    if not hasattr(owner, "operation"):
        return None
    return owner.operation if owner.operation.name == name else None


def physical(leaf: Any) -> Any:
    """Returns what main takes for a leaf: a random key's data, else the leaf."""
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


def _is_narrow(kind: Any) -> bool:
    element = str(ir.RankedTensorType(kind).element_type)
    return element.startswith("f8") or element == "f16"


class Probe:
    """A function rewritten by a recipe, which shows what its casts read.

    The rewritten text is instrumented and compiled once; calls with other values of the same
    shapes run it again.
    """

    def __init__(
        self, fn: Callable[..., Any], recipe: str, args: Any, scales: Any, **extra: Any
    ) -> None:
        """Rewrites and compiles a function.

        Args:
            fn: the function.
            recipe: its recipe.
            args: its arguments.
            scales: of the arguments.
            **extra: other options of the compiler.
        """
        lowered = jax.jit(fn, keep_unused=True).lower(*args)
        # What a step would carry starts from these constants.
        options = {"recipe": recipe, "scales": scales.entries(), "carryScales": False}
        options |= extra
        text, rows, _ = _compiler.transform(lowered.as_text(debug_info=True), json.dumps(options))
        casts = scalify.Report(json.loads(rows)).casts()
        # A cast to BF16 neither saturates nor needs a scale.
        self.rows = [row for row in casts if row["format"] != "bf16"]
        module = instrument.parse(text)
        recorder = instrument.Recorder(module)
        self._in_body: list[bool] = []
        self._results = len(jax.tree.leaves(lowered.out_info))
        entry = recorder.main.regions[0].blocks[0]

        def visit(op: Any) -> None:
            if op.name != "stablehlo.convert" or not _is_narrow(op.results[0].type):
                return
            # A select makes NaN of infinities.
            select = _defining(op.operands[0], "stablehlo.select")
            clamped = op.operands[0] if select is None else select.operands[1]
            clamp = _defining(clamped, "stablehlo.clamp")
            if clamp is None:
                return
            recorder.record(clamp.operands[1])
            self._in_body.append(op.block != entry)

        instrument.walk(entry, visit)
        if len(recorder.values) != len(self.rows):
            raise RuntimeError(
                f"{len(recorder.values)} casts in the text, {len(self.rows)} in the report"
            )
        recorder.finish()
        self._text = str(module)

    def __call__(self, *args: Any) -> list[dict[str, Any]]:
        """Returns a row per cast, as `scalify.probe` does, that was reached at all."""
        leaves = [physical(leaf) for leaf in jax.tree.leaves(args)]
        outputs = iter(instrument.run_text(self._text, leaves)[self._results :])
        rows = []
        for row, in_body in zip(self.rows, self._in_body, strict=True):
            data = next(outputs)
            if in_body:
                data = data[: int(next(outputs))]
            if row["scale"] is None or data.size == 0:
                continue
            scale = 2.0 ** float(row["scale"])
            rows.append(
                {
                    "name": row["cast"],
                    "loc": row["location"],
                    "phase": row["phase"],
                    "format": to_numpy(row["format"]).name,
                    "scale": scale,
                    "value": data.astype(np.float64) * scale,
                    "reason": row.get("reason", ""),
                }
            )
        return rows
