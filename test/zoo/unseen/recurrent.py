"""Recurrences, fields, and two networks at once."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, adamw, program


@program("retnet", "unseen", depth=4)
def retnet(depth):
    """RetNet: decayed retention, group norm per head, swish gates."""
    D, H, T, V = 64, 4, 32, 256

    class Retention(nn.Module):
        @nn.compact
        def __call__(self, x):
            B = x.shape[0]
            q, k, v = (
                nn.Dense(D, use_bias=False)(x).reshape(B, T, H, -1).transpose(0, 2, 1, 3)
                for _ in range(3)
            )
            gamma = 1 - jnp.exp(jnp.linspace(jnp.log(1 / 32), jnp.log(1 / 512), H))
            n = jnp.arange(T)[:, None] - jnp.arange(T)[None]
            decay = jnp.where(n >= 0, gamma[:, None, None] ** jnp.maximum(n, 0), 0)
            s = (q @ k.swapaxes(-1, -2)) * (D // H) ** -0.5 * decay
            s = s / jnp.maximum(jnp.abs(jax.lax.stop_gradient(s.sum(-1, keepdims=True))), 1)
            y = (s @ v).transpose(0, 2, 1, 3)
            y = nn.RMSNorm(use_scale=False)(y).reshape(B, T, D)
            return nn.Dense(D, use_bias=False)(nn.swish(nn.Dense(D, use_bias=False)(x)) * y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(V, D)(tokens)
            for _ in range(depth):
                x = x + Retention()(nn.LayerNorm()(x))
                h = nn.LayerNorm()(x)
                x = x + nn.Dense(D)(nn.swish(nn.Dense(2 * D)(h)) * nn.Dense(2 * D)(h))
            return nn.Dense(V)(nn.LayerNorm()(x))

    model, nth = Net(), batches.text(8, T)
    params = model.init(jax.random.key(7), nth(0)[:, :-1])["params"]

    def loss(params, t):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, t[:, :-1]), t[:, 1:]
        ).mean()

    return Program.of_loss(params, nth, loss, adamw(1e-3))


@program("rwkv", "unseen", depth=3)
def rwkv(depth):
    """RWKV-4: token shift, wkv by a scan with a running maximum, squared relu channel mixing."""
    D, T, V = 64, 32, 256

    def init(key):
        ks = iter(jax.random.split(key, 100))
        n = lambda i, o: jax.random.normal(next(ks), (i, o)) * i**-0.5
        return dict(
            embed=1e-2 * jax.random.normal(next(ks), (V, D)),
            ln0=jnp.ones(D),
            ln=jnp.ones(D),
            head=n(D, V),
            layers=[
                dict(
                    ln1=jnp.ones(D),
                    ln2=jnp.ones(D),
                    decay=jnp.linspace(-5.0, 3.0, D),
                    first=jnp.full(D, jnp.log(0.3)),
                    mk=0.5 * jnp.ones(D),
                    mv=0.5 * jnp.ones(D),
                    mr=0.5 * jnp.ones(D),
                    k=n(D, D),
                    v=n(D, D),
                    r=n(D, D),
                    o=n(D, D),
                    ck=n(D, 4 * D),
                    cv=n(4 * D, D),
                    cr=n(D, D),
                )
                for _ in range(depth)
            ],
        )

    ln = lambda x, g: (
        (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g
    )
    shift = lambda x: jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]

    def wkv(w, u, k, v):
        w = -jnp.exp(w)

        def body(c, kv):
            a, b, m = c
            k, v = kv
            q = jnp.maximum(m, u + k)
            e1, e2 = jnp.exp(m - q), jnp.exp(u + k - q)
            y = (e1 * a + e2 * v) / (e1 * b + e2)
            q = jnp.maximum(m + w, k)
            e1, e2 = jnp.exp(m + w - q), jnp.exp(k - q)
            return (e1 * a + e2 * v, e1 * b + e2, q), y

        z = jnp.zeros((k.shape[0], D))
        _, y = jax.lax.scan(body, (z, z, z - 1e38), (k.swapaxes(0, 1), v.swapaxes(0, 1)))
        return y.swapaxes(0, 1)

    def apply(p, tokens):
        x = ln(p["embed"][tokens], p["ln0"])
        for l in p["layers"]:
            h = ln(x, l["ln1"])
            s = shift(h)
            mix = lambda m: h * m + s * (1 - m)
            k, v, r = (
                mix(l["mk"]) @ l["k"],
                mix(l["mv"]) @ l["v"],
                jax.nn.sigmoid(mix(l["mr"]) @ l["r"]),
            )
            x = x + (r * wkv(l["decay"], l["first"], k, v)) @ l["o"]
            h = ln(x, l["ln2"])
            x = x + jax.nn.sigmoid(h @ l["cr"]) * (jnp.square(jax.nn.relu(h @ l["ck"])) @ l["cv"])
        return ln(x, p["ln"]) @ p["head"]

    def loss(params, t):
        return optax.softmax_cross_entropy_with_integer_labels(
            apply(params, t[:, :-1]), t[:, 1:]
        ).mean()

    return Program.of_loss(init(jax.random.key(8)), batches.text(8, T), loss, adamw(1e-3))


@program("lru", "unseen", depth=3)
def lru(depth):
    """A linear recurrent unit by jax.lax.associative_scan, real decays with an input gate (Griffin's RG-LRU)."""
    D, T, V = 64, 32, 256

    class Rglru(nn.Module):
        @nn.compact
        def __call__(self, x):
            r, i = nn.sigmoid(nn.Dense(D)(x)), nn.sigmoid(nn.Dense(D)(x))
            lam = self.param(
                "lam",
                lambda k, s: jnp.log(
                    jnp.expm1(-jnp.log(jax.random.uniform(k, s, minval=0.9, maxval=0.999)) / 8)
                ),
                (D,),
            )
            log_a = -8.0 * jax.nn.softplus(lam) * r
            a = jnp.exp(log_a)
            b = jnp.sqrt(1 - jnp.exp(2 * log_a) + 1e-6) * i * x
            op = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])
            return jax.lax.associative_scan(op, (a, b), axis=1)[1]

    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(V, D)(tokens) * D**0.5
            for _ in range(depth):
                h = nn.RMSNorm()(x)
                y = nn.Conv(D, (4,), padding=[(3, 0)], feature_group_count=D)(nn.Dense(D)(h))
                x = x + nn.Dense(D)(Rglru()(y) * nn.gelu(nn.Dense(D)(h)))
                h = nn.RMSNorm()(x)
                x = x + nn.Dense(D)(nn.gelu(nn.Dense(3 * D)(h)) * nn.Dense(3 * D)(h))
            return nn.Dense(V)(nn.RMSNorm()(x))

    model, nth = Net(), batches.text(8, T)
    params = model.init(jax.random.key(10), nth(0)[:, :-1])["params"]

    def loss(params, t):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, t[:, :-1]), t[:, 1:]
        ).mean()

    return Program.of_loss(params, nth, loss, adamw(1e-3))


