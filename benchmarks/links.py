"""Times a step on ranks with a slow or unsteady link, with overlapped and serial exchanges.

Two ranks, threads of one process with one compute thread each, train the example LLaMA.
SCALIFY_COMM_LINK injects the link: exchanges go through shared memory, and then wait until the link
would have transferred them. Variants alternate within a round, in an order that differs between
rounds. The time lost to a link is the difference to the undisturbed link in the same round.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import platform
import random
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "llama"))
sys.path.insert(0, str(ROOT / "benchmarks" / "numerics"))

import gradients

import data
import model
import optimizer
from config import ModelConfig, TrainConfig
from scalify import _runtime
from scalify._executable import Executable, build
from scalify.mesh import layout_of
from scalify.partition import partition

__all__ = ["Run", "measure"]

RANKS = 2
LATENCY = 1e-4
SCHEDULES = ("overlapped", "serial")
LINKS = ("no link", "undisturbed", "half", "quarter", "jitter", "straggler")
_jobs = itertools.count()

Samples = dict[tuple[str, str], list[float]]


@dataclasses.dataclass(frozen=True)
class Run:
    """A step to time.

    Attributes:
        artefacts: by schedule.
        state: whole leaves; each step takes one batch after them.
        batches: int32 tokens [steps, B, T + 1].
    """

    artefacts: dict[str, bytes]
    state: list[np.ndarray]
    batches: np.ndarray


def compile_step(cfg: ModelConfig, plan: TrainConfig, recipe: str, zero: int, steps: int) -> Run:
    """Compiles the example's step for the ranks, once for each schedule."""
    adamw = optimizer.make_optimizer(plan)
    params = jax.jit(lambda: model.init(jax.random.key(plan.seed), cfg))()
    state = jax.jit(adamw.init)(params)
    batches = data.train_batches(data.load(), steps, plan.batch, cfg.seq, plan.seed)
    mesh = AbstractMesh((RANKS,), ("data",))
    whole = NamedSharding(mesh, P())
    step = jax.jit(
        optimizer.make_step(cfg, adamw),
        in_shardings=(whole, whole, NamedSharding(mesh, P("data"))),
        out_shardings=(whole, whole, whole),
        donate_argnums=(0, 1),
    )
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, state, batches[0])
    )
    traced = step.trace(*shapes)
    text = traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    local = partition(text, zero=zero).text
    # One exchange per array: a single bucket would hold all of so small a model.
    options = {"recipe": recipe, "bucketBytes": 0}
    artefacts = {
        name: build(local, options | {"overlap": name == "overlapped"})[0] for name in SCHEDULES
    }
    return Run(artefacts, [np.asarray(leaf) for leaf in jax.tree.leaves((params, state))], batches)


class Rank:
    """One rank of one variant: its executable and its state."""

    def __init__(self, run: Run, schedule: str, job: str, rank: int) -> None:
        self.comm = _runtime.Communicator("local", 120, rank, RANKS, job)
        self.step = Executable(run.artefacts[schedule], 1, comm=self.comm)
        self.layouts = [layout_of(entry) for entry in self.step.manifest["args"]]
        self.state: list[Any] = [self.part(leaf, i) for i, leaf in enumerate(run.state)]
        self.times: list[tuple[float, float]] = []
        self.losses: list[float] = []

    def part(self, leaf: np.ndarray, index: int) -> np.ndarray:
        """Returns this rank's part of an argument."""
        layout = self.layouts[index]
        return leaf if layout is None else layout.cut(leaf, self.comm.rank)

    def advance(self, batch: np.ndarray) -> None:
        """Runs a step with the other ranks, and records its start and end."""
        mine = self.part(batch, len(self.state))
        self.comm.barrier()
        started = time.perf_counter()
        *self.state, loss = self.step(*self.state, mine)
        self.losses.append(float(np.asarray(loss)))
        self.times.append((started, time.perf_counter()))


def together(work: Any) -> list[Any]:
    """Runs `work(rank)` on a thread for each rank; returns the results."""
    found: list[Any] = [None] * RANKS
    failed: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            found[rank] = work(rank)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found


