"""One process that simulates all ranks of a mesh."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import partition_programs
import pytest
import test_ranks
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import scalify
from scalify.mesh import layout_of
from scalify.partition import partition

P = PartitionSpec


@pytest.mark.parametrize("name", ["llama_tensor", "scanned", "mapped", "moved", "uneven"])
def test_all_ranks_make_the_whole(name: str) -> None:
    program = partition_programs.PROGRAMS[name]()
    local = partition(partition_programs.lower(program))
    simulated = scalify.compile(local.text, simulate_ranks=local.devices)
    args = [np.asarray(arg) for arg in jax.tree.leaves(program.args)]
    with jax.set_mesh(program.mesh()):
        wanted = jax.tree.leaves(jax.jit(program.fn)(*program.args))
    results = simulated(*args)
    for result, want in zip(jax.tree.leaves(results), wanted, strict=True):
        assert result.shape == want.shape
        # Sums go in another order, over several devices: a few roundings of F32 at the
        # largest element, more after AdamW's quotient.
        bound = 2e-5 * max(np.max(np.abs(want), initial=0), 1e-6)
        np.testing.assert_allclose(np.asarray(result), want, rtol=0, atol=bound)


def test_what_cannot_be_simulated() -> None:
    text = jax.jit(lambda x: x + 1).lower(np.float32(1)).as_text()
    with pytest.raises(scalify.CompileError, match=r"no mesh.*scalify\.partition"):
        scalify.compile(text, simulate_ranks=True)
    local = partition(partition_programs.lower(partition_programs.mapped()))
    with pytest.raises(scalify.CompileError, match="a mesh of 8 devices, and 4 ranks"):
        scalify.compile(local.text, simulate_ranks=4)
    with pytest.raises(ValueError, match="'simulateRanks' must be a number"):
        scalify.compile(local.text, simulate_ranks=-1)


def sharded(fn: Any, args: Any, specs: Any, out: Any, ranks: int, zero: int = 0) -> str:
    """Returns the program of one device of a mesh with one axis, of devices that do not exist.

    With `zero` the first argument is donated state.
    """
    mesh = AbstractMesh((ranks,), ("data",))
    placed, outs = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec),
        (specs, out),
        is_leaf=lambda leaf: isinstance(leaf, PartitionSpec),
    )
    donated = 0 if zero else ()
    jitted = jax.jit(fn, in_shardings=placed, out_shardings=outs, donate_argnums=donated)
    lowered = jitted.trace(*args).lower(lowering_platforms=("cpu",))
    return partition(lowered.as_text(debug_info=True), zero=zero).text


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_collectives_in_the_order_of_ranks(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(scale=9, size=(4, 8, 21)).astype(dtype) for _ in range(2))
    mesh = AbstractMesh((4,), ("data",))

    def part(x: Any, w: Any) -> Any:
        y = x * w
        scattered = jax.lax.psum_scatter(y, "data", scatter_dimension=1, tiled=True)
        turned = jax.lax.all_to_all(y, "data", split_axis=1, concat_axis=2, tiled=True)
        moved = jax.lax.ppermute(y, "data", [(0, 2), (2, 1)])
        return jax.lax.psum(y, "data"), scattered, turned, moved

    outs = (P(), P(None, "data"), P("data"), P("data"))
    fn = jax.shard_map(part, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=outs)
    text = sharded(fn, (x, w), (P("data"), P("data")), outs, 4)
    total, scattered, turned, moved = scalify.compile(text, simulate_ranks=4)(x, w)
    # Products are rounded before they are summed, in F32 and from the first rank on.
    parts = x * w
    wide = parts.astype(np.float32)
    want = (((wide[0] + wide[1]) + wide[2]) + wide[3]).astype(dtype)[None]
    for got, exact in [
        (total, want),
        (scattered, want),
        (turned, np.concatenate(np.split(parts, 4, axis=1)).reshape(4, 4, 2, 21)),
        (moved, np.stack([0 * parts[0], parts[2], parts[0], 0 * parts[0]])),
    ]:
        if got is turned:
            # Rank r has the rows r of all ranks, side by side.
            exact = exact.transpose(0, 2, 1, 3).reshape(4, 2, 84)
        np.testing.assert_array_equal(np.asarray(got), exact)


def test_a_sum_reads_what_ranks_have_rounded() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(2, 33)).astype(np.float32) for _ in range(2))
    text = sharded(lambda x, w: jnp.sum(x * w, 0), (x, w), (P("data"), P("data")), P(), 2)
    (got,) = scalify.compile(text, simulate_ranks=2)(x, w)
    np.testing.assert_array_equal(np.asarray(got), x[0] * w[0] + x[1] * w[1])


@jax.custom_vjp
def matmul(x: Any, w: Any) -> Any:
    return x @ w


def matmul_gradients(saved: Any, dy: Any) -> Any:
    # JAX has the transpose of w's, which a BLAS may sum in another order.
    x, w = saved
    rows = tuple(range(x.ndim - 1))
    return dy @ w.T, jax.lax.dot_general(x, dy, ((rows, rows), ((), ())))


matmul.defvjp(lambda x, w: (x @ w, (x, w)), matmul_gradients)


def loss(params: Any, tokens: Any) -> Any:
    x = params["embed"][tokens[:, :-1]]
    normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * params["norm"]
    x = x + matmul(jax.nn.gelu(matmul(normal, params["up"])), params["down"]) + params["bias"]
    logits = matmul(x, params["head"])
    right = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return jnp.sum(jax.nn.logsumexp(logits, -1) - right)


def update(params: Any, gradients: Any) -> Any:
    """SGD with clipping by the global norm."""
    norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(gradients)))
    factor = 0.1 * jnp.minimum(1.0, 0.01 / norm)
    return jax.tree.map(lambda w, g: w - factor * g, params, gradients)


# With ZeRO ranks sum shares of what they clip by, and 6 ranks fill them up.
@pytest.mark.parametrize(
    ("recipe", "zero", "ranks"),
    [("none", 0, 4), ("fp8", 0, 4), ("fp8-current", 0, 4), ("none", 1, 4), ("fp8", 1, 6)],
)
def test_a_step_has_the_bits_of_micro_batches_in_the_order_of_ranks(
    recipe: str, zero: int, ranks: int
) -> None:
    count = 12 * 7
    shapes = {
        "bias": (40,),
        "down": (72, 40),
        "embed": (50, 40),
        "head": (40, 50),
        "norm": (40,),
        "up": (40, 72),
    }
    rng = np.random.default_rng(0)
    params = {
        name: rng.normal(size=shape).astype("f4") / np.float32(shape[0] ** 0.5)
        for name, shape in shapes.items()
    }
    tokens = rng.integers(0, 50, (12, 8), dtype=np.int32)

    def step(params: Any, tokens: Any) -> Any:
        total, gradients = jax.value_and_grad(lambda *a: loss(*a) / count)(params, tokens)
        return update(params, gradients), total

    def by_hand(params: Any, tokens: Any) -> Any:
        parts = [
            jax.value_and_grad(lambda p, t: loss(p, t) / count)(params, piece)
            for piece in jnp.split(tokens, ranks)
        ]
        total, gradients = parts[0]
        for part, more in parts[1:]:
            total, gradients = total + part, jax.tree.map(jnp.add, gradients, more)
        return update(params, gradients), total

    whole = jax.tree.map(lambda _: P(), params)
    text = sharded(step, (params, tokens), (whole, P("data")), (whole, P()), ranks, zero)
    hand = scalify.compile(jax.jit(by_hand).lower(params, tokens).as_text(), recipe)
    simulated = scalify.compile(text, recipe, simulate_ranks=ranks)
    state = [*jax.tree.leaves(params), tokens]
    for _ in range(3):
        got, want = (jax.tree.leaves(exe(*state)) for exe in (simulated, hand))
        # The loss is divided behind its sum in one, before it in the other.
        np.testing.assert_allclose(got[-1], want[-1], rtol=1e-6)
        for ours, theirs in zip(got[:-1], want[:-1], strict=True):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
        state = [*map(np.array, got[:-1]), tokens]


@pytest.mark.parametrize(("name", "recipe"), [("scanned", "none"), ("mapped", "fp8")])
def test_ranks_have_the_bits_of_the_simulation(name: str, recipe: str) -> None:
    program = partition_programs.PROGRAMS[name]()
    executable, artefact = test_ranks.artefact_of(program, recipe)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(program.args)]
    parts = test_ranks.run_ranks(artefact, test_ranks.parts_of(executable, leaves, 8))
    text = partition(partition_programs.lower(program)).text
    wholes = scalify.compile(text, recipe, simulate_ranks=8)(*leaves)
    # Behind them are the scales that the executable keeps.
    entries = executable.manifest["results"][: len(parts)]
    for whole, ranks, entry in zip(wholes, parts, entries, strict=True):
        place = layout_of(entry)
        for rank, part in enumerate(ranks):
            want = np.asarray(whole)[place.place(rank)] if place else np.asarray(whole)
            np.testing.assert_array_equal(part, want)
