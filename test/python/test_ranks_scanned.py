"""LLaMA with scanned layers on ranks: exchanges overlap with other layers' products."""

from __future__ import annotations

import collections
import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import partition_programs
import pytest
from jax.sharding import NamedSharding
from partition_programs import P
from rank_steps import check_ranks

from scalify._executable import Executable, build
from scalify.partition import Partitioned, partition
from scalify.recipe import Recipe, RecipeLike

LAYERS, ROWS, SEQ = 3, 2, 16
model, optimizer = partition_programs.model, partition_programs.optimizer
Axes = tuple[tuple[str, int], ...]
DATA: Axes = (("data", 4),)
CONFIG = partition_programs.config.ModelConfig(layers=LAYERS, seq=SEQ, dim=64, ffn=128)


def loss_of(params: Any, batch: Any) -> Any:
    tables = model.rope_tables(CONFIG, SEQ)

    def layer(x: Any, weights: Any) -> Any:
        normal = model.rms_norm(x, weights["attention_norm"], CONFIG.norm_eps)
        x = x + model.attention(normal, weights, CONFIG, tables)
        normal = model.rms_norm(x, weights["ffn_norm"], CONFIG.norm_eps)
        return x + model.swiglu(normal, weights), None

    x = jnp.take(params["embed"], batch[:, :-1], axis=0)
    x, _ = jax.lax.scan(jax.checkpoint(layer), x, params["layers"])
    x = model.rms_norm(x, params["final_norm"], CONFIG.norm_eps) @ params["head"]
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(x, batch[:, 1:]))


def program(axes: Mapping[str, int], micro: int) -> tuple[Any, Any, Any, Any]:
    """Returns a step on `micro` micro-batches, its arguments and their specs."""
    adamw = optimizer.make_optimizer(partition_programs.config.TrainConfig(warmup=2))

    def step(params: Any, state: Any, batch: Any) -> Any:
        def add(sums: Any, rows: Any) -> Any:
            return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss_of)(params, rows)), None

        if micro == 1:
            loss, grads = jax.value_and_grad(loss_of)(params, batch[0])
        else:
            zeros = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
            (loss, grads), _ = jax.lax.scan(add, zeros, batch)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    params = model.init(jax.random.key(0), CONFIG)
    params["layers"] = jax.tree.map(lambda *one: jnp.stack(one), *params["layers"])
    columns = ("wq", "wk", "wv", "w_gate", "w_up")

    def spec(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path)
        if "tensor" not in axes or "layers" not in name or jnp.ndim(leaf) < 3:
            return P()
        is_split = any(f"'{one}'" in name for one in columns)
        return P(None, None, "tensor") if is_split else P(None, "tensor")

    trees = (params, adamw.init(params))
    specs = jax.tree_util.tree_map_with_path(spec, trees)
    batch = np.zeros((micro, ROWS * axes["data"], SEQ + 1), np.int32)
    return step, (*trees, batch), specs, trees


@functools.cache
def split(mesh_of: Axes, zero: int, micro: int = 1) -> tuple[Partitioned, list[Any]]:
    """Returns the program of a rank, and whole state."""
    axes = dict(mesh_of)
    step, args, specs, trees = program(axes, micro)
    mesh = partition_programs.mesh_of(axes)
    placed = jax.tree.map(
        lambda one: NamedSharding(mesh, one), specs, is_leaf=lambda one: isinstance(one, P)
    )
    whole = NamedSharding(mesh, P())
    jitted = jax.jit(
        step,
        in_shardings=(*placed, NamedSharding(mesh, P(None, "data"))),
        out_shardings=(*placed, whole),
        donate_argnums=(0, 1),
    )
    with jax.set_mesh(mesh):
        text = jitted.lower(*args).as_text(debug_info=True)
    return partition(text, zero=zero), [np.asarray(leaf) for leaf in jax.tree.leaves(trees)]


WIRED = Recipe.preset("fp8").replace(gradient_wire="f8E5M2")