def open_ranks(run: Run, schedule: str, link: str) -> list[Rank]:
    """Returns the ranks of a variant on a link in the syntax of SCALIFY_COMM_LINK; "" for none."""
    job = f"links-{os.getpid()}-{next(_jobs)}"
    os.environ["SCALIFY_COMM_LINK"] = link
    try:
        return together(lambda rank: Rank(run, schedule, job, rank))
    finally:
        del os.environ["SCALIFY_COMM_LINK"]


def measure(run: Run, links: dict[str, str], rounds: int, warm: int) -> Samples:
    """Returns the seconds of `rounds` steps of each variant, by schedule and link.

    A step lasts from the first rank's start until the last rank has its results.

    Raises:
        RuntimeError: losses of two variants differ, which would be an error of the exchange.
    """
    variants = [(schedule, link) for schedule in SCHEDULES for link in links]
    opened = {one: open_ranks(run, one[0], links[one[1]]) for one in variants}

    def train(rank: int) -> None:
        for index, batch in enumerate(run.batches[: warm + rounds]):
            order = random.Random(index).sample(variants, len(variants))
            for one in order:
                opened[one][rank].advance(batch)

    together(train)
    losses = {tuple(rank.losses) for ranks in opened.values() for rank in ranks}
    if len(losses) != 1:
        raise RuntimeError("the losses of variants differ")
    return {
        one: [
            max(end for _, end in times) - min(start for start, _ in times)
            for times in zip(*(rank.times[warm:] for rank in ranks), strict=True)
        ]
        for one, ranks in opened.items()
    }


def describe(bandwidth: float, straggler: str) -> dict[str, str]:
    """Returns SCALIFY_COMM_LINK of each link, by name."""
    base = f"bandwidth={bandwidth:.0f},latency={LATENCY}"
    return {
        "no link": "",
        "undisturbed": base,
        "half": f"bandwidth={bandwidth / 2:.0f},latency={LATENCY}",
        "quarter": f"bandwidth={bandwidth / 4:.0f},latency={LATENCY}",
        "jitter": f"{base},jitter=1,seed=1",
        "straggler": f"{base},straggler={straggler}",
    }


def lost(samples: Samples, schedule: str, link: str) -> tuple[float, float, float]:
    """Returns the quartiles over rounds of the seconds that a schedule loses to a link."""
    pairs = zip(samples[schedule, link], samples[schedule, "undisturbed"], strict=True)
    low, middle, high = statistics.quantiles([one - base for one, base in pairs], n=4)
    return low, middle, high


def text_of(samples: Samples, links: dict[str, str]) -> str:
    """Returns the table."""
    header = ["link (injected)", "overlapped", "serial", "lost overlapped", "lost serial"]
    header += ["by the fastest steps", "overlapped loses less"]
    lines = []
    for link in links:
        medians = [statistics.median(samples[schedule, link]) for schedule in SCHEDULES]
        line = [link, *(f"{1e3 * seconds:.0f} ms" for seconds in medians)]
        if link in ("no link", "undisturbed"):
            lines.append([*line, *[""] * 4])
            continue
        ours, theirs = (lost(samples, schedule, link) for schedule in SCHEDULES)
        least = [
            min(samples[schedule, link]) - min(samples[schedule, "undisturbed"])
            for schedule in SCHEDULES
        ]
        for low, middle, high in (ours, theirs):
            line.append(f"{1e3 * middle:.0f} ({1e3 * low:.0f} to {1e3 * high:.0f}) ms")
        line.append(f"{1e3 * least[0]:.0f} and {1e3 * least[1]:.0f} ms")
        line.append("yes" if ours[1] < theirs[1] else "**no**")
        lines.append(line)
    return gradients.table(header, lines)


