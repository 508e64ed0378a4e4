"""BERT: masked tokens at gathered positions, token types, a tied decoder, GELU, post-LN, dropout."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program

D, V, T, M = 64, 260, 32, 5
normal = nn.initializers.truncated_normal(0.02)


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, mask, train):
        y = nn.MultiHeadDotProductAttention(
            4, kernel_init=normal, dropout_rate=0.1, deterministic=not train
        )(x, x, mask=mask)
        y = nn.Dropout(0.1, deterministic=not train)(y)
        x = nn.LayerNorm(epsilon=1e-12)(x + y)
        y = nn.Dense(D, kernel_init=normal)(
            nn.gelu(nn.Dense(4 * D, kernel_init=normal)(x), approximate=False)
        )
        return nn.LayerNorm(epsilon=1e-12)(x + nn.Dropout(0.1, deterministic=not train)(y))


class Bert(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens, types, valid, positions, train=True):
        embed = nn.Embed(V, D, embedding_init=normal)
        x = embed(tokens) + nn.Embed(T, D, embedding_init=normal)(jnp.arange(T)[None])
        x = x + nn.Embed(2, D, embedding_init=normal)(types)
        x = nn.Dropout(0.1, deterministic=not train)(nn.LayerNorm(epsilon=1e-12)(x))
        mask = nn.make_attention_mask(valid, valid)
        for _ in range(self.depth):
            x = Layer()(x, mask, train)
        pooled = nn.tanh(nn.Dense(D, kernel_init=normal)(x[:, 0]))
        nsp = nn.Dense(2, kernel_init=normal)(pooled)
        h = jnp.take_along_axis(x, positions[..., None], axis=1)
        h = nn.LayerNorm(epsilon=1e-12)(
            nn.gelu(nn.Dense(D, kernel_init=normal)(h), approximate=False)
        )
        return embed.attend(h) + self.param("bias", nn.initializers.zeros, (V,)), nsp


def batch(index):
    rng = np.random.default_rng(index)
    tokens = np.array(batches.text(8, T)(index)[:, :T])
    lengths = rng.integers(20, T + 1, 8)
    valid = np.arange(T)[None] < lengths[:, None]
    types = (np.arange(T)[None] >= lengths[:, None] // 2).astype(np.int32)
    positions = np.stack([rng.choice(20, M, replace=False) for _ in range(8)]).astype(np.int32)
    labels = np.take_along_axis(tokens, positions, 1)
    np.put_along_axis(tokens, positions, 256, 1)
    return dict(
        tokens=np.where(valid, tokens, 257).astype(np.int32),
        types=types,
        valid=valid.astype(np.int32),
        positions=positions,
        labels=labels.astype(np.int32),
        weights=(rng.random((8, M)) < 0.9).astype(np.float32),
        next=rng.integers(0, 2, 8).astype(np.int32),
    )


@program("bert", "unseen", depth=4)
def bert(depth):
    model = Bert(depth)
    b = batch(0)
    ins = lambda b: (b["tokens"], b["types"], b["valid"], b["positions"])
    params = model.init(jax.random.key(6), *ins(b), train=False)["params"]

    def nth(i):
        return batch(i), jax.random.fold_in(jax.random.key(1), i)

    def loss(params, data):
        b, key = data
        logits, nsp = model.apply({"params": params}, *ins(b), train=True, rngs={"dropout": key})
        lp = jax.nn.log_softmax(logits)
        nll = -jnp.sum(jax.nn.one_hot(b["labels"], V) * lp, -1)
        mlm = jnp.sum(nll * b["weights"]) / (jnp.sum(b["weights"]) + 1e-5)
        return mlm + optax.softmax_cross_entropy_with_integer_labels(nsp, b["next"]).mean()

    decay = jax.tree_util.tree_map_with_path(lambda p, x: x.ndim > 1, params)
    tx = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.linear_schedule(1e-3, 0, 400), weight_decay=0.01, mask=decay),
    )
    return Program.of_loss(params, nth, loss, tx)
