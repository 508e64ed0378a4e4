"""ALiBi biases instead of positions (BLOOM), an embedding norm, and gradient accumulation by a scan with a mean."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, program

D, H, T = 64, 4, 32


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, bias):
        B = x.shape[0]
        h = nn.LayerNorm()(x)
        qkv = nn.Dense(3 * D, kernel_init=nn.initializers.normal(0.02))(h).reshape(
            B, T, H, 3, D // H
        )
        q, k, v = qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (D // H) ** 0.5 + bias
        o = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(s), v).reshape(B, T, D)
        x = x + nn.Dense(D, kernel_init=nn.initializers.normal(0.02))(o)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(D, kernel_init=nn.initializers.normal(0.02))(
            nn.gelu(nn.Dense(4 * D, kernel_init=nn.initializers.normal(0.02))(h))
        )


class Bloom(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(256, D, embedding_init=nn.initializers.normal(0.02))
        x = nn.LayerNorm()(embed(tokens))
        slopes = 2.0 ** (-8 * jnp.arange(1, H + 1) / H)
        dist = jnp.arange(T)[None, :] - jnp.arange(T)[:, None]
        bias = jnp.where(dist <= 0, slopes[:, None, None] * dist, -jnp.inf)
        for _ in range(self.depth):
            x = Block()(x, bias)
        return embed.attend(nn.LayerNorm()(x))


@program("alibi_accumulate", "unseen", depth=4)
def alibi(depth):
    model = Bloom(depth)
    text = batches.text(16, T)
    nth = lambda i: text(i).reshape(4, 4, T + 1)
    params = model.init(jax.random.key(12), nth(0)[0, :, :-1])["params"]

    def loss(params, tokens):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, tokens[:, :-1]), tokens[:, 1:]
        ).mean()

    def grads(params, micro):
        def body(carry, tokens):
            l, g = jax.value_and_grad(loss)(params, tokens)
            return jax.tree.map(jnp.add, carry, (l, g)), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        total, _ = jax.lax.scan(body, zero, micro)
        return jax.tree.map(lambda x: x / micro.shape[0], total)

    tx = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.warmup_cosine_decay_schedule(0, 1e-3, 10, 400)),
    )
    return Program.of_grads(params, nth, grads, tx)
