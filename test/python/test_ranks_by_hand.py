"""A LLaMA on ranks against one process that is written by hand, without a mesh.

Micro-batches' gradients are summed by NumPy in the order of ranks, and what ranks exchange in FP8
or BF16 is rounded by ml_dtypes; only the gradient of one micro-batch and the optimizer's update are
compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import partition_programs
import pytest
from jax.sharding import NamedSharding
from partition_programs import P
from rank_steps import train_on_ranks

from scalify import compile as compiled
from scalify._executable import build
from scalify.partition import partition
from scalify.recipe import Recipe, RecipeLike

model = partition_programs.model
Columns = Callable[[Any, Any], tuple[Any, ...]]
Rows = Callable[[tuple[Any, ...], Any], Any]
ROWS, SEQ, STEPS = 2, 16, 20
ADAM = optax.adamw(1e-2)
# By a norm of all gradients, of which ranks have shares; so low a limit that it is always above.
CLIPPED = optax.chain(optax.clip_by_global_norm(0.1), ADAM)


@jax.custom_vjp
def matmul(x: Any, w: Any) -> Any:
    """Returns the product of an activation and an F32 weight."""
    return x @ w.astype(x.dtype)


def matmul_gradients(saved: Any, dy: Any) -> Any:
    # JAX has the transpose of w's, which a BLAS may sum in another order where it is wanted so.
    x, w = saved
    rows = (tuple(range(x.ndim - 1)),) * 2
    dw = jax.lax.dot_general(x, dy, (rows, ((), ())), preferred_element_type=jnp.float32)
    return dy @ w.astype(x.dtype).T, dw


matmul.defvjp(lambda x, w: (matmul(x, w), (x, w)), matmul_gradients)


def columns(x: Any, w: Any) -> tuple[Any, ...]:
    """`x @ w` as computed by ranks that have columns of `w`; here one rank has all."""
    return (matmul(x, w),)


def rows(parts: tuple[Any, ...], w: Any) -> Any:
    """The product of their parts with `w`, of which each rank has the matching rows."""
    return matmul(*parts, w)


@jax.custom_vjp
def columns_in_halves(x: Any, w: Any) -> tuple[Any, ...]:
    """The same of two ranks."""
    return tuple(matmul(x, half) for half in jnp.split(w, 2, axis=1))


def columns_in_halves_gradients(saved: Any, dy: Any) -> Any:
    # What JAX would make sums the parts of all products of `x` one after the other, where ranks
    # sum those of one product first.
    x, w = saved
    halves = zip(jnp.split(w, 2, axis=1), dy, strict=True)
    (dx, dw), (more, other) = [matmul_gradients((x, half), part) for half, part in halves]
    return dx + more, jnp.concatenate([dw, other], 1)


columns_in_halves.defvjp(
    lambda x, w: (columns_in_halves(x, w), (x, w)), columns_in_halves_gradients
)


def rows_in_halves(parts: tuple[Any, ...], w: Any) -> Any:
    """The same of two ranks."""
    one, other = map(matmul, parts, jnp.split(w, 2))
    return one + other


def mix(q: Any, k: Any, v: Any, cfg: Any) -> Any:
    """Causal attention of the query groups of some key heads."""
    tables = model.rope_tables(cfg, q.shape[1])
    kind = (*k.shape[:2], -1, cfg.head_dim)
    k, v = model.rope(k.reshape(kind), *tables), v.reshape(kind)
    grouped = (*k.shape[:3], -1, cfg.head_dim)
    grouped = model.rope(q.reshape(kind), *tables).reshape(grouped)
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, k).astype(jnp.float32)
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(seen, scores * cfg.head_dim**-0.5, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(q.shape)


def attention(x: Any, layer: Any, cfg: Any, columns: Columns, rows: Rows) -> Any:
    """The example's causal grouped-query attention, with each rank's heads apart."""
    found = [columns(x, layer[name]) for name in ("wq", "wk", "wv")]
    return rows(tuple(mix(*one, cfg) for one in zip(*found, strict=True)), layer["wo"])


def loss(
    params: Any,
    batch: Any,
    cfg: Any,
    count: int,
    columns: Columns = columns,
    rows: Rows = rows,
) -> Any:
    """The sum of the tokens' cross entropies over `count`, a power of two: it divides exactly."""
    x = params["embed"][batch[:, :-1]].astype(cfg.dtype)
    for layer in params["layers"]:
        normal = model.rms_norm(x, layer["attention_norm"], cfg.norm_eps)
        x = x + attention(normal, layer, cfg, columns, rows)
        normal = model.rms_norm(x, layer["ffn_norm"], cfg.norm_eps)
        gate, up = (columns(normal, layer[name]) for name in ("w_gate", "w_up"))
        parts = (jax.nn.silu(one) * other for one, other in zip(gate, up, strict=True))
        x = x + rows(tuple(parts), layer["w_down"])
    x = model.rms_norm(x, params["final_norm"], cfg.norm_eps)
    logits = matmul(x, params["head"]).astype(jnp.float32)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:])
    return jnp.sum(losses) / count


