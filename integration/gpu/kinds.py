"""What each kind of check does, in a process of its own (check.py): one function a kind.

A check returns its figures, and raises Wrong where a result is wrong and Skip where it cannot be.
On the null device nothing is computed: what a check looks at there is the record of calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import judge
import weights
from runtime import Executable, Library

__all__ = ["KINDS", "Settings", "Skip", "Wrong"]

Check = dict[str, Any]
Figures = dict[str, Any]
# Losses pass through BF16 or FP8 values that were rounded from sums in another order: one unit of
# BF16, relative. Norms of moments are sums of such gradients' squares.
LOSS_UNIT, NORM_UNIT, MOMENT_UNIT = 2.0**-8, 2.0**-8, 2.0**-4


class Skip(Exception):  # noqa: N818
    """A check that cannot be here; the text says why."""


class Wrong(Exception):  # noqa: N818
    """A result that is not what it must be, with the figures that show it."""

    def __init__(self, text: str, figures: Figures) -> None:
        super().__init__(text, figures)
        self.text, self.figures = text, figures


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where things are, and what the device is: "cuda" or "null"."""

    folder: pathlib.Path
    library: pathlib.Path
    bench: pathlib.Path | None
    device: str

    @property
    def simulated(self) -> bool:
        """Whether calls are recorded and nothing is computed."""
        return self.device == "null"

    def load(self, artefact: str) -> Executable:
        """Loads an artefact of the folder."""
        return Executable(Library(self.library), self.folder / artefact, self.device)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Reads arrays of the folder."""
        with np.load(self.folder / name) as found:
            return dict(found)


def recorded(exe: Executable) -> Figures:
    """Holds the record of a step against the plan: every kernel and product of it was asked for.

    Raises:
        Wrong: one was not.
    """
    commands = exe.manifest["functions"]["step"]
    launched = re.findall(r"^cuLaunchKernel (\w+)", "\n".join(exe.trace), re.MULTILINE)
    products = sum(line.startswith("cublasLtMatmul ") for line in exe.trace)
    symbols = {command["symbol"] for command in commands if command["op"] == "kernel"}
    gemms = sum(command["op"] == "gemm" for command in commands)
    behind = sum(
        bool(re.match(r"cublasLtMatmul .* \| .*( relu| bias=)", line)) for line in exe.trace
    )
    epilogues = sum("epilogue" in command for command in commands)
    attentions = sum(line.startswith("cudnnExecute ") for line in exe.trace)
    planned = sum(command["op"] == "attention" for command in commands)
    calls = r"^nccl(AllGather|AllReduce|ReduceScatter|Send) "
    exchanged = len(re.findall(calls, "\n".join(exe.trace), re.MULTILINE))
    collectives = sum(command["op"] == "collective" for command in commands)
    figures = {
        "recorded_launches": len(launched),
        "recorded_products": products,
        "recorded_epilogues": behind,
        "recorded_attentions": attentions,
        "recorded_collectives": exchanged,
    }
    if missing := sorted(symbols - set(launched)):
        raise Wrong(f"kernels that were not launched: {', '.join(missing[:5])}", figures)
    if products < gemms:
        raise Wrong(f"{products} products were asked for, and the plan has {gemms}", figures)
    if behind < epilogues:
        raise Wrong(f"{behind} products have epilogues, and {epilogues} of the plan", figures)
    if attentions < planned:
        raise Wrong(f"{attentions} attentions were asked for, and the plan has {planned}", figures)
    if exchanged < collectives:
        raise Wrong(f"{exchanged} exchanges, and the plan has {collectives}", figures)
    return figures


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
    params = [gap for name, gap in apart.items() if name.startswith("params")]
    moments = [gap for name, gap in apart.items() if not name.startswith("params")]
    figures = {
        "losses": found,
        "largest_gap": max(gaps),
        "largest_gap_of_a_parameters_norm": max(params, default=0.0),
        "largest_gap_of_a_moments_norm": max(moments, default=0.0),
    }
    # A NaN fails as well.
    near = max(params, default=0.0) <= NORM_UNIT and max(moments, default=0.0) <= MOMENT_UNIT
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
                "ms": statistics.median(_times(exe, 30)),
                "memory_planned": exe.manifest["memory"]["peak"],
            }
    if not settings.simulated:
        one, two = (figures[name]["losses"] for name in ("one stream", "two streams"))
        # A command that did not wait for what it reads is far outside of this.
        if not all(abs(a / b - 1) <= LOSS_UNIT for a, b in zip(two, one, strict=True)):
            raise Wrong("losses on two streams are not those on one", figures)
    return figures


def training(check: Check, settings: Settings) -> Figures:
    """A whole training of the example, then the loss on the validation text."""
    arrays = settings.arrays(check["batches"])
    started = time.perf_counter()
    with settings.load(check["artefact"]) as exe, settings.load(check["evaluate"]) as evaluate:
        _start(exe, settings.arrays(check["state"]))
        found = _train(exe, arrays["batches"])
        results = {t.alias: i for i, t in enumerate(exe.results) if t.alias >= 0}
        own = {tensor.name: index for index, tensor in enumerate(exe.args)}
        place = evaluate.index("batch")
        for index, tensor in enumerate(evaluate.args):
            if index != place and tensor.name in own:
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
    # A byte drawn evenly costs ln 256 nats; the example's F32 training ends well below half of it.
    if not figures["validation"] < 0.5 * np.log(256):
        raise Wrong("the training did not get anywhere", figures)
    return figures


def _times(exe: Executable, steps: int) -> list[float]:
    """Returns milliseconds of steps: the first three warm up, and the second records a graph."""
    found = []
    for _ in range(steps + 3):
        started = time.perf_counter()
        exe.run()
        found.append(1e3 * (time.perf_counter() - started))
    return found[3:]


def _profile(exe: Executable, steps: int) -> list[dict[str, Any]]:
    exe.set_profiling(True)
    for _ in range(steps):
        exe.run()
    entries = exe.profile
    exe.set_profiling(False)
    return entries


@contextlib.contextmanager
def _searched(count: int) -> Iterator[None]:
    """Lets the runtime measure that many of cuBLASLt's algorithms when it loads an artefact."""
    os.environ["SCALIFY_GEMM_SEARCH"] = str(count)
    try:
        yield
    finally:
        del os.environ["SCALIFY_GEMM_SEARCH"]


