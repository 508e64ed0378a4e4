"""Which of the optimizer's variables may be narrow? FP8-LM's decoupling of precision, measured.

F32 trains the example to a state. From there each variant takes the same batches at a small
constant learning rate, with one variable of the optimizer in another format. It is compared with
F32 by the loss of its weights in F32, and by their displacement.

Every finished run is a line of --store and is not run again: runs can be stopped and resumed. The
state and F32's displacement are arrays under --arrays; if they are missing, these two are run
again.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import multiprocessing
import pathlib
import statistics
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "llama"))

import gradients
import numpy as np
from numerics import cosine
from store import RESULTS, Store

import cli
from config import ModelConfig, TrainConfig

__all__ = ["VARIANTS", "Plan", "main"]

F32 = "F32"
# Dots and gradients of FP8-LM, the optimizer's variables in F32.
WIDE = '#scalify.recipe<"fp8-lm-o1", masters = given{}>'
TO_NEAREST = ", state_rounding = nearest"
VARIANTS = {
    F32: "none",
    "dots and gradients FP8": WIDE.format(""),
    "+ master F16": WIDE.format(", masters = f16"),
    "+ master F16, to nearest": WIDE.format(f", masters = f16{TO_NEAREST}"),
    "+ master BF16": WIDE.format(", masters = bf16"),
    "+ master BF16, to nearest": WIDE.format(f", masters = bf16{TO_NEAREST}"),
    "+ master E4M3": WIDE.format(", masters = f8E4M3FN"),
    "+ first moment E4M3": WIDE.format(", first_moment = f8E4M3FN"),
    "+ second moment F16": WIDE.format(", second_moment = f16"),
    "+ second moment E4M3": WIDE.format(", second_moment = f8E4M3FN"),
    "+ second moment E4M3, to nearest": WIDE.format(f", second_moment = f8E4M3FN{TO_NEAREST}"),
    "+ second moment E5M2": WIDE.format(", second_moment = f8E5M2"),
    "fp8-lm-o2": "fp8-lm-o2",
    "fp8-lm-o2, to nearest": f'#scalify.recipe<"fp8-lm-o2"{TO_NEAREST}>',
}
# Losses of single batches vary by a tenth, so means over this many are compared.
LAST = 50


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs' parameters.

    Attributes:
        model: the model's sizes.
        train: the F32 training to the common initial state.
        steps: the number of steps of each variant from there.
        rate: their learning rate.
    """

    model: ModelConfig
    train: TrainConfig
    steps: int
    rate: float

    def key(self, name: str) -> str:
        """Returns the key of one run, from all its parameters."""
        text = json.dumps([dataclasses.asdict(self), VARIANTS.get(name)], sort_keys=True)
        word = "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
        return f"{word}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def trained(plan: Plan, path: pathlib.Path) -> None:
    """Trains in F32 and writes the leaves of (parameters, optimizer's state)."""
    import jax

    import data
    import model
    import optimizer
    import train

    text = data.load()
    params = model.init(jax.random.key(plan.train.seed), plan.model)
    adamw = optimizer.make_optimizer(plan.train)
    state = (params, adamw.init(params))
    step = train.compiled(optimizer.make_step(plan.model, adamw), "scalify", "none", (0, 1))
    count = plan.train.steps
    for batch in data.train_batches(text, count, plan.train.batch, plan.model.seq, plan.train.seed):
        *state, _ = step(*state, batch)
    leaves: dict[str, Any] = {
        str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tuple(state)))
    }
    part = path.with_suffix(".part.npz")
    np.savez(part, **leaves)
    part.rename(path)


def run(name: str, plan: Plan, start: pathlib.Path) -> dict[str, Any]:
    """Continues from the trained state, in a process of its own; returns the table's figures."""
    import jax
    import optax

    import data
    import model
    import optimizer
    import train

    text = data.load()
    adamw = optimizer.make_optimizer(plan.train, optax.constant_schedule(plan.rate))
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), plan.model))
    tree = jax.tree.structure((shapes, jax.eval_shape(adamw.init, shapes)))
    with np.load(start) as file:
        state: Any = jax.tree.unflatten(tree, [file[str(i)] for i in range(len(file))])
    windows = data.validation_batches(text, plan.train.batch, plan.model.seq)
    wide = train.compiled(lambda p, batch: model.loss(p, batch, plan.model), "scalify", "none")

    def validation(params: Any) -> float:
        return statistics.fmean(float(np.asarray(wide(params, batch))) for batch in windows)

    before = validation(state[0])
    recipe = VARIANTS[name]
    step = train.compiled(optimizer.make_step(plan.model, adamw), "scalify", recipe, (0, 1))
    # Other batches than in the training before. One more step: state is rounded on entry, so the
    # displacement of the weights counts from the end of the first step.
    batches = data.train_batches(
        text, plan.steps + 1, plan.train.batch, plan.model.seq, plan.train.seed + 1000
    )
    losses: list[float] = []
    first: list[np.ndarray] = []
    started = time.perf_counter()
    for batch in batches:
        *state, loss = step(*state, batch)
        losses.append(float(np.asarray(loss)))
        if not first:
            first = [np.array(leaf) for leaf in jax.tree.leaves(state[0])]
    params = jax.tree.map(np.asarray, state[0])
    way = [b - a for a, b in zip(first, jax.tree.leaves(params), strict=True)]
    return {
        "name": name,
        "before": before,
        "validation": validation(params),
        "train": statistics.fmean(losses[-LAST:]),
        "seconds": time.perf_counter() - started,
        "way": [leaf.astype(np.float32) for leaf in way],
    }