@functools.cache
def setup(dtype: str, optimizer: optax.GradientTransformation = ADAM) -> tuple[Any, Any, Any]:
    """Returns sizes, parameters and moments."""
    cfg = partition_programs.config.ModelConfig(
        layers=2, seq=SEQ, vocab=64, dim=32, ffn=64, dtype=dtype
    )
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    params = jax.tree.map(
        lambda leaf: (rng.normal(size=leaf.shape) * leaf.shape[0] ** -0.5).astype(leaf.dtype),
        shapes,
    )
    state = jax.tree.map(np.asarray, optimizer.init(params))
    return cfg, params, state


def update(grads: Any, state: Any, params: Any, optimizer: Any = ADAM) -> Any:
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state


def on_ranks(
    axes: dict[str, int],
    recipe: RecipeLike,
    zero: int,
    dtype: str,
    batches: list[Any],
    optimizer: optax.GradientTransformation = ADAM,
) -> tuple[list[Any], list[float], dict[str, int]]:
    """Returns whole state, losses and collectives of ranks that are partitioned by shardings."""
    cfg, params, state = setup(dtype, optimizer)
    count = batches[0].shape[0] * SEQ

    def step(params: Any, state: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch, cfg, count)
        return *update(grads, state, params, optimizer), value

    def spec(path: Any, leaf: Any) -> P:
        name = jax.tree_util.keystr(path)
        if "tensor" not in axes or "layers" not in name or np.ndim(leaf) != 2:
            return P()
        is_row = "wo" in name or "w_down" in name
        return P("tensor") if is_row else P(None, "tensor")

    mesh = partition_programs.mesh_of(axes)
    specs = jax.tree_util.tree_map_with_path(spec, (params, state))
    placed = jax.tree.map(
        lambda one: NamedSharding(mesh, one), specs, is_leaf=partition_programs.is_spec
    )
    rows = NamedSharding(mesh, P("data") if "data" in axes else P())
    jitted = jax.jit(
        step,
        in_shardings=(*placed, rows),
        out_shardings=(*placed, NamedSharding(mesh, P())),
        donate_argnums=(0, 1),
    )
    with jax.set_mesh(mesh):
        text = jitted.lower(params, state, batches[0]).as_text(debug_info=True)
    local = partition(text, zero=zero)
    options = {"recipe": str(recipe), "packState": False, "bucketBytes": 20_000}
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((params, state))]
    return train_on_ranks(build(local.text, options)[0], local.devices, leaves, batches)


def in_order(parts: list[np.ndarray]) -> np.ndarray:
    """Returns ((r0 + r1) + r2) + ..."""
    return functools.reduce(np.add, parts)


def over_fp8(parts: list[np.ndarray], kind: Any) -> np.ndarray:
    """The same where each part goes in FP8, all by one scale.

    It is the smallest power of two by which the largest magnitude of all fits the format.
    """
    largest = max(float(np.abs(part).max()) for part in parts)
    scale = np.float32(2.0 ** np.ceil(np.log2(largest / float(ml_dtypes.finfo(kind).max))))
    wire = [(part / scale).astype(kind).astype(np.float32) for part in parts]
    return in_order(wire) * scale


def over_bf16(parts: list[np.ndarray]) -> np.ndarray:
    """The same where each part goes in BF16, by itself."""
    return in_order([part.astype(ml_dtypes.bfloat16).astype(np.float32) for part in parts])


