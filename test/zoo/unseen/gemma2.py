"""Gemma-2-like: scaled embeddings, pre and post RMSNorm of (1 + w), alternating windows, soft caps, GeGLU, GQA."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

D, H, G, K, F, V, T, WIN = 64, 4, 2, 16, 192, 256, 32, 8


def init(key, depth):
    ks = iter(jax.random.split(key, 300))
    n = lambda *s, std: std * jax.random.normal(next(ks), s)
    z = lambda: jnp.zeros(D)
    return dict(
        embed=n(V, D, std=0.02),
        final=z(),
        layers=[
            dict(
                pre_att=z(),
                post_att=z(),
                pre_ff=z(),
                post_ff=z(),
                q=n(D, H, K, std=D**-0.5),
                kv=n(2, D, G, K, std=D**-0.5),
                o=n(H, K, D, std=(H * K) ** -0.5),
                gate=n(2, D, F, std=D**-0.5),
                down=n(F, D, std=F**-0.5),
            )
            for _ in range(depth)
        ],
    )


def norm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * (1 + w)


def rope(x, pos):
    f = 10000 ** -(jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
    a = pos[:, None, None] * f
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate(
        [x1 * jnp.cos(a) - x2 * jnp.sin(a), x2 * jnp.cos(a) + x1 * jnp.sin(a)], -1
    )


def cap(x, c):
    return c * jnp.tanh(x / c)


def apply(p, tokens):
    B, T = tokens.shape
    x = p["embed"][tokens] * jnp.sqrt(D).astype(jnp.float32)
    pos = jnp.arange(T)
    causal = pos[:, None] >= pos[None]
    window = causal & (pos[:, None] - pos[None] < WIN)
    for i, l in enumerate(p["layers"]):
        h = norm(x, l["pre_att"])
        q = rope(jnp.einsum("btd,dhk->bthk", h, l["q"]), pos) * K**-0.5
        k, v = jnp.einsum("btd,sdgk->sbtgk", h, l["kv"])
        k = rope(k, pos)
        q = q.reshape(B, T, G, H // G, K)
        s = cap(jnp.einsum("btghk,bsgk->bghts", q, k), 50.0)
        s = jnp.where(causal if i % 2 else window, s, -2.3819763e38)
        a = jax.nn.softmax(s, -1)
        o = jnp.einsum("bghts,bsgk->btghk", a, v).reshape(B, T, H, K)
        x = x + norm(jnp.einsum("bthk,hkd->btd", o, l["o"]), l["post_att"])
        h = norm(x, l["pre_ff"])
        g, u = jnp.einsum("btd,sdf->sbtf", h, l["gate"])
        x = x + norm((jax.nn.gelu(g) * u) @ l["down"], l["post_ff"])
    return cap(norm(x, p["final"]) @ p["embed"].T, 30.0)


@program("gemma2", "unseen", depth=4)
def gemma2(depth):
    def loss(params, tokens):
        return optax.softmax_cross_entropy_with_integer_labels(
            apply(params, tokens[:, :-1]), tokens[:, 1:]
        ).mean()

    return Program.of_loss(init(jax.random.key(11), depth), batches.text(8, T), loss, adamw())
