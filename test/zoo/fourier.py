"""S4D: long convolutions by FFT, with kernels of complex exponentials."""

from __future__ import annotations

from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

__all__ = ["s4d"]

VOCAB, DIM, STATES, LENGTH = 256, 64, 8, 32


def draw(key: jax.Array, depth: int) -> Any:
    """Returns F32 parameters: log steps, eigenvalues -1/2 + i pi n, and what mixes channels."""
    keys = iter(jax.random.split(key, 4 * depth + 2))

    def normal(*shape: int, deviation: float = 1.0) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    return {
        "embed": normal(VOCAB, DIM),
        "head": normal(DIM, VOCAB, deviation=DIM**-0.5),
        "blocks": [
            {
                "gain": jnp.ones(DIM),
                "step": jax.random.uniform(
                    next(keys), (DIM,), minval=jnp.log(1e-3), maxval=jnp.log(1e-1)
                ),
                "decay": jnp.full((DIM, STATES), jnp.log(0.5)),
                "frequency": jnp.pi * jnp.arange(STATES) * jnp.ones((DIM, 1)),
                "out": normal(2, DIM, STATES, deviation=0.5**0.5),
                "skip": normal(DIM),
                "mix": normal(DIM, 2 * DIM, deviation=DIM**-0.5),
            }
            for _ in range(depth)
        ],
    }


def kernel(p: Any) -> jax.Array:
    """Returns the convolution's kernel [D, T], by a zero-order hold."""
    eigenvalue = -jnp.exp(p["decay"]) + 1j * p["frequency"]
    rotated = eigenvalue * jnp.exp(p["step"])[:, None]
    weight = (p["out"][0] + 1j * p["out"][1]) * (jnp.exp(rotated) - 1) / eigenvalue
    powers = jnp.exp(rotated[:, :, None] * jnp.arange(LENGTH))
    return 2 * jnp.einsum("hn,hnl->hl", weight, powers).real


def convolve(x: jax.Array, k: jax.Array) -> jax.Array:
    """Returns the causal convolution [B, D, T] of [B, D, T] with kernels [D, T]."""
    n = 2 * LENGTH
    return jnp.fft.irfft(jnp.fft.rfft(k, n=n) * jnp.fft.rfft(x, n=n), n=n)[..., :LENGTH]


def loss(params: Any, tokens: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of the next byte."""
    x = params["embed"][tokens[:, :-1]]
    for p in params["blocks"]:
        h = x - x.mean(-1, keepdims=True)
        h = h * jax.lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + 1e-5) * p["gain"]
        u = h.swapaxes(1, 2)
        y = jax.nn.gelu((convolve(u, kernel(p)) + u * p["skip"][:, None]).swapaxes(1, 2))
        x = x + jax.nn.glu(y @ p["mix"])
    logits = x @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@program("s4d", "fourier", depth=4)
def s4d(depth: int) -> Program:
    """Diagonal state spaces as convolutions."""
    return Program.of_loss(
        draw(jax.random.key(9), depth), batches.text(8, LENGTH), loss, adamw(1e-3)
    )
