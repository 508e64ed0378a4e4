"""Networks without norms, or with those of batches: errors and sizes grow from layer to layer."""

import batches
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, adamw, program


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def torch_linear(key, i, o):
    """torch.nn.Linear's default: weights and biases uniform within 1 / sqrt(in), a gain of .58."""
    a, b = jax.random.split(key)
    draw = lambda k, *s: jax.random.uniform(k, s, minval=-(i**-0.5), maxval=i**-0.5)
    return dict(w=draw(a, i, o), b=draw(b, o))


def dense(x, p):
    return x @ p["w"] + p["b"]


@program("mlp_torch_relu", "hard", depth=12, act=jax.nn.relu)
@program("mlp_torch_tanh", "hard", depth=12, act=jnp.tanh)
def mlp_torch(depth, act):
    """A classifier of `depth` layers at torch's default init: activations die out with depth."""
    sizes = [768] + [128] * (depth - 1) + [10]
    keys = jax.random.split(jax.random.key(41), depth)
    params = [torch_linear(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:])]

    def loss(params, batch):
        x = batch[0].reshape(batch[0].shape[0], -1)
        for p in params[:-1]:
            x = act(dense(x, p))
        return cross_entropy(dense(x, params[-1]), batch[1])

    return Program.of_loss(params, batches.images(64), loss, optax.adam(1e-3))


@program("resnet_without_norm", "hard", depth=12)
def residual(depth):
    """Residual blocks without norms, He-initialised: the stream doubles in each."""
    W = 128
    ks = iter(jax.random.split(jax.random.key(42), 2 * depth + 2))
    he = lambda i, o, gain=2.0: jax.random.normal(next(ks), (i, o)) * (gain / i) ** 0.5
    params = dict(
        first=he(768, W, 1.0),
        blocks=[dict(a=he(W, W), b=he(W, W, 0.5)) for _ in range(depth)],
        head=0.01 * he(W, 10),
    )

    def loss(params, batch):
        x = batch[0].reshape(batch[0].shape[0], -1) @ params["first"]
        for p in params["blocks"]:
            x = x + jax.nn.relu(x @ p["a"]) @ p["b"]
        return cross_entropy(x @ params["head"], batch[1])

    return Program.of_loss(params, batches.images(64), loss, optax.adam(3e-4))


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@program("batch_norm_cnn", "hard", depth=6)
def batch_norm_cnn(depth):
    """Convolutions, batch norms and ReLUs, a residual around each, pooled before the head."""
    C = 32
    ks = iter(jax.random.split(jax.random.key(43), depth + 2))
    he = lambda *s: jax.random.normal(next(ks), s) * (2 / np.prod(s[:-1])) ** 0.5
    params = dict(
        first=he(3, 3, 3, C),
        blocks=[dict(w=he(3, 3, C, C), g=jnp.ones(C), b=jnp.zeros(C)) for _ in range(depth)],
        head=he(C, 10),
    )

    def norm(x, p):
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p["g"] + p["b"]

    def loss(params, batch):
        x = conv(batch[0], params["first"], 2)
        for p in params["blocks"]:
            x = x + jax.nn.relu(norm(conv(x, p["w"]), p))
        return cross_entropy(x.mean((1, 2)) @ params["head"], batch[1])

    return Program.of_loss(params, batches.images(32), loss, optax.sgd(0.05, momentum=0.9))


@program("batch_norm_mlp", "hard", depth=6)
def batch_norm_mlp(depth):
    """Dense layers with batch norms and ReLUs, without a residual."""
    sizes = [768] + [128] * depth
    ks = jax.random.split(jax.random.key(44), depth + 1)
    params = dict(
        layers=[
            dict(w=jax.random.normal(k, (i, o)) * (2 / i) ** 0.5, g=jnp.ones(o), b=jnp.zeros(o))
            for k, i, o in zip(ks, sizes[:-1], sizes[1:])
        ],
        head=jax.random.normal(ks[-1], (128, 10)) * 128**-0.5,
    )

    def loss(params, batch):
        x = batch[0].reshape(batch[0].shape[0], -1)
        for p in params["layers"]:
            x = x @ p["w"]
            x = (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5) * p["g"] + p["b"]
            x = jax.nn.relu(x)
        return cross_entropy(x @ params["head"], batch[1])

    return Program.of_loss(params, batches.images(64), loss, optax.adam(1e-3))


@program("lstm_deep", "hard", depth=12)
def lstm(depth):
    """Stacked LSTM layers by lax.scan over time, torch's init, forget gates open."""
    W, V, T = 64, 256, 32
    ks = iter(jax.random.split(jax.random.key(45), 2 * depth + 2))
    draw = lambda i, o: jax.random.uniform(next(ks), (i, o), minval=-(W**-0.5), maxval=W**-0.5)
    params = dict(
        embed=jax.random.normal(next(ks), (V, W)),
        layers=[dict(x=draw(W, 4 * W), h=draw(W, 4 * W), b=jnp.zeros(4 * W)) for _ in range(depth)],
        head=draw(W, V),
    )

    def layer(x, p):
        def step(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x + h @ p["h"], 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], W))
        return jax.lax.scan(step, (zero, zero), x @ p["x"] + p["b"])[1]

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]].swapaxes(0, 1)
        for p in params["layers"]:
            x = layer(x, p)
        return cross_entropy(x.swapaxes(0, 1) @ params["head"], tokens[:, 1:])

    return Program.of_loss(params, batches.text(16, T), loss, optax.adam(2e-3))


@program("cait", "hard", depth=8, start=1e-6)
@program("cait_1e_1", "hard", depth=8, start=1e-1)
def cait(depth, start):
    """A vision transformer behind LayerScale, as CaiT (Touvron et al. 2021)."""
    W, H = 64, 4
    ks = iter(jax.random.split(jax.random.key(46), 6 * depth + 4))
    n = lambda *s: 0.02 * jax.random.normal(next(ks), s)
    block = lambda: dict(
        n1=jnp.ones(W), n2=jnp.ones(W), qkv=n(W, 3 * W), o=n(W, W), up=n(W, 4 * W),
        down=n(4 * W, W), s1=jnp.full(W, start), s2=jnp.full(W, start),
    )  # fmt: skip
    params = dict(
        patch=n(48, W), pos=n(16, W), blocks=[block() for _ in range(depth)], ln=jnp.ones(W),
        head=n(W, 10),
    )  # fmt: skip

    def norm(x, g):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

    def attend(x, p):
        B, N, _ = x.shape
        q, k, v = (x @ p["qkv"]).reshape(B, N, 3, H, W // H).transpose(2, 0, 3, 1, 4)
        s = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (W // H) ** -0.5)
        return (s @ v).transpose(0, 2, 1, 3).reshape(B, N, W) @ p["o"]

    def loss(params, batch):
        x = batch[0].reshape(-1, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 16, 48)
        x = x @ params["patch"] + params["pos"]
        for p in params["blocks"]:
            x = x + p["s1"] * attend(norm(x, p["n1"]), p)
            x = x + p["s2"] * (jax.nn.gelu(norm(x, p["n2"]) @ p["up"]) @ p["down"])
        return cross_entropy(norm(x, params["ln"]).mean(1) @ params["head"], batch[1])

    return Program.of_loss(params, batches.images(16), loss, adamw(1e-3))
