"""Functions of coordinates: SIREN, and networks that satisfy a differential equation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from program import Program, program


@program("siren", "hard", depth=5)
def siren(depth):
    """A picture as a network of sines (Sitzmann et al. 2020), omega 30."""
    W, omega = 128, 30.0
    sizes = [2] + [W] * (depth - 1) + [1]
    ks = jax.random.split(jax.random.key(51), depth)

    def draw(index, i, o):
        limit = 1 / i if index == 0 else (6 / i) ** 0.5 / omega
        a, b = jax.random.split(ks[index])
        return dict(
            w=jax.random.uniform(a, (i, o), minval=-limit, maxval=limit),
            b=jax.random.uniform(b, (o,), minval=-(i**-0.5), maxval=i**-0.5),
        )

    params = [draw(n, i, o) for n, (i, o) in enumerate(zip(sizes[:-1], sizes[1:]))]

    def nth(i):
        x = np.random.default_rng(i).uniform(-1, 1, (512, 2)).astype(np.float32)
        y = np.sin(8 * x[:, :1]) * np.cos(5 * x[:, 1:]) + (np.hypot(x[:, :1], x[:, 1:]) < 0.5)
        return x, y.astype(np.float32)

    def loss(params, batch):
        x, y = batch
        for p in params[:-1]:
            x = jnp.sin(omega * (x @ p["w"] + p["b"]))
        return jnp.mean((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2)

    return Program.of_loss(params, nth, loss, optax.adam(1e-4))


def draw_tanh(key, sizes):
    ks = jax.random.split(key, len(sizes))
    return [
        dict(w=jax.random.normal(k, (i, o)) * (2 / (i + o)) ** 0.5, b=jnp.zeros(o))
        for k, i, o in zip(ks, sizes[:-1], sizes[1:])
    ]


def network(params, x):
    for p in params[:-1]:
        x = jnp.tanh(x @ p["w"] + p["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


@program("pinn_poisson", "hard", depth=4)
def poisson(depth):
    """u_xx + u_yy = f with zero borders; the second derivatives by nested jax.jvp."""
    params = draw_tanh(jax.random.key(52), [2] + [64] * (depth - 1) + [1])

    def nth(i):
        rng = np.random.default_rng(i)
        inner = rng.uniform(0, 1, (256, 2)).astype(np.float32)
        border = rng.uniform(0, 1, (64, 2)).astype(np.float32)
        border[np.arange(64), np.arange(64) % 2] = np.arange(64) // 2 % 2
        return inner, border

    def loss(params, batch):
        inner, border = batch
        u = lambda x: network(params, x)[:, 0]

        def second(axis):
            v = jnp.zeros_like(inner).at[:, axis].set(1.0)
            first = lambda x: jax.jvp(u, (x,), (v,))[1]
            return jax.jvp(first, (inner,), (v,))[1]

        f = -2 * jnp.pi**2 * jnp.sin(jnp.pi * inner[:, 0]) * jnp.sin(jnp.pi * inner[:, 1])
        return jnp.mean((second(0) + second(1) - f) ** 2) + 10 * jnp.mean(u(border) ** 2)

    return Program.of_loss(params, nth, loss, optax.adam(1e-3))


@program("pinn_burgers", "hard", depth=5)
def burgers(depth):
    """u_t + u u_x = nu u_xx (Raissi et al. 2019), jvp of jvp under vmap."""
    params = draw_tanh(jax.random.key(53), [2] + [64] * (depth - 1) + [1])

    def nth(i):
        rng = np.random.default_rng(i)
        return tuple(
            rng.uniform(low, high, (n, 2)).astype(np.float32)
            for n, low, high in ((256, [-1, 0], [1, 1]), (64, [-1, 0], [1, 0]))
        )

    def loss(params, batch):
        inner, start = batch
        u = lambda x, t: network(params, jnp.stack([x, t]))[0]

        def residual(point):
            x, t = point
            u_x = lambda x: jax.jvp(lambda x: u(x, t), (x,), (1.0,))[1]
            first, second = jax.jvp(u_x, (x,), (1.0,))
            u_t = jax.jvp(lambda t: u(x, t), (t,), (1.0,))[1]
            return u_t + u(x, t) * first - 0.01 / jnp.pi * second

        begin = jax.vmap(lambda p: u(p[0], p[1]))(start) + jnp.sin(jnp.pi * start[:, 0])
        return jnp.mean(jax.vmap(residual)(inner) ** 2) + jnp.mean(begin**2)

    return Program.of_loss(params, nth, loss, optax.adam(1e-3))
