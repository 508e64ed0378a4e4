"""ConvNeXt in flax.nnx: depthwise 7 by 7, LayerNorm, an inverted bottleneck, layer scale, stochastic depth, EMA."""

import batches
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from program import Program, program


class Block(nnx.Module):
    def __init__(self, c, drop, rngs):
        self.dw = nnx.Conv(c, c, (7, 7), feature_group_count=c, rngs=rngs)
        self.norm = nnx.LayerNorm(c, epsilon=1e-6, rngs=rngs)
        init = nnx.initializers.truncated_normal(0.02)
        self.pw1 = nnx.Linear(c, 4 * c, kernel_init=init, rngs=rngs)
        self.pw2 = nnx.Linear(4 * c, c, kernel_init=init, rngs=rngs)
        self.gamma = nnx.Param(1e-6 * jnp.ones(c))
        self.drop = drop

    def __call__(self, x, key):
        y = self.pw2(jax.nn.gelu(self.pw1(self.norm(self.dw(x))), approximate=False)) * self.gamma
        keep = 1 - self.drop
        mask = jax.random.bernoulli(key, keep, (x.shape[0], 1, 1, 1))
        return x + jnp.where(mask, y / keep, 0)


class ConvNeXt(nnx.Module):
    def __init__(self, depth, rngs):
        self.stem = nnx.Conv(3, 32, (2, 2), strides=(2, 2), rngs=rngs)
        self.n0 = nnx.LayerNorm(32, rngs=rngs)
        self.s1 = nnx.List([Block(32, 0.1, rngs) for _ in range(depth // 2)])
        self.n1 = nnx.LayerNorm(32, rngs=rngs)
        self.down = nnx.Conv(32, 64, (2, 2), strides=(2, 2), rngs=rngs)
        self.s2 = nnx.List([Block(64, 0.2, rngs) for _ in range(depth - depth // 2)])
        self.n2 = nnx.LayerNorm(64, rngs=rngs)
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x, key):
        x = self.n0(self.stem(x))
        keys = iter(jax.random.split(key, 64))
        for b in self.s1:
            x = b(x, next(keys))
        x = self.down(self.n1(x))
        for b in self.s2:
            x = b(x, next(keys))
        return self.head(self.n2(x.mean((1, 2))))


@program("convnext", "unseen", depth=4)
def convnext(depth):
    graph, params = nnx.split(ConvNeXt(depth, nnx.Rngs(3)), nnx.Param)
    nth = batches.keyed(batches.images(16))

    def loss(params, batch):
        (x, y), key = batch
        logits = nnx.merge(graph, params)(x, key)
        return optax.softmax_cross_entropy(
            logits, optax.smooth_labels(jax.nn.one_hot(y, 10), 0.1)
        ).mean()

    return Program.of_loss(
        params, nth, loss, optax.chain(optax.adamw(2e-3, weight_decay=0.05), optax.ema(0.999))
    )
