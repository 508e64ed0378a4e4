"""Kinds of checks that measure times: products, steps and layers, ours and those of others."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import memory
import numpy as np
from common import Check, Figures, Settings, Skip, Wrong, recorded, times

import weights
from runtime import Executable

__all__ = ["KINDS", "classes"]

# The number of cuBLASLt's algorithms measured at load; jax.jit measures by default.
SEARCH = 8
# The words in names of kernels that only cast or transpose.
CASTS = {"convert", "quantize", "dequantize", "transpose"}


def _profile(exe: Executable, steps: int) -> list[dict[str, Any]]:
    exe.set_profiling(True)
    for _ in range(steps):
        exe.run()
    entries = exe.profile
    exe.set_profiling(False)
    return entries


@contextlib.contextmanager
def _searched(count: int) -> Iterator[None]:
    """Makes the runtime measure `count` of cuBLASLt's algorithms when it loads an artefact."""
    os.environ["SCALIFY_GEMM_SEARCH"] = str(count)
    try:
        yield
    finally:
        del os.environ["SCALIFY_GEMM_SEARCH"]


def _bare(check: Check, settings: Settings) -> dict[str, float]:
    """Returns bare cuBLASLt's milliseconds of a product (gemm_bench.cpp)."""
    line = " ".join(map(str, [check["type"], *check["shape"]])) + "\n"
    assert settings.bench is not None
    done = subprocess.run([settings.bench], input=line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"gemm_bench: {done.stderr.strip()[-500:]}", {"output": done.stdout})
    first, best = done.stdout.split()[4:6]
    return {"first": float(first), "best of 8": float(best)}


def gemm(check: Check, settings: Settings) -> Figures:
    """Times one product, by the heuristic's first algorithm and by the best of 8.

    Our runs are between two of bare cuBLASLt, of which the faster counts: the clock changes while
    they run.
    """
    is_beside = check["bare"] and settings.bench is not None and not settings.simulated
    bare = [_bare(check, settings)] if is_beside else []
    m, n, k = check["shape"]
    figures: Figures = {}
    for name, count in (("first", 1), ("best of 8", SEARCH)):
        with _searched(count):
            exe = settings.load(check["artefact"])
        with exe:
            for index, tensor in enumerate(exe.args):
                exe.write(index, weights.normal(tensor))
            exe.run()
            if settings.simulated:
                return recorded(exe)
            step = statistics.median(times(exe, 30))
            products = [e for e in _profile(exe, 30) if e["op"] == "gemm"]
            # The host issues the first product while the GPU waits for it.
            behind = products[1:] or products
            alone = statistics.median(e["nanoseconds"] / e["calls"] for e in behind) / 1e6
            flops = 2 * m * n * k / alone / 1e9
            figures[name] = {"ms": alone, "tflops": flops, "ms_step": step}
    figures["clocks"] = memory.clocks()
    if is_beside:
        bare.append(_bare(check, settings))
        figures["bare"] = {name: min(found[name] for found in bare) for name in bare[0]}
    return figures


def _kind_of(entry: dict[str, Any]) -> str:
    """Returns the class of a command of a profile."""
    if entry["op"] == "gemm":
        return "fp8 products" if entry["type"].startswith("f8") else "wide products"
    if entry["op"] != "kernel":
        return str(entry["op"])
    if "/optimizer/" in entry["loc"]:
        return "optimizer"
    return "casts" if set(entry["name"].split("_")) <= CASTS else "kernels"


def classes(entries: Sequence[dict[str, Any]], steps: int) -> dict[str, float]:
    """Returns milliseconds of a step by class of command.

    "casts" are kernels whose only product is a cast or a transpose; "optimizer" are those of the
    update, whose gradients may have other formats by the recipe.
    """
    found: dict[str, float] = {}
    for entry in entries:
        kind = _kind_of(entry)
        found[kind] = found.get(kind, 0.0) + entry["nanoseconds"] / steps / 1e6
    return found


