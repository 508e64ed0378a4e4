"""Switch Transformer: one expert a token, capacity, jitter, load-balancing and router z-loss."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, program

D, E, T = 64, 4, 32


class SwitchFfn(nn.Module):
    @nn.compact
    def __call__(self, x, key):
        B, T, _ = x.shape
        N = B * T
        C = int(1.25 * N / E)
        x = x.reshape(N, D)
        router = self.param("router", nn.initializers.normal(0.02), (D, E))
        jitter = jax.random.uniform(key, x.shape, minval=0.99, maxval=1.01)
        logits = (x * jitter) @ router
        probs = jax.nn.softmax(logits)
        gate, index = probs.max(-1), probs.argmax(-1)
        onehot = jax.nn.one_hot(index, E)
        aux = E * jnp.sum(onehot.mean(0) * probs.mean(0))
        z = jnp.mean(jax.nn.logsumexp(logits, -1) ** 2)
        position = (jnp.cumsum(onehot, 0) * onehot).sum(-1).astype(jnp.int32) - 1
        keep = position < C
        dispatch = onehot[:, :, None] * jax.nn.one_hot(jnp.where(keep, position, C), C)[:, None, :]
        combine = dispatch * gate[:, None, None]
        wi = self.param(
            "wi", nn.initializers.variance_scaling(0.1, "fan_in", "truncated_normal"), (E, D, 4 * D)
        )
        wo = self.param(
            "wo", nn.initializers.variance_scaling(0.1, "fan_in", "truncated_normal"), (E, 4 * D, D)
        )
        h = jnp.einsum("nec,nd->ecd", dispatch, x)
        h = nn.relu(jnp.einsum("ecd,edf->ecf", h, wi))
        h = jnp.einsum("ecf,efd->ecd", h, wo)
        y = jnp.einsum("nec,ecd->nd", combine, h)
        return y.reshape(B, T, D), 1e-2 * aux + 1e-3 * z


class Switch(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, tokens, key):
        x = nn.Embed(256, D)(tokens) + self.param("pos", nn.initializers.normal(0.5), (T, D))
        mask = nn.make_causal_mask(tokens)
        total = 0.0
        for i in range(self.depth):
            x = x + nn.SelfAttention(4, use_bias=False)(nn.RMSNorm()(x), mask)
            h = nn.RMSNorm()(x)
            if i % 2:
                x = x + nn.Dense(D, use_bias=False)(nn.relu(nn.Dense(4 * D, use_bias=False)(h)))
            else:
                y, aux = SwitchFfn()(h, jax.random.fold_in(key, i))
                x, total = x + y, total + aux
        return nn.Dense(256, use_bias=False)(nn.RMSNorm()(x)), total


@program("switch", "unseen", depth=4)
def switch(depth):
    model = Switch(depth)
    nth = batches.keyed(batches.text(8, T))
    params = model.init(jax.random.key(13), nth(0)[0][:, :-1], nth(0)[1])["params"]

    def loss(params, batch):
        tokens, key = batch
        logits, aux = model.apply({"params": params}, tokens[:, :-1], key)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean() + aux

    return Program.of_loss(params, nth, loss, optax.adamw(1e-3))
