"""ViT-22B-like: parallel-free pre-norm blocks with qk-norm and LayerScale, in plain JAX."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

D, H, P = 64, 4, 4


def init(key, depth):
    ks = iter(jax.random.split(key, 100))
    lecun = lambda *s: jax.random.truncated_normal(next(ks), -2, 2, s) * (s[0] ** -0.5)
    blocks = [
        dict(
            ln1=jnp.ones(D),
            ln2=jnp.ones(D),
            qn=jnp.ones(D // H),
            kn=jnp.ones(D // H),
            qkv=lecun(D, 3 * D),
            proj=lecun(D, D),
            b=jnp.zeros(D),
            fc1=lecun(D, 4 * D),
            b1=jnp.zeros(4 * D),
            fc2=lecun(4 * D, D),
            b2=jnp.zeros(D),
            g1=1e-4 * jnp.ones(D),
            g2=1e-4 * jnp.ones(D),
        )
        for _ in range(depth)
    ]
    return dict(
        patch=lecun(P * P * 3, D),
        pos=0.02 * jax.random.normal(next(ks), (16, D)),
        blocks=blocks,
        ln=jnp.ones(D),
        head=jnp.zeros((D, 10)),
        hb=jnp.zeros(10),
    )


def ln(x, g):
    x = x - x.mean(-1, keepdims=True)
    return g * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def rms(x, g):
    return g * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def forward(p, images):
    B, S = images.shape[0], images.shape[1] // P
    x = images.reshape(B, S, P, S, P, 3).transpose(0, 1, 3, 2, 4, 5).reshape(B, S * S, -1)
    x = x @ p["patch"] + p["pos"]
    for b in p["blocks"]:
        q, k, v = jnp.split(
            (ln(x, b["ln1"]) @ b["qkv"]).reshape(B, S * S, 3 * H, D // H), 3, axis=2
        )
        q, k = rms(q, b["qn"]), rms(k, b["kn"])
        a = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (D // H) ** 0.5)
        o = jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(B, S * S, D)
        x = x + b["g1"] * (o @ b["proj"] + b["b"])
        h = jax.nn.gelu(ln(x, b["ln2"]) @ b["fc1"] + b["b1"], approximate=False)
        x = x + b["g2"] * (h @ b["fc2"] + b["b2"])
    return ln(x, p["ln"]).mean(1) @ p["head"] + p["hb"]


@program("vit_qknorm", "unseen", depth=4)
def vit(depth):
    def loss(params, batch):
        onehot = jax.nn.one_hot(batch[1], 10)
        return optax.sigmoid_binary_cross_entropy(forward(params, batch[0]), onehot).sum(-1).mean()

    return Program.of_loss(
        init(jax.random.key(1), depth),
        batches.images(16),
        loss,
        optax.adamw(1e-3, weight_decay=0.05),
    )
