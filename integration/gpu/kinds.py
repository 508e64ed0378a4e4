"""What each kind of check of results does, in a process of its own (check.py): a function a kind.

A check returns its figures, and raises Wrong where a result is wrong and Skip where it cannot be.
On the null device nothing is computed: what a check looks at there is the record of calls.
Kinds that only take times are in timed.py.
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

# Losses pass through BF16 or FP8 values that were rounded from sums in another order: one unit of
# BF16, relative. Norms of moments are sums of such gradients' squares.
LOSS_UNIT, NORM_UNIT, MOMENT_UNIT = 2.0**-8, 2.0**-8, 2.0**-4


def values(check: Check, settings: Settings) -> Figures:
    """One run of a small program, its results judged."""
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
    """Writes a state; what a file leaves out is zero."""
    for index, tensor in enumerate(exe.args):
        if not tensor.name.startswith("scalify."):
            zeros = np.zeros(tensor.bytes, np.uint8)
            exe.write(index, state.get(f"arg{index}", zeros))


def _train(exe: Executable, batches: NDArray[Any]) -> list[float]:
    """Runs one step a batch; returns the losses."""
    place = exe.index("batch")
    result = next(i for i, t in enumerate(exe.results) if not t.shape and t.alias < 0)
    losses = []
    for batch in batches:
        exe.write(place, batch.astype(np.int32))
        exe.run()
        losses.append(float(exe.read(result)))
    return losses


def losses(check: Check, settings: Settings) -> Figures:
    """Steps of the example: each loss, and the norms of the state at the end, near the CPU's."""
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
    # A NaN fails as well.
    near = all(gap <= NORM_UNIT for gap in params.values())
    near &= all(gap <= MOMENT_UNIT for gap in moments.values())
    if not (all(gap <= LOSS_UNIT for gap in gaps) and near):
        raise Wrong("losses or norms are further from the CPU's than BF16 rounding", figures)
    return figures


def streams(check: Check, settings: Settings) -> Figures:
    """Steps of the example on one stream and on two: equal losses, and how long each takes."""
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
        # A command that did not wait for what it reads is far outside of this.
        if not all(abs(a / b - 1) <= LOSS_UNIT for a, b in zip(two, one, strict=True)):
            raise Wrong("losses on two streams are not those on one", figures)
    return figures


def training(check: Check, settings: Settings) -> Figures:
    """A whole training of the example, then the loss on the validation text, as the CPU's."""
    arrays = settings.arrays(check["batches"])
    started = time.perf_counter()
    with settings.load(check["artefact"]) as exe, settings.load(check["evaluate"]) as evaluate:
        _start(exe, settings.arrays(check["state"]))
        found = _train(exe, arrays["batches"])
        results = {t.alias: i for i, t in enumerate(exe.results) if t.alias >= 0}
        own = {tensor.name: index for index, tensor in enumerate(exe.args)}
        place = evaluate.index("batch")
        for index, tensor in enumerate(evaluate.args):
            # What each keeps for itself is of its own casts.
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
    # A byte drawn evenly costs ln 256 nats; the example's F32 training ends well below half of it.
    if not figures["validation"] < 0.5 * np.log(256):
        raise Wrong("the training did not get anywhere", figures)
    if not abs(figures["percent_from_the_cpu"]) <= check["bar"]:
        raise Wrong("the training ended elsewhere than the CPU's", figures)
    return figures


def skip(check: Check, settings: Settings) -> Figures:
    """What cannot be; the plan says why."""
    raise Skip(check["reason"])


KINDS: dict[str, Callable[[Check, Settings], Figures]] = {
    function.__name__: function for function in (values, losses, streams, training, skip)
} | timed.KINDS
