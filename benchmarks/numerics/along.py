"""Gradients along FP8 training itself, by artefacts, by jit, and by transform under jax.jit.

A LLaMA of width 144 on bytes of English, AdamW at 2e-3. At each look the training step's gradient
is compared with F32's at the same weights and batch, for all tensors together and the worst one,
and with that of `fp8-current`, compiled for these weights. The weights are also evaluated in F32 on
held-out batches, where the loss must equal FP8's. A network can learn around a cast that clips:
then its loss falls, and only these two figures show the defect.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import gradients as common
import jax
import jax.numpy as jnp
import numerics
import numpy as np
import optax
from safetensors.numpy import load_file, save_file

import scalify
from data import Text, load, train_batches, validation_batches

__all__ = ["PATHS", "Look", "main", "train"]

Tree = Any

WIDTH, HEADS, KEYS, HIDDEN, VOCAB = 144, 6, 2, 384, 256
ROWS, LENGTH = 8, 64
OPTIMIZER = optax.adamw(2e-3)
# Cosines of a gradient, for all tensors together and the worst tensor; the gap to amax scaling;
# relative increase of the F32 loss.
ALL_BAR, WORST_BAR, CURRENT_BAR, LOSS_BAR = 0.98, 0.95, 0.003, 0.005


def init(layers: int, seed: int) -> Tree:
    """Returns F32 parameters: normal with deviation 0.02, smaller for residual-stream writers."""
    rng = np.random.default_rng(seed)
    keys = WIDTH // HEADS * KEYS

    def normal(*shape: int, deviation: float = 0.02) -> np.ndarray:
        return rng.normal(0, deviation, shape).astype(np.float32)

    out = 0.02 / (2 * layers) ** 0.5
    return {
        "embed": normal(VOCAB, WIDTH),
        "layers": [
            {
                "attention_norm": np.ones(WIDTH, np.float32),
                "query": normal(WIDTH, WIDTH),
                "key": normal(WIDTH, keys),
                "value": normal(WIDTH, keys),
                "out": normal(WIDTH, WIDTH, deviation=out),
                "ffn_norm": np.ones(WIDTH, np.float32),
                "gate": normal(WIDTH, HIDDEN),
                "up": normal(WIDTH, HIDDEN),
                "down": normal(HIDDEN, WIDTH, deviation=out),
            }
            for _ in range(layers)
        ],
        "norm": np.ones(WIDTH, np.float32),
        "head": normal(WIDTH, VOCAB),
    }


def norm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def rotated(x: Any) -> Any:
    """Turns pairs of channels of [B, T, N, H] by the position's angles."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x: Any, w: Tree) -> Any:
    size = WIDTH // HEADS
    split = (*x.shape[:2], -1, size)
    q, k, v = ((x @ w[name]).reshape(split) for name in ("query", "key", "value"))
    q = rotated(q).reshape(*x.shape[:2], KEYS, HEADS // KEYS, size)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, rotated(k)) * size**-0.5
    seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    mix = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1)
    return jnp.einsum("bkgts,bskh->btkgh", mix, v).reshape(x.shape) @ w["out"]


def loss(params: Tree, tokens: Any) -> Any:
    """Returns the mean cross entropy of the next byte of [B, T + 1]."""
    x = params["embed"][tokens[:, :-1]]
    for w in params["layers"]:
        x = x + attention(norm(x, w["attention_norm"]), w)
        h = norm(x, w["ffn_norm"])
        x = x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
    logits = norm(x, params["norm"]) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def step(params: Tree, state: Tree, tokens: Any) -> tuple[Tree, Tree, Any, Tree]:
    """Returns parameters, optimizer state, loss and gradient."""
    value, grad = jax.value_and_grad(loss)(params, tokens)
    updates, state = OPTIMIZER.update(grad, state, params)
    return optax.apply_updates(params, updates), state, value, grad


def exported(example: tuple[Any, ...]) -> str:
    """Returns the step as StableHLO."""
    lowered = jax.jit(step, donate_argnums=(0, 1)).lower(*example)
    return str(lowered.as_text(debug_info=True))


