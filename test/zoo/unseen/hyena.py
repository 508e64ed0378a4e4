"""Hyena: implicit long filters by an MLP of sines under a decaying window, applied by FFT, gates."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

D, V, T = 64, 256, 32


def fftconv(u, h, bias):
    n = 2 * u.shape[1]
    uf = jnp.fft.rfft(u, n=n, axis=1)
    hf = jnp.fft.rfft(h, n=n, axis=0)
    y = jnp.fft.irfft(uf * hf[None], n=n, axis=1)[:, : u.shape[1]]
    return y + u * bias


class Filter(nn.Module):
    order: int = 32

    @nn.compact
    def __call__(self):
        t = jnp.linspace(0, 1, T)[:, None]
        bands = 3
        w = 2 * jnp.pi * jnp.arange(T)[:, None] / T
        f = jnp.linspace(1e-4, bands - 1, bands)[None]
        z = jnp.exp(-1j * f * w)
        z = jnp.concatenate([t, z.real, z.imag], -1)
        h = nn.Dense(self.order)(z)
        for _ in range(2):
            freq = self.param(f"freq{_}", nn.initializers.ones, (self.order,))
            h = nn.Dense(self.order)(jnp.sin(freq * h))
        h = nn.Dense(D, use_bias=False)(jnp.sin(h))
        deltas = jnp.linspace(jnp.log(1e-2) / 1.5, jnp.log(1e-2) / 0.3, D)[None]
        return h * (jnp.exp(-t * jnp.abs(deltas)) + 0.0)


class Hyena(nn.Module):
    @nn.compact
    def __call__(self, u):
        x = nn.Dense(3 * D)(u)
        x = nn.Conv(3 * D, (3,), padding=[(2, 0)], feature_group_count=3 * D)(x)
        x0, x1, v = jnp.split(x, 3, -1)
        y = fftconv(v * x1, Filter()(), self.param("bias", nn.initializers.normal(1.0), (D,)))
        return nn.Dense(D)(y * x0)


class Model(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(V, D, embedding_init=nn.initializers.normal(0.02))
        x = embed(tokens)
        for _ in range(self.depth):
            x = x + Hyena()(nn.LayerNorm()(x))
            x = x + nn.Dense(D)(nn.gelu(nn.Dense(4 * D)(nn.LayerNorm()(x))))
        return embed.attend(nn.LayerNorm()(x))


@program("hyena", "unseen", depth=3)
def hyena(depth):
    model = Model(depth)
    nth = batches.text(8, T)
    params = model.init(jax.random.key(9), nth(0)[:, :-1])["params"]

    def loss(params, tokens):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, tokens[:, :-1]), tokens[:, 1:]
        ).mean()

    return Program.of_loss(params, nth, loss, adamw(1e-3))
