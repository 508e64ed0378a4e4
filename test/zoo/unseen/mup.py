"""A transformer under muP: attention by 1/d, output multiplier 1/width, Adam's rates by width."""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

D, H, V, BASE = 128, 4, 256, 32


def init(key, depth):
    ks = iter(jax.random.split(key, 200))
    hidden = lambda i, o: jax.random.normal(next(ks), (i, o)) * i**-0.5
    return dict(
        embed=jax.random.normal(next(ks), (V, D)),
        pos=jax.random.normal(next(ks), (32, D)),
        head=jnp.zeros((D, V)),
        ln=jnp.ones(D),
        layers=[
            dict(
                ln1=jnp.ones(D),
                ln2=jnp.ones(D),
                q=jnp.zeros((D, D)),
                k=hidden(D, D),
                v=hidden(D, D),
                o=hidden(D, D),
                up=hidden(D, 4 * D),
                down=hidden(4 * D, D),
            )
            for _ in range(depth)
        ],
    )


def norm(x, g):
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * g


def apply(p, tokens):
    B, T = tokens.shape
    x = p["embed"][tokens] + p["pos"][:T]
    for l in p["layers"]:
        h = norm(x, l["ln1"])
        q, k, v = ((h @ l[n]).reshape(B, T, H, D // H).transpose(0, 2, 1, 3) for n in "qkv")
        s = (q @ k.swapaxes(-1, -2)) / (D // H) * 8**0.5
        s = jnp.where(jnp.tril(jnp.ones((T, T))) == 0, jnp.finfo(s.dtype).min, s)
        o = (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
        x = x + o @ l["o"] / len(p["layers"]) ** 0.5
        x = x + jax.nn.relu(norm(x, l["ln2"]) @ l["up"]) ** 2 @ l["down"] / len(p["layers"]) ** 0.5
    return norm(x, p["ln"]) @ p["head"] * (BASE / D)


@program("u_mup", "unseen", depth=4)
def mup(depth):
    params = init(jax.random.key(4), depth)

    def loss(params, tokens):
        logits = apply(params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    label = jax.tree_util.tree_map_with_path(
        lambda p, x: "hidden" if x.ndim == 2 and "layers" in str(p) else "other", params
    )
    tx = optax.multi_transform(
        {"hidden": optax.adam(4e-3 * BASE / D), "other": optax.adam(4e-3)}, label
    )
    return Program.of_loss(params, batches.text(8, 32), loss, tx)