class Path:
    """One way to run the step."""

    kept: Any = None

    def __call__(self, *args: Any) -> Any:
        """Runs a step; returns parameters, optimizer state, loss and gradient."""
        raise NotImplementedError

    def advance(self, state: Tree, batches: np.ndarray) -> Tree:
        """Runs a step on each of the batches; returns the state."""
        for tokens in batches:
            *state, _, _ = self(*state, tokens)
        return state


class Artefact(Path):
    """The step exported as StableHLO and compiled once, with the scales of its first arguments."""

    def __init__(self, example: tuple[Any, ...], recipe: str, **numerics: Any) -> None:
        given = scalify.Numerics(scales=scalify.measure(example), **numerics)
        self._run = scalify.compile(exported(example), recipe, numerics=given)
        self._tree = jax.tree.structure(jax.eval_shape(step, *example))

    def __call__(self, *args: Any) -> Any:
        return jax.tree.unflatten(self._tree, self._run(*jax.tree.leaves(args)))

    @property
    def kept(self) -> Any:
        return self._run.kept

    @kept.setter
    def kept(self, kept: Any) -> None:
        self._run.kept = kept


class Standalone(Artefact):
    """The step compiled by `scalify-compile` without values, and run by `scalify-run`."""

    def __init__(self, example: tuple[Any, ...], recipe: str) -> None:
        self._tools = pathlib.Path(os.environ["SCALIFY_BUILD"]) / "bin"
        self._folder = pathlib.Path(tempfile.mkdtemp())
        self._path = self._folder / "step.scalify"
        text = self._folder / "step.mlir"
        text.write_text(exported(example))
        command: list[str | pathlib.Path] = [
            self._tools / "scalify-compile",
            text,
            f"--recipe={recipe}",
            "-o",
            self._path,
        ]
        subprocess.run(command, check=True)
        self._run = scalify.load(self._path)
        self._tree = jax.tree.structure(jax.eval_shape(step, *example))

    def advance(self, state: Tree, batches: np.ndarray) -> Tree:
        leaves, tree = jax.tree.flatten(state)
        names = [arg["name"] for arg in self._run.args]
        arrays = dict(zip(names, [*map(np.asarray, leaves), batches], strict=True))
        given, left = (self._folder / f"{name}.safetensors" for name in ("state", "next"))
        save_file(arrays | self._run.kept, given)
        command: list[str | pathlib.Path] = [
            self._tools / "scalify-run",
            self._path,
            "--in",
            given,
            "--out",
            left,
        ]
        subprocess.run([*command, f"--steps={len(batches)}"], check=True, capture_output=True)
        found = load_file(left)
        self._run.kept = {name: found[name] for name in self._run.kept}
        return jax.tree.unflatten(tree, [found[name] for name in names[: len(leaves)]])


class Jitted(Path):
    """`scalify.jit`."""

    def __init__(self, example: tuple[Any, ...], recipe: str, **numerics: Any) -> None:
        given = scalify.Numerics(**numerics)
        self._run = scalify.jit(step, recipe, donate_argnums=(0, 1), numerics=given)
        self._run.executable(*example)

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)

    @property
    def kept(self) -> Any:
        return self._run.state()

    @kept.setter
    def kept(self, kept: Any) -> None:
        # With the formats too: a look must not count as steps of the training.
        self._run.restore(kept)


class Traced(Path):
    """`jax.jit(scalify.transform(step))`, without state between steps."""

    def __init__(self, example: tuple[Any, ...], recipe: str, **numerics: Any) -> None:
        self._run = jax.jit(scalify.transform(step, recipe, numerics=scalify.Numerics(**numerics)))

    def __call__(self, *args: Any) -> Any:
        return self._run(*jax.tree.map(np.asarray, args))


PATHS: dict[str, Callable[..., Path]] = {
    "compile": Artefact,
    "scalify-run": Standalone,
    "jit": Jitted,
    "transform": Traced,
}


