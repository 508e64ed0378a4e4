"""LoRA: a frozen base with adapters on q and v, of which B starts at zero."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

D, H, V, R = 64, 4, 256, 4


def init(key, depth):
    ks = iter(jax.random.split(key, 200))
    n = lambda *s, std=0.02: std * jax.random.normal(next(ks), s)
    base = dict(
        embed=n(V, D),
        pos=n(32, D),
        ln=jnp.ones(D),
        layers=[
            dict(
                ln1=jnp.ones(D),
                ln2=jnp.ones(D),
                q=n(D, D, std=0.1),
                k=n(D, D, std=0.1),
                v=n(D, D, std=0.1),
                o=n(D, D, std=0.05),
                up=n(D, 4 * D, std=0.1),
                down=n(4 * D, D, std=0.05),
            )
            for _ in range(depth)
        ],
    )
    lora = [
        {w: dict(a=n(D, R, std=D**-0.5), b=jnp.zeros((R, D))) for w in "qv"} for _ in range(depth)
    ]
    return dict(base=base, lora=lora)


def ln(x, g):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(v + 1e-5) * g


def apply(lora, base, tokens, alpha=16):
    B, T = tokens.shape
    x = base["embed"][tokens] + base["pos"][:T]
    mask = jnp.tril(jnp.ones((T, T), bool))
    for l, ad in zip(base["layers"], lora):
        h = ln(x, l["ln1"])
        proj = lambda w: h @ l[w] + ((h @ ad[w]["a"]) @ ad[w]["b"] * (alpha / R) if w in ad else 0)
        q, k, v = (proj(w).reshape(B, T, H, D // H) for w in "qkv")
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(D // H)
        s = jnp.where(mask, s, -1e9)
        o = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(B, T, D)
        x = x + o @ l["o"]
        x = x + jax.nn.gelu(ln(x, l["ln2"]) @ l["up"]) @ l["down"]
    return ln(x, base["ln"]) @ base["embed"].T


@program("lora", "unseen", depth=4)
def lora(depth):
    params = init(jax.random.key(3), depth)

    def loss(ad, base, tokens):
        logits = apply(ad, base, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def grads(params, tokens):
        l, g = jax.value_and_grad(loss)(params["lora"], params["base"], tokens)
        return l, dict(base=jax.tree.map(jnp.zeros_like, params["base"]), lora=g)

    tx = optax.adamw(1e-3)

    def step(params, state, tokens):
        l, g = grads(params, tokens)
        up, state = tx.update(g["lora"], state, params["lora"])
        return dict(base=params["base"], lora=optax.apply_updates(params["lora"], up)), state, l

    return Program(params, batches.text(8, 32), grads, step, tx.init(params["lora"]))