def gemm(check: Check, settings: Settings) -> Figures:
    """One product: by the heuristic's first algorithm, and by the best of 8."""
    m, n, k = check["shape"]
    flops = 2 * m * n * k
    figures: Figures = {}
    for name, count in (("first", 0), ("best of 8", 8)):
        with _searched(count) if count else contextlib.nullcontext():
            exe = settings.load(check["artefact"])
        with exe:
            for index, tensor in enumerate(exe.args):
                exe.write(index, weights.normal(tensor))
            exe.run()
            if settings.simulated:
                return recorded(exe)
            step = statistics.median(_times(exe, 30))
            (entry,) = [e for e in _profile(exe, 30) if e["op"] == "gemm"]
            alone = entry["nanoseconds"] / entry["calls"] / 1e6
            figures[name] = {"ms": alone, "tflops": flops / alone / 1e9, "ms_step": step}
    return figures


def bench(check: Check, settings: Settings) -> Figures:
    """Bare cuBLASLt on the same shapes (gemm_bench.cpp)."""
    if settings.simulated:
        raise Skip("a dry run has no GPU")
    if settings.bench is None:
        raise Skip("gemm_bench was not built: no CUDA headers, or see the log of run.sh")
    lines = "".join(f"{' '.join(map(str, shape))}\n" for shape in check["shapes"])
    done = subprocess.run(
        [settings.bench], input=lines, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Wrong(f"gemm_bench: {done.stderr.strip()[-500:]}", {"output": done.stdout})
    fields = (line.split() for line in done.stdout.splitlines())
    return {
        " ".join(row[:4]): {"first": float(row[4]), "best of 8": float(row[5])} for row in fields
    }


def step(check: Check, settings: Settings) -> Figures:
    """A step of 8B shapes: its time, its profile, its memory."""
    with settings.load(check["artefact"]) as exe:
        plan = {"memory_planned": exe.manifest["memory"]["peak"]}
        if settings.simulated:
            # The weights would fill this machine's memory.
            exe.run()
            return recorded(exe) | plan
        for index, tensor in enumerate(exe.args):
            if not tensor.name.startswith("scalify."):
                exe.write(index, weights.fill(tensor))
        result = next(i for i, t in enumerate(exe.results) if not t.shape and t.alias < 0)
        exe.run()
        loss = float(exe.read(result))
        times = _times(exe, 10)
        memory = weights.memory_used()
        entries = _profile(exe, 3)
    kinds = ("kernel", "gemm", "attention", "copy", "fill")
    busy = {k: sum(e["nanoseconds"] for e in entries if e["op"] == k) / 3e6 for k in kinds}
    slowest = sorted(entries, key=lambda entry: -entry["nanoseconds"])[:12]
    figures: Figures = plan | {
        "ms": statistics.median(times),
        "ms_all": times,
        "first_loss": loss,
        "memory_used_mib": memory,
        "ms_by_command": busy,
        "slowest": [
            {"op": e["op"], "name": e["name"], "loc": e["loc"], "ms": e["nanoseconds"] / 3e6}
            for e in slowest
        ],
    }
    # With weights this small the first step knows nothing: it loses about the log of the
    # vocabulary, which every logit of variance v raises by v / 2 at most.
    if not abs(loss - np.log(check["vocab"])) < 1.5:
        raise Wrong(f"a first loss of {loss} at {check['vocab']} tokens", figures)
    return figures


def xla(check: Check, settings: Settings) -> Figures:
    """The same step by jax.jit, in this process."""
    if settings.simulated:
        raise Skip("a dry run has no GPU")
    import xla

    return xla.measure(check["model"], check["variant"])


def transformer_engine(check: Check, settings: Settings) -> Figures:
    """Says whether TransformerEngine is here; the comparison itself is not written."""
    try:
        import transformer_engine  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise Skip(f"TransformerEngine does not import: {error}") from None
    raise Skip("TransformerEngine imports; the comparison with it is not written")


def skip(check: Check, settings: Settings) -> Figures:
    """What is not there yet."""
    raise Skip(check["reason"])


KINDS: dict[str, Callable[[Check, Settings], Figures]] = {
    function.__name__: function
    for function in (
        values,
        losses,
        streams,
        training,
        gemm,
        bench,
        step,
        xla,
        transformer_engine,
        skip,
    )
}
