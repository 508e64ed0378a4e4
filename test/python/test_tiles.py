"""Batched products that run tile by tile: numbers, bits by threads, and memory."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

# Rows, query heads, key heads. The last has as many tiles as key heads, each of all its queries.
SHAPES = {"heads": (2, 8, 8), "one row": (1, 12, 12), "grouped": (2, 8, 4)}
LENGTH, WIDTH = 192, 32


def attend(q: Any, k: Any, v: Any, mask: str) -> Any:
    """Attention of grouped queries, [rows, length, heads, width]."""
    rows, length, heads, width = q.shape
    q = q.reshape(rows, length, k.shape[2], -1, width)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k) * width**-0.5
    if mask == "causal":
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
    elif mask == "added":
        scores = scores - 0.1 * jnp.abs(jnp.arange(length)[:, None] - jnp.arange(length))
    weights = jax.nn.softmax(scores)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(rows, length, heads, width)


def operands(name: str) -> list[np.ndarray]:
    """Queries, keys and values."""
    rows, heads, shared = SHAPES[name]
    random = np.random.default_rng(0)
    return [
        random.normal(size=(rows, LENGTH, count, WIDTH)).astype(np.float32)
        for count in (heads, shared, shared)
    ]


def step_of(mask: str) -> Any:
    """Returns a function of the loss and all gradients."""

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (attend(q, k, v, mask) ** 2).mean()

    return jax.value_and_grad(loss, (0, 1, 2))


def compiled(mask: str, name: str, recipe: str) -> scalify.Executable:
    exported = jax.export.export(jax.jit(step_of(mask)))(*operands(name))
    return scalify.compile(
        exported.mlir_module(), recipe=recipe, numerics=scalify.Numerics(scales="declared")
    )


# F32 sums 192 products in other orders. BF16 and FP8 (attention in BF16) round operands to 2^-9.
@pytest.mark.parametrize(("recipe", "bound"), [("none", 1e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize("mask", ["causal", "added", "none"])
@pytest.mark.parametrize("name", SHAPES)
def test_numbers(name: str, mask: str, recipe: str, bound: float) -> None:
    arguments = operands(name)
    step = compiled(mask, name, recipe)
    assert any("tiles" in command for command in step.manifest["functions"]["step"])
    ours, theirs = step(*arguments), jax.tree.leaves(jax.jit(step_of(mask))(*arguments))
    for mine, other in zip(jax.tree.leaves(ours), theirs, strict=True):
        error = np.linalg.norm(np.asarray(mine) - np.asarray(other))
        assert error <= bound * np.linalg.norm(np.asarray(other))


def test_no_scores_in_the_arena() -> None:
    """Neither the scores nor the weights are saved from the forward to the backward."""
    step = compiled("causal", "heads", "none")
    rows, heads, _ = SHAPES["heads"]
    assert step.manifest["arena_bytes"] < 4 * rows * heads * LENGTH * LENGTH
    assert 0 < step.manifest["tile_bytes"] < 5 * 4 * LENGTH * LENGTH
    repeated = [c for c in step.manifest["functions"]["step"] if c.get("tiles")]
    # The scores twice; their gradient; the result; and the three gradients.
    assert sum(command["op"] == "gemm" for command in repeated) == 7


@pytest.mark.parametrize("recipe", ["none", "fp8"])
def test_threads_change_no_bit(recipe: str, tmp_path: pathlib.Path) -> None:
    compiled("causal", "heads", recipe).save(tmp_path / "step.scalify")
    results = []
    for threads in (1, 2, 5):
        step = scalify.load(tmp_path / "step.scalify", threads=threads)
        results.append([np.asarray(x).tobytes() for x in jax.tree.leaves(step(*operands("heads")))])
    assert results[0] == results[1] == results[2]


def test_profile_has_each_command() -> None:
    step = compiled("causal", "heads", "none")
    step.profiling(True)
    step(*operands("heads"))
    rows = step.profile()
    assert len(rows) >= len(step.manifest["functions"]["step"])
    assert all(row["calls"] == 1 for row in rows if row["op"] == "gemm")
    assert all(row["nanoseconds"] > 0 for row in rows if row["op"] == "gemm")


def test_experts() -> None:
    """A chain of three batched products, of which none is an attention's."""
    random = np.random.default_rng(1)
    x, up, gate, down = (
        random.normal(size=size).astype(np.float32) / 8
        for size in [(8, 256, 64), (8, 64, 192), (8, 64, 192), (8, 192, 64)]
    )

    def mix(x: Any, up: Any, gate: Any, down: Any) -> Any:
        return (jax.nn.silu(x @ gate) * (x @ up)) @ down

    exported = jax.export.export(jax.jit(mix))(x, up, gate, down)
    step = scalify.compile(
        exported.mlir_module(), recipe="none", numerics=scalify.Numerics(scales="declared")
    )
    assert any("tiles" in command for command in step.manifest["functions"]["step"])
    ours = np.asarray(jax.tree.leaves(step(x, up, gate, down))[0])
    theirs = np.asarray(jax.jit(mix)(x, up, gate, down))
    assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


def layers(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Layers of grouped queries with one bias: a gradient is read across tiles of its group."""

    def loss(q: Any, k: Any, v: Any, bias: Any) -> Any:
        for _ in range(2):
            split = q.reshape(8, 128, 1, 2, 16)
            scores = jnp.einsum("bqkgd,bskd->bkgqs", split, k) + bias
            mixed = jnp.einsum("bkgqs,bskd->bqkgd", jax.nn.softmax(scores), v)
            q = q + 0.3 * mixed.reshape(q.shape)
        return (q**2).mean()

    return jax.value_and_grad(loss, (0, 1, 2, 3))(q, k, v, bias)


def over_queries(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """A softmax over queries: loops merge across the border of the tiles."""
    scores = jnp.einsum("bkgqd,bksd->bkgqs", q, k) + bias
    weights = jax.nn.softmax(scores, axis=-2)
    return jnp.einsum("bkgqs,bksd->bkgqd", weights, v)


def twice(y: Any, q: Any, k: Any, bias: Any) -> Any:
    """The same kernel with and without tiles."""
    first = jax.nn.softmax(y + bias)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q * first[..., :16], k)
    return first, scores, jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores + bias), k)


PROGRAMS = [
    (layers, [(8, 128, 2, 16), (8, 128, 1, 16), (8, 128, 1, 16), (8, 1, 2, 128, 128)]),
    (layers, [(8, 128, 2, 16), (8, 128, 1, 16), (8, 128, 1, 16), (1, 2, 128, 128)]),
    (over_queries, [(4, 2, 4, 96, 32), (4, 2, 96, 32), (4, 2, 96, 32), (2, 4, 96, 96)]),
    (twice, [(64, 8, 32, 32), (64, 8, 32, 16), (64, 8, 32, 16), (8, 32, 32)]),
]


@pytest.mark.parametrize(("program", "shapes"), PROGRAMS)
def test_programs(program: Any, shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(0)
    arguments = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    exported = jax.export.export(jax.jit(program))(*arguments)
    step = scalify.compile(
        exported.mlir_module(), recipe="none", numerics=scalify.Numerics(scales="declared")
    )
    ours, theirs = step(*arguments), jax.tree.leaves(jax.jit(program)(*arguments))
    for mine, other in zip(jax.tree.leaves(ours), theirs, strict=True):
        error = np.linalg.norm(np.asarray(mine) - np.asarray(other))
        assert error <= 1e-5 * np.linalg.norm(np.asarray(other))
