"""Linear attention (elu + 1), causal: cumulative sums of k v, and a scan over time."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

D, H, V, T = 64, 4, 256, 32
K = D // H


def init(key, depth):
    ks = iter(jax.random.split(key, 200))
    n = lambda i, o: jax.random.normal(next(ks), (i, o)) * i**-0.5
    return dict(
        embed=0.02 * jax.random.normal(next(ks), (V, D)),
        pos=0.02 * jax.random.normal(next(ks), (T, D)),
        ln=jnp.ones(D),
        head=n(D, V),
        layers=[
            dict(
                ln1=jnp.ones(D),
                ln2=jnp.ones(D),
                q=n(D, D),
                k=n(D, D),
                v=n(D, D),
                o=n(D, D),
                up=n(D, 4 * D),
                down=n(4 * D, D),
            )
            for _ in range(depth)
        ],
    )


def ln(x, g):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g


def parallel(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * jnp.tril(jnp.ones((T, T)))
    num = jnp.einsum("bhqk,bkhd->bqhd", s, v)
    den = s.sum(-1).transpose(0, 2, 1)[..., None]
    return num / (den + 1e-6)


def recurrent(q, k, v):
    def step(carry, x):
        S, z = carry
        q, k, v = x
        S = S + k[..., :, None] * v[..., None, :]
        z = z + k
        o = jnp.einsum("bhd,bhde->bhe", q, S) / (jnp.einsum("bhd,bhd->bh", q, z)[..., None] + 1e-6)
        return (S, z), o

    B = q.shape[0]
    xs = tuple(t.transpose(1, 0, 2, 3) for t in (q, k, v))
    _, o = jax.lax.scan(step, (jnp.zeros((B, H, K, K)), jnp.zeros((B, H, K))), xs)
    return o.transpose(1, 0, 2, 3)


def cumulative(q, k, v):
    S = jnp.cumsum(k[..., :, None] * v[..., None, :], axis=1)
    z = jnp.cumsum(k, axis=1)
    return jnp.einsum("bthd,bthde->bthe", q, S) / (
        jnp.einsum("bthd,bthd->bth", q, z)[..., None] + 1e-6
    )


@program("linear_attention_parallel", "unseen", depth=4, mix=parallel)
@program("linear_attention_scan", "unseen", depth=3, mix=recurrent)
@program("linear_attention_cumsum", "unseen", depth=3, mix=cumulative)
def linear(depth, mix):
    def apply(p, tokens):
        B, _ = tokens.shape
        x = p["embed"][tokens] + p["pos"]
        for l in p["layers"]:
            h = ln(x, l["ln1"])
            q, k, v = ((h @ l[n]).reshape(B, T, H, K) for n in "qkv")
            q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
            x = x + mix(q, k, v).reshape(B, T, D) @ l["o"]
            x = x + jax.nn.gelu(ln(x, l["ln2"]) @ l["up"]) @ l["down"]
        return ln(x, p["ln"]) @ p["head"]

    def loss(params, tokens):
        return optax.softmax_cross_entropy_with_integer_labels(
            apply(params, tokens[:, :-1]), tokens[:, 1:]
        ).mean()

    return Program.of_loss(init(jax.random.key(8), depth), batches.text(8, T), loss, adamw())
