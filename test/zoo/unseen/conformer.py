"""A conformer encoder: macaron halves, attention, GLU and depthwise convolution, over filterbanks."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program

D = 64


class FeedForward(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        return nn.Dense(D)(nn.swish(nn.Dense(4 * D)(y)))


class ConvModule(nn.Module):
    batch_norm: bool

    @nn.compact
    def __call__(self, x, train):
        y = nn.LayerNorm()(x)
        y = nn.glu(nn.Dense(2 * D)(y))
        y = nn.Conv(D, (15,), feature_group_count=D, use_bias=False)(y)
        y = (
            nn.BatchNorm(use_running_average=not train, momentum=0.9)(y)
            if self.batch_norm
            else nn.LayerNorm()(y)
        )
        return nn.Dense(D)(nn.swish(y))


class Block(nn.Module):
    batch_norm: bool

    @nn.compact
    def __call__(self, x, train):
        x = x + 0.5 * FeedForward()(x)
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(4)(y, y)
        x = x + ConvModule(self.batch_norm)(x, train)
        x = x + 0.5 * FeedForward()(x)
        return nn.LayerNorm()(x)


class Conformer(nn.Module):
    depth: int
    batch_norm: bool

    @nn.compact
    def __call__(self, x, train=True):
        x = x[..., None]
        for _ in range(2):
            x = nn.relu(nn.Conv(16, (3, 3), strides=(2, 2))(x))
        x = nn.Dense(D)(x.reshape(*x.shape[:2], -1))
        for _ in range(self.depth):
            x = Block(self.batch_norm)(x, train)
        return nn.Dense(12)(x)


def batch(i):
    rng = np.random.default_rng(i)
    protos = np.random.default_rng(5).standard_normal((11, 16))
    labels = rng.integers(1, 12, (8, 6))
    frames = np.repeat(protos[labels - 1], 10, axis=1) + 0.5 * rng.standard_normal((8, 60, 16))
    return frames.astype(np.float32), labels.astype(np.int32)


@program("conformer_ctc", "unseen", depth=2, batch_norm=False)
@program("conformer_bn", "unseen", depth=3, batch_norm=True)
def conformer(depth, batch_norm):
    model = Conformer(depth, batch_norm)
    v = model.init(jax.random.key(10), batch(0)[0])
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    stats = v.get("batch_stats", {})

    def loss(params, stats, data):
        x, y = data
        logits, new = model.apply(
            {"params": params, "batch_stats": stats}, x, mutable=["batch_stats"]
        )
        if batch_norm:
            up = jnp.repeat(y, 3, axis=1)[:, : logits.shape[1]]
            l = optax.softmax_cross_entropy_with_integer_labels(logits[:, : up.shape[1]], up).mean()
        else:
            l = optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), y, jnp.zeros(y.shape)).mean()
        return l, new.get("batch_stats", {})

    vg = jax.value_and_grad(loss, has_aux=True)

    def grads(params, data):
        (l, _), g = vg(params, stats, data)
        return l, g

    def step(params, state, data):
        inner, st = state
        (l, st), g = vg(params, st, data)
        up, inner = tx.update(g, inner, params)
        return optax.apply_updates(params, up), (inner, st), l

    return Program(v["params"], batch, grads, step, (tx.init(v["params"]), stats))