def by_hand(
    micro: int,
    recipe: RecipeLike,
    dtype: str,
    batches: list[Any],
    total: Callable[[str, list[np.ndarray]], np.ndarray],
    products: tuple[Columns, Rows] = (columns, rows),
) -> tuple[list[Any], list[float]]:
    """Returns state and losses of one process; `total` sums the parts of a named gradient."""
    cfg, params, state = setup(dtype)
    count = batches[0].shape[0] * SEQ
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]

    def gradient(params: Any, batch: Any) -> Any:
        return jax.value_and_grad(loss)(params, batch, cfg, count, *products)

    first = jax.jit(gradient).lower(params, batches[0][: len(batches[0]) // micro])
    second = jax.jit(update).lower(params, state, params)
    of_part, of_sums = compiled(first.as_text(), recipe), compiled(second.as_text(), "none")
    tree = jax.tree.structure((params, state))
    losses = []
    for batch in batches:
        leaves = jax.tree.leaves(params)
        found = [of_part(*leaves, part) for part in np.split(batch, micro)]
        parts = [[np.array(one) for one in results] for results in zip(*found, strict=True)]
        losses.append(in_order(parts[0]).item())
        sums = [total(*one) for one in zip(names, parts[1:], strict=True)]
        flat = of_sums(*sums, *jax.tree.leaves((state, params)))
        params, state = jax.tree.unflatten(tree, [np.array(one) for one in flat])
    return jax.tree.leaves((params, state)), losses


def batches_of(rows: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, 64, (rows, SEQ + 1), dtype=np.int32) for _ in range(STEPS)]


def check(got: tuple[list[Any], list[float], Any], want: tuple[list[Any], list[float]]) -> None:
    assert got[1] == want[1]
    assert len(set(got[1])) == STEPS
    for ours, theirs in zip(got[0], want[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


NONE = Recipe.preset("none").replace(scales="current")
WIRES: dict[str, tuple[Recipe, Callable[[list[np.ndarray]], np.ndarray]]] = {
    "f8E5M2": (
        NONE.replace(gradient_wire="f8E5M2"),
        functools.partial(over_fp8, kind=ml_dtypes.float8_e5m2),
    ),
    "f8E4M3FN": (
        NONE.replace(gradient_wire="f8E4M3FN"),
        functools.partial(over_fp8, kind=ml_dtypes.float8_e4m3fn),
    ),
    "bf16": (NONE.replace(gradient_wire="bf16"), over_bf16),
}


@pytest.mark.parametrize(
    ("ranks", "recipe", "dtype", "zero"),
    [
        (4, "none", "float32", 3),
        (8, "none", "float32", 2),
        (2, "none", "bfloat16", 3),
        (4, "bf16", "float32", 1),
        (4, "f8E5M2", "float32", 2),
        (2, "f8E4M3FN", "float32", 1),
        (2, "bf16 wire", "float32", 2),
    ],
    ids=str,
)
def test_ranks_train_as_micro_batches_summed_by_hand(
    ranks: int, recipe: str, dtype: str, zero: int
) -> None:
    batches = batches_of(ROWS * ranks)
    wire = recipe.removesuffix(" wire") if recipe not in ("none", "bf16") else ""
    given = WIRES[wire][0] if wire else recipe
    got = on_ranks({"data": ranks}, given, zero, dtype, batches)
    narrow = {kind for kind in got[2] if kind.startswith("all_to_all ")}
    assert narrow == ({f"all_to_all {wire}"} if wire else set())

    def total(name: str, parts: list[np.ndarray]) -> np.ndarray:
        # Of products of layers; the head is wide by the recipe.
        is_narrow = wire and "layers" in name and parts[0].ndim == 2
        return WIRES[wire][1](parts) if is_narrow else in_order(parts)

    # One process has no wire. Its products, too, are of FP8 by what the step measures.
    check(got, by_hand(ranks, given, dtype, batches, total))


@pytest.mark.parametrize(("ranks", "zero"), [(8, 2), (4, 3)])
def test_clipped_ranks_train_as_one_program_of_micro_batches(ranks: int, zero: int) -> None:
    batches = batches_of(ROWS * ranks)
    got = on_ranks({"data": ranks}, "none", zero, "float32", batches, CLIPPED)
    cfg, params, state = setup("float32", CLIPPED)
    count = batches[0].shape[0] * SEQ

    def step(params: Any, state: Any, batch: Any) -> Any:
        total: Any = None
        for part in jnp.split(batch, ranks):
            found = jax.value_and_grad(loss)(params, part, cfg, count)
            total = found if total is None else jax.tree.map(jnp.add, total, found)
        return *update(total[1], state, params, CLIPPED), total[0]

    text = jax.jit(step).lower(params, state, batches[0]).as_text(debug_info=True)
    alone = compiled(text, "none")
    leaves, losses = [np.asarray(leaf) for leaf in jax.tree.leaves((params, state))], []
    for batch in batches:
        *leaves, value = (np.array(one) for one in alone(*leaves, batch))
        losses.append(value.item())
    check(got, (leaves, losses))


def test_tensor_parallel_ranks_train_as_products_cut_by_hand() -> None:
    batches = batches_of(4)
    got = on_ranks({"tensor": 2}, "none", 0, "float32", batches)
    halves = (columns_in_halves, rows_in_halves)
    check(got, by_hand(1, "none", "float32", batches, lambda _, parts: parts[0], halves))
