"""Mixtures of experts, dispatched by one-hot einsums, by sorting, and by ragged dots.

Shapes use S tokens, D dim, E experts, F ffn, C capacity of an expert.
"""

from __future__ import annotations

import functools
from typing import Any

import batches
import jax
import jax.numpy as jnp
import optax
from program import Program, program

__all__ = ["moe"]

VOCAB, DIM, FFN, EXPERTS, CHOSEN, LENGTH = 256, 48, 64, 4, 2, 32


def draw(key: jax.Array, layers: int) -> Any:
    """Returns F32 parameters."""
    keys = iter(jax.random.split(key, 4 * layers + 3))

    def normal(*shape: int, deviation: float = 0.05) -> jax.Array:
        return deviation * jax.random.normal(next(keys), shape)

    return {
        "embed": normal(VOCAB, DIM, deviation=1.0),
        "layers": [
            {
                "mix": normal(DIM, DIM),
                "router": normal(DIM, EXPERTS),
                "up": normal(EXPERTS, DIM, FFN),
                "down": normal(EXPERTS, FFN, DIM),
            }
            for _ in range(layers)
        ],
        "head": normal(DIM, VOCAB),
        # Without it all tokens of one byte choose alike, and flip alike.
        "position": normal(LENGTH, DIM, deviation=1.0),
    }


def route(x: jax.Array, router: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the gates and experts of each token, [S, CHOSEN], and the balance loss."""
    probabilities = jax.nn.softmax(x @ router)
    gates, experts = jax.lax.top_k(probabilities, CHOSEN)
    gates = gates / gates.sum(-1, keepdims=True)
    share = jax.nn.one_hot(experts[:, 0], EXPERTS).mean(0)
    return gates, experts, EXPERTS * jnp.sum(share * probabilities.mean(0))


def by_einsum(x: jax.Array, p: Any, gates: jax.Array, experts: jax.Array) -> jax.Array:
    """Dispatches through one-hots [S, E, C]; tokens beyond the capacity are dropped."""
    capacity = 3 * x.shape[0] * CHOSEN // (2 * EXPERTS)
    chosen = jax.nn.one_hot(experts, EXPERTS, dtype=jnp.int32)
    order = chosen.reshape(-1, EXPERTS)
    place = (jnp.cumsum(order, axis=0) * order - 1).max(-1).reshape(experts.shape)
    slot = jax.nn.one_hot(place, capacity)
    combine = jnp.einsum("sk,ske,skc->sec", gates, chosen.astype(x.dtype), slot)
    dispatch = (combine > 0).astype(x.dtype)
    inner = jnp.einsum("sec,sd->ecd", dispatch, x)
    hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", inner, p["up"]))
    return jnp.einsum("sec,ecd->sd", combine, jnp.einsum("ecf,efd->ecd", hidden, p["down"]))


def by_sort(x: jax.Array, p: Any, gates: jax.Array, experts: jax.Array) -> jax.Array:
    """Sorts tokens by expert into bins of equal capacity."""
    capacity = 3 * x.shape[0] * CHOSEN // (2 * EXPERTS)
    flat = experts.reshape(-1)
    order = jnp.argsort(flat)
    token, expert = order // CHOSEN, flat[order]
    start = jnp.searchsorted(expert, jnp.arange(EXPERTS))
    place = jnp.arange(flat.size) - start[expert]
    bins = jnp.zeros((EXPERTS, capacity, DIM), x.dtype)
    bins = bins.at[expert, place].set(x[token], mode="drop")
    hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", bins, p["up"]))
    out = jnp.einsum("ecf,efd->ecd", hidden, p["down"])
    rows = out.at[expert, place].get(mode="fill", fill_value=0.0)
    weighted = rows * gates.reshape(-1)[order][:, None]
    return jnp.zeros_like(x).at[token].add(weighted)


def by_ragged_dot(x: jax.Array, p: Any, gates: jax.Array, experts: jax.Array) -> jax.Array:
    """Sorts tokens by expert and multiplies each group by its expert's matrix."""
    flat = experts.reshape(-1)
    order = jnp.argsort(flat)
    sizes = jnp.bincount(flat, length=EXPERTS).astype(jnp.int32)
    rows = x[order // CHOSEN]
    hidden = jax.nn.silu(jax.lax.ragged_dot(rows, p["up"], sizes))
    out = jax.lax.ragged_dot(hidden, p["down"], sizes) * gates.reshape(-1)[order][:, None]
    return jnp.zeros_like(x).at[order // CHOSEN].add(out)


DISPATCH = {"einsum": by_einsum, "sort": by_sort, "ragged": by_ragged_dot}


def loss(params: Any, tokens: jax.Array, kind: str) -> jax.Array:
    """Returns the mean cross entropy of the next byte and a little of the balance loss."""
    x = (params["embed"][tokens[:, :-1]] + params["position"]).reshape(-1, DIM)
    balance = jnp.zeros(())
    for p in params["layers"]:
        x = x + jnp.tanh(x @ p["mix"])
        normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        gates, experts, found = route(normal, p["router"])
        x = x + DISPATCH[kind](normal, p, gates, experts)
        balance = balance + found
    normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    losses = optax.softmax_cross_entropy_with_integer_labels(
        normal @ params["head"], tokens[:, 1:].reshape(-1)
    )
    return losses.mean() + 0.01 * balance


@program("moe_einsum", "moe", depth=6, kind="einsum")
@program("moe_sort", "moe", depth=6, kind="sort")
@program("moe_ragged", "moe", depth=6, kind="ragged")
@program("moe_ragged_cuda", "moe", depth=6, kind="ragged", platform="cuda")
def moe(depth: int, kind: str, platform: str = "cpu") -> Program:
    """A stack of mixtures of experts over bytes; SGD with momentum."""
    return Program.of_loss(
        draw(jax.random.key(8), depth),
        batches.text(4, LENGTH),
        functools.partial(loss, kind=kind),
        optax.sgd(0.1, momentum=0.9),
        platform=platform,
    )
