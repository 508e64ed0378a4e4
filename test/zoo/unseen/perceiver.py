"""Perceiver: learned latents attend to a Fourier-encoded byte array, weights shared by a scan over layers."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, program


def fourier(n, bands=8):
    pos = jnp.linspace(-1, 1, n)
    g = jnp.stack(jnp.meshgrid(pos, pos, indexing="ij"), -1).reshape(-1, 2, 1)
    f = jnp.linspace(1.0, n / 2, bands) * jnp.pi
    return jnp.concatenate([jnp.sin(g * f), jnp.cos(g * f), g], -1).reshape(n * n, -1)


class Cross(nn.Module):
    @nn.compact
    def __call__(self, z, x):
        d = z.shape[-1]
        z = z + nn.MultiHeadDotProductAttention(1, qkv_features=d, out_features=d)(
            nn.LayerNorm()(z), nn.LayerNorm()(x)
        )
        return z + nn.Dense(d)(nn.gelu(nn.Dense(d)(nn.LayerNorm()(z))))


class Latent(nn.Module):
    @nn.compact
    def __call__(self, z, _):
        h = nn.LayerNorm()(z)
        z = z + nn.MultiHeadDotProductAttention(4)(h, h)
        return z + nn.Dense(64)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(z)))), None


class Perceiver(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, images):
        B, n = images.shape[:2]
        x = images.reshape(B, n * n, -1)
        x = jnp.concatenate([x, jnp.broadcast_to(fourier(n), (B, n * n, 34))], -1)
        z = self.param("latents", nn.initializers.truncated_normal(0.02), (12, 64))
        z = jnp.broadcast_to(z, (B, 12, 64))
        cross = Cross()
        for _ in range(2):
            z = cross(z, x)
            z, _ = nn.scan(
                Latent, variable_axes={"params": 0}, split_rngs={"params": True}, length=self.depth
            )()(z, None)
        return nn.Dense(10)(nn.LayerNorm()(z.mean(1)))


@program("perceiver", "unseen", depth=3)
def perceiver(depth):
    model = Perceiver(depth)
    nth = batches.images(8, 8)
    params = model.init(jax.random.key(3), nth(0)[0])["params"]

    def loss(params, b):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, b[0]), b[1]
        ).mean()

    return Program.of_loss(params, nth, loss, optax.lamb(4e-3))
