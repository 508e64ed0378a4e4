"""Choices and copies: double DQN, an ensemble, a VQ-VAE, sparse autoencoders, sparse routers."""

import batches
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, adamw, program


def he(key, i, o, gain=2.0):
    return jax.random.normal(key, (i, o)) * (gain / i) ** 0.5


def mlp(params, x, act=jax.nn.relu):
    for p in params[:-1]:
        x = act(x @ p["w"] + p["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def draw(key, sizes):
    ks = jax.random.split(key, len(sizes))
    return [dict(w=he(k, i, o), b=jnp.zeros(o)) for k, i, o in zip(ks, sizes[:-1], sizes[1:])]


@program("double_dqn", "hard", depth=3)
def double_dqn(depth):
    """The online network chooses, the target network values (van Hasselt et al. 2016); Huber."""
    params = draw(jax.random.key(61), [24] + [128] * depth + [6])
    # As after some training: the target lags the online network.
    old = jax.tree.map(lambda a: 0.9 * a, params)

    def nth(i):
        rng = np.random.default_rng(i)
        state = rng.standard_normal((64, 24)).astype(np.float32)
        after = (0.9 * state + 0.3 * rng.standard_normal((64, 24))).astype(np.float32)
        reward = np.tanh(state[:, 0]).astype(np.float32)
        action = rng.integers(0, 6, 64).astype(np.int32)
        return state, action, reward, after, (rng.random(64) < 0.1).astype(np.float32)

    def loss(params, target, batch):
        state, action, reward, after, done = batch
        rows = jnp.arange(state.shape[0])
        best = mlp(params, after).argmax(-1)
        goal = reward + 0.99 * (1 - done) * mlp(target, after)[rows, best]
        error = mlp(params, state)[rows, action] - jax.lax.stop_gradient(goal)
        return optax.huber_loss(error).mean()

    tx = optax.adam(1e-3)

    def grads(params, batch):
        return jax.value_and_grad(loss)(params, old, batch)

    def step(params, state, batch):
        inner, target = state
        value, g = jax.value_and_grad(loss)(params, target, batch)
        up, inner = tx.update(g, inner, params)
        params = optax.apply_updates(params, up)
        return params, (inner, optax.incremental_update(params, target, 0.01)), value

    return Program(params, nth, grads, step, (tx.init(params), old))


@program("ensemble_scan", "hard", depth=3)
def ensemble(depth):
    """Eight networks by vmap; each step sums the gradients of four micro-batches in a scan."""
    members = 8
    sizes = [16] + [64] * depth + [1]
    params = jax.vmap(lambda k: draw(k, sizes))(jax.random.split(jax.random.key(62), members))
    one = batches.regression(128, 16)

    def single(p, x, y):
        return jnp.mean((mlp(p, x, jax.nn.silu) - y) ** 2)

    def grads(params, batch):
        x, y = (part.reshape(4, -1, part.shape[-1]) for part in batch)

        def micro(total, part):
            value, g = jax.vmap(jax.value_and_grad(single), (0, None, None))(params, *part)
            return jax.tree.map(jnp.add, total, g), value.mean()

        zero = jax.tree.map(jnp.zeros_like, params)
        total, values = jax.lax.scan(micro, zero, (x, y))
        return values.mean(), jax.tree.map(lambda g: g / 4, total)

    return Program.of_grads(params, one, grads, optax.adam(1e-3))


@program("vqvae_conv", "hard", depth=2)
def vqvae(depth):
    """A VQ-VAE of convolutions with a codebook by argmin and a straight-through gradient."""
    C, codes = 32, 64
    ks = iter(jax.random.split(jax.random.key(63), 4 * depth + 10))
    kernel = lambda n, i, o: jax.random.normal(next(ks), (n, n, i, o)) * (2 / (n * n * i)) ** 0.5
    stack = lambda: [dict(a=kernel(3, C, C), b=kernel(1, C, C)) for _ in range(depth)]
    params = dict(
        down=[kernel(4, 3, C), kernel(4, C, C)],
        encode=stack(),
        to=kernel(1, C, 16),
        book=jax.random.uniform(next(ks), (codes, 16), minval=-1 / codes, maxval=1 / codes),
        back=kernel(1, 16, C),
        decode=stack(),
        up=[kernel(4, C, C), kernel(4, C, 3)],
    )
    dims = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, w, s=1: jax.lax.conv_general_dilated(
        x, w, (s, s), "SAME", dimension_numbers=dims
    )
    grow = lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=dims)

    def blocks(x, layers):
        for p in layers:
            x = x + conv(jax.nn.relu(conv(jax.nn.relu(x), p["a"])), p["b"])
        return jax.nn.relu(x)

    def loss(params, batch):
        image = batch[0]
        x = jax.nn.relu(conv(image, params["down"][0], 2))
        z = conv(blocks(conv(x, params["down"][1], 2), params["encode"]), params["to"])
        book = params["book"]
        flat = z.reshape(-1, z.shape[-1])
        far = (flat**2).sum(-1, keepdims=True) - 2 * flat @ book.T + (book**2).sum(-1)
        code = book[far.argmin(-1)].reshape(z.shape)
        stop = jax.lax.stop_gradient
        commit = jnp.mean((stop(z) - code) ** 2) + 0.25 * jnp.mean((z - stop(code)) ** 2)
        x = blocks(conv(z + stop(code - z), params["back"]), params["decode"])
        x = grow(jax.nn.relu(grow(x, params["up"][0])), params["up"][1])
        return jnp.mean((x - image) ** 2) + commit

    return Program.of_loss(params, batches.images(16), loss, optax.adam(1e-3))


def topk(x, k):
    kept, places = jax.lax.top_k(x, k)
    return jnp.zeros_like(x).at[jnp.arange(x.shape[0])[:, None], places].set(jax.nn.relu(kept))


def jump(x, threshold):
    return jnp.where(x > threshold, x, 0.0)


@program("topk_sae", "hard", depth=1, act=lambda x: topk(x, 16))
@program("relu_sae", "hard", depth=1, act=jax.nn.relu)
@program("jump_sae", "hard", depth=1, act=lambda x: jump(x, 0.5))
def sae(depth, act):
    """A sparse autoencoder of activations (Gao et al. 2024); `depth` of them, on one input."""
    W, F = 64, 512
    directions = np.random.default_rng(5).standard_normal((256, W)) / np.sqrt(W)

    def nth(i):
        rng = np.random.default_rng(i)
        code = rng.exponential(1.0, (256, 256)) * (rng.random((256, 256)) < 0.03)
        return (2 * code @ directions).astype(np.float32)

    def one(key):
        w = jax.random.normal(key, (F, W))
        w = w / jnp.linalg.norm(w, axis=-1, keepdims=True)
        return dict(enc=w.T, dec=w, b=jnp.zeros(F), mean=jnp.zeros(W))

    params = [one(k) for k in jax.random.split(jax.random.key(64), depth)]

    def loss(params, x):
        total = 0.0
        for p in params:
            code = act((x - p["mean"]) @ p["enc"] + p["b"])
            out = code @ p["dec"] + p["mean"]
            total = total + jnp.mean((out - x) ** 2) + 1e-4 * jnp.abs(code).sum(-1).mean()
        return total

    return Program.of_loss(params, nth, loss, optax.adam(1e-3))


@program("router_relu", "hard", depth=4, kind="relu")
@program("router_threshold", "hard", depth=4, kind="threshold")
def routed(depth, kind):
    """Experts weighed by relu (ReMoE, Wang et al. 2024), or taken where a sigmoid passes 1/2."""
    D, E, F, V, T = 64, 8, 64, 256, 32
    ks = iter(jax.random.split(jax.random.key(65), 8 * depth + 4))
    n = lambda *s: jax.random.normal(next(ks), s) * s[-2] ** -0.5
    block = lambda: dict(
        ln=jnp.ones(D), mix=n(T, T), ln2=jnp.ones(D), router=n(D, E), up=n(E, D, F),
        down=n(E, F, D),
    )  # fmt: skip
    params = dict(
        embed=0.02 * jax.random.normal(next(ks), (V, D)),
        pos=0.02 * jax.random.normal(next(ks), (T, D)),
        blocks=[block() for _ in range(depth)],
        ln=jnp.ones(D),
        head=n(D, V),
    )
    rms = lambda x, g: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

    def weigh(scores):
        if kind == "relu":
            return jax.nn.relu(scores)
        p = jax.nn.sigmoid(scores)
        return jnp.where(p > 0.5, p, 0.0)

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]] + params["pos"]
        for p in params["blocks"]:
            x = x + jnp.einsum("ts,bsd->btd", jnp.tril(p["mix"]), rms(x, p["ln"]))
            h = rms(x, p["ln2"])
            w = weigh(h @ p["router"])
            inner = jax.nn.gelu(jnp.einsum("btd,edf->btef", h, p["up"]))
            x = x + jnp.einsum("btef,efd,bte->btd", inner, p["down"], w)
        logits = rms(x, params["ln"]) @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, batches.text(8, T), loss, adamw(1e-3))
