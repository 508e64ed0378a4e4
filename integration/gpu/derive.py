"""What follows from several checks: times of a layer, share of casts, products beside cuBLASLt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["DERIVED"]

Entry = dict[str, Any]
Found = Mapping[str, Entry]


def _steps(found: Found, kind: str, depth: int) -> dict[str, Entry]:
    """Returns the figures of all steps of a depth that passed, by recipe or by variant."""
    return {
        entry["check"]["recipe" if kind == "step" else "variant"]: entry["figures"]
        for entry in found.values()
        if entry["check"]["kind"] == kind
        and entry["check"]["layers"] == depth
        and entry["status"] == "passed"
    }


def layers(check: Entry, found: Found) -> Entry:
    """Milliseconds of a layer: the difference of two depths, by the difference of layers."""
    low, high = check["depths"]
    slopes: dict[str, float] = {}
    for kind, label in (("step", "ours"), ("xla", "jax.jit")):
        shallow, deep = _steps(found, kind, low), _steps(found, kind, high)
        for name in shallow.keys() & deep.keys():
            slopes[f"{label} {name}"] = (deep[name]["ms"] - shallow[name]["ms"]) / (high - low)
    if not slopes:
        return {}
    best = min((v for k, v in slopes.items() if k.startswith("jax.jit")), default=None)
    ratios = {k: best / v for k, v in slopes.items() if best and v > 0 and k.startswith("ours")}
    return {"ms_a_layer": slopes, "speed_by_best_jax": ratios, "first_losses": _losses(found, low)}


def _losses(found: Found, depth: int) -> dict[str, float]:
    """First losses from equal weights, of which only the numerics may tell the difference."""
    ours = {f"ours {k}": v["first_loss"] for k, v in _steps(found, "step", depth).items()}
    theirs = {f"jax.jit {k}": v["first_loss"] for k, v in _steps(found, "xla", depth).items()}
    return ours | theirs


def casts(check: Entry, found: Found) -> Entry:
    """Kernels' time under fp8 beyond that under bf16, as a part of the FP8 step's products."""
    shares = {}
    for depth in check["depths"]:
        steps = _steps(found, "step", depth)
        if {"bf16", "fp8"} <= steps.keys():
            wide, narrow = (steps[name]["ms_by_command"] for name in ("bf16", "fp8"))
            extra = narrow["kernel"] - wide["kernel"]
            shares[f"{depth} layers"] = {"ms": extra, "of_gemms": extra / narrow["gemm"]}
    return shares


def gemms(check: Entry, found: Found) -> Entry:
    """Our products' speed as a part of bare cuBLASLt's in the same run, single calls both."""
    bare: Entry = next((e["figures"] for e in found.values() if e["check"]["kind"] == "bench"), {})
    ratios: Entry = {}
    for entry in found.values():
        if entry["check"]["kind"] != "gemm" or entry["status"] != "passed":
            continue
        key = " ".join(map(str, [entry["check"]["type"], *entry["check"]["shape"]]))
        if key in bare:
            ours = entry["figures"]
            ratios[key] = {name: bare[key][name] / ours[name]["ms"] for name in ours}
    return ratios


def gap(check: Entry, found: Found) -> Entry:
    """The validation loss of fp8 beside that of none, in percent."""
    runs = {
        name: entry["figures"]["validation"]
        for name, entry in found.items()
        if entry["check"]["kind"] == "training" and entry["status"] == "passed"
    }
    none = next((v for k, v in runs.items() if k.endswith("none")), None)
    fp8 = next((v for k, v in runs.items() if k.endswith("fp8")), None)
    if none is None or fp8 is None:
        return {}
    percent = 100 * (fp8 / none - 1)
    return {"percent": percent, "bar": check["bar"], "wrong": not percent <= check["bar"]}


DERIVED = {"layers": layers, "casts": casts, "gemms": gemms, "gap": gap}
