"""Training steps of optimisers and models that factor matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

__all__ = ["STEPS", "batches", "gaussian_process", "points", "start"]

WIDTHS = (24, 48, 32, 16)


def start() -> dict[str, Any]:
    """Returns weights of a network of three layers."""
    rng = np.random.default_rng(1)
    return {
        name: (rng.normal(size=(rows, cols)) / np.sqrt(rows)).astype(np.float32)
        for name, rows, cols in zip("abc", WIDTHS, WIDTHS[1:], strict=False)
    }


def batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns inputs and targets of a fixed function of them."""
    rng = np.random.default_rng(2)
    hidden = rng.normal(size=(WIDTHS[0], WIDTHS[-1])) / np.sqrt(WIDTHS[0])
    inputs = [rng.normal(size=(64, WIDTHS[0])) for _ in range(count)]
    return [(x.astype(np.float32), np.tanh(x @ hidden).astype(np.float32)) for x in inputs]


def hidden_values(params: Any, x: Any) -> tuple[Any, Any]:
    first = jax.nn.gelu(x @ params["a"])
    return first, jax.nn.gelu(first @ params["b"])


def loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((hidden_values(params, x)[1] @ params["c"] - y) ** 2)


def inverse_root(matrix: Any, root: int) -> Any:
    w, v = jnp.linalg.eigh(matrix + 1e-4 * jnp.eye(len(matrix)))
    return (v * jnp.maximum(w, 1e-6) ** (-1 / root)) @ v.T


def state_of(params: Any, make: Callable[[Any], Any]) -> Any:
    return {name: make(np.asarray(w)) for name, w in params.items()}


def shampoo(params: Any, state: Any, x: Any, y: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    for name, g in grads.items():
        left, right = state[name]
        left, right = 0.9 * left + 0.1 * g @ g.T, 0.9 * right + 0.1 * g.T @ g
        state = {**state, name: (left, right)}
        step = inverse_root(left, 4) @ g @ inverse_root(right, 4)
        step = step * jnp.linalg.norm(g) / jnp.linalg.norm(step)
        params = {**params, name: params[name] - 0.5 * step}
    return params, state, value


def soap(params: Any, state: Any, x: Any, y: Any) -> Any:
    """Adam in the eigenbasis of Shampoo's statistics, refined by a QR factorisation a step."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    for name, g in grads.items():
        left, right, ql, qr, moment, square = state[name]
        left, right = 0.9 * left + 0.1 * g @ g.T, 0.9 * right + 0.1 * g.T @ g
        rotated = ql.T @ g @ qr
        moment, square = 0.9 * moment + 0.1 * g, 0.95 * square + 0.05 * rotated**2
        step = ql @ ((ql.T @ moment @ qr) / (jnp.sqrt(square) + 1e-3)) @ qr.T
        ql, qr = jnp.linalg.qr(left @ ql)[0], jnp.linalg.qr(right @ qr)[0]
        state = {**state, name: (left, right, ql, qr, moment, square)}
        params = {**params, name: params[name] - 0.02 * step}
    return params, state, value


def muon(params: Any, state: Any, x: Any, y: Any, by_svd: bool = False) -> Any:
    """Steps along an orthonormal factor of the momentum."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    for name, g in grads.items():
        moment = 0.9 * state[name] + g
        tall = moment if moment.shape[0] >= moment.shape[1] else moment.T
        if by_svd:
            u, _, v = jnp.linalg.svd(tall, full_matrices=False)
            step = u @ v
        else:
            q, r = jnp.linalg.qr(tall)
            step = q * jnp.sign(jnp.diag(r))
        step = step if tall is moment else step.T
        state = {**state, name: moment}
        params = {**params, name: params[name] - 0.05 * step}
    return params, state, value


def kfac(params: Any, state: Any, x: Any, y: Any) -> Any:
    """Natural gradients by Kronecker factors, with solves by Cholesky factors."""
    first, second = hidden_values(params, x)
    value, grads = jax.value_and_grad(loss)(params, x, y)
    for name, inputs in (("a", x), ("b", first), ("c", second)):
        factor = 0.9 * state[name] + 0.1 * inputs.T @ inputs / len(x)
        state = {**state, name: factor}
        damped = factor + 0.1 * jnp.eye(len(factor))
        step = jsl.cho_solve((jsl.cholesky(damped, lower=True), True), grads[name])
        params = {**params, name: params[name] - 0.3 * step}
    return params, state, value


def zeros(w: np.ndarray) -> np.ndarray:
    return np.zeros_like(w)


def statistics(w: np.ndarray) -> tuple[np.ndarray, ...]:
    """Multiples of the identity, so that no statistic is singular."""
    return tuple(1e-4 * np.eye(side, dtype=np.float32) for side in w.shape)


def bases(w: np.ndarray) -> tuple[np.ndarray, ...]:
    eyes = tuple(np.eye(side, dtype=np.float32) for side in w.shape)
    return (*statistics(w), *eyes, zeros(w), zeros(w))


STEPS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "shampoo": (shampoo, lambda: state_of(start(), statistics)),
    "soap": (soap, lambda: state_of(start(), bases)),
    "muon by QR": (muon, lambda: state_of(start(), zeros)),
    "muon by SVD": (
        lambda *args: muon(*args, by_svd=True),
        lambda: state_of(start(), zeros),
    ),
    "kfac": (
        kfac,
        lambda: state_of(start(), lambda w: np.eye(len(w), dtype=np.float32)),
    ),
}


def points() -> tuple[np.ndarray, np.ndarray]:
    """Returns places and noisy values of a function there."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(40, 3)).astype(np.float32)
    return x, (np.sin(x.sum(1)) + 0.1 * rng.normal(size=40)).astype(np.float32)


def gaussian_process(params: Any, x: Any, y: Any) -> Any:
    """Descends on the negative log likelihood of a Gaussian process on learned features."""

    def negative(params: Any) -> Any:
        f = jnp.tanh(x @ params["w"]) / jnp.exp(params["length"])
        distance = jnp.sum((f[:, None] - f[None]) ** 2, -1)
        kernel = jnp.exp(params["height"] - 0.5 * distance)
        factor = jsl.cholesky(kernel + jnp.exp(params["noise"]) * jnp.eye(len(x)), lower=True)
        solved = jsl.solve_triangular(factor, y, lower=True)
        return (0.5 * jnp.sum(solved**2) + jnp.sum(jnp.log(jnp.diag(factor)))) / len(x)

    value, grads = jax.value_and_grad(negative)(params)
    return jax.tree.map(lambda p, g: p - 0.2 * g, params, grads), value
