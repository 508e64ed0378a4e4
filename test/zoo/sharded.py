"""Sharded steps: shard_map with every collective on a 2 by 2 mesh, and steps under constraints."""

from __future__ import annotations

import functools
from typing import Any

import batches
import jax
import jax.numpy as jnp
import llama
import optax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from program import Program, program

__all__ = ["sharded_llama", "sharded_map", "sharded_mlp"]

P = PartitionSpec
WIDTH, HIDDEN = 32, 64


def mesh() -> Mesh:
    """Returns the first four devices as a mesh of data by model."""
    kinds = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh((2, 2), ("data", "model"), kinds, devices=jax.devices()[:4])


def _weights(depth: int) -> Any:
    keys = jax.random.split(jax.random.key(10), 2 * depth)
    return [
        {
            "up": jax.random.normal(a, (WIDTH, HIDDEN)) / WIDTH**0.5,
            "down": jax.random.normal(b, (HIDDEN, WIDTH)) / HIDDEN**0.5,
        }
        for a, b in zip(keys[::2], keys[1::2], strict=True)
    ]


def _map_loss(params: Any, batch: Any) -> jax.Array:
    """One device's part: rows by data, hidden channels by model; a ring of rows between."""
    x, y = batch
    for p in params:
        up = jax.lax.all_gather(p["up"], "data", axis=0, tiled=True)
        hidden = jax.nn.relu(x @ up)
        turned = jax.lax.all_to_all(hidden, "model", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.lax.all_to_all(
            jnp.tanh(turned), "model", split_axis=1, concat_axis=0, tiled=True
        )
        part = jax.lax.psum_scatter(hidden @ p["down"], "model", scatter_dimension=1, tiled=True)
        x = x + jax.lax.all_gather(part, "model", axis=1, tiled=True)
        x = 0.5 * (x + jax.lax.ppermute(x, "data", [(0, 1), (1, 0)]))
    return jax.lax.pmean(jnp.mean((x[:, :8] - y) ** 2), ("data", "model"))


@program("sharded_map", "sharded", depth=2)
def sharded_map(depth: int) -> Program:
    """shard_map: gathers, all-to-alls, reduce-scatters, a ring and all-reduces."""
    weights = {"up": P("data", "model"), "down": P("model", None)}
    placed = jax.shard_map(
        _map_loss,
        mesh=mesh(),
        in_specs=([weights] * depth, (P("data"), P("data"))),
        out_specs=P(),
        check_vma=False,
    )
    return Program.of_loss(
        _weights(depth), batches.regression(16, WIDTH, 8), placed, optax.sgd(0.1), devices=4
    )


@program("sharded_mlp", "sharded", depth=2)
def sharded_mlp(depth: int) -> Program:
    """An MLP of data and tensor parallelism, said by constraints on activations."""
    grid = mesh()

    def loss(params: Any, batch: Any) -> jax.Array:
        x, y = batch
        for p in params:
            hidden = jax.lax.with_sharding_constraint(
                x @ p["up"], NamedSharding(grid, P("data", "model"))
            )
            x = x + jax.nn.gelu(hidden) @ p["down"]
            x = jax.lax.with_sharding_constraint(x, NamedSharding(grid, P("data", None)))
        return jnp.mean((x[:, :8] - y) ** 2)

    return Program.of_loss(
        _weights(depth), batches.regression(16, WIDTH, 8), loss, optax.adam(1e-3), devices=4
    )


@program("sharded_llama_data", "sharded", depth=2, weights=P(), stacked=False)
@program("sharded_llama_full", "sharded", depth=2, weights=P("data"), stacked=False)
@program("sharded_llama_scan", "sharded", depth=2, weights=P(None, "data"), stacked=True)
def sharded_llama(depth: int, weights: PartitionSpec, stacked: bool) -> Program:
    """A LLaMA whose batch is over the data axis; weights are replicated or sharded as well."""
    grid = mesh()

    def place(leaf: jax.Array) -> jax.Array:
        spec = weights if leaf.ndim >= len(weights) + 1 else P()
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(grid, spec))

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        tokens = jax.lax.with_sharding_constraint(tokens, NamedSharding(grid, P("data", None)))
        return llama.loss(jax.tree.map(place, params), tokens)

    return Program.of_loss(
        llama.draw(jax.random.key(11), depth, stacked),
        batches.text(8, 16),
        functools.partial(loss),
        devices=4,
    )
