"""Training steps of LLaMA 3 8B's shape as StableHLO text, for compilers: no array is allocated.

Two forms: layers unrolled in Python as in `model`, or scanned over stacked weights with a
checkpoint around each layer, like large models.

    python examples/llama/shapes.py --form=scanned --layers=32 --seq=4096 -o step.mlir
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import model
from config import ModelConfig, TrainConfig
from model import Params, attention, rms_norm, rope_tables, swiglu
from optimizer import make_optimizer

__all__ = ["LLAMA_8B", "lower", "scanned_loss", "stack"]

LLAMA_8B = ModelConfig(
    vocab=128256,
    dim=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    ffn=14336,
    seq=4096,
    rope_theta=500000.0,
    dtype="bfloat16",
)


def stack(params: Params) -> Params:
    """Returns `params` of `model.init` with `layers` a dict of arrays [L, ...]."""
    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["layers"])
    return {**params, "layers": layers}


def scanned_loss(params: Params, batch: jax.Array, cfg: ModelConfig) -> jax.Array:
    """Returns `model.loss` of stacked parameters; the backward rematerialises each layer.

    Args:
        params: the tree of `stack`.
        batch: int32 tokens [B, T + 1].
        cfg: the model's sizes.
    """
    tables = rope_tables(cfg, batch.shape[1] - 1)

    # A loop separates rematerialised ops from the forward; a barrier is unnecessary.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        with jax.named_scope("attention"):
            normal = rms_norm(x, weights["attention_norm"], cfg.norm_eps)
            x = x + attention(normal, weights, cfg, tables)
        with jax.named_scope("ffn"):
            normal = rms_norm(x, weights["ffn_norm"], cfg.norm_eps)
            return x + swiglu(normal, weights), None

    x = jnp.take(params["embed"], batch[:, :-1], axis=0).astype(cfg.dtype)
    with jax.named_scope("layers"):
        x, _ = jax.lax.scan(layer, x, params["layers"])
    with jax.named_scope("head"):
        x = rms_norm(x, params["final_norm"], cfg.norm_eps)
        predicted = (x @ params["head"].astype(x.dtype)).astype(jnp.float32)
    with jax.named_scope("loss"):
        losses = optax.softmax_cross_entropy_with_integer_labels(predicted, batch[:, 1:])
        return jnp.mean(losses)


def is_matrix(params: Params) -> Any:
    """Returns the leaves that decay: a stack of gains has two dimensions, but is no matrix."""
    return jax.tree.map_with_path(lambda path, _: "norm" not in str(path[-1]), params)


def lower(cfg: ModelConfig, *, scanned: bool, batch: int = 1) -> str:
    """Returns the text of a step of AdamW: (params, state, tokens) -> (params, state, loss).

    Args:
        cfg: the model's sizes; `dtype` is that of activations, masters are F32.
        scanned: whether layers are a loop over stacked weights.
        batch: sequences of `cfg.seq` tokens.
    """
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    if scanned:
        params = jax.eval_shape(stack, params)
    adamw = make_optimizer(TrainConfig(), decays=is_matrix)
    loss_of = scanned_loss if scanned else model.loss

    def step(params: Params, state: Any, tokens: jax.Array) -> tuple[Params, Any, jax.Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, tokens, cfg)
        with jax.named_scope("optimizer"):
            updates, state = adamw.update(grads, state, params)
            return optax.apply_updates(params, updates), state, loss

    tokens = jax.ShapeDtypeStruct((batch, cfg.seq + 1), np.int32)
    jitted = jax.jit(step, donate_argnums=(0, 1))
    return jitted.lower(params, jax.eval_shape(adamw.init, params), tokens).as_text(debug_info=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=["unrolled", "scanned"], default="scanned")
    parser.add_argument("--layers", type=int, default=LLAMA_8B.layers)
    parser.add_argument("--seq", type=int, default=LLAMA_8B.seq)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    cfg = dataclasses.replace(LLAMA_8B, layers=args.layers, seq=args.seq, dtype=args.dtype)
    args.output.write_text(lower(cfg, scanned=args.form == "scanned", batch=args.batch))


if __name__ == "__main__":
    main()
