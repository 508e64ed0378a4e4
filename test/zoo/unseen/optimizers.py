"""A small transformer under optimizers that are not Adam: Muon, Sophia, Shampoo, SOAP, schedule-free, Prodigy, Adan, SAM, gradient EMA."""

import batches
import jax
import jax.numpy as jnp
import lora as m
import optax
import optax.contrib
from program import Program, program


def newton_root(a, p, steps=10):
    """A^(-1/p) by the coupled Newton iteration (Distributed Shampoo)."""
    n = a.shape[0]
    i = jnp.eye(n)

    def power_iter():
        def body(_, v):
            w = a @ v
            return w / (jnp.linalg.norm(w) + 1e-30)

        v = jax.lax.fori_loop(0, 20, body, jnp.ones(n) / n**0.5)
        return v @ (a @ v)

    lam = power_iter()
    a = a + 1e-6 * lam * i
    z = (1 + p) / (2 * jnp.linalg.norm(a))

    def cond(c):
        k, _, _, err = c
        return (k < 40) & (err > 1e-6)

    def body(c):
        k, x, mm, _ = c
        t = ((p + 1) * i - mm) / p
        mm = jnp.linalg.matrix_power(t, p) @ mm
        return k + 1, x @ t, mm, jnp.max(jnp.abs(mm - i))

    _, x, _, _ = jax.lax.while_loop(cond, body, (0, i * z ** (1 / p), a * z, jnp.float32(1e3)))
    return x


def shampoo(rate, root):
    def init(params):
        return jax.tree.map(
            lambda p: (
                (jnp.zeros((p.shape[0],) * 2), jnp.zeros((p.shape[1],) * 2), jnp.zeros_like(p))
                if p.ndim == 2
                else jnp.zeros_like(p)
            ),
            params,
        )

    def one(g, s):
        if g.ndim != 2:
            s = s + g * g
            return -rate * g / (jnp.sqrt(s) + 1e-8), s
        l, r, mom = s
        l, r = 0.95 * l + g @ g.T, 0.95 * r + g.T @ g
        u = root(l + 1e-6 * jnp.eye(l.shape[0]), 4) @ g @ root(r + 1e-6 * jnp.eye(r.shape[0]), 4)
        u = u * jnp.linalg.norm(g) / (jnp.linalg.norm(u) + 1e-8)
        mom = 0.9 * mom + u
        return -rate * mom, (l, r, mom)

    def update(g, state, params=None):
        flat, tree = jax.tree.flatten(g)
        out = [one(x, s) for x, s in zip(flat, tree.flatten_up_to(state))]
        return tree.unflatten([o[0] for o in out]), tree.unflatten([o[1] for o in out])

    return optax.GradientTransformation(init, update)


OPT = dict(
    muon=lambda: optax.contrib.muon(2e-3),
    schedule_free=lambda: optax.contrib.schedule_free_adamw(2e-3, warmup_steps=10),
    prodigy=lambda: optax.contrib.prodigy(1.0),
    adan=lambda: optax.adan(1e-3),
    ademamix=lambda: optax.contrib.ademamix(1e-3),
    shampoo_newton=lambda: shampoo(0.05, newton_root),
    cocob=lambda: optax.contrib.cocob(),
    lookahead=None,
    sm3=lambda: optax.sm3(0.01),
    novograd=lambda: optax.novograd(1e-3),
    yogi=lambda: optax.yogi(1e-3),
    radam=lambda: optax.radam(1e-3),
    noisy=lambda: optax.noisy_sgd(1e-2, seed=0),
    multisteps=lambda: optax.MultiSteps(optax.adamw(1e-3), 2).gradient_transformation(),
    skip=lambda: optax.apply_if_finite(optax.adamw(1e-3), 3),
    # Curvature from differences of batches is noisy: a step is bounded.
    lbfgs_like=lambda: optax.chain(
        optax.scale_by_lbfgs(), optax.clip_by_global_norm(0.3), optax.scale(-1.0)
    ),
    rprop=lambda: optax.rprop(1e-3),
    dowg=lambda: optax.contrib.dowg(),
    plateau=lambda: optax.adam(1e-3),
)


def maker(depth, optimizer):
    params = m.init(jax.random.key(15), depth)["base"]
    empty = [{} for _ in range(depth)]

    def loss(params, tokens):
        logits = m.apply(empty, params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    tx = OPT[optimizer]()
    return Program.of_loss(params, batches.text(8, 32), loss, tx)


for name in OPT:
    if OPT[name]:
        program(f"opt_{name}", "optimizers", depth=2, optimizer=name)(maker)


@program("opt_sophia_h", "optimizers", depth=2)
def sophia_h(depth):
    """Sophia-H by hand: Hutchinson's estimate of the Hessian's diagonal, a second derivative in the step."""
    params = m.init(jax.random.key(16), depth)["base"]
    empty = [{} for _ in range(depth)]
    nth = batches.keyed(batches.text(8, 32))

    def loss(params, tokens):
        logits = m.apply(empty, params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def grads(params, batch):
        return jax.value_and_grad(loss)(params, batch[0])

    def step(params, state, batch):
        mom, h, count = state
        tokens, key = batch
        l, g = jax.value_and_grad(loss)(params, tokens)

        def estimate(h):
            leaves, tree = jax.tree.flatten(params)
            u = tree.unflatten(
                [
                    jax.random.rademacher(k, x.shape, x.dtype)
                    for k, x in zip(jax.random.split(key, len(leaves)), leaves)
                ]
            )
            hvp = jax.jvp(jax.grad(lambda p: loss(p, tokens)), (params,), (u,))[1]
            return jax.tree.map(lambda h, u, v: 0.99 * h + 0.01 * u * v, h, u, hvp)

        h = jax.lax.cond(count % 10 == 0, estimate, lambda h: h, h)
        mom = jax.tree.map(lambda a, b: 0.96 * a + 0.04 * b, mom, g)
        params = jax.tree.map(
            lambda p, a, h: (
                p - 1e-3 * (0.1 * p + jnp.clip(a / jnp.maximum(0.01 * h, 1e-12), -1, 1))
            ),
            params,
            mom,
            h,
        )
        return params, (mom, h, count + 1), l

    zero = jax.tree.map(jnp.zeros_like, params)
    return Program(params, nth, grads, step, (zero, zero, jnp.zeros((), jnp.int32)))