@pytest.mark.parametrize(
    ("axes", "recipe", "zero", "micro", "as_gpus"),
    [
        (DATA, "none", 3, 2, False),
        (DATA, WIRED, 1, 2, True),
        # Slices of gains that 3 ranks do not divide, and each rank's shares of its part.
        ((("data", 3),), "bf16", 3, 1, False),
        ((("data", 2), ("tensor", 2)), "fp8", 1, 1, True),
        ((("data", 2),), "fp8-lm-o2", 3, 1, False),
    ],
    ids=str,
)
def test_scanned_layers_have_the_bits_of_one_process(
    axes: Axes, recipe: RecipeLike, zero: int, micro: int, as_gpus: bool
) -> None:
    local, state = split(axes, zero, micro)
    rng = np.random.default_rng(0)
    shape = (micro, ROWS * dict(axes)["data"], SEQ + 1)
    batches = [rng.integers(0, CONFIG.vocab, shape, dtype=np.int32) for _ in range(2)]
    options = {
        "recipe": str(recipe),
        "packState": False,
        "declaredScales": True,
        "bucketBytes": 30_000,
    }
    check_ranks(local, options, state, batches, as_gpus=as_gpus)


# Of each layer's seven matrices, [64, 128], [64, 64] and [64, 32]: what 4 ranks sum, or one has.
MATRICES = {8192: 3, 4096: 2, 2048: 2}
SHARES = {elements // 4: count for elements, count in MATRICES.items()}


@functools.cache
def artefact_of(zero: int, recipe: str, micro: int, target: str) -> bytes:
    """Returns a rank's step, each array of a layer by a message of its own."""
    local, _ = split(DATA, zero, micro)
    options = {
        "recipe": recipe,
        "packState": False,
        "declaredScales": True,
        "bucketBytes": 0,
        "target": target,
        "ptxas": "none",  # what is recorded needs no assembler
    }
    return build(local.text, options)[0]


def compiled(zero: int, recipe: RecipeLike, micro: int, target: str) -> Executable:
    """Returns the same step on a device that records."""
    return Executable(artefact_of(zero, str(recipe), micro, target), device="null")


def find(executable: Executable, kinds: set[str], sizes: dict[int, int]) -> list[int]:
    """Returns the indices of collectives of layers' matrices among a step's commands."""
    step = executable.manifest["functions"]["step"]
    rows = iter(executable.collectives)
    elements = [
        (i, command["kind"], next(rows)["elements"])
        for i, command in enumerate(step)
        if command["op"] == "collective"
    ]
    found = [(i, count) for i, kind, count in elements if kind in kinds and count in sizes]
    counted = collections.Counter(count for _, count in found)
    assert counted == {size: LAYERS * count for size, count in sizes.items()}
    return [i for i, _ in found]


def check_sums(products: list[int], sums: list[int], waits: list[int]) -> None:
    """Checks that a layer's reductions are issued between the products of the backward.

    Args:
        products: indices of GEMMs among a step's commands.
        sums: indices of the reductions of matrices' gradients.
        waits: indices of the compute stream's waits for exchanges.
    """
    # Only the first layer's, whose backward is the last, may have no product behind them.
    beside = [i for i in sums if i < products[-1]]
    assert len(beside) >= 7 * (LAYERS - 1)
    # Behind the first of a layer there are its own and all products of the layers before: of each
    # matrix two, and what a checkpoint makes again.
    for layer in range(LAYERS - 1):
        behind = [i for i in products if i > beside[7 * layer]]
        assert len(behind) >= (LAYERS - 1 - layer) * 14
    # Nothing computed waits for a sum before the backward has ended.
    assert not [i for i in waits if beside[0] < i < products[-1]]


@pytest.mark.parametrize(
    ("zero", "recipe", "target", "micro"),
    [
        (0, "none", "cpu", 2),
        (1, "none", "sm_90a", 2),
        (3, WIRED, "cpu", 2),
        (3, WIRED, "sm_90a", 1),
    ],
    ids=str,
)
def test_sums_of_a_layer_go_beside_the_layers_before(
    zero: int, recipe: RecipeLike, target: str, micro: int
) -> None:
    executable = compiled(zero, recipe, micro, target)
    step = executable.manifest["functions"]["step"]
    # Of micro-batches once: ranks sum what they have added up.
    sums = find(executable, {"all_to_all", "reduce_scatter"} if zero else {"all_reduce"}, MATRICES)
    products = [i for i, command in enumerate(step) if command["op"] == "gemm"]
    assert all(step[i]["stream"] > 0 for i in sums if i < products[-1])
    waits = [
        i
        for i, command in enumerate(step)
        if command["op"] == "wait" and command.get("stream", 0) == 0
    ]
    check_sums(products, sums, waits)


def test_a_recorded_step_has_sums_and_gathers_beside_products() -> None:
    executable = compiled(3, "none", 1, "cpu")
    types = {"f32": np.float32, "i32": np.int32}
    executable(
        *(np.zeros(one["shape"], types[one["dtype"]]) for one in executable.manifest["args"])
    )
    trace = executable.trace.splitlines()

    def places(pattern: str) -> list[int]:
        return [i for i, line in enumerate(trace) if re.match(pattern, line)]

    products, waits = places("gemm"), places(r"wait \w+ stream0$")
    sums = places("collective reduce_scatter elements=(8192|4096|2048) ")
    assert len(sums) == 7 * LAYERS
    check_sums(products, sums, waits)
    gathers = places("collective all_gather elements=(2048|1024|512) stream1")
    assert len(gathers) == 7 * LAYERS
    # Two are on their way at once: behind the first ones a product stands between any two.
    between = [sum(a < i < b for i in products) for a, b in itertools.pairwise(gathers)]
    assert all(count > 0 for count in between[2:])


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_narrow_weights_of_a_layer_are_gathered_one_ahead(target: str) -> None:
    executable = compiled(3, WIRED, 1, target)
    step = executable.manifest["functions"]["step"]
    gathers = find(executable, {"all_gather"}, SHARES)
    assert all(step[i]["stream"] > 0 for i in gathers)
    # Where a layer's next array is sent, the same one of the layer before has been read: casts of
    # several may be one kernel, and so they may come together.
    for at, later in zip(gathers, gathers[8:], strict=False):
        memory = step[at]["dst"]
        assert any(memory in command.get("bufs", ()) for command in step[at:later])


@pytest.mark.parametrize("zero", [1, 3])
def test_what_is_kept_of_a_norm_s_gains_is_a_share(zero: int) -> None:
    args = compiled(zero, "none", 1, "cpu").manifest["args"]
    shapes = {arg["name"]: arg["shape"] for arg in args if "_norm']" in (arg["name"] or "")}
    kept = {name: shape for name, shape in shapes.items() if zero == 3 or "state" in name}
    gains = [shape for name, shape in kept.items() if "layers" in name]
    assert gains == [[LAYERS, 64 // 4]] * (2 * (3 if zero == 3 else 2))


def test_gradients_with_a_scale_of_all_layers_are_summed_behind_them() -> None:
    # The largest magnitude of a stack is known when the loop has ended.
    _, said = build(split(DATA, 1)[0].text, {"recipe": "fp8-lm-o1"})
    assert sum("runs after their loop" in one["message"] for one in said) == 7


@pytest.mark.parametrize(
    ("changed", "sent", "said"),
    [
        ({}, 0, {"its scale is not known (scales = current measures it)": 7}),
        ({"scales": "current"}, 7, {}),
    ],
)
def test_a_wire_is_chosen_apart_from_products(
    changed: dict[str, str], sent: int, said: dict[str, int]
) -> None:
    recipe = Recipe.preset("none").replace(gradient_wire="f8E5M2", **changed)
    options = {"recipe": str(recipe), "bucketBytes": 0, "packState": False, "declaredScales": True}
    artefact, remarks = build(split(DATA, 1)[0].text, options)
    rows = Executable(artefact, device="null").collectives
    assert sum(row["dtype"] == "f8E5M2" for row in rows) == sent
    start = "gradient stays wide between ranks: "
    found = [one["message"].partition(start)[2] for one in remarks if start in one["message"]]
    # The head is wide by the recipe.
    assert collections.Counter(found) == {
        "the recipe keeps the product wide that makes it": 1,
        **said,
    }
