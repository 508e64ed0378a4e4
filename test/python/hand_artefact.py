"""Assembles artefacts by hand for tests of the runtime: no compiler of ours is involved."""

from __future__ import annotations

import json
import pathlib
import struct
import subprocess
import tempfile
from typing import Any

__all__ = [
    "KERNELS",
    "PTX",
    "buffer",
    "build_kernels",
    "for_gpu",
    "kernel",
    "pack",
    "tensor",
    "train_step",
]

KERNELS = """
#include <stdint.h>
#define KERNEL(name) \
  void name(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters)
// w' = w - 0.5 * g, in place; counts values above 1.
KERNEL(update) {
  const float *w = bufs[0], *g = bufs[1];
  float *out = bufs[2];
  for (int64_t i = lo; i < hi; ++i) {
    out[i] = w[i] - 0.5f * g[i];
    counters[0] += out[i] > 1.0f;
    counters[1] += out[i] == 0.0f;
  }
}
// loss = sum of 64 values.
KERNEL(loss) {
  const float *w = bufs[0];
  float sum = 0;
  for (int64_t i = 0; i < 64; ++i)
    sum += w[i];
  *(float *)bufs[1] = sum;
}
// Copies 16-bit words, rows of one.
KERNEL(words) {
  for (int64_t i = lo; i < hi; ++i)
    ((uint16_t *)bufs[1])[i] = ((const uint16_t *)bufs[0])[i];
}
KERNEL(spin) {
  volatile float *out = bufs[0];
  for (int64_t i = 0; i < 100000000; ++i)
    out[0] = (float)i;
}
"""


ENTRY = ".visible .entry {}({}) {{ ret; }}\n"
# Entries of the same names for a GPU: the buffers and the counters.
PTX = ".version 8.7\n.target sm_90a\n.address_size 64\n" + "".join(
    ENTRY.format(name, ", ".join(f".param .u64 {name}_{i}" for i in range(count)))
    for name, count in {"update": 4, "loss": 3, "words": 3}.items()
)


def for_gpu(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the manifest for a GPU, with blocks of 128 threads."""
    manifest["target"] = "sm_90a"
    manifest |= {"device": "cuda", "capability": 90}
    for command in manifest["functions"]["step"]:
        command["threads"] = 128
    return manifest


def build_kernels(source: str = KERNELS) -> bytes:
    """Returns the bytes of a shared object without undefined symbols."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "k.c").write_text(source, encoding="utf-8")
        command = ["clang-22", "-O2", "-fPIC", "-shared", "-nostdlib", "-ffreestanding"]
        subprocess.run(
            [*command, "-fuse-ld=lld-22", "-Wl,--no-undefined", "k.c", "-o", "k.so"],
            cwd=path,
            check=True,
        )
        return (path / "k.so").read_bytes()


def buffer(kind: str, at: int, shape: list[int], dtype: str = "f32") -> dict[str, Any]:
    """Returns one entry of the manifest's buffers."""
    key = "index" if kind in ("arg", "result") else "offset"
    return {"kind": kind, key: at, "dtype": dtype, "shape": shape}


def kernel(symbol: str, bufs: list[int], rows: int, **more: Any) -> dict[str, Any]:
    """Returns a kernel command with a grain of 8."""
    base = {"op": "kernel", "symbol": symbol, "bufs": bufs, "rows": rows, "grain": 8}
    return {**base, "counters": [], "name": symbol, "loc": f"step/{symbol}", "bytes": 0, **more}


def pack(manifest: dict[str, Any], kernels: bytes = b"", constants: bytes = b"") -> bytes:
    """Returns an artefact: header, manifest, page-aligned sections."""

    def aligned(offset: int) -> int:
        return -(-offset // 4096) * 4096

    first = aligned(len(json.dumps(manifest)) + 512)
    second = aligned(first + len(kernels))
    manifest = dict(manifest)
    manifest["sections"] = {
        "kernels": {"offset": first, "size": len(kernels)},
        "constants": {"offset": second, "size": len(constants)},
    }
    text = json.dumps(manifest).encode()
    body = text.ljust(first - 32, b"\0") + kernels
    body = body.ljust(second - 32, b"\0") + constants
    checksum = 0xCBF29CE484222325
    for byte in body:
        checksum = (checksum ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return b"SCALIFY1" + struct.pack("<QQQ", len(text), 32 + len(body), checksum) + body


def tensor(name: str, shape: list[int], dtype: str = "f32", **more: Any) -> dict[str, Any]:
    """Returns one entry of the manifest's args or results."""
    return {"name": name, "shape": shape, "dtype": dtype, **more}


def train_step(n: int = 64) -> dict[str, Any]:
    """Returns the manifest of (w donated, g, x bf16) -> (w', loss, x): a step in miniature."""
    return {
        "version": 5,
        "target": "cpu",
        "device": "cpu",
        "mcpu": "x86-64",
        "recipe": "fp8",
        "hash": "0",
        "arena_bytes": 0,
        "buffers": [
            buffer("arg", 0, [n]),
            buffer("arg", 1, [n]),
            buffer("arg", 2, [2, 3], "bf16"),
            buffer("result", 0, [n]),
            buffer("result", 1, []),
            buffer("result", 2, [2, 3], "bf16"),
        ],
        "args": [
            tensor("params['w']", [n], role="param", scale_exp=None, alias_result=0),
            tensor("batch['g']", [n], role="batch", scale_exp=None, alias_result=None),
            tensor("x", [2, 3], "bf16", role="input", scale_exp=None, alias_result=None),
        ],
        "results": [
            tensor("result[0]['w']", [n], alias_arg=0),
            tensor("result[1]", [], alias_arg=None),
            tensor("result[2]", [2, 3], "bf16", alias_arg=None),
        ],
        "functions": {
            "step": [
                kernel("update", [0, 1, 3], n, counters=[0]),
                kernel("loss", [3, 4], 1),
                kernel("words", [2, 5], 6),
            ]
        },
        "counters": [
            {"cast": "w", "op": "q", "loc": "step/w", "format": "f8E4M3FN", "elements": n}
        ],
        "report": [],
        "remarks": [],
        "assumptions": [],
    }
