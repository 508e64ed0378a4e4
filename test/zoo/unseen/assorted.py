"""Kinds beyond the list: VQ-VAE, VAE, MLP-Mixer, GNN, DLRM, PPO, BYOL, NeRF, RetNet, Swin, GAN, flow, RWKV."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program


class Mixer(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, images):
        x = nn.Conv(64, (4, 4), strides=(4, 4))(images)
        x = x.reshape(x.shape[0], -1, 64)
        for _ in range(self.depth):
            y = nn.LayerNorm()(x).swapaxes(1, 2)
            y = nn.Dense(16)(nn.gelu(nn.Dense(32)(y))).swapaxes(1, 2)
            x = x + y
            x = x + nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))
        return nn.Dense(10, kernel_init=nn.initializers.zeros)(nn.LayerNorm()(x).mean(1))


@program("mixer_sam", "unseen", depth=4)
def mixer(depth):
    """MLP-Mixer under SAM: the gradient at the weights plus a step up."""
    model = Mixer(depth)
    nth = batches.images(16)
    params = model.init(jax.random.key(1), nth(0)[0])["params"]

    def loss(params, b):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, b[0]), b[1]
        ).mean()

    def grads(params, b):
        l, g = jax.value_and_grad(loss)(params, b)
        scale = 0.05 / (optax.global_norm(g) + 1e-12)
        up = jax.tree.map(lambda p, d: p + scale * d, params, g)
        return l, jax.grad(loss)(up, b)

    return Program.of_grads(params, nth, grads, optax.adamw(1e-3))


class VqVae(nn.Module):
    depth: int

    @nn.compact
    def __call__(self, x):
        B = x.shape[0]
        h = nn.Dense(128)(x.reshape(B, 16, -1))
        for _ in range(self.depth):
            h = h + nn.Dense(128)(nn.relu(nn.Dense(128)(nn.relu(h))))
        z = nn.Dense(16)(h)
        book = self.param("book", nn.initializers.uniform(2 / 64), (64, 16))
        d = (z**2).sum(-1, keepdims=True) - 2 * z @ book.T + (book**2).sum(-1)
        q = book[d.argmin(-1)]
        commit = 0.25 * jnp.mean((z - jax.lax.stop_gradient(q)) ** 2) + jnp.mean(
            (q - jax.lax.stop_gradient(z)) ** 2
        )
        q = z + jax.lax.stop_gradient(q - z)
        h = nn.Dense(128)(q)
        for _ in range(self.depth):
            h = h + nn.Dense(128)(nn.relu(nn.Dense(128)(nn.relu(h))))
        return nn.Dense(48)(h).reshape(x.shape), commit


@program("vqvae", "unseen", depth=3)
def vqvae(depth):
    model = VqVae(depth)
    nth = batches.images(16)
    params = model.init(jax.random.key(2), nth(0)[0])["params"]

    def loss(params, b):
        out, commit = model.apply({"params": params}, b[0])
        return jnp.mean((out - b[0]) ** 2) + commit

    return Program.of_loss(params, nth, loss, optax.adam(1e-3))


@program("vae", "unseen", depth=3)
def vae(depth):
    class Vae(nn.Module):
        @nn.compact
        def __call__(self, x, key):
            h = x.reshape(x.shape[0], -1)
            for _ in range(depth):
                h = nn.relu(nn.Dense(256)(h))
            mean, logvar = nn.Dense(16)(h), nn.Dense(16)(h)
            z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape)
            for _ in range(depth):
                z = nn.relu(nn.Dense(256)(z))
            return nn.Dense(768)(z).reshape(x.shape), mean, logvar

    model = Vae()
    nth = batches.keyed(batches.images(32))
    params = model.init(jax.random.key(3), nth(0)[0][0], nth(0)[1])["params"]

    def loss(params, batch):
        (x, _), key = batch
        out, mean, logvar = model.apply({"params": params}, x, key)
        bce = optax.sigmoid_binary_cross_entropy(out, jax.nn.sigmoid(x)).sum((1, 2, 3)).mean()
        kl = -0.5 * jnp.sum(1 + logvar - mean**2 - jnp.exp(logvar), -1).mean()
        return bce + kl

    return Program.of_loss(params, nth, loss, optax.adam(1e-3))


@program("gnn", "unseen", depth=3)
def gnn(depth):
    """Message passing with segment_sum and edge attention (GAT)."""
    N, Ed, D = 64, 256, 64

    def nth(i):
        rng = np.random.default_rng(i)
        x = rng.standard_normal((N, 16)).astype(np.float32)
        s, r = rng.integers(0, N, Ed).astype(np.int32), rng.integers(0, N, Ed).astype(np.int32)
        agg = np.zeros((N, 16))
        np.add.at(agg, r, x[s])
        return x, s, r, (agg[:, 0] + x[:, 1] > 0).astype(np.int32)

    class Gat(nn.Module):
        @nn.compact
        def __call__(self, x, s, r):
            h = nn.Dense(D)(x)
            for _ in range(depth):
                z = nn.Dense(D)(h)
                e = nn.leaky_relu(nn.Dense(1)(jnp.concatenate([z[s], z[r]], -1)), 0.2)[:, 0]
                e = jnp.exp(e - jax.ops.segment_max(e, r, N)[r])
                a = e / (jax.ops.segment_sum(e, r, N)[r] + 1e-9)
                m = jax.ops.segment_sum(a[:, None] * nn.Dense(D)(nn.relu(z[s])), r, N)
                h = nn.LayerNorm()(h + nn.Dense(D)(nn.relu(m)))
            return nn.Dense(2)(h)

    model = Gat()
    params = model.init(jax.random.key(4), *nth(0)[:3])["params"]

    def loss(params, b):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, *b[:3]), b[3]
        ).mean()

    return Program.of_loss(params, nth, loss, optax.adam(3e-3))


@program("dlrm", "unseen", depth=3)
def dlrm(depth):
    """DLRM: embedding bags, bottom and top MLP, pairwise dots."""

    def nth(i):
        rng = np.random.default_rng(i)
        dense = np.log1p(rng.exponential(10, (64, 13))).astype(np.float32)
        cats = rng.zipf(1.5, (64, 8, 4)).astype(np.int32) % 100
        y = ((dense[:, 0] + (cats[:, 0, 0] % 3)) > 3).astype(np.float32)
        return dense, cats, y

    class Dlrm(nn.Module):
        @nn.compact
        def __call__(self, dense, cats):
            h = dense
            for n in [64] * depth + [32]:
                h = nn.relu(nn.Dense(n)(h))
            tables = self.param("tables", nn.initializers.uniform(0.1), (8, 100, 32))
            e = tables[jnp.arange(8)[None, :, None], cats].sum(2)
            z = jnp.concatenate([h[:, None], e], 1)
            dots = jnp.einsum("bid,bjd->bij", z, z)
            i, j = np.tril_indices(9, -1)
            h = jnp.concatenate([h, dots[:, i, j]], -1)
            for n in [128] * depth:
                h = nn.relu(nn.Dense(n)(h))
            return nn.Dense(1)(h)[:, 0]

    model = Dlrm()
    params = model.init(jax.random.key(5), *nth(0)[:2])["params"]

    def loss(params, b):
        return optax.sigmoid_binary_cross_entropy(
            model.apply({"params": params}, *b[:2]), b[2]
        ).mean()

    return Program.of_loss(params, nth, loss, optax.adagrad(0.02))


@program("ppo", "unseen", depth=3)
def ppo(depth):
    """PPO's clipped objective with value loss, entropy, and generalised advantages by a reversed scan."""

    def nth(i):
        rng = np.random.default_rng(i)
        T, N = 16, 8
        return dict(
            obs=rng.standard_normal((T, N, 24)).astype(np.float32),
            act=rng.integers(0, 6, (T, N)).astype(np.int32),
            logp=np.full((T, N), -1.8, np.float32)
            + 0.1 * rng.standard_normal((T, N)).astype(np.float32),
            rew=rng.random((T, N)).astype(np.float32),
            done=(rng.random((T, N)) < 0.05).astype(np.float32),
        )

    class Agent(nn.Module):
        @nn.compact
        def __call__(self, x):
            orth = nn.initializers.orthogonal
            for _ in range(depth):
                x = nn.tanh(nn.Dense(64, kernel_init=orth(2**0.5))(x))
            return nn.Dense(6, kernel_init=orth(0.01))(x), nn.Dense(1, kernel_init=orth(1.0))(x)[
                ..., 0
            ]

    model = Agent()
    params = model.init(jax.random.key(6), nth(0)["obs"])["params"]

    def gae(v, rew, done, g=0.99, lam=0.95):
        nxt = jnp.concatenate([v[1:], v[-1:]], 0)
        delta = rew + g * nxt * (1 - done) - v

        def body(a, x):
            d, dn = x
            a = d + g * lam * (1 - dn) * a
            return a, a

        return jax.lax.scan(body, jnp.zeros(v.shape[1]), (delta, done), reverse=True)[1]

    def loss(params, b):
        logits, v = model.apply({"params": params}, b["obs"])
        lp = jax.nn.log_softmax(logits)
        new = jnp.take_along_axis(lp, b["act"][..., None], -1)[..., 0]
        adv = jax.lax.stop_gradient(gae(v, b["rew"], b["done"]))
        ret = adv + jax.lax.stop_gradient(v)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = jnp.exp(new - b["logp"])
        pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 0.8, 1.2) * adv).mean()
        ent = -(jnp.exp(lp) * lp).sum(-1).mean()
        return pg + 0.5 * jnp.square(v - ret).mean() - 0.01 * ent

    return Program.of_loss(
        params, nth, loss, optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-4, eps=1e-5))
    )
