"""Cases without a good loss scale: propagated scales against plain casts on three hard cases.

- init: every matrix of the example is drawn with 0.02 / sqrt(2 layers);
- losses: two towers on one trunk; the second tower's loss has weight 2^-12;
- state: parameters and both moments are kept in FP16, and the next update is compared.

Plain casts get the best constant loss scale of 2^0 .. 2^24, found by trying all. For the state the
optimizer runs on scaled gradients: the moments carry the loss scale and its square.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from typing import Any

import gradients as common
import jax
import jax.numpy as jnp
import numpy as np
from gradients import Agreement, Program, compare, compiled

import data
import model
import optimizer
import scalify
from config import ModelConfig, TrainConfig

__all__ = ["main"]

EXPONENTS = range(25)
# Only the state is cast: all dots stay wide.
STATE_ONLY = (
    '#scalify.recipe<"fp16", linear = false, attention = false, head = false, saved = given>'
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; `groups` are cosines of parts of the tree."""

    name: str
    found: Agreement
    groups: dict[str, float]


def best(rows: list[Row]) -> Row:
    """Returns the row whose worst tensor is best, since all tensors must train."""
    return max(rows, key=lambda row: (row.found.worst, row.found.whole))


def judged(name: str, found: Any, reference: Any) -> Row:
    """Returns the row of one tree of gradients; groups are the tree's top-level towers."""
    groups = {}
    for key in ("main", "aux"):
        if isinstance(reference, dict) and key in reference:
            groups[key] = compare(found[key], reference[key]).whole
    return Row(name, compare(found, reference), groups)


def against_plain(loss: Program, args: tuple[Any, Any], recipes: tuple[str, ...]) -> list[Row]:
    """Returns one row per recipe, then fp8-plain with its best loss scale and without one."""

    def grads(params: Any, batch: Any) -> Any:
        return jax.grad(loss)(params, batch)

    def scaled(params: Any, batch: Any, factor: Any) -> Any:
        found = jax.grad(lambda p: factor * loss(p, batch))(params)
        return jax.tree.map(lambda leaf: leaf / factor, found)

    scales = scalify.measure(args)
    reference = compiled(grads, *args)(*args)
    rows = []
    for recipe in recipes:
        step = scalify.transform(
            grads, recipe=recipe, numerics=scalify.Numerics(scales=scales), strict=True
        )
        rows.append(judged(f"`{recipe}`", compiled(step, *args)(*args), reference))
        print(f"  {rows[-1]}", flush=True)
    one = jnp.float32(1)
    plain = scalify.transform(
        scaled, recipe="fp8-plain", numerics=scalify.Numerics(scales=scalify.measure((*args, one)))
    )
    run = compiled(plain, *args, one)
    sweep = [
        judged(f"`fp8-plain`, loss scale 2^{k}", run(*args, jnp.float32(2.0**k)), reference)
        for k in EXPONENTS
    ]
    rows.append(best(sweep))
    print(f"  best: {rows[-1]}", flush=True)
    rows.append(sweep[0])
    return rows


def small_init(cfg: ModelConfig, plan: TrainConfig) -> list[Row]:
    """Every matrix drawn with 0.02 / sqrt(2 layers)."""
    params = model.init(jax.random.key(plan.seed), cfg)
    factor = 1 / math.sqrt(2 * cfg.layers)
    # The two matrices that write into the residual stream have that deviation already.
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            leaf if leaf.ndim < 2 or path[-1].key in ("wo", "w_down") else leaf * factor
        ),
        params,
    )
    batch = data.train_batches(data.load(), 1, plan.batch, cfg.seq, plan.seed)[0]
    return against_plain(lambda p, b: model.loss(p, b, cfg), (params, batch), ("fp8", "fp16"))


