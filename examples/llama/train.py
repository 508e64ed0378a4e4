"""Trains the example LLaMA by a recipe and in F32, and compares the two.

Both runs have the same steps, seed and data order; only the recipe differs. The result is a table
of validation losses and a page with curves and scales, out/llama.html.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import cli
import data
import generate
import model
import optimizer
import page
from config import ModelConfig, TrainConfig
from progress import Progress

if TYPE_CHECKING:
    from sharding import Ranks

__all__ = ["Run", "main"]

BAR = 1.5  # percent of validation loss by which a low-precision run may exceed F32's


@dataclasses.dataclass
class Run:
    """The results of one training run."""

    recipe: str
    losses: list[float]
    validation: float
    seconds: float
    compile_seconds: float
    params: Any
    report: list[dict[str, Any]]
    health: list[dict[str, Any]]
    trained: int  # steps in this process, without those before a checkpoint
    bits: str = ""  # on ranks, a digest of losses, weights and moments


def compiled(
    fn: Callable[..., Any], backend: str, recipe: str, donate: tuple[int, ...] = ()
) -> Callable[..., Any]:
    """Returns `fn` compiled: by Scalify, by XLA after Scalify's rewrite, or by XLA alone.

    Plain jax.jit has no recipes: it only gets "none".
    """
    if backend == "jax":
        return jax.jit(fn, donate_argnums=donate)
    import scalify

    if backend == "transform":
        return scalify.transform(fn, recipe=recipe, donate_argnums=donate)
    return scalify.jit(fn, recipe=recipe, target="cpu", donate_argnums=donate)


def rows(step: Any, name: str) -> list[dict[str, Any]]:
    """Returns the rows of step.report() or step.health(); [] if there is no such method."""
    method = getattr(step, name, None)
    return [dict(row) for row in method()] if method else []


@dataclasses.dataclass(frozen=True)
class Store:
    """The checkpoints of one run.

    Attributes:
        folder: of the run.
        every: steps between checkpoints; the last step has one too.
        resume: continue from the newest.
    """

    folder: pathlib.Path
    every: int
    resume: bool

    def load(self, tree: Any, step: Any) -> tuple[int, Any]:
        """Returns the number of steps done and their state; 0 and `tree` for a new run."""
        from scalify import checkpoint

        if self.resume and checkpoint.latest(self.folder, jit=step):
            return checkpoint.load(self.folder, tree, jit=step)
        return 0, tree

    def save(self, tree: Any, step: Any, done: int, steps: int) -> None:
        """Saves the state after `done` steps if it is due."""
        from scalify import checkpoint

        if done % self.every == 0 or done == steps:
            checkpoint.save(self.folder, tree, done, jit=step, keep=2)


def train(
    cfg: ModelConfig,
    plan: TrainConfig,
    text: data.Text,
    backend: str,
    recipe: str,
    store: Store | None = None,
    ranks: Ranks | None = None,
) -> Run:
    """Trains from the seed's initial weights for plan.steps steps, then validates on all text.

    On ranks each rank has its shards during training, and the whole weights at the end.
    """
    params = model.init(jax.random.key(plan.seed), cfg)
    adamw = optimizer.make_optimizer(plan)
    state = adamw.init(params)
    batches = data.train_batches(text, plan.steps, plan.batch, cfg.seq, plan.seed)
    train_step = optimizer.make_step(cfg, adamw)
    if ranks is None:
        step = compiled(train_step, backend, recipe, donate=(0, 1))
    else:
        step = ranks.step(train_step, recipe, params, state)

    done = 0
    losses: list[float] = []
    if store is not None:
        # The number of losses is open: a run may continue for longer than planned.
        grown = jax.ShapeDtypeStruct((None,), np.float64)
        done, (params, state, found) = store.load((params, state, grown), step)
        losses = found.tolist() if done else []
    name = "f32" if recipe == "none" else recipe
    bar = Progress(name, plan.steps, plan.batch * cfg.seq, done)
    bar.say("compiling")
    started = time.perf_counter()
    compile_seconds = 0.0
    for index in range(done, plan.steps):
        params, state, loss = step(params, state, batches[index])
        losses.append(float(np.asarray(loss)))
        if index == done:
            compile_seconds = time.perf_counter() - started
            started = time.perf_counter()
        bar.update(index + 1, losses[index])
        if store is not None:
            store.save((params, state, np.array(losses)), step, index + 1, plan.steps)
    seconds = time.perf_counter() - started
    bar.close()

    def loss_of(params: Any, batch: Any) -> Any:
        return model.loss(params, batch, cfg)

    digest = ""
    if ranks is None:
        evaluate = compiled(loss_of, backend, recipe)
    else:
        from sharding import bits, gathered

        params, state = gathered((params, state))
        digest = bits((params, state, np.array(losses)))
        evaluate = ranks.loss(loss_of, recipe, params)
    windows = data.validation_batches(text, plan.batch, cfg.seq)
    validated = [float(np.asarray(evaluate(params, batch))) for batch in windows]
    params = jax.tree.map(np.asarray, params)
    # On ranks the first rank reports.
    is_told = done < plan.steps and (ranks is None or ranks.mesh.rank == 0)
    return Run(
        recipe=recipe,
        losses=losses,
        validation=float(np.mean(validated)),
        seconds=seconds,
        compile_seconds=compile_seconds,
        params=params,
        report=rows(step, "report") if is_told else [],
        health=rows(step, "health") if is_told else [],
        trained=max(0, plan.steps - done),
        bits=digest,
    )


def table(runs: list[Run], plan: TrainConfig, tokens: int) -> str:
    """Returns the closing table; gaps refer to the first run."""
    lines = ["run           validation loss   gap       train loss   tokens/s   training   compile"]
    for run in runs:
        gap = 100 * (run.validation / runs[0].validation - 1)
        speed = tokens * max(run.trained - 1, 1) / max(run.seconds, 1e-9)
        tail = float(np.mean(run.losses[-20:]))
        lines.append(
            f"{'f32' if run.recipe == 'none' else run.recipe:<14}{run.validation:<18.4f}"
            f"{'' if run is runs[0] else f'{gap:+.2f} %':<10}{tail:<13.4f}{speed:<11.0f}"
            f"{run.seconds:>5.0f} s  {run.compile_seconds:>7.1f} s"
        )
    return "\n".join(lines)


def casts(run: Run) -> str:
    """Returns one line on the values that the casts of the last step saturated and flushed."""
    if not run.health:
        return ""
    total = sum(row["elements"] for row in run.health)
    saturated = sum(row["saturated"] for row in run.health)
    flushed = sum(row["flushed"] for row in run.health)
    return (
        f"{run.recipe}: {len(run.health)} casts of {total:,} values in the last step, "
        f"{saturated:,} saturated, {flushed:,} flushed to zero"
    )


def parse() -> argparse.Namespace:
    """Returns the command line; every field of the two configurations is an option."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recipe", default="fp8", help="none, fp8, fp8-plain, ... (fp8)")
    parser.add_argument(
        "--backend",
        choices=["scalify", "transform", "jax"],
        default="scalify",
        help="compiler of the step: Scalify, XLA after Scalify's rewrite, XLA alone (scalify)",
    )
    parser.add_argument("--alone", action="store_true", help="skip the F32 run")
    parser.add_argument("--max-gap", type=float, help="exit with 1 if the gap is wider, in %%")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/llama.html"))
    parser.add_argument("--save", type=pathlib.Path, help="a folder for checkpoints")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints (100)")
    parser.add_argument("--resume", action="store_true", help="continue from the newest in --save")
    parser.add_argument("--mesh", help="of ranks: data=4,tensor=2; alone, one process is all ranks")
    parser.add_argument("--zero", type=int, choices=range(4), default=0, help="ZeRO level (0)")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    options = parser.parse_args()
    check_mesh(parser, options)
    if options.backend == "jax" and options.recipe != "none":
        parser.error(f"backend 'jax' knows no recipe '{options.recipe}'; use 'transform'")
    if options.save is not None and options.backend != "scalify":
        parser.error(f"backend '{options.backend}' keeps no checkpoints: leave out --save")
    if options.resume and options.save is None:
        parser.error("--resume continues from checkpoints: name their folder by --save")
    if options.every < 1:
        parser.error(f"--every {options.every}: expected 1 or more")
    if options.save is not None and not options.resume:
        for recipe in recipes(options):
            if any((folder := options.save / recipe).glob("step-*")):
                parser.error(
                    f"'{folder}' holds checkpoints of an earlier run: continue from them by "
                    "--resume, remove them, or --save elsewhere"
                )
    return options


