"""Post-LN with DeepNorm: LayerNorm(alpha x + f(x)), f drawn with gain beta."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program


class DeepNetBlock(nn.Module):
    alpha: float
    beta: float

    @nn.compact
    def __call__(self, x, mask):
        d = x.shape[-1]
        x_init = nn.initializers.xavier_normal()

        def scaled(key, shape, dtype=jnp.float32):
            return self.beta * x_init(key, shape, dtype)

        dense = lambda n, init: nn.Dense(n, kernel_init=init)
        q, k = dense(d, x_init)(x), dense(d, x_init)(x)
        v = dense(d, scaled)(x)
        sp = lambda y: y.reshape(*y.shape[:-1], 4, d // 4)
        y = nn.dot_product_attention(sp(q), sp(k), sp(v), mask=mask)
        y = dense(d, scaled)(y.reshape(x.shape))
        x = nn.LayerNorm()(x * self.alpha + y)
        y = dense(d, scaled)(nn.relu(dense(4 * d, scaled)(x)))
        return nn.LayerNorm()(x * self.alpha + y)


class DeepNet(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(256, 64)(tokens) + nn.Embed(64, 64)(jnp.arange(tokens.shape[1]))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x = DeepNetBlock((2 * self.depth) ** 0.25, (8 * self.depth) ** -0.25)(x, mask)
        return nn.Dense(256)(x)


def maker(depth, cls):
    model = cls(depth)
    nth = batches.text(8, 32)
    params = model.init(jax.random.key(5), nth(0)[:, :-1])["params"]

    def loss(params, tokens):
        logits = model.apply({"params": params}, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, nth, loss, adamw(1e-3))


class PostBlock(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        x = nn.LayerNorm()(x + nn.SelfAttention(4)(x, mask))
        return nn.LayerNorm()(x + nn.Dense(64)(nn.relu(nn.Dense(256)(x))))


class PostLN(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens):
        T, d = tokens.shape[1], 64
        pos = jnp.arange(T)[:, None] / 10000 ** (2 * jnp.arange(d // 2)[None] / d)
        pe = jnp.concatenate([jnp.sin(pos), jnp.cos(pos)], -1)
        x = nn.Embed(256, d, embedding_init=nn.initializers.normal(d**-0.5))(tokens) * d**0.5 + pe
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x = PostBlock()(x, mask)
        return nn.Dense(256)(x)


program("deepnorm", "unseen", depth=6, cls=DeepNet)(maker)
program("postln", "unseen", depth=6, cls=PostLN)(maker)