def two_losses(cfg: ModelConfig, plan: TrainConfig) -> list[Row]:
    """Two towers of half the layers on a trunk of the other half; losses 2^12 apart."""
    half = dataclasses.replace(cfg, layers=cfg.layers // 2)
    keys = jax.random.split(jax.random.key(plan.seed), 3)
    trunk, main, aux = (model.init(key, half) for key in keys)
    for tower in (main, aux):
        del tower["embed"]
    del trunk["head"], trunk["final_norm"]
    params = {"trunk": trunk, "main": main, "aux": aux}

    def tower_loss(x: Any, tower: Any, targets: Any) -> Any:
        for layer in tower["layers"]:
            x = block(x, layer, half)
        x = model.rms_norm(x, tower["final_norm"], half.norm_eps) @ tower["head"]
        logp = jax.nn.log_softmax(x, axis=-1)
        return -jnp.mean(jnp.take_along_axis(logp, targets[..., None], axis=-1))

    def loss(params: Any, batch: Any) -> Any:
        x = jnp.take(params["trunk"]["embed"], batch[:, :-2], axis=0)
        for layer in params["trunk"]["layers"]:
            x = block(x, layer, half)
        first = tower_loss(x, params["main"], batch[:, 1:-1])
        return first + 2.0**-12 * tower_loss(x, params["aux"], batch[:, 2:])

    batch = data.train_batches(data.load(), 1, plan.batch, cfg.seq + 1, plan.seed)[0]
    return against_plain(loss, (params, batch), ("fp8", "fp16"))


def block(x: Any, layer: Any, cfg: ModelConfig) -> Any:
    """One pre-norm block of the example."""
    tables = model.rope_tables(cfg, x.shape[1])
    normal = model.rms_norm(x, layer["attention_norm"], cfg.norm_eps)
    x = x + model.attention(normal, layer, cfg, tables)
    return x + model.swiglu(model.rms_norm(x, layer["ffn_norm"], cfg.norm_eps), layer)


def fp16_state(cfg: ModelConfig, plan: TrainConfig, steps: int) -> list[Row]:
    """The update after some steps of F32 training, with FP16 state."""
    adamw = optimizer.make_optimizer(plan)
    train = optimizer.make_step(cfg, adamw)
    params = model.init(jax.random.key(plan.seed), cfg)
    state = adamw.init(params)
    batches = data.train_batches(data.load(), steps + 2, plan.batch, cfg.seq, plan.seed)
    run = compiled(train, params, state, batches[0])
    scales = scalify.measure((params, state, batches[0]))
    for batch in batches[:steps]:
        params, state, _ = run(params, state, batch)
    after, moments, _ = run(params, state, batches[steps])

    def update(params: Any, state: Any) -> Any:
        new, _, _ = run(params, state, batches[-1])
        return jax.tree.map(lambda a, b: a - b, new, params)

    reference = update(after, moments)
    # Donation marks the state; the caller's jit keeps the arrays alive.
    step = scalify.transform(
        train,
        recipe=STATE_ONLY,
        numerics=scalify.Numerics(scales=scales),
        strict=True,
        donate_argnums=(0, 1),
    )
    stored, narrow, _ = compiled(step, params, state, batches[steps])(params, state, batches[steps])
    rows = [judged("FP16 state, propagated scales", update(stored, narrow), reference)]
    print(f"  {rows[-1]}", flush=True)
    sweep = []
    for k in EXPONENTS:
        held = plain_state(moments, 2.0**k)
        weights = jax.tree.map(lambda leaf: rounded(leaf, 1.0), after)
        sweep.append(
            judged(f"plain FP16 state, loss scale 2^{k}", update(weights, held), reference)
        )
    rows.append(best(sweep))
    print(f"  best: {rows[-1]}", flush=True)
    rows.append(sweep[0])
    return rows


def rounded(leaf: Any, factor: float) -> Any:
    """Stores leaf * factor in FP16, saturating, and reads it back."""
    wide = np.clip(np.asarray(leaf, np.float32) * np.float32(factor), -65504, 65504)
    return jnp.asarray(wide.astype(np.float16).astype(np.float32) / np.float32(factor))


def plain_state(state: Any, factor: float) -> Any:
    """Rounds `mu` under the loss scale and `nu` under its square."""

    def store(path: Any, leaf: Any) -> Any:
        key = jax.tree_util.keystr(path)
        if ".mu" in key:
            return rounded(leaf, factor)
        return rounded(leaf, factor**2) if ".nu" in key else leaf

    return jax.tree_util.tree_map_with_path(store, state)


CASES = {
    "init": "Every matrix drawn with 0.02 / sqrt(2 layers): gradients",
    "losses": "Two losses 2^12 apart in size: gradients",
    "state": "FP16 state: the next update of AdamW",
}


def section(title: str, rows: list[Row]) -> str:
    """Returns one case's table."""
    towers = [key for key in ("main", "aux") if key in rows[0].groups]
    header = [
        "1 - cosine to F32",
        "all",
        "worst tensor",
        "which",
        *(f"{key} tower" for key in towers),
    ]
    cells = [
        [
            row.name,
            f"{1 - row.found.whole:.1e}",
            f"{1 - row.found.worst:.1e}",
            f"`{row.found.where}`",
            *(f"{1 - row.groups[key]:.1e}" for key in towers),
        ]
        for row in rows
    ]
    return f"## {title}\n\n{common.table(header, cells)}\n"


def main() -> int:
    """Runs the command; returns 0 if propagation beats the best plain cast in every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--seq", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40, help="F32 steps before the state (40)")
    parser.add_argument("--case", choices=list(CASES), action="append", help="all by default")
    parser.add_argument(
        "--write", action="store_true", help="to docs/research/numerics-adversaries.md"
    )
    options = parser.parse_args()
    cfg = ModelConfig(layers=options.layers, seq=options.seq)
    plan = TrainConfig(batch=options.batch)

    parts, wins = [], True
    for case in options.case or list(CASES):
        print(CASES[case], flush=True)
        rows = {
            "init": lambda: small_init(cfg, plan),
            "losses": lambda: two_losses(cfg, plan),
            "state": lambda: fp16_state(cfg, plan, options.steps),
        }[case]()
        wins &= all(row.found.worst > rows[-2].found.worst for row in rows[:-2])
        parts.append(section(CASES[case], rows))
    sizes = (
        f"The example LLaMA with {cfg.layers} layers, width {cfg.dim}, {plan.batch} sequences of "
        f"{cfg.seq} bytes, seed {plan.seed}. The best loss scale of plain casts is the one of "
        "2^0 .. 2^24 whose worst tensor is best; the last row has none."
    )
    text = sizes + "\n\n" + "\n".join(parts)
    print(text)
    if options.write:
        title = "Where one loss scale cannot win"
        common.write("docs/research/numerics-adversaries.md", title, text, "make adversaries")
    return 0 if wins else 1


if __name__ == "__main__":
    sys.exit(main())
