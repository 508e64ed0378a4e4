"""Gradients of N ranks reduced in FP8, simulated on one device: which factor before the cast?

FP8-LM (arXiv 2310.18313, section 2.1) casts each rank's gradient with a scale that all ranks share,
sums the data in FP8, and folds the average into the scale. `minimum` casts without a factor,
`inverse_sqrt` multiplies by 1 / sqrt(N) before, `mu` by a factor that is halved if more than 0.001
% of the data have the largest value and otherwise doubles in 1,000 steps. Gradients of the ranks
have equal size and share only a hundredth of their energy ("alike"), are equal ("equal"), or have
sizes from 2^-8 to 2^4 ("apart"). Printed, after enough steps for mu to settle: signal to noise of
the mean against the mean of uncast gradients, as the mean of several seeds with the largest
deviation from it, and the shares of values that the casts flushed (underflow) and saturated
(overflow). SIMULATED: no wire, no ranks.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections.abc import Sequence

import gradients as common
import jax
import jax.numpy as jnp
import numpy as np

import scalify

__all__ = ["main", "measured"]

SCALINGS = ("minimum", "inverse_sqrt", "mu")
CASES = ("alike", "equal", "apart")
ROWS, WIDTH, OUT = 32, 64, 96


def mean_gradient(w: jax.Array, x: jax.Array, t: jax.Array) -> jax.Array:
    """Returns the mean over ranks of the gradient of x [ranks, rows, width] times w."""

    def loss(w: jax.Array, x: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.mean(jnp.tanh(x @ w) * t)

    each = [jax.grad(loss)(w, *rank) for rank in zip(x, t, strict=True)]
    return jnp.mean(jnp.stack(each), axis=0)


def inputs(case: str, ranks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns x [ranks, rows, width] and the factors of the outputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ranks, ROWS, WIDTH))
    t = rng.normal(size=(ranks, ROWS, OUT))
    if case == "equal":
        x[:], t[:] = x[0], t[0]
    else:
        # Shared rows: a tenth of the size, a hundredth of the energy.
        x += 0.1 * x[:1]
        t += 0.1 * t[:1]
    if case == "apart":
        t *= 2.0 ** np.linspace(-8, 4, ranks)[:, None, None]
    return x.astype(np.float32), t.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of one run's casts: dB, and the shares of flushed and saturated values."""

    ratio: float
    flushed: float
    saturated: float


def measured(case: str, scaling: str, ranks: int, steps: int, seeds: int = 1) -> list[Noise]:
    """Returns the noise of the mean gradient, for each seed."""
    recipe = scalify.Recipe.preset("fp8-current").replace(
        head=True, sensitive=True, stored_gradient="f8E4M3FN"
    )
    recipe = recipe.replace(gradient_scaling=scaling, simulated_ranks=ranks)
    w = np.random.default_rng(7).normal(0, WIDTH**-0.5, (WIDTH, OUT)).astype(np.float32)
    scales = scalify.measure((w, *inputs(case, ranks, 0)))
    counted_here = scalify.Numerics(scales=scales, health="off")
    run = scalify.jit(mean_gradient, recipe, numerics=counted_here)
    plain = scalify.Numerics(scales=scales)
    wide = scalify.jit(mean_gradient, recipe.replace(stored_gradient="given"), numerics=plain)
    executable = run.executable(w, *inputs(case, ranks, 0))
    kept = executable.kept
    found = []
    for seed in range(seeds):
        executable.kept = kept
        given = [inputs(case, ranks, 1000 * seed + step) for step in range(steps)]
        found.append(noise_of(run, wide, w, given))
    return found


def noise_of(
    run: scalify.Jit, wide: scalify.Jit, w: np.ndarray, batches: Sequence[tuple[np.ndarray, ...]]
) -> Noise:
    """Returns the noise of the second half of some steps."""
    signal = noise = flushed = saturated = elements = 0.0
    for step, given in enumerate(batches):
        found = np.asarray(run(w, *given), np.float64)
        # mu settles in the first half.
        if 2 * step < len(batches):
            continue
        exact = np.asarray(wide(w, *given), np.float64)
        signal += float(np.sum(exact**2))
        noise += float(np.sum((exact - found) ** 2))
        for row in run.health():
            # Those of the ranks' stacked gradients, and of their sum.
            if row["cast"].endswith((": concatenate", ": reduce")):
                flushed += row["flushed"]
                saturated += row["saturated"]
                elements += row["elements"]
    if not elements:
        raise RuntimeError("no gradient was cast")
    return Noise(10 * math.log10(signal / noise), flushed / elements, saturated / elements)


def text_of(seeds: Sequence[Noise]) -> str:
    """Returns the mean over seeds, and the spread of the ratio."""
    ratios = [one.ratio for one in seeds]
    ratio = statistics.fmean(ratios)
    spread = max(abs(one - ratio) for one in ratios)
    flushed = statistics.fmean(one.flushed for one in seeds)
    saturated = statistics.fmean(one.saturated for one in seeds)
    return f"{ratio:.1f} ± {spread:.1f} dB, {flushed:.2%}, {saturated:.3%}"


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="to docs/research/numerics-ranks.md")
    options = parser.parse_args()
    parts = []
    for case in CASES:
        lines = []
        for ranks in options.ranks:
            cells = [str(ranks)]
            for scaling in SCALINGS:
                cells.append(text_of(measured(case, scaling, ranks, options.steps, options.seeds)))
            lines.append(cells)
            print(case, *cells, sep=" | ", flush=True)
        table = common.table(["ranks", *(f"`{name}`" for name in SCALINGS)], lines)
        parts.append(f"## Gradients: {case}\n\n{table}")
    if options.write:
        page = f"{(__doc__ or '').strip()}\n\n" + "\n\n".join(parts)
        common.write(
            "docs/research/numerics-ranks.md", "Gradients of many ranks", page, "make ranks"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
