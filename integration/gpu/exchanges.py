"""Collectives of one rank, which exchanges with itself: the results are the inputs."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from cases import Program

__all__ = ["exchanges"]

_JOIN = """({{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
      %s = stablehlo.{join} %a, %b : tensor<{element}>
      stablehlo.return %s : tensor<{element}>
    }})"""
_ALONE = "replica_groups = dense<0> : tensor<1x1xi64>"


def _collectives(element: str, joins: tuple[str, ...]) -> list[str]:
    """Returns the ops, each on `%x`, with CHANNEL to be replaced."""
    found = [
        f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, CHANNEL, {_ALONE}, '
        "use_global_device_ids}>",
        f'"stablehlo.all_to_all"(%x) <{{CHANNEL, concat_dimension = 0 : i64, {_ALONE}, '
        "split_count = 1 : i64, split_dimension = 0 : i64}>",
        f'"stablehlo.collective_broadcast"(%x) <{{CHANNEL, {_ALONE}}}>',
        '"stablehlo.collective_permute"(%x) <{CHANNEL, source_target_pairs = '
        "dense<0> : tensor<1x2xi64>}>",
    ]
    for join in joins:
        body = _JOIN.format(element=element, join=join)
        found.append(
            f'"stablehlo.all_reduce"(%x) <{{CHANNEL, {_ALONE}, use_global_device_ids}}> {body}'
        )
        found.append(
            f'"stablehlo.reduce_scatter"(%x) <{{CHANNEL, {_ALONE}, scatter_dimension = 0 : i64, '
            f"use_global_device_ids}}> {body}"
        )
    return found


def _text(element: str, rows: int, columns: int, joins: tuple[str, ...]) -> str:
    kind = f"tensor<{rows}x{columns}x{element}>"
    lines, ops = [], _collectives(element, joins)
    for number, op in enumerate(ops):
        channel = f"channel_handle = #stablehlo.channel_handle<handle = {number + 1}, type = 1>"
        lines.append(f"    %{number} = {op.replace('CHANNEL', channel)} : ({kind}) -> {kind}")
    kinds = ", ".join([kind] * len(ops))
    results = ", ".join(f"%{number}" for number in range(len(ops)))
    return (
        "module @exchange attributes {mhlo.num_partitions = 1 : i32, "
        "mhlo.num_replicas = 1 : i32} {\n"
        f"  func.func public @main(%x: {kind}) -> ({kinds}) {{\n"
        + "\n".join(lines)
        + f"\n    return {results} : {kinds}\n  }}\n}}\n"
    )


def exchanges(small: bool) -> Iterator[Program]:
    """Yields every kind of collective, by NCCL with one rank, in three formats.

    Reductions run in NCCL, and in kernels in the order of ranks.
    """
    rows, columns = (8, 16) if small else (128, 2048)
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    table = [("f32", np.float32, ("add", "maximum")), ("bf16", ml_dtypes.bfloat16, ("add",))]
    table.append(("f8E4M3FN", ml_dtypes.float8_e4m3fn, ()))
    for element, dtype, joins in table:
        text = _text(element, rows, columns, joins)
        same = (x.astype(dtype),) * (4 + 2 * len(joins))
        options = {"sums": "nccl"}
        yield Program(f"one-rank NCCL {element}", text, same[:1], "bits", options, same)
        if joins:
            name = f"one-rank NCCL {element}, sums in order"
            yield Program(name, text, same[:1], "bits", {}, same)
