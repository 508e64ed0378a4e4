"""Gates that start at zero: ReZero's scalars, adaLN-zero, a zero convolution, Fixup's scalars."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

D, H, V, T = 64, 4, 256, 32


def norm(x, g=1.0):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def init(key, depth, kind):
    ks = iter(jax.random.split(key, 100))
    n = lambda i, o: jax.random.normal(next(ks), (i, o)) * i**-0.5
    gate = {
        "rezero": lambda: jnp.zeros(()),
        "layerscale": lambda: jnp.zeros(D),
    }[kind]
    return dict(
        embed=0.02 * jax.random.normal(next(ks), (V, D)),
        pos=0.02 * jax.random.normal(next(ks), (T, D)),
        head=n(D, V),
        layers=[
            dict(qkv=n(D, 3 * D), o=n(D, D), up=n(D, 4 * D), down=n(4 * D, D), a=gate(), b=gate())
            for _ in range(depth)
        ],
    )


def apply(p, tokens, kind):
    B, T = tokens.shape
    x = p["embed"][tokens] + p["pos"]
    mask = jnp.tril(jnp.ones((T, T), bool))
    pre = (lambda x: x) if kind == "rezero" else norm
    for l in p["layers"]:
        q, k, v = jnp.split(pre(x) @ l["qkv"], 3, -1)
        heads = lambda z: z.reshape(B, T, H, D // H).transpose(0, 2, 1, 3)
        s = heads(q) @ heads(k).swapaxes(-1, -2) * (D // H) ** -0.5
        a = jax.nn.softmax(jnp.where(mask, s, -jnp.inf))
        o = (a @ heads(v)).transpose(0, 2, 1, 3).reshape(B, T, D) @ l["o"]
        x = x + l["a"] * o
        x = x + l["b"] * (jax.nn.relu(pre(x) @ l["up"]) @ l["down"])
    return norm(x) @ p["head"]


@program("gate_rezero", "gates", depth=3, kind="rezero")
@program("gate_zero_scale", "gates", depth=3, kind="layerscale")
def gates(depth, kind):
    def loss(params, t):
        return optax.softmax_cross_entropy_with_integer_labels(
            apply(params, t[:, :-1], kind), t[:, 1:]
        ).mean()

    return Program.of_loss(
        init(jax.random.key(20), depth, kind), batches.text(8, T), loss, adamw(2e-3)
    )


@program("zero_conv", "gates", depth=3)
def zero_conv(depth):
    """A ControlNet-like side branch through convolutions of zeros, an adaLN-zero condition; dense layers around."""

    def init(key):
        ks = iter(jax.random.split(key, 100))
        n = lambda *s: jax.random.normal(next(ks), s) * s[-2] ** -0.5
        return dict(
            patch=n(4 * 4 * 3, D),
            blocks=[
                dict(
                    up=n(D, 4 * D),
                    down=n(4 * D, D),
                    side=n(D, D),
                    zero=jnp.zeros((1, 1, D, D)),
                    mod=jnp.zeros((D, 3 * D)),
                    modb=jnp.zeros(3 * D),
                )
                for _ in range(depth)
            ],
            out=jnp.zeros((D, 48)),
        )

    def apply(p, images, labels):
        B = images.shape[0]
        x = (
            images.reshape(B, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(B, 4, 4, 48)
            @ p["patch"]
        )
        c = x
        cond = jax.nn.silu(jax.nn.one_hot(labels, D) * 4)
        for b in p["blocks"]:
            shift, scale, gate = jnp.split((cond @ b["mod"] + b["modb"])[:, None, None], 3, -1)
            h = norm(x) * (1 + scale) + shift
            x = x + gate * (jax.nn.gelu(h @ b["up"]) @ b["down"])
            c = jax.nn.silu(c @ b["side"])
            x = x + jax.lax.conv_general_dilated(
                c, b["zero"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        return norm(x) @ p["out"]

    def loss(params, b):
        target = b[0].reshape(-1, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, 48)
        return jnp.mean((apply(params, *b) - target) ** 2)

    return Program.of_loss(init(jax.random.key(21)), batches.images(16), loss, adamw(2e-3))
