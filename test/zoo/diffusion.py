"""Diffusion: a DiT with adaLN-Zero, and denoising score matching of an energy; a WGAN-GP critic.

Shapes use B batch, T patches, D dim, H heads.
"""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

__all__ = ["critic", "dit", "energy"]

DIM, HEADS, PATCH, SIZE, CLASSES, STEPS = 64, 4, 4, 16, 10, 1000
PATCHES, PIXELS = (SIZE // PATCH) ** 2, PATCH * PATCH * 3


def dense(key: jax.Array, fan_in: int, fan_out: int) -> Any:
    """A linear layer, drawn as Glorot and Bengio 2010 draw it."""
    limit = (6 / (fan_in + fan_out)) ** 0.5
    w = jax.random.uniform(key, (fan_in, fan_out), minval=-limit, maxval=limit)
    return {"w": w, "b": jnp.zeros(fan_out)}


def zeros(fan_in: int, fan_out: int) -> Any:
    """A linear layer of zeros."""
    return {"w": jnp.zeros((fan_in, fan_out)), "b": jnp.zeros(fan_out)}


def apply(p: Any, x: jax.Array) -> jax.Array:
    """x @ w + b."""
    return x @ p["w"] + p["b"]


def draw_dit(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters as DiT draws them (Peebles and Xie 2023): adaLN-Zero."""
    keys = iter(jax.random.split(key, 4 * layers + 4))
    blocks = [
        {
            "modulation": zeros(DIM, 6 * DIM),
            "qkv": dense(next(keys), DIM, 3 * DIM),
            "out": dense(next(keys), DIM, DIM),
            "up": dense(next(keys), DIM, 4 * DIM),
            "down": dense(next(keys), 4 * DIM, DIM),
        }
        for _ in range(layers)
    ]
    return {
        "patch": dense(next(keys), PIXELS, DIM),
        "time1": dense(next(keys), DIM, DIM),
        "time2": dense(next(keys), DIM, DIM),
        "label": 0.02 * jax.random.normal(next(keys), (CLASSES, DIM)),
        "blocks": blocks,
        "final_modulation": zeros(DIM, 2 * DIM),
        "final": zeros(DIM, PIXELS),
    }


def sinusoids(positions: jax.Array, width: int) -> jax.Array:
    """Returns [.., width]: cosines and sines of positions [..]."""
    frequencies = jnp.exp(-jnp.log(10_000.0) * jnp.arange(width // 2) / (width // 2))
    angles = positions[..., None] * frequencies
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def layer_norm(x: jax.Array) -> jax.Array:
    """LayerNorm of the last axis without gains."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-6)


def modulate(x: jax.Array, shift: jax.Array, scale: jax.Array) -> jax.Array:
    """Shifts and scales [B, T, D] by [B, D]."""
    return x * (1 + scale[:, None]) + shift[:, None]


def attention(x: jax.Array, p: Any) -> jax.Array:
    """Attention of all patches to all."""
    q, k, v = jnp.split(apply(p["qkv"], x), 3, axis=-1)
    q, k, v = (part.reshape(*x.shape[:2], HEADS, DIM // HEADS) for part in (q, k, v))
    scores = jnp.einsum("bqhc,bkhc->bhqk", q, k) * (DIM // HEADS) ** -0.5
    mixed = jnp.einsum("bhqk,bkhc->bqhc", jax.nn.softmax(scores), v)
    return apply(p["out"], mixed.reshape(x.shape))


def denoise(params: Any, x: jax.Array, time: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the noise [B, T, pixels] that the network sees in patches [B, T, pixels]."""
    x = apply(params["patch"], x) + sinusoids(jnp.arange(PATCHES), DIM)
    c = apply(params["time2"], jax.nn.silu(apply(params["time1"], sinusoids(time, DIM))))
    c = jax.nn.silu(c + params["label"][labels])
    for p in params["blocks"]:
        shift1, scale1, gate1, shift2, scale2, gate2 = jnp.split(apply(p["modulation"], c), 6, -1)
        x = x + gate1[:, None] * attention(modulate(layer_norm(x), shift1, scale1), p)
        hidden = jax.nn.gelu(apply(p["up"], modulate(layer_norm(x), shift2, scale2)))
        x = x + gate2[:, None] * apply(p["down"], hidden)
    shift, scale = jnp.split(apply(params["final_modulation"], c), 2, axis=-1)
    return apply(params["final"], modulate(layer_norm(x), shift, scale))


def dit_loss(params: Any, batch: Any) -> jax.Array:
    """Returns the mean square error of the noise at random times of a linear schedule."""
    (images, labels), key = batch
    size = images.shape[0]
    time_key, noise_key = jax.random.split(key)
    time = jax.random.randint(time_key, (size,), 0, STEPS)
    kept = jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, STEPS))[time][:, None, None]
    patches = images.reshape(size, SIZE // PATCH, PATCH, SIZE // PATCH, PATCH, 3)
    patches = patches.transpose(0, 1, 3, 2, 4, 5).reshape(size, PATCHES, PIXELS)
    noise = jax.random.normal(noise_key, patches.shape)
    noisy = jnp.sqrt(kept) * patches + jnp.sqrt(1 - kept) * noise
    found = denoise(params, noisy, time.astype(jnp.float32), labels)
    return jnp.mean(jnp.square(found - noise))


@program("dit", "diffusion", depth=3)
def dit(depth: int) -> Program:
    """A diffusion Transformer with adaLN-Zero under AdamW."""
    return Program.of_loss(
        draw_dit(jax.random.key(22), depth),
        batches.keyed(batches.images(16, SIZE)),
        dit_loss,
        optax.adamw(1e-3, weight_decay=0.0),
    )


WIDTH, DATA = 128, 32


def draw_mlp(key: jax.Array, layers: int) -> Any:
    """Returns the layers of a network from DATA inputs to one number."""
    keys = jax.random.split(key, layers + 2)
    sizes = [DATA, *[WIDTH] * (layers + 1), 1]
    return [dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def scalar(params: Any, x: jax.Array, function: Any) -> jax.Array:
    """The network's number for each of x [B, DATA]: [B]."""
    for p in params[:-1]:
        x = function(apply(p, x))
    return apply(params[-1], x)[:, 0]


def energy_loss(params: Any, batch: Any) -> jax.Array:
    """Denoising score matching (Vincent 2011) of the gradient of an energy, over noise levels."""
    (x, _), key = batch
    level_key, noise_key = jax.random.split(key)
    level = jnp.exp(jax.random.uniform(level_key, (x.shape[0], 1), minval=-3.0, maxval=0.0))
    noise = jax.random.normal(noise_key, x.shape)

    def total(x: jax.Array) -> jax.Array:
        return scalar(params, x, jax.nn.silu).sum()

    score = -jax.grad(total)(x + level * noise) / level
    return 0.5 * jnp.mean(jnp.sum(jnp.square(level * score + noise), axis=-1))


@program("energy_score_matching", "diffusion", depth=3)
def energy(depth: int) -> Program:
    """An energy whose gradient is trained by denoising score matching: a gradient of a gradient."""
    params = draw_mlp(jax.random.key(23), depth)
    nth = batches.keyed(batches.regression(64, DATA))
    return Program.of_loss(params, nth, energy_loss, optax.adam(1e-3))


def critic_loss(params: Any, batch: Any) -> jax.Array:
    """The critic's loss with a penalty on its gradient (Gulrajani et al. 2017, algorithm 1)."""
    (real, _), key = batch
    fake_key, share_key = jax.random.split(key)
    fake = 0.5 * jax.random.normal(fake_key, real.shape) + 0.5
    share = jax.random.uniform(share_key, (real.shape[0], 1))
    between = share * real + (1 - share) * fake

    def criticise(x: jax.Array) -> jax.Array:
        return scalar(params, x, lambda y: jax.nn.leaky_relu(y, 0.2))

    slope = jax.vmap(jax.grad(lambda x: criticise(x[None])[0]))(between)
    norm = jnp.sqrt(jnp.sum(jnp.square(slope), axis=-1) + 1e-12)
    distance = criticise(fake).mean() - criticise(real).mean()
    return distance + 10 * jnp.mean(jnp.square(norm - 1))


@program("wgan_gp_critic", "diffusion", depth=3)
def critic(depth: int) -> Program:
    """A Wasserstein critic with a gradient penalty under Adam."""
    params = draw_mlp(jax.random.key(24), depth)
    nth = batches.keyed(batches.regression(64, DATA))
    return Program.of_loss(params, nth, critic_loss, optax.adam(1e-4, b1=0.0, b2=0.9))