class Look:
    """The outcome of one look at a run: cosines to F32 and to amax scaling, and losses."""

    def __init__(
        self, at: int, run: Any, current: Any, state: Tree, tokens: Any, held: Any
    ) -> None:
        """Runs a step on copies of the state; evaluates the weights on the batches `held`."""
        self.at = at
        params, opt = jax.tree.map(np.array, state)
        exact = EXACT(params, tokens)
        kept = run.kept
        own = run(*jax.tree.map(np.array, (params, opt)), tokens)
        amax = current(params, tokens)
        self.loss = float(own[2])
        self.own = common.compare(own[3], exact[1])
        self.current = common.compare(amax[1], exact[1])
        fp8 = [run(*jax.tree.map(np.array, (params, opt)), each)[2] for each in held]
        run.kept = kept
        self.read = [float(np.mean([float(v) for v in fp8]))]
        self.read.append(float(np.mean([float(EXACT(params, each)[0]) for each in held])))

    @property
    def holds(self) -> bool:
        """True if all bars hold."""
        is_read = self.read[1] <= self.read[0] * (1 + LOSS_BAR)
        is_near = self.own.whole >= self.current.whole - CURRENT_BAR
        return self.own.whole >= ALL_BAR and self.own.worst >= WORST_BAR and is_near and is_read

    def row(self, path: str) -> list[str]:
        """Returns the look as a row of the table."""
        return [
            path,
            str(self.at),
            self.own.text(),
            self.current.text(),
            f"{self.loss:.3f}",
            f"{self.read[0]:.4f}",
            f"{self.read[1]:.4f} ({100 * (self.read[1] / self.read[0] - 1):+.2f} %)",
            numerics.verdict(self.holds),
        ]


EXACT = jax.jit(jax.value_and_grad(loss))


def train(
    make: Callable[..., Path], recipe: str, text: Text, layers: int, at: list[int], **numerics: Any
) -> list[Look]:
    """Trains by one path; returns the looks at these steps."""
    params = init(layers, seed=0)
    state = (params, OPTIMIZER.init(params))
    batches = train_batches(text, max(at) + 1, ROWS, LENGTH, seed=0)
    held = validation_batches(text, ROWS, LENGTH)[:16]
    run = make((*state, batches[0]), recipe, **numerics)
    looks, done = [], 0
    for i in sorted(at):
        if i > done:
            state = run.advance(state, batches[done:i])
        done = i
        # Compiled at each look, with the formats for the sizes that weights have there.
        current = scalify.jit(
            jax.value_and_grad(loss), "fp8-current", numerics=scalify.Numerics(health="off")
        )
        looks.append(Look(i, run, current, state, batches[i], held))
        print(*looks[-1].row(make.__name__), flush=True)
    return looks


def main() -> int:
    """Runs the command; returns 1 if a bar fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--at", type=int, nargs="+", default=[0, 100, 300, 600, 1000, 1500])
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--recipe", default="fp8")
    parser.add_argument("--static", action="store_true", help="also an artefact of constants")
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-along.md")
    options = parser.parse_args()
    text, lines, good = load(), [], True
    runs: list[tuple[str, Any, dict[str, Any]]] = [
        (path, PATHS[path], {}) for path in options.paths
    ]
    if options.static:
        runs.append(("compile, static", Artefact, {"cast_scales": "static"}))
    for path, make, more in runs:
        looks = train(make, options.recipe, text, options.layers, options.at, **more)
        good &= bool(more) or all(look.holds for look in looks)
        lines += [look.row(path) for look in looks]
    columns = ["path", "step", "all / worst", "`fp8-current`", "loss", "held-out, FP8"]
    table = common.table([*columns, "read by F32", "bars"], lines)
    print(table)
    if options.write:
        page = (
            f"{options.layers} layers, {ROWS} x {LENGTH} bytes a step, recipe "
            f"`{options.recipe}`. {' '.join((__doc__ or '').split())}\n\nThe bars: cosines of "
            f"{ALL_BAR} and {WORST_BAR}, no more than {CURRENT_BAR} below `fp8-current` at the "
            f"same weights, and a loss by F32 no more than {100 * LOSS_BAR:.1f} % above that of "
            f"FP8.\n\n{table}"
        )
        common.write("docs/research/numerics-along.md", "Along FP8 training", page, "make along")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
