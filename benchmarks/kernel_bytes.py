"""Counts the kernels of a layer of an 8B-shaped LLaMA for a GPU, and the bytes that they move.

Nothing is run: launches and buffers are read from the artefact of `--target=sm_90a`. A layer is the
difference between steps of `--layers` and of one layer fewer: its forward, its backward, its share
of the optimizer. A kernel moves the bytes that it reads and writes. The lower bound is that of the
same fusion: each value that crosses commands is written once, by its producer, and read once for
all its consumers. Traffic of GEMMs is not counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import re
import struct
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "llama"))
sys.path.insert(0, str(ROOT / "benchmarks" / "numerics"))

import gradients

import shapes
from scalify import _compiler

__all__ = ["Moved", "count", "main"]

RECIPES = ("none", "bf16", "fp8", "fp8-current")

Moved = dict[str, int]


def lower(layers: int, seq: int) -> str:
    """Returns the text of a training step of BF16 activations; nothing is allocated."""
    return shapes.lower(dataclasses.replace(shapes.LLAMA_8B, layers=layers, seq=seq), scanned=False)


def manifest_of(artefact: bytes) -> dict[str, Any]:
    """Returns an artefact's table of contents (docs/runtime.md has the format)."""
    (length,) = struct.unpack_from("<Q", artefact, 8)
    manifest: dict[str, Any] = json.loads(artefact[32 : 32 + length])
    return manifest


def bytes_of(buffer: dict[str, Any]) -> int:
    """Returns the bytes of a buffer of the manifest."""
    # Type names end in their bits, except for FP8's, where the first digit has them.
    bits = 8 if "f8" in buffer["dtype"] else int(re.sub(r"\D", "", buffer["dtype"]))
    return max(bits // 8, 1) * math.prod(buffer["shape"])


def count(manifest: dict[str, Any]) -> Moved:
    """Returns @step's kernels, GEMMs and attentions, kernel bytes, and their lower bound."""
    sizes = [bytes_of(buffer) for buffer in manifest["buffers"]]
    commands = manifest["functions"]["step"]
    kernels = [command for command in commands if command["op"] == "kernel"]
    reads = [i for kernel in kernels for i in kernel["bufs"][: kernel["reads"]]]
    writes = [i for kernel in kernels for i in kernel["bufs"][kernel["reads"] :]]
    return {
        "kernels": len(kernels),
        "gemms": sum(command["op"] == "gemm" for command in commands),
        "attentions": sum(command["op"] == "attention" for command in commands),
        "moved": sum(sizes[i] for i in reads) + sum(sizes[i] for i in writes),
        "least": sum(sizes[i] for i in set(reads)) + sum(sizes[i] for i in set(writes)),
    }


def layer(recipe: str, layers: int, seq: int) -> Moved:
    """Returns the counts that the last of `layers` layers adds."""
    steps = []
    for depth in (layers - 1, layers):
        options = json.dumps({"recipe": recipe, "target": "sm_90a"})
        artefact, _ = _compiler.compile(lower(depth, seq), options)
        steps.append(count(manifest_of(artefact)))
    before, after = steps
    return {name: after[name] - before[name] for name in after}


def main() -> int:
    """Runs the command; returns 1 if a layer moves more than --bar times the lower bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--bar", type=float, default=1.3)
    parser.add_argument("--write", action="store_true", help="to docs/research/gpu-kernels.md")
    options = parser.parse_args()
    found = {recipe: layer(recipe, options.layers, options.seq) for recipe in options.recipes}
    header = [
        "recipe",
        "kernels",
        "GEMMs",
        "attentions",
        "bytes moved by kernels",
        "least",
        "ratio",
    ]
    lines = [
        [
            recipe,
            str(moved["kernels"]),
            str(moved["gemms"]),
            str(moved["attentions"]),
            f"{moved['moved'] / 1e9:.2f} GB",
            f"{moved['least'] / 1e9:.2f} GB",
            f"{moved['moved'] / moved['least']:.2f}",
        ]
        for recipe, moved in found.items()
    ]
    table = gradients.table(header, lines)
    print(table)
    if options.write:
        about = (
            f"A layer of a LLaMA of 8B shapes ({options.seq} tokens, BF16 activations, F32 masters "
            "and moments, unrolled) for `sm_90a`, read from the plan: nothing was run. Forward, "
            "backward and AdamW. A kernel moves the bytes that it reads and writes; the least is "
            "each value that outlives its fusion written once and read once. GEMMs and attentions "
            "are not counted."
        )
        gradients.write(
            "docs/research/gpu-kernels.md",
            "Kernels of a GPU",
            f"{about}\n\n{table}",
            "make kernel-bytes",
        )
    return int(any(m["moved"] > options.bar * m["least"] for m in found.values()))


if __name__ == "__main__":
    sys.exit(main())
