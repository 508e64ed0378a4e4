"""Times training steps of long scans: ours against jax.jit, interleaved on the same cores.

    make bench-scans ARGS="--steps 4096 --recipes none fp8"

For each cell (a plain RNN, an LSTM, a Mamba block, RWKV's linear attention) and recipe: the first
call, which compiles, the shortest step, the artefact's size, and the worst cosine of a tensor's
gradient with that of jax.jit. Only ratios within a run are meaningful.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import scalify

__all__ = ["main"]

STATES = 8  # of each of Mamba's channels


def rnn(p: Any, x: Any) -> Any:
    def cell(h: Any, xi: Any) -> Any:
        h = jnp.tanh(h @ p["h"] + xi @ p["x"])
        return h, h @ p["o"]

    return lax.scan(cell, jnp.zeros(x.shape[1:]), x)[1]


def lstm(p: Any, x: Any) -> Any:
    def cell(carry: Any, xi: Any) -> Any:
        h, c = carry
        i, f, o, g = jnp.split(xi @ p["x4"] + h @ p["h4"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros(x.shape[1:])
    return lax.scan(cell, (zeros, zeros), x)[1] @ p["o"]


def mamba(p: Any, x: Any) -> Any:
    u = jax.nn.silu(x @ p["x"])
    step, rate = jax.nn.softplus(u @ p["h"]), -jnp.exp(p["a"])

    def cell(h: Any, at: Any) -> Any:
        u, step, into, out = at
        h = jnp.exp(step[..., None] * rate) * h + (step * u)[..., None] * into[:, None]
        return h, (h * out[:, None]).sum(-1)

    start = jnp.zeros((*x.shape[1:], STATES))
    y = lax.scan(cell, start, (u, step, u @ p["into"], u @ p["out"]))[1]
    return (y * jax.nn.silu(x @ p["g"])) @ p["o"]


def rwkv(p: Any, x: Any) -> Any:
    decay = jnp.exp(-jnp.exp(p["w"]))

    def cell(s: Any, at: Any) -> Any:
        r, k, v = at
        kv = k[:, :, None] * v[:, None]
        return s * decay[:, None] + kv, jnp.einsum("bk,bkv->bv", r, s + kv)

    inputs = (jax.nn.sigmoid(x @ p["x"]), x @ p["h"], x @ p["g"])
    return lax.scan(cell, jnp.zeros((*x.shape[1:], x.shape[-1])), inputs)[1] @ p["o"]


CELLS: dict[str, Callable[[Any, Any], Any]] = {
    "rnn": rnn,
    "lstm": lstm,
    "mamba": mamba,
    "rwkv": rwkv,
}
USED = {
    "rnn": ("x", "h", "o"),
    "lstm": ("x4", "h4", "o"),
    "mamba": ("x", "h", "a", "into", "out", "g", "o"),
    "rwkv": ("x", "h", "g", "w", "o"),
}


def weights(width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (0.5 * rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    square = {name: normal(width, width) for name in ("x", "h", "g", "o")}
    wide = {name: normal(width, 4 * width) for name in ("x4", "h4")}
    thin = {name: normal(width, STATES) for name in ("into", "out", "a")}
    return {**square, **wide, **thin, "w": np.zeros(width, np.float32)}


def timed(run: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    jax.block_until_ready(run(*arguments))
    return time.perf_counter() - started


def measure(cell: str, recipe: str, width: int, batch: int, steps: int, repeats: int) -> str:
    """Returns one row of the table."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(steps, batch, width)).astype(np.float32)
    params = {name: weights(width)[name] for name in USED[cell]}

    def loss(params: Any, x: Any) -> Any:
        return ((CELLS[cell](params, x) - jnp.roll(x, 1, 0)) ** 2).mean()

    def step(params: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda w, g: w - 0.01 * g, params, grads), value

    runs: dict[str, Any] = {"jax.jit": jax.jit(step), "ours": scalify.jit(step, recipe)}
    first = {name: timed(run, params, x) for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], timed(run, params, x))
    gradient = jax.grad(loss)
    mine, theirs = scalify.jit(gradient, recipe)(params, x), jax.jit(gradient)(params, x)
    cosines = []
    for name in params:
        a, b = np.asarray(mine[name]).ravel(), np.asarray(theirs[name]).ravel()
        cosines.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step"
        runs["ours"].executable().save(path)
        size = path.stat().st_size
    times = f"{first['jax.jit']:.2f} | {first['ours']:.2f}"
    steps_ms = f"{1e3 * best['jax.jit']:.1f} | {1e3 * best['ours']:.1f}"
    ratio = best["ours"] / best["jax.jit"]
    start = f"| {cell} | {recipe} | {times} | {steps_ms} | {ratio:.2f}"
    return f"{start} | {size:,} | {min(cosines):.4f} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--recipes", nargs="+", default=["none", "fp8"])
    parser.add_argument("--steps", type=int, default=4096, help="length of the scan")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args()
    print(
        "| cell | recipe | first call, s: jax.jit | ours | step, ms: jax.jit | ours | ratio "
        "| artefact, bytes | worst cosine |\n|---|---|---|---|---|---|---|---|---|"
    )
    for cell in args.cells:
        for recipe in args.recipes:
            row = measure(cell, recipe, args.width, args.batch, args.steps, args.repeats)
            print(row, flush=True)


if __name__ == "__main__":
    main()
