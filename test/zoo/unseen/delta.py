"""Layers with a matrix for a state: the delta rule, gated linear attention, mLSTM, Mamba-2 by a scan.

Shapes use B batch, T sequence, H heads of K channels, D = H * K.
"""

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, adamw, program

D, H, V, T = 64, 4, 256, 64
K = D // H
CHUNK = 16


def unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def rms(x, gain):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def heads(x):
    return x.reshape(*x.shape[:2], H, K)


def over_time(step, carry, *xs):
    _, y = jax.lax.scan(step, carry, tuple(x.swapaxes(0, 1) for x in xs))
    return y.swapaxes(0, 1)


def delta_rule(h, p):
    """S <- S + beta k (v - S^T k)^T, one step a place (Yang et al. 2024)."""
    q, k = unit(jax.nn.silu(heads(h @ p["q"]))), unit(jax.nn.silu(heads(h @ p["k"])))
    v, beta = heads(h @ p["v"]), jax.nn.sigmoid(h @ p["beta"])

    def step(S, x):
        q, k, v, beta = x
        old = jnp.einsum("bhk,bhkv->bhv", k, S)
        S = S + jnp.einsum("bhk,bhv->bhkv", k, beta[..., None] * (v - old))
        return S, jnp.einsum("bhk,bhkv->bhv", q, S)

    y = over_time(step, jnp.zeros((h.shape[0], H, K, K)), q, k, v, beta)
    return rms(y, p["inner"]).reshape(h.shape) @ p["o"]


def gated(h, p):
    """S <- diag(a) S + k v^T, a gate for each channel (GLA, Yang et al. 2023), one step a place."""
    q, k, v = (heads(h @ p[n]) for n in "qkv")
    a = jnp.exp(jax.nn.log_sigmoid(heads(h @ p["down"] @ p["up"])) / 16)

    def step(S, x):
        q, k, v, a = x
        S = a[..., None] * S + k[..., :, None] * v[..., None, :]
        return S, jnp.einsum("bhk,bhkv->bhv", q * K**-0.5, S)

    y = over_time(step, jnp.zeros((h.shape[0], H, K, K)), q, k, v, a)
    y = rms(y, p["inner"]).reshape(h.shape)
    return (y * jax.nn.silu(h @ p["g"])) @ p["o"]


def gated_chunked(h, p):
    """The same in chunks: scores within a chunk, a state between chunks."""
    B = h.shape[0]
    q, k, v = (heads(h @ p[n]) for n in "qkv")
    log_a = jax.nn.log_sigmoid(heads(h @ p["down"] @ p["up"])) / 16
    chunk = lambda x: x.reshape(B, -1, CHUNK, H, K).transpose(1, 0, 3, 2, 4)
    causal = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))

    def step(S, x):
        q, k, v, log_a = x
        sums = jnp.cumsum(log_a, -2)
        query, key = q * jnp.exp(sums) * K**-0.5, k * jnp.exp(-sums)
        scores = jnp.where(causal, query @ key.swapaxes(-1, -2), 0)
        y = scores @ v + query @ S
        last = sums[..., -1:, :]
        S = jnp.exp(last).swapaxes(-1, -2) * S + (k * jnp.exp(last - sums)).swapaxes(-1, -2) @ v
        return S, y

    _, y = jax.lax.scan(step, jnp.zeros((B, H, K, K)), (chunk(q), chunk(k), chunk(v), chunk(log_a)))
    y = y.transpose(1, 0, 3, 2, 4).reshape(B, T, H, K)
    y = rms(y, p["inner"]).reshape(h.shape)
    return (y * jax.nn.silu(h @ p["g"])) @ p["o"]


def mlstm(h, p):
    """xLSTM's matrix memory with exponential gates and a running maximum (Beck et al. 2024)."""
    q, k, v = (heads(h @ p[n]) for n in "qkv")
    i, f = h @ p["i"], jax.nn.log_sigmoid(h @ p["f"] + 3.0)

    def step(carry, x):
        C, n, m = carry
        q, k, v, i, f = x
        top = jnp.maximum(f + m, i)
        keep, put = jnp.exp(f + m - top)[..., None], jnp.exp(i - top)[..., None]
        k = k * K**-0.5
        C = keep[..., None] * C + put[..., None] * v[..., :, None] * k[..., None, :]
        n = keep * n + put * k
        size = jnp.maximum(jnp.abs((n * q).sum(-1)), jnp.exp(-top))[..., None]
        return (C, n, top), jnp.einsum("bhvk,bhk->bhv", C, q) / size

    B = h.shape[0]
    zero = jnp.zeros((B, H, K, K)), jnp.zeros((B, H, K)), jnp.zeros((B, H))
    y = rms(over_time(step, zero, q, k, v, i, f), p["inner"]).reshape(h.shape)
    return (y * jax.nn.sigmoid(h @ p["g"])) @ p["o"]