@program("nerf", "unseen", depth=4)
def nerf(depth):
    """NeRF: positional encoding, a density MLP with a skip, volume rendering by a cumulative product."""

    def nth(i):
        rng = np.random.default_rng(i)
        o = np.tile([[0, 0, -3.0]], (64, 1)).astype(np.float32)
        d = rng.standard_normal((64, 3)) * 0.2 + [0, 0, 1]
        d = (d / np.linalg.norm(d, axis=-1, keepdims=True)).astype(np.float32)
        hit = (np.linalg.norm(np.cross(o, d), axis=-1) < 0.6)[:, None]
        return o, d, np.where(hit, [[1, 0.2, 0.1]], [[1, 1, 1]]).astype(np.float32)

    enc = lambda x, n: jnp.concatenate(
        [x] + [f(2.0**i * x) for i in range(n) for f in (jnp.sin, jnp.cos)], -1
    )

    class Field(nn.Module):
        @nn.compact
        def __call__(self, x, d):
            e = enc(x, 6)
            h = e
            for i in range(depth):
                h = nn.relu(nn.Dense(64)(h if i != depth // 2 else jnp.concatenate([h, e], -1)))
            sigma = nn.Dense(1)(h)[..., 0]
            h = nn.relu(nn.Dense(32)(jnp.concatenate([nn.Dense(64)(h), enc(d, 2)], -1)))
            return jax.nn.relu(sigma), nn.sigmoid(nn.Dense(3)(h))

    model = Field()

    def render(params, o, d):
        t = jnp.linspace(2.0, 4.0, 16)
        x = o[:, None] + d[:, None] * t[:, None]
        sigma, rgb = model.apply({"params": params}, x, jnp.broadcast_to(d[:, None], x.shape))
        alpha = 1 - jnp.exp(-sigma * (t[1] - t[0]))
        trans = jnp.cumprod(
            jnp.concatenate([jnp.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], 1), 1
        )
        w = alpha * trans
        return (w[..., None] * rgb).sum(1) + (1 - w.sum(1, keepdims=True))

    o, d, _ = nth(0)
    params = model.init(jax.random.key(11), o, d)["params"]

    def loss(params, b):
        return jnp.mean((render(params, b[0], b[1]) - b[2]) ** 2)

    return Program.of_loss(params, nth, loss, optax.adam(5e-4))


@program("byol", "unseen", depth=3)
def byol(depth):
    """BYOL: an online network with a predictor against an EMA target; normalised regression."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = x.reshape(x.shape[0], -1)
            for _ in range(depth):
                h = nn.relu(nn.LayerNorm()(nn.Dense(128)(h)))
            return nn.Dense(64)(nn.relu(nn.LayerNorm()(nn.Dense(128)(h))))

    class Pred(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(64)(nn.relu(nn.LayerNorm()(nn.Dense(128)(x))))

    net, pred = Net(), Pred()
    imgs = batches.images(16)

    def nth(i):
        x, _ = imgs(i)
        rng = np.random.default_rng(i)
        return x + 0.3 * rng.standard_normal(x.shape).astype(np.float32), x[
            :, :, ::-1
        ] + 0.3 * rng.standard_normal(x.shape).astype(np.float32)

    params = dict(
        net=net.init(jax.random.key(12), nth(0)[0])["params"],
        pred=pred.init(jax.random.key(13), jnp.zeros((1, 64)))["params"],
    )
    target0 = net.init(jax.random.key(14), nth(0)[0])["params"]
    unit = lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)

    def loss(params, target, b):
        one = lambda a, c: (
            2
            - 2
            * (
                unit(
                    pred.apply({"params": params["pred"]}, net.apply({"params": params["net"]}, a))
                )
                * unit(jax.lax.stop_gradient(net.apply({"params": target}, c)))
            ).sum(-1)
        ).mean()
        return one(b[0], b[1]) + one(b[1], b[0])

    tx = optax.lars(0.2, weight_decay=1e-6)

    def grads(params, b):
        return jax.value_and_grad(loss)(params, target0, b)

    def step(params, state, b):
        inner, target = state
        l, g = jax.value_and_grad(loss)(params, target, b)
        up, inner = tx.update(g, inner, params)
        params = optax.apply_updates(params, up)
        return params, (inner, optax.incremental_update(params["net"], target, 0.01)), l

    return Program(params, nth, grads, step, (tx.init(params), target0))


@program("gan", "unseen", depth=3)
def gan(depth):
    """DCGAN-like: transposed convolutions, one step of both nets by the non-saturating loss."""

    class Gen(nn.Module):
        @nn.compact
        def __call__(self, z):
            x = nn.relu(nn.Dense(4 * 4 * 64)(z)).reshape(-1, 4, 4, 64)
            for c in (32, 16):
                x = nn.relu(nn.GroupNorm(4)(nn.ConvTranspose(c, (4, 4), strides=(2, 2))(x)))
            return nn.tanh(nn.Conv(3, (3, 3))(x))

    class Disc(nn.Module):
        @nn.compact
        def __call__(self, x):
            for c in (16, 32, 64):
                x = nn.leaky_relu(nn.Conv(c, (4, 4), strides=(2, 2))(x), 0.2)
            x = x.reshape(x.shape[0], -1)
            for _ in range(depth):
                x = nn.leaky_relu(nn.Dense(64)(x), 0.2)
            return nn.Dense(1)(x)[:, 0]

    g, d = Gen(), Disc()
    nth = batches.keyed(batches.images(16))
    params = dict(
        g=g.init(jax.random.key(15), jnp.zeros((1, 32)))["params"],
        d=d.init(jax.random.key(16), nth(0)[0][0])["params"],
    )

    def grads(params, b):
        (x, _), key = b
        z = jax.random.normal(key, (x.shape[0], 32))

        def gl(gp):
            return jax.nn.softplus(
                -d.apply({"params": params["d"]}, g.apply({"params": gp}, z))
            ).mean()

        def dl(dp):
            fake = jax.lax.stop_gradient(g.apply({"params": params["g"]}, z))
            return (
                jax.nn.softplus(d.apply({"params": dp}, fake)).mean()
                + jax.nn.softplus(-d.apply({"params": dp}, x)).mean()
            )

        lg, gg = jax.value_and_grad(gl)(params["g"])
        ld, gd = jax.value_and_grad(dl)(params["d"])
        return lg + ld, dict(g=gg, d=gd)

    return Program.of_grads(params, nth, grads, optax.adam(2e-4, b1=0.5))


@program("swin", "unseen", depth=4)
def swin(depth):
    """Swin: shifted windows by roll, relative position biases, cosine attention with a learned temperature (v2)."""
    D, W, S, H = 64, 4, 8, 4
    n = jnp.arange(W)
    coords = jnp.stack(jnp.meshgrid(n, n, indexing="ij"), -1).reshape(-1, 2)
    rel = (coords[:, None] - coords[None]) + W - 1
    index = rel[..., 0] * (2 * W - 1) + rel[..., 1]

    class Attn(nn.Module):
        @nn.compact
        def __call__(self, x):
            B = x.shape[0]
            q, k, v = nn.Dense(3 * D)(x).reshape(B, W * W, 3, H, D // H).transpose(2, 0, 3, 1, 4)
            q, k = (t / (jnp.linalg.norm(t, axis=-1, keepdims=True) + 1e-6) for t in (q, k))
            tau = self.param("tau", nn.initializers.constant(jnp.log(10.0)), (H, 1, 1))
            bias = self.param(
                "bias", nn.initializers.truncated_normal(0.02), ((2 * W - 1) ** 2, H)
            )[index].transpose(2, 0, 1)
            s = q @ k.swapaxes(-1, -2) * jnp.exp(jnp.minimum(tau, jnp.log(100.0))) + bias
            return nn.Dense(D)((nn.softmax(s) @ v).transpose(0, 2, 1, 3).reshape(B, W * W, D))

    def part(x):
        B = x.shape[0]
        return (
            x.reshape(B, S // W, W, S // W, W, D).transpose(0, 1, 3, 2, 4, 5).reshape(-1, W * W, D)
        )

    def join(x, B):
        return x.reshape(B, S // W, S // W, W, W, D).transpose(0, 1, 3, 2, 4, 5).reshape(B, S, S, D)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images):
            B = images.shape[0]
            x = nn.LayerNorm()(nn.Conv(D, (2, 2), strides=(2, 2))(images))
            for i in range(depth):
                sh = W // 2 if i % 2 else 0
                y = jnp.roll(x, (-sh, -sh), (1, 2))
                y = jnp.roll(join(Attn()(part(y)), B), (sh, sh), (1, 2))
                x = x + nn.LayerNorm()(y)
                x = x + nn.LayerNorm()(nn.Dense(D)(nn.gelu(nn.Dense(4 * D)(x))))
            return nn.Dense(10)(nn.LayerNorm()(x).mean((1, 2)))

    model, nth = Net(), batches.images(8)
    params = model.init(jax.random.key(17), nth(0)[0])["params"]

    def loss(params, b):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.apply({"params": params}, b[0]), b[1]
        ).mean()

    return Program.of_loss(params, nth, loss, adamw(1e-3))
