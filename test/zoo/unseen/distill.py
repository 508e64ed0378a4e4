"""Distillation: a student against a frozen teacher's logits at temperature 4, and hard labels."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, program


class Net(nn.Module):
    depth: int
    d: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(256, self.d, embedding_init=nn.initializers.normal(0.02))(tokens)
        x = x + self.param("pos", nn.initializers.normal(0.02), (32, self.d))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            y = nn.LayerNorm()(x)
            x = x + nn.SelfAttention(4)(y, mask)
            x = x + nn.Dense(self.d)(nn.gelu(nn.Dense(4 * self.d)(nn.LayerNorm()(x))))
        return nn.Dense(256)(nn.LayerNorm()(x))


@program("distill", "unseen", depth=3)
def distill(depth):
    student, teacher = Net(depth, 64), Net(depth + 1, 96)
    text = batches.text(8, 32)
    tp = teacher.init(jax.random.key(1), text(0)[:, :-1])["params"]
    tp = jax.tree.map(lambda x: 1.5 * x if x.ndim > 1 else x, tp)
    params = student.init(jax.random.key(2), text(0)[:, :-1])["params"]
    nth = lambda i: (text(i), tp)

    def loss(params, batch, T=4.0, a=0.5):
        tokens, tp = batch
        x, y = tokens[:, :-1], tokens[:, 1:]
        s = student.apply({"params": params}, x)
        t = jax.lax.stop_gradient(teacher.apply({"params": tp}, x))
        p = jax.nn.softmax(t / T)
        kl = jnp.sum(p * (jnp.log(p + 1e-9) - jax.nn.log_softmax(s / T)), -1).mean() * T * T
        return a * kl + (1 - a) * optax.softmax_cross_entropy_with_integer_labels(s, y).mean()

    return Program.of_loss(params, nth, loss, optax.adamw(1e-3))
