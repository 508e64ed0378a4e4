"""State-space models: Mamba-2 with its chunked scan (Dao and Gu 2024, listing 1).

Shapes use B batch, T sequence, C chunks of L places, D dim, H heads of P channels, N states.
"""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

__all__ = ["mamba2"]

VOCAB, DIM, LENGTH = 256, 64, 64
HEADS, CHANNELS, STATES, CHUNK, TAPS = 8, 16, 16, 32, 4
INNER = HEADS * CHANNELS


def draw(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters; decays of 1 to H, and steps of softplus(0), so that sums are wide."""
    keys = iter(jax.random.split(key, 3 * layers + 1))

    def normal(*shape: int, deviation: float = 0.02) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    def block() -> Any:
        convolved = INNER + 2 * STATES
        return {
            "norm": jnp.ones(DIM),
            "in": normal(DIM, 2 * INNER + 2 * STATES + HEADS),
            "conv": {
                "w": normal(TAPS, 1, convolved, deviation=TAPS**-0.5),
                "b": jnp.zeros(convolved),
            },
            "step_bias": jnp.zeros(HEADS),
            "log_decay": jnp.log(jnp.arange(1.0, HEADS + 1)),
            "skip": jnp.ones(HEADS),
            "gated_norm": jnp.ones(INNER),
            "out": normal(INNER, DIM, deviation=0.02 / layers**0.5),
        }

    blocks = [block() for _ in range(layers)]
    return {"embed": normal(VOCAB, DIM), "blocks": blocks, "norm": jnp.ones(DIM)}


def rms_norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Normalises the last axis."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain


def segment_sums(x: jax.Array) -> jax.Array:
    """Returns [.., L, L]: the sum of x over the places after j up to i, -inf where j is after i."""
    sums = jnp.cumsum(x, axis=-1)
    causal = jnp.tril(jnp.ones((x.shape[-1], x.shape[-1]), bool))
    return jnp.where(causal, sums[..., :, None] - sums[..., None, :], -jnp.inf)


def scan_chunks(x: jax.Array, decay: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """The state-space dual in chunks: x [B, T, H, P], decay [B, T, H], b and c [B, T, N]."""
    x, b, c = (part.reshape(part.shape[0], -1, CHUNK, *part.shape[2:]) for part in (x, b, c))
    decay = decay.reshape(decay.shape[0], -1, CHUNK, HEADS).transpose(0, 3, 1, 2)
    sums = jnp.cumsum(decay, axis=-1)
    within = jnp.exp(segment_sums(decay))
    inner = jnp.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, within, x)
    to_end = jnp.exp(sums[..., -1:] - sums)
    states = jnp.einsum("bcln,bhcl,bclhp->bchpn", b, to_end, x)
    states = jnp.concatenate([jnp.zeros_like(states[:, :1]), states], axis=1)
    between = jnp.exp(segment_sums(jnp.pad(sums[..., -1], ((0, 0), (0, 0), (1, 0)))))
    states = jnp.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
    outer = jnp.einsum("bcln,bchpn,bhcl->bclhp", c, states, jnp.exp(sums))
    return (inner + outer).reshape(x.shape[0], LENGTH, HEADS, CHANNELS)


def mixer(x: jax.Array, p: Any) -> jax.Array:
    """Mamba-2's layer of [B, T, D]: projection, short convolution, scan, gated norm."""
    z, xbc, step = jnp.split(x @ p["in"], [INNER, 2 * INNER + 2 * STATES], axis=-1)
    xbc = jax.lax.conv_general_dilated(
        xbc,
        p["conv"]["w"],
        (1,),
        [(TAPS - 1, 0)],
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=xbc.shape[-1],
    )
    xbc = jax.nn.silu(xbc + p["conv"]["b"])
    inner, b, c = jnp.split(xbc, [INNER, INNER + STATES], axis=-1)
    inner = inner.reshape(*x.shape[:2], HEADS, CHANNELS)
    step = jax.nn.softplus(step + p["step_bias"])
    y = scan_chunks(inner * step[..., None], -jnp.exp(p["log_decay"]) * step, b, c)
    y = (y + inner * p["skip"][:, None]).reshape(*x.shape[:2], INNER)
    return rms_norm(y * jax.nn.silu(z), p["gated_norm"]) @ p["out"]


def loss(params: Any, tokens: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of the next byte."""
    x = params["embed"][tokens[:, :-1]]
    for p in params["blocks"]:
        x = x + mixer(rms_norm(x, p["norm"]), p)
    logits = rms_norm(x, params["norm"]) @ params["embed"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@program("mamba2", "sequence", depth=6)
def mamba2(depth: int) -> Program:
    """A language model of Mamba-2's layers with a tied head."""
    return Program.of_loss(draw(jax.random.key(21), depth), batches.text(4, LENGTH), loss)