def finish(plan: Plan, store: Store, arrays: pathlib.Path, names: list[str], limit: float) -> None:
    """Runs and adds the variants that the store lacks; starts none after `limit` seconds.

    The first name is F32's: the displacements of the others are compared with its.
    """
    end = time.monotonic() + limit
    start, base = (arrays / f"{plan.key(name)}.npz" for name in ("trained", F32))
    # A process per run: a run leaves threads and compiled steps behind, and a forked JAX hangs.
    context = multiprocessing.get_context("spawn")
    todo = [name for name in names if store.get(plan.key(name)) is None]
    if todo and not base.exists():
        todo = [F32, *(name for name in todo if name != F32)]
    if todo and not start.exists() and limit > 0:
        with context.Pool(1) as pool:
            pool.apply(trained, (plan, start))
    for name in todo:
        if time.monotonic() > end:
            print("stopped at the time limit: run again to go on")
            return
        with context.Pool(1) as pool:
            row = pool.apply(run, (name, plan, start))
        way = row.pop("way")
        if name == F32:
            np.savez(base, **{str(i): leaf for i, leaf in enumerate(way)})
        store.add(plan.key(name), {**row, **compared(way, read_displacements(base))})
        print(f"{name}: {row['before']:.4f} -> {row['validation']:.4f}", flush=True)


def read_displacements(path: pathlib.Path) -> list[np.ndarray]:
    """Returns the changes of all weights in a file."""
    with np.load(path) as file:
        return [file[str(i)] for i in range(len(file))]


def compared(way: list[np.ndarray], base: list[np.ndarray]) -> dict[str, float]:
    """Returns the length of a displacement relative to F32's, and its cosine to F32's."""
    ours, f32 = (
        np.concatenate([leaf.ravel() for leaf in leaves]).astype(np.float64)
        for leaves in (way, base)
    )
    return {
        "length": float(np.linalg.norm(ours) / np.linalg.norm(f32)),
        "cosine": cosine([ours], [f32]),
    }


def table(plan: Plan, store: Store, names: list[str]) -> str:
    """Returns the table of the runs that are finished, in Markdown."""
    header = [
        "variables",
        "validation loss before",
        "after",
        "fall",
        f"train loss, last {LAST} steps",
        "length of the displacement, F32's = 1",
        "its cosine to F32's",
    ]
    found = [row for name in names if (row := store.get(plan.key(name)))]
    rows = [
        [
            row["name"],
            f"{row['before']:.4f}",
            f"{row['validation']:.4f}",
            f"{row['before'] - row['validation']:+.4f}",
            f"{row['train']:.4f}",
            f"{row['length']:.3f}",
            f"{row['cosine']:.4f}",
        ]
        for row in found
    ]
    return gradients.table(header, rows)


def described(plan: Plan) -> str:
    """Returns a description of the runs and of the table."""
    return (
        f"The example LLaMA ({plan.model.layers} layers, width {plan.model.dim}), trained in F32 "
        f"for {plan.train.steps} steps; from that state {plan.steps} steps of AdamW at a learning "
        f"rate of {plan.rate:g}, beta2 {plan.train.beta2}, the same batches for all. A line names "
        "the narrow variable; in all lines but the first, dots and gradients of weights are also "
        "narrow, as in FP8-LM. State is stored with scales, second moments as their roots, rounded "
        "stochastically unless marked as to nearest. Validation uses F32's forward. The "
        "displacement is the change of all weights from the end of the first step on: a variable "
        "that loses updates makes it shorter, one that adds noise turns it."
    )


def main() -> int:
    """Runs the command; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--rate", type=float, default=1e-5, help="learning rate (1e-5)")
    parser.add_argument("--further", type=int, default=500, help="steps of each variant (500)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after this")
    parser.add_argument("--store", type=pathlib.Path, default=RESULTS / "decoupling.jsonl")
    parser.add_argument("--arrays", type=pathlib.Path, default=ROOT / "out" / "decoupling")
    parser.add_argument(
        "--write", action="store_true", help="to docs/research/numerics-decoupling.md"
    )
    cli.add_fields(parser, ModelConfig, TrainConfig)
    parser.set_defaults(steps=1000)
    options = parser.parse_args()
    model, train = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    plan = Plan(model, train, options.further, options.rate)
    options.arrays.mkdir(parents=True, exist_ok=True)
    store = Store(options.store)
    names = [F32, *(name for name in options.variants if name != F32)]
    finish(plan, store, options.arrays, names, 60 * options.minutes)
    found = table(plan, store, names)
    print(found)
    if options.write:
        text = f"{described(plan)}\n\n{found}"
        page = "docs/research/numerics-decoupling.md"
        gradients.write(
            page, "Which of the optimizer's variables may be narrow", text, "make decoupling"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