def _by_name(entries: Sequence[dict[str, Any]], steps: int) -> list[dict[str, Any]]:
    """Returns milliseconds of a step by kernel, summed over equal name, bytes and FLOPs.

    Each has the share of the memory's bandwidth or of the units' rate that it reaches.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        key = tuple(entry[member] for member in ("op", "name", "type", "bytes", "flops"))
        row = found.setdefault(key, {"op": entry["op"], "name": entry["name"], "calls": 0, "ms": 0})
        row["calls"] += 1
        row["ms"] += entry["nanoseconds"] / steps / 1e6
    for (*_, size, flops), row in found.items():
        seconds = row["ms"] / row["calls"] / 1e3
        if seconds:
            row["gb_s"] = size / seconds / 1e9
            row["tflops"] = flops / seconds / 1e12
    return list(found.values())


def _timed(exe: Executable, steps: int) -> Figures:
    """Returns a step's times, and those by class of command from three more steps with events."""
    found = times(exe, steps)
    clocks = memory.clocks()
    entries = _profile(exe, 3)
    slowest = sorted(entries, key=lambda entry: -entry["nanoseconds"])[:12]
    kinds = sorted(_by_name(entries, 3), key=lambda row: -row["ms"])[:40]
    return {
        "ms": statistics.median(found),
        "ms_all": found,
        "clocks": clocks,
        "ms_by_class": classes(entries, 3),
        "slowest": [
            {"op": e["op"], "name": e["name"], "loc": e["loc"], "ms": e["nanoseconds"] / 3e6}
            for e in slowest
        ],
        "by_name": kinds,
    }


def step(check: Check, settings: Settings) -> Figures:
    """Times a step of 8B shapes; returns its time, profile and memory."""
    before = None if settings.simulated else memory.free()
    with _searched(1 if settings.simulated else SEARCH):
        exe = settings.load(check["artefact"])
    with exe:
        plan = {"memory_planned": exe.manifest["memory"]["peak"]}
        if settings.simulated:
            # The weights would exceed this machine's memory.
            exe.run()
            return recorded(exe) | plan
        vocab = check["model"]["vocab"]
        stored = [argument.get("stored") for argument in exe.manifest["args"]]
        for index, tensor in enumerate(exe.args):
            if not tensor.name.startswith("scalify."):
                exe.write(index, weights.fill(tensor, stored[index]))
        result = next(i for i, t in enumerate(exe.results) if not t.shape and t.alias < 0)
        exe.run()
        loss = float(exe.read(result))
        figures = plan | _timed(exe, 10) | {"first_loss": loss}
        # After the steps, when graphs and programs are on the GPU.
        figures["memory_taken"] = memory.taken(before)
    # With weights this small the first step predicts nothing: its loss is about the log of the
    # vocabulary, plus at most v / 2 for logits of variance v.
    if not abs(loss - np.log(vocab)) < 1.5:
        raise Wrong(f"a first loss of {loss} at {vocab} tokens", figures)
    return figures


def block(check: Check, settings: Settings) -> Figures:
    """Times one layer's forward and backward."""
    with _searched(1 if settings.simulated else SEARCH):
        exe = settings.load(check["artefact"])
    with exe:
        for index, tensor in enumerate(exe.args):
            if not settings.simulated and not tensor.name.startswith("scalify."):
                exe.write(index, weights.fill(tensor))
        exe.run()
        if settings.simulated:
            return recorded(exe)
        return _timed(exe, 30)


def xla(check: Check, settings: Settings) -> Figures:
    """Times the same step by jax.jit, in this process."""
    if settings.simulated:
        raise Skip("a dry run has no GPU")
    import xla

    return xla.measure(check["model"], check["batch"], check["variant"])


def xla_block(check: Check, settings: Settings) -> Figures:
    """Times the same layer by jax.jit, in this process."""
    if settings.simulated:
        raise Skip("a dry run has no GPU")
    import xla

    return xla.measure_block(check["model"], check["batch"], check["variant"])


def transformer_engine(check: Check, settings: Settings) -> Figures:
    """Times the same layer by TransformerEngine; skips with a reason if it cannot run."""
    if settings.simulated:
        raise Skip("a dry run has no GPU")
    import transformer

    try:
        return transformer.measure(check["model"], check["batch"], check["recipe"])
    except ImportError as error:
        raise Skip(f"TransformerEngine is not on this machine: {error}") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Skip(f"TransformerEngine is here, but its layer did not run: {reason}") from error


KINDS: dict[str, Callable[[Check, Settings], Figures]] = {
    function.__name__: function
    for function in (gemm, step, block, xla, xla_block, transformer_engine)
}