def processor() -> str:
    """Returns the CPU's name."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def sent_by(run: Run) -> list[int]:
    """Returns the bytes that a rank sends in each collective of a step."""
    (counts,) = {
        tuple(sorted(row["sent"] for row in Executable(artefact, device="null").collectives))
        for artefact in run.artefacts.values()
    }
    return list(counts)


def choose_bandwidth(run: Run, sent: Sequence[int]) -> float:
    """Returns the bandwidth at which exchanges take half a serial step without a link."""
    found = measure(run, {"no link": ""}, rounds=5, warm=1)
    seconds = statistics.median(found["serial", "no link"]) / 2
    crossing = sum(bytes_ > 0 for bytes_ in sent)
    return sum(sent) / max(seconds - crossing * LATENCY, seconds / 2)


def main() -> int:
    """Runs the command; returns 1 if the overlapped schedule loses as much as the serial one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed steps of each (15)")
    parser.add_argument("--warm", type=int, default=2, help="untimed steps of each (2)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8, help="sequences of all ranks (8)")
    parser.add_argument("--zero", type=int, default=2, help="level (2)")
    parser.add_argument("--recipe", default="fp8")
    parser.add_argument("--straggler", default="19:8", help="every:factor (19:8)")
    parser.add_argument(
        "--write", action="store_true", help="to docs/research/links.md and results/"
    )
    options = parser.parse_args()
    cfg = ModelConfig(layers=options.layers, dim=options.dim, ffn=11 * options.dim // 4)
    plan = TrainConfig(batch=options.batch)
    steps = options.warm + options.rounds
    run = compile_step(cfg, plan, options.recipe, options.zero, max(steps, 6))
    sent = sent_by(run)
    bandwidth = choose_bandwidth(run, sent)
    links = describe(bandwidth, options.straggler)
    samples = measure(run, links, options.rounds, options.warm)
    crossing = [bytes_ for bytes_ in sent if bytes_]
    about = (
        f"Two ranks, a thread each, on {os.cpu_count()} cores of {processor()}, shared with other "
        f"work (load {os.getloadavg()[0]:.1f} at the end). The example LLaMA: {cfg.layers} layers, "
        f"width {cfg.dim}, {plan.batch} sequences of {cfg.seq}; recipe `{options.recipe}`, ZeRO "
        f"{options.zero}. A rank sends {sum(crossing) / 1e6:.1f} MB a step in {len(crossing)} "
        f"collectives, each array by itself, over an injected link of "
        f"{bandwidth / 1e6:.0f} MB/s and {1e3 * LATENCY:g} ms: a third of the serial "
        f"step. Jitter: up to twice as long, at random. Straggler: each "
        f"{options.straggler.split(':')[0]}th collective takes {options.straggler.split(':')[1]} "
        f"times as long."
    )
    table = text_of(samples, links)
    print(f"{about}\n\n{table}")
    if options.write:
        write(options, about, table, links, samples)
    ours, theirs = (
        [lost(samples, schedule, link)[1] for link in links if link in LINKS[2:]]
        for schedule in SCHEDULES
    )
    return int(any(a >= b for a, b in zip(ours, theirs, strict=True)))


def write(
    options: argparse.Namespace, about: str, table: str, links: dict[str, str], samples: Samples
) -> None:
    """Writes the page, and all samples beside other results."""
    how = (
        f"Medians of {options.rounds} steps of each. The time lost is the difference to the "
        "undisturbed link with the same schedule in the same round, with its quartiles in "
        "brackets. That of the fastest steps is the difference of two minima: less affected by the "
        "machine's noise, but for an unsteady link these are its luckiest steps."
    )
    text = f"{about}\n\n{how}\n\n{table}"
    gradients.write("docs/research/links.md", "Links that misbehave", text, "make links")
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    rows = [
        {"schedule": schedule, "link": link, "seconds": [round(one, 5) for one in seconds]}
        for (schedule, link), seconds in samples.items()
    ]
    settings = {"cpu": processor(), "cores": os.cpu_count(), "links": links, **vars(options)}
    target = ROOT / "benchmarks" / "results" / f"links-{day}.json"
    content = {"settings": settings, "load": os.getloadavg(), "rows": rows}
    target.write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
