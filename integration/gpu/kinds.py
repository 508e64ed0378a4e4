"""Checks of results, a function for each kind, in a process of their own (check.py).

A check returns its figures, and raises Wrong for a wrong result and Skip if it cannot run. The null
device computes nothing: there checks inspect the record of calls. Kinds that only measure times are
in timed.py.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import timed
from common import Check, Figures, Settings, Skip, Wrong, recorded, times
from numpy.typing import NDArray

import judge
from runtime import Executable

__all__ = ["KINDS"]

# Losses pass through BF16 or FP8 values that are rounded from sums in another order: one relative
# unit of BF16. Norms of moments are sums of squares of such gradients.
LOSS_UNIT, NORM_UNIT, MOMENT_UNIT = 2.0**-8, 2.0**-8, 2.0**-4


def values(check: Check, settings: Settings) -> Figures:
    """Runs a small program once and judges its results."""
    data = settings.arrays(check["data"])
    with settings.load(check["artefact"]) as exe:
        for index in range(len([key for key in data if key.startswith("arg")])):
            exe.write(index, data[f"arg{index}"])
        exe.run()
        if settings.simulated:
            return recorded(exe)
        found: Figures = {}
        for index, tensor in enumerate(exe.results):
            if f"result{index}" not in data:
                continue  # state that the compiler added
            ok, figures = _judged(check, exe.read(index), data, index)
            found[tensor.name] = figures
            if not ok:
                raise Wrong(f"result '{tensor.name}' is off", found)
        return found


def _judged(
    check: Check, got: NDArray[Any], data: dict[str, NDArray[Any]], index: int
) -> judge.Verdict:
    want = data[f"result{index}"]
    if check["judge"] == "product":
        allowed = judge.ACCUMULATION[check["tolerance"]["accumulation"]]
        return judge.product(got, want.astype(np.float64), data["magnitude"], allowed)
    want = np.ascontiguousarray(want).reshape(-1).view(np.uint8).view(got.dtype)
    want = want.reshape(got.shape)
    if check["judge"] == "bits":
        return judge.bits(got, want)
    return judge.near(got, want, **check["tolerance"])


def _start(exe: Executable, state: dict[str, NDArray[Any]]) -> None:
    """Writes a state; arguments that are not in the file are zero."""
    for index, tensor in enumerate(exe.args):
        if not tensor.name.startswith("scalify."):
            zeros = np.zeros(tensor.bytes, np.uint8)
            exe.write(index, state.get(f"arg{index}", zeros))


def _train(exe: Executable, batches: NDArray[Any]) -> list[float]:
    """Runs one step per batch; returns the losses."""
    place = exe.index("batch")
    result = next(i for i, t in enumerate(exe.results) if not t.shape and t.alias < 0)
    losses = []
    for batch in batches:
        exe.write(place, batch.astype(np.int32))
        exe.run()
        losses.append(float(exe.read(result)))
    return losses


def losses(check: Check, settings: Settings) -> Figures:
    """Runs steps of the example; compares losses, and the state's final norms, with the CPU's."""
    batches = settings.arrays(check["batches"])["batches"]
    with settings.load(check["artefact"]) as exe:
        _start(exe, settings.arrays(check["state"]))
        found = _train(exe, batches)
        if settings.simulated:
            return recorded(exe)
        results = {t.alias: i for i, t in enumerate(exe.results) if t.alias >= 0}
        apart: dict[str, float] = {}
        for index, tensor in enumerate(exe.args):
            want = check["norms"].get(tensor.name)
            if index not in results or not want:
                continue
            norm = float(np.linalg.norm(exe.read(results[index]).astype(np.float64)))
            apart[tensor.name] = abs(norm / want - 1)
    gaps = [abs(a / b - 1) for a, b in zip(found, check["losses"], strict=True)]
    params = {name: gap for name, gap in apart.items() if name.startswith("params")}
    moments = {name: gap for name, gap in apart.items() if not name.startswith("params")}
    figures = {
        "losses": found,
        "largest_gap": max(gaps),
        "largest_gap_of_a_parameters_norm": max(params.values(), default=0.0),
        "largest_gap_of_a_moments_norm": max(moments.values(), default=0.0),
        "furthest": max(apart, key=apart.__getitem__, default=""),
        "spread_of_the_cpus_moments": check["spread_of_moments"],
    }
    # A NaN fails, too.
    near = all(gap <= NORM_UNIT for gap in params.values())
    near &= all(gap <= MOMENT_UNIT for gap in moments.values())
    if not (all(gap <= LOSS_UNIT for gap in gaps) and near):
        raise Wrong("losses or norms are further from the CPU's than BF16 rounding", figures)
    return figures


def streams(check: Check, settings: Settings) -> Figures:
    """Runs steps of the example on one and two streams; compares losses, and times both."""
    batches = settings.arrays(check["batches"])["batches"]
    figures: Figures = {}
    for name, artefact in check["artefacts"].items():
        with settings.load(artefact) as exe:
            _start(exe, settings.arrays(check["state"]))
            found = _train(exe, batches)
            if settings.simulated:
                figures |= recorded(exe)
                continue
            figures[name] = {
                "losses": found,
                "ms": statistics.median(times(exe, 30)),
                "memory_planned": exe.manifest["memory"]["peak"],
            }
    if not settings.simulated:
        one, two = (figures[name]["losses"] for name in ("one stream", "two streams"))
        # A missing wait for an operand would exceed this by far.
        if not all(abs(a / b - 1) <= LOSS_UNIT for a, b in zip(two, one, strict=True)):
            raise Wrong("losses on two streams are not those on one", figures)
    return figures


def training(check: Check, settings: Settings) -> Figures:
    """Trains the example, and compares its loss on the validation text with the CPU's."""
    arrays = settings.arrays(check["batches"])
    started = time.perf_counter()
    with settings.load(check["artefact"]) as exe, settings.load(check["evaluate"]) as evaluate:
        _start(exe, settings.arrays(check["state"]))
        found = _train(exe, arrays["batches"])
        results = {t.alias: i for i, t in enumerate(exe.results) if t.alias >= 0}
        own = {tensor.name: index for index, tensor in enumerate(exe.args)}
        place = evaluate.index("batch")
        for index, tensor in enumerate(evaluate.args):
            # Each keeps state of its own casts.
            is_kept = tensor.name.startswith("scalify.")
            if index != place and not is_kept and tensor.name in own:
                evaluate.write(index, exe.read(results[own[tensor.name]]))
        validation = _train(evaluate, arrays["windows"])
        if settings.simulated:
            return recorded(exe) | {"steps": len(found), "windows": len(validation)}
    figures = {
        "validation": float(np.mean(validation)),
        "first_loss": found[0],
        "last_losses": float(np.mean(found[-20:])),
        "seconds": time.perf_counter() - started,
    }
    figures["percent_from_the_cpu"] = 100 * (figures["validation"] / check["validation"] - 1)
    # A byte drawn uniformly costs ln 256 nats; the example's F32 training ends well below half of
    # it.
    if not figures["validation"] < 0.5 * np.log(256):
        raise Wrong("the training's loss did not fall enough", figures)
    if not abs(figures["percent_from_the_cpu"]) <= check["bar"]:
        raise Wrong("the validation loss differs from the CPU's", figures)
    return figures


def skip(check: Check, settings: Settings) -> Figures:
    """Skips a check that cannot run; the plan says why."""
    raise Skip(check["reason"])


KINDS: dict[str, Callable[[Check, Settings], Figures]] = {
    function.__name__: function for function in (values, losses, streams, training, skip)
} | timed.KINDS
