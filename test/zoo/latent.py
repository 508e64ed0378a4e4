"""Multi-head latent attention (DeepSeek-V2 2024, section 2.1), with SwiGLU.

Queries and keys with values come from compressed latents, each under an RMSNorm; a rotary key that
all heads share stands beside the heads' own.
Shapes use B batch, T sequence, D dim, N heads, R the rotary channels.
"""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from llama import rms_norm, rotate
from program import Program, program

__all__ = ["mla"]

VOCAB, DIM, FFN, HEADS, LENGTH = 256, 64, 160, 4, 32
QUERY_LATENT, LATENT, PLAIN, ROTARY, VALUE = 32, 24, 16, 8, 16


def draw(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters, normal with a deviation of 0.02."""
    keys = iter(jax.random.split(key, 9 * layers + 2))

    def normal(*shape: int) -> jax.Array:
        return 0.02 * jax.random.normal(next(keys), shape)

    blocks = [
        {
            "norm1": jnp.ones(DIM),
            "q_down": normal(DIM, QUERY_LATENT),
            "q_norm": jnp.ones(QUERY_LATENT),
            "q_up": normal(QUERY_LATENT, HEADS, PLAIN + ROTARY),
            "kv_down": normal(DIM, LATENT + ROTARY),
            "kv_norm": jnp.ones(LATENT),
            "kv_up": normal(LATENT, HEADS, PLAIN + VALUE),
            "o": normal(HEADS, VALUE, DIM),
            "norm2": jnp.ones(DIM),
            "gate": normal(DIM, FFN),
            "up": normal(DIM, FFN),
            "down": normal(FFN, DIM),
        }
        for _ in range(layers)
    ]
    embed, head = normal(VOCAB, DIM), normal(DIM, VOCAB)
    return {"embed": embed, "blocks": blocks, "norm": jnp.ones(DIM), "head": head}


def attention(x: jax.Array, p: Any) -> jax.Array:
    """Multi-head latent attention of [B, T, D]."""
    q = jnp.einsum("btr,rnh->btnh", rms_norm(x @ p["q_down"], p["q_norm"]), p["q_up"])
    q, q_rotary = q[..., :PLAIN], rotate(q[..., PLAIN:])
    latent, k_rotary = jnp.split(x @ p["kv_down"], [LATENT], axis=-1)
    k_rotary = rotate(k_rotary[:, :, None, :])
    kv = jnp.einsum("btr,rnh->btnh", rms_norm(latent, p["kv_norm"]), p["kv_up"])
    k, v = kv[..., :PLAIN], kv[..., PLAIN:]
    q = jnp.concatenate([q, q_rotary], axis=-1)
    k = jnp.concatenate([k, jnp.broadcast_to(k_rotary, (*k.shape[:3], ROTARY))], axis=-1)
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * (PLAIN + ROTARY) ** -0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
    return jnp.einsum("btnh,nhd->btd", jnp.einsum("bnts,bsnh->btnh", weights, v), p["o"])


def loss(params: Any, tokens: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of the next byte."""
    x = params["embed"][tokens[:, :-1]]
    for p in params["blocks"]:
        x = x + attention(rms_norm(x, p["norm1"]), p)
        inner = rms_norm(x, p["norm2"])
        x = x + (jax.nn.silu(inner @ p["gate"]) * (inner @ p["up"])) @ p["down"]
    logits = rms_norm(x, params["norm"]) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@program("mla", "latent attention", depth=6)
def mla(depth: int) -> Program:
    """A decoder with multi-head latent attention."""
    return Program.of_loss(draw(jax.random.key(25), depth), batches.text(8, LENGTH), loss)
