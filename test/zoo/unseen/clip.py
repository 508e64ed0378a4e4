"""CLIP: an image tower, a text tower, a learned temperature, InfoNCE over the batch."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program

W, T, V = 64, 16, 128


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        return nn.Dense(d)(nn.gelu(nn.Dense(4 * d)(x), approximate=False))


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, mask=None):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
        return x + Mlp()(nn.LayerNorm()(x))


class Image(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, images):
        x = nn.Conv(W, (4, 4), strides=(4, 4), use_bias=False)(images)
        x = x.reshape(x.shape[0], -1, W)
        cls = self.param("cls", nn.initializers.normal(W**-0.5), (W,))
        x = jnp.concatenate([jnp.broadcast_to(cls, (x.shape[0], 1, W)), x], 1)
        x = x + self.param("pos", nn.initializers.normal(W**-0.5), (x.shape[1], W))
        x = nn.LayerNorm()(x)
        for _ in range(self.depth):
            x = Layer()(x)
        return nn.Dense(32, use_bias=False)(nn.LayerNorm()(x[:, 0]))


class Text(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(V, W, embedding_init=nn.initializers.normal(0.02))(tokens)
        x = x + self.param("pos", nn.initializers.normal(0.01), (T, W))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x = Layer()(x, mask)
        x = nn.LayerNorm()(x)
        x = x[jnp.arange(x.shape[0]), tokens.argmax(-1)]
        return nn.Dense(32, use_bias=False)(x)


class Clip(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, images, tokens):
        a, b = Image(self.depth)(images), Text(self.depth)(tokens)
        a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
        b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
        t = self.param("logit_scale", nn.initializers.constant(np.log(1 / 0.07)), ())
        return jnp.exp(t) * a @ b.T


def batch(index):
    rng = np.random.default_rng(index)
    fixed = np.random.default_rng(9)
    mix, codes = fixed.standard_normal((8, 16 * 16 * 3)), fixed.integers(1, V - 1, (8, 2, 14))
    bits = rng.integers(0, 2, (16, 8))
    images = ((2 * bits - 1) @ mix / 8**0.5).reshape(16, 16, 16, 3) + 0.3 * rng.standard_normal(
        (16, 16, 16, 3)
    )
    words = codes[np.arange(8)[None], bits][:, :, 0]
    tokens = np.zeros((16, T), np.int32)
    tokens[:, :8] = words
    tokens[:, 8] = V - 1
    return images.astype(np.float32), tokens


@program("u_clip", "unseen", depth=4)
def clip(depth):
    model = Clip(depth)
    params = model.init(jax.random.key(0), *batch(0))["params"]

    def loss(params, b):
        logits = model.apply({"params": params}, *b)
        labels = jnp.arange(logits.shape[0])
        a = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        c = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels).mean()
        return (a + c) / 2

    return Program.of_loss(params, batch, loss, optax.adamw(5e-4, b2=0.98, weight_decay=0.1))