def check_mesh(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses ranks that cannot train; replaces `options.mesh` by the ranks."""
    if options.mesh is None:
        if options.zero:
            parser.error("--zero shards state over ranks: add --mesh data=8")
        return
    if options.backend != "scalify":
        parser.error(f"backend '{options.backend}' has no ranks: leave out --mesh")
    import sharding

    try:
        axes = sharding.parse(options.mesh)
    except ValueError as error:
        parser.error(f"--mesh: {error}")
    if options.batch % axes.get("data", 1):
        parser.error(f"--batch {options.batch} is no multiple of {axes['data']} ranks of data")
    options.mesh = sharding.Ranks.of(axes, options.zero)


def recipes(options: argparse.Namespace) -> list[str]:
    """Returns the recipes of the runs, the reference first."""
    alone = options.alone or options.recipe == "none"
    return [options.recipe] if alone else ["none", options.recipe]


def main() -> int:
    """Runs the command; returns its exit status."""
    options = parse()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)
    is_first = options.mesh is None or options.mesh.mesh.rank == 0
    if not is_first:  # only the first rank prints
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    text = data.load()
    count = sum(
        leaf.size
        for leaf in jax.tree.leaves(jax.eval_shape(lambda: model.init(jax.random.key(0), cfg)))
    )
    print(
        f"LLaMA: {cfg.layers} layers, dim {cfg.dim}, {count / 1e6:.2f} M parameters, {cfg.dtype}; "
        f"{plan.steps} steps of {plan.batch} x {cfg.seq} bytes\n"
        f"text: {len(text.train):,} bytes to train on, {len(text.validation):,} to validate on"
    )
    runs = []
    for recipe in recipes(options):
        store = options.save and Store(options.save / recipe, options.every, options.resume)
        runs.append(train(cfg, plan, text, options.backend, recipe, store, options.mesh))
    if is_first:
        present(runs, cfg, plan, options.out)
    if len(runs) < 2:
        return 0
    gap = 100 * (runs[-1].validation / runs[0].validation - 1)
    print(f"gap to F32: {gap:+.2f} % of validation loss (the bar is {BAR} %)")
    return 1 if options.max_gap is not None and not gap <= options.max_gap else 0


def present(runs: list[Run], cfg: ModelConfig, plan: TrainConfig, out: pathlib.Path) -> None:
    """Prints a sample, the table and the casts' counts, and writes the page."""
    last = runs[-1]
    prompt = "The class statement "
    print(
        f"\nsample of the {last.recipe} run:\n{generate.generate(last.params, cfg, prompt, 240)}\n"
    )
    print(table(runs, plan, plan.batch * cfg.seq))
    for run in runs:
        if line := casts(run):
            print(line)
        if run.bits:
            print(f"{run.recipe}: bits of losses, weights and moments {run.bits}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page.render(runs, cfg, plan), encoding="utf-8")
    print(f"curves and scales: {out}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
