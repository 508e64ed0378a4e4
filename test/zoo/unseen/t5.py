"""T5: encoder-decoder, relative position buckets, RMSNorm without bias, unscaled attention, z-loss."""

import batches
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program

D, H, K, F, V, T = 64, 4, 16, 128, 256, 24


def init(key, depth):
    ks = iter(jax.random.split(key, 400))
    n = lambda *s, std: std * jax.random.normal(next(ks), s)
    att = lambda: dict(
        q=n(D, H * K, std=(D * K) ** -0.5),
        k=n(D, H * K, std=D**-0.5),
        v=n(D, H * K, std=D**-0.5),
        o=n(H * K, D, std=(H * K) ** -0.5),
    )
    ff = lambda: dict(wi=n(D, F, std=D**-0.5), wg=n(D, F, std=D**-0.5), wo=n(F, D, std=F**-0.5))
    enc = [dict(n1=jnp.ones(D), a=att(), n2=jnp.ones(D), f=ff()) for _ in range(depth)]
    dec = [
        dict(n1=jnp.ones(D), a=att(), nx=jnp.ones(D), x=att(), n2=jnp.ones(D), f=ff())
        for _ in range(depth)
    ]
    return dict(
        embed=n(V, D, std=1.0),
        enc=enc,
        dec=dec,
        en=jnp.ones(D),
        dn=jnp.ones(D),
        eb=n(16, H, std=D**-0.5),
        db=n(16, H, std=D**-0.5),
        head=n(D, V, std=D**-0.5),
    )


def norm(x, g):
    return g * x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)


def buckets(q, k, bidirectional, num=16, maxd=64):
    rel = jnp.arange(k)[None] - jnp.arange(q)[:, None]
    out = 0
    if bidirectional:
        num //= 2
        out = (rel > 0) * num
        rel = jnp.abs(rel)
    else:
        rel = jnp.maximum(-rel, 0)
    exact = num // 2
    large = exact + (
        jnp.log(jnp.maximum(rel, 1) / exact) / np.log(maxd / exact) * (num - exact)
    ).astype(jnp.int32)
    return out + jnp.where(rel < exact, rel, jnp.minimum(large, num - 1))


def attend(p, x, y, bias):
    heads = lambda z: z.reshape(*z.shape[:-1], H, K)
    q, k, v = heads(x @ p["q"]), heads(y @ p["k"]), heads(y @ p["v"])
    s = jnp.einsum("bqhk,bthk->bhqt", q, k) + bias
    w = jax.nn.softmax(s.astype(jnp.float32), -1)
    o = jnp.einsum("bhqt,bthk->bqhk", w, v)
    return o.reshape(*x.shape[:-1], H * K) @ p["o"]


def ff(p, x):
    return (jax.nn.gelu(x @ p["wi"]) * (x @ p["wg"])) @ p["wo"]


def apply(p, src, tgt):
    x = p["embed"][src]
    bias = p["eb"][buckets(T, T, True)].transpose(2, 0, 1)[None]
    for l in p["enc"]:
        h = norm(x, l["n1"])
        x = x + attend(l["a"], h, h, bias)
        x = x + ff(l["f"], norm(x, l["n2"]))
    m = norm(x, p["en"])
    y = p["embed"][tgt]
    mask = jnp.where(jnp.tril(jnp.ones((T, T))), 0.0, -1e9)
    bias = p["db"][buckets(T, T, False)].transpose(2, 0, 1)[None] + mask
    for l in p["dec"]:
        h = norm(y, l["n1"])
        y = y + attend(l["a"], h, h, bias)
        y = y + attend(l["x"], norm(y, l["nx"]), m, 0.0)
        y = y + ff(l["f"], norm(y, l["n2"]))
    return norm(y, p["dn"]) @ p["head"]


@program("u_t5", "unseen", depth=3)
def t5(depth):
    params = init(jax.random.key(7), depth)
    text = batches.text(8, 2 * T)

    def loss(params, tokens):
        src, tgt = tokens[:, :T], tokens[:, T:]
        logits = apply(params, src, jnp.pad(tgt[:, : T - 1], ((0, 0), (1, 0))))
        labels = optax.smooth_labels(jax.nn.one_hot(tgt[:, :T], V), 0.1)
        z = jax.nn.logsumexp(logits, -1)
        return optax.softmax_cross_entropy(logits, labels).mean() + 1e-4 * jnp.mean(z**2)

    return Program.of_loss(params, text, loss, optax.adafactor(1e-2, min_dim_size_to_factor=32))