def mlstm_parallel(h, p):
    """The same as one product of scores with decays: rows of both signs, and a norm."""
    q, k, v = (heads(h @ p[n]).transpose(0, 2, 1, 3) for n in "qkv")
    i, f = h @ p["i"], jax.nn.log_sigmoid(h @ p["f"] + 3.0)
    sums = jnp.cumsum(f, 1).swapaxes(1, 2)
    log_d = sums[..., :, None] - sums[..., None, :] + i.swapaxes(1, 2)[..., None, :]
    log_d = jnp.where(jnp.tril(jnp.ones((T, T), bool)), log_d, -jnp.inf)
    top = log_d.max(-1, keepdims=True)
    scores = q @ k.swapaxes(-1, -2) * K**-0.5 * jnp.exp(log_d - top)
    size = jnp.maximum(jnp.abs(scores.sum(-1, keepdims=True)), jnp.exp(-top))
    y = ((scores / size) @ v).transpose(0, 2, 1, 3)
    return (rms(y, p["inner"]).reshape(h.shape) * jax.nn.sigmoid(h @ p["g"])) @ p["o"]


def state_space(h, p):
    """Mamba-2's recurrence, one step a place, with its short convolution and gated norm."""
    z, x, b, c, dt = jnp.split(h @ p["in"], [D, 2 * D, 2 * D + K, 2 * D + 2 * K], -1)
    padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
    x = jax.nn.silu(sum(padded[:, i : i + T] * p["conv"][i] for i in range(4)))
    dt = jax.nn.softplus(dt + p["dt"])
    a = jnp.exp(-dt * jnp.exp(p["a"]))

    def step(S, args):
        x, b, c, a, dt = args
        S = a[..., None, None] * S + (dt[..., None] * x)[..., None] * b[:, None, None]
        return S, jnp.einsum("bhpn,bn->bhp", S, c)

    y = over_time(step, jnp.zeros((h.shape[0], H, K, K)), heads(x), b, c, a, dt)
    y = (y + p["skip"][:, None] * heads(x)).reshape(h.shape)
    return rms(y * jax.nn.silu(z), p["norm"]) @ p["o"]


@program("deltanet", "hard", depth=4, mix=delta_rule)
@program("gla_scan", "hard", depth=4, mix=gated)
@program("gla_chunked", "hard", depth=4, mix=gated_chunked)
@program("mlstm", "hard", depth=4, mix=mlstm)
@program("mlstm_parallel", "hard", depth=4, mix=mlstm_parallel)
@program("mamba2_scan", "hard", depth=4, mix=state_space)
def matrix_states(depth, mix):
    ks = iter(jax.random.split(jax.random.key(31), 20 * depth + 4))
    n = lambda i, o: jax.random.normal(next(ks), (i, o)) * i**-0.5

    def block():
        shared = dict(q=n(D, D), k=n(D, D), v=n(D, D), o=n(D, D), g=n(D, D))
        shared |= dict(beta=n(D, H), i=n(D, H), f=n(D, H), down=n(D, 8), up=n(8, D))
        shared |= {"in": n(D, 2 * D + 2 * K + H), "conv": 0.5 * n(4, D)}
        shared |= dict(inner=jnp.ones(K), norm=jnp.ones(D), skip=jnp.ones(H))
        shared |= dict(a=jnp.log(jnp.arange(1.0, H + 1)), dt=jnp.full(H, -2.0))
        used = {
            delta_rule: "q k v o beta inner",
            gated: "q k v o g down up inner",
            gated_chunked: "q k v o g down up inner",
            mlstm: "q k v o g i f inner",
            mlstm_parallel: "q k v o g i f inner",
            state_space: "in conv dt a skip norm o",
        }[mix].split()
        feed = dict(ln=jnp.ones(D), up=n(D, 4 * D), down=n(4 * D, D))
        return dict(ln=jnp.ones(D), mix={name: shared[name] for name in used}, feed=feed)

    params = dict(
        embed=0.02 * jax.random.normal(next(ks), (V, D)),
        ln=jnp.ones(D),
        head=n(D, V),
        blocks=[block() for _ in range(depth)],
    )

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]]
        for p in params["blocks"]:
            x = x + mix(rms(x, p["ln"]), p["mix"])
            x = x + jax.nn.gelu(rms(x, p["feed"]["ln"]) @ p["feed"]["up"]) @ p["feed"]["down"]
        logits = rms(x, params["ln"]) @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, batches.text(4, T), loss, adamw(1e-3))
