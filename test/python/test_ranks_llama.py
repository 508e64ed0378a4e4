"""Twenty steps of LLaMA on ranks, bit for bit those of one process that simulates all ranks.

Other meshes and formats are in `make matrix`.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import partition_programs
import pytest
from live_bytes import live_bytes
from partition_programs import P, Sharded
from rank_steps import check_ranks, train_alone

from scalify._executable import Executable, build
from scalify.partition import partition
from scalify.recipe import Recipe, RecipeLike

STEPS = 20
E5M2_WIRE = Recipe.preset("fp8-delayed").replace(gradient_wire="f8E5M2")
E4M3_WIRES = Recipe("wires", gradient_wire="f8E4M3FN", activation_wire="f8E4M3FN")
# Sequence parallel, as Megatron has it: norms on parts of the sequence.
IN_PARTS = P("data", "sequence", None)


def program(
    axes: dict[str, int], monkeypatch: pytest.MonkeyPatch, layers: int = 2, dim: int = 64
) -> Sharded:
    """Returns the example's step with two examples a rank of data, and its donated state."""
    model, optimizer = partition_programs.model, partition_programs.optimizer
    cfg = partition_programs.config.ModelConfig(layers=layers, seq=16, dim=dim, ffn=2 * dim)
    adamw = optimizer.make_optimizer(partition_programs.config.TrainConfig(warmup=2))
    params = jax.jit(lambda: model.init(jax.random.key(0), cfg))()
    state = jax.jit(adamw.init)(params)
    batch = np.zeros((2 * axes["data"], cfg.seq + 1), np.int32)
    spec_of = partition_programs.tensor_parallel if "tensor" in axes else partition_programs.whole
    if "sequence" in axes:
        norm = model.rms_norm
        constrain = jax.lax.with_sharding_constraint
        monkeypatch.setattr(model, "rms_norm", lambda x, *args: norm(constrain(x, IN_PARTS), *args))

    def specs(tree: Any) -> Any:
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: spec_of(jax.tree_util.keystr(path), leaf), tree
        )

    placed = (specs(params), specs(state))
    step = optimizer.make_step(cfg, adamw)
    args = (params, state, batch)
    return Sharded(step, args, axes, (*placed, P("data")), (*placed, P()), frozenset())


_lowered: dict[tuple[int, int], str] = {}


def data_parallel(ranks: int, layers: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the text of the step on ranks of data alone, which is traced once."""
    if (ranks, layers) not in _lowered:
        _lowered[ranks, layers] = lower(program({"data": ranks}, monkeypatch, layers))
    return _lowered[ranks, layers]


def plan_of(local: str, **options: Any) -> Executable:
    """Returns the plan, without kernels."""
    return Executable(build(local, {**options, "planOnly": True})[0], device="null")


def lower(sharded: Sharded) -> str:
    specs, out = sharded.shardings()
    jitted = jax.jit(sharded.fn, in_shardings=specs, out_shardings=out, donate_argnums=(0, 1))
    with jax.set_mesh(sharded.mesh()):
        return jitted.lower(*sharded.args).as_text(debug_info=True)


@pytest.mark.parametrize(
    ("axes", "recipe", "zero", "layers", "narrow"),
    [
        ({"data": 8}, "fp8", 3, 1, {"all_gather f8E4M3FN": 7}),
        # Two layers: what the second one needs is gathered beside the first.
        ({"data": 2}, "fp8", 3, 2, {"all_gather f8E4M3FN": 14}),
        (
            {"data": 4},
            "fp8-lm-o3",
            3,
            1,
            {"all_gather f8E4M3FN": 7, "all_to_all f8E4M3FN": 7},
        ),
        ({"data": 2}, E5M2_WIRE, 2, 2, {"all_to_all f8E5M2": 14}),
        # All masters, each rounded in the share that its rank updates.
        (
            {"data": 4},
            "fp8-lm-o2",
            1,
            1,
            {"all_gather f16": 12, "all_to_all f8E4M3FN": 7},
        ),
        ({"data": 4, "tensor": 2}, "bf16", 1, 1, {}),
        # Of each layer 7 gradients, 2 sums of the forward and 5 of the backward: q, k, v, and gate
        # and up have one input each.
        ({"data": 2, "tensor": 2, "sequence": 2}, E4M3_WIRES, 0, 1, {"all_to_all f8E4M3FN": 14}),
    ],
)
def test_ranks_train_as_one_process_does(
    axes: dict[str, int],
    recipe: RecipeLike,
    zero: int,
    layers: int,
    narrow: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sharded = program(axes, monkeypatch, layers)
    local = partition(lower(sharded), zero=zero)
    options: dict[str, Any] = {"recipe": str(recipe), "packState": False, "declaredScales": True}
    if narrow:  # to be counted; buckets of narrow data are in test_ranks_loops.py
        options["bucketBytes"] = 0
    *state, first = (np.asarray(leaf) for leaf in jax.tree.leaves(sharded.args))
    rng = np.random.default_rng(0)
    # Text that can be learnt: each token follows the one before it.
    count = np.arange(first.shape[1], dtype=np.int32)
    starts = [rng.integers(0, 256, (first.shape[0], 1), dtype=np.int32) for _ in range(STEPS)]
    losses, kinds = check_ranks(local, options, state, [(start + count) % 256 for start in starts])
    found = {kind: count for kind, count in kinds.items() if " f8" in kind or " f16" in kind}
    assert found == narrow
    assert losses[-1] < losses[0]


# OpenBLAS's kernels for Haswell and Zen sum a product and its transpose in two orders, and ranks
# with shares may take the other one of the two. These have one order.
ONE_ORDER = {"OPENBLAS_CORETYPE": "Prescott"}


@pytest.mark.parametrize("recipe", ["fp16", "fp8-lm-o2"])
def test_shares_of_state_change_no_bit(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gathered arrays are cast exactly where replicated ones are."""
    if not os.environ.items() >= ONE_ORDER.items():
        # OpenBLAS reads it once.
        this = f"{__file__}::{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split()[0]}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this]
        subprocess.run(command, env=os.environ | ONE_ORDER, check=True)
        return
    sharded = program({"data": 2}, monkeypatch, layers=1)
    *state, first = (np.asarray(leaf) for leaf in jax.tree.leaves(sharded.args))
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 256, first.shape, dtype=np.int32) for _ in range(4)]
    found = []
    text = lower(sharded)
    for zero in (0, 1, 3):
        local = partition(text, zero=zero)
        options = {"recipe": recipe, "packState": False, "declaredScales": True}
        whole, losses = train_alone(local, options, state, batches)
        found.append((losses, [leaf.tobytes() for leaf in whole]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("axes", "recipe", "zero"),
    [
        ({"data": 2, "tensor": 2}, E4M3_WIRES, 0),
        ({"data": 2, "tensor": 2}, "fp8-delayed", 1),
        ({"data": 4}, "fp8-lm-o3", 2),
    ],
)
def test_programs_of_gpus_train_alike(
    axes: dict[str, int], recipe: RecipeLike, zero: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharded = program(axes, monkeypatch, layers=1)
    local = partition(lower(sharded), zero=zero)
    *state, first = (np.asarray(leaf) for leaf in jax.tree.leaves(sharded.args))
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 256, first.shape, dtype=np.int32) for _ in range(4)]
    # Small buckets, so that sums are of both kinds.
    options = {
        "recipe": str(recipe),
        "packState": False,
        "declaredScales": True,
        "bucketBytes": 50_000,
    }
    check_ranks(local, options, state, batches, as_gpus=True)


def test_sums_in_order_keep_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    local = partition(data_parallel(8, 2, monkeypatch), zero=2).text
    plans = {
        sums: plan_of(local, recipe="bf16", target="sm_90a", bucketBytes=50_000, sums=sums)
        for sums in ("ordered", "nccl")
    }
    ordered, nccl = plans["ordered"], plans["nccl"]
    assert sum(row["sent"] for row in ordered.collectives) == sum(
        row["sent"] for row in nccl.collectives
    )
    # Where blocks lie is a matter of packing; parts that were kept would be more memory.
    assert ordered.manifest["arena_bytes"] <= nccl.manifest["arena_bytes"]
    # Each is made on the stream of what brought its parts, behind it.
    step = ordered.manifest["functions"]["step"]
    places = [at for at, command in enumerate(step) if command.get("kind") == "all_to_all"]
    assert sum(step[at].get("stream", 0) == 1 for at in places) >= len(places) - 1 > 8
    for at in places:
        made = step[at + 1]
        assert made["op"] == "kernel" and made["bufs"][0] == step[at]["dst"]
        assert made.get("stream", 0) == step[at].get("stream", 0)


def test_sums_go_between_products_of_the_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    local = partition(data_parallel(8, 2, monkeypatch), zero=3).text
    step = plan_of(local, recipe="none", bucketBytes=0).manifest["functions"]["step"]
    at = {
        kind: [i for i, command in enumerate(step) if command.get("kind") == kind]
        for kind in ("all_gather", "reduce_scatter")
    }
    products = [i for i, command in enumerate(step) if command["op"] == "gemm"]
    assert len(at["reduce_scatter"]) == 21
    # Each is on the stream of collectives, the last ones apart, with products still to come: in
    # the backward of two layers and the head there are over 20 behind the first sum.
    overlapped = [i for i in at["reduce_scatter"] if products[-1] > i]
    assert len(overlapped) >= 16
    assert all(step[i]["stream"] == 1 for i in overlapped)
    assert sum(i > overlapped[0] for i in products) >= 20
    # Parameters come one ahead of their first use, and not all at once.
    gathers = [i for i in at["all_gather"] if i < at["reduce_scatter"][0]]
    between = [sum(a < i < b for i in products) for a, b in itertools.pairwise(gathers)]
    assert len(gathers) >= 20
    assert sum(count > 0 for count in between) >= 12


def test_buckets_send_the_same_bytes_in_fewer_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    local = partition(data_parallel(8, 2, monkeypatch), zero=3).text
    size = 50_000
    each, buckets = (
        plan_of(local, recipe="none", bucketBytes=given).collectives for given in (0, size)
    )
    assert sum(row["sent"] for row in each) == sum(row["sent"] for row in buckets)
    for kind in ("all_gather", "reduce_scatter"):
        before = [4 * row["elements"] for row in each if row["kind"] == kind]
        after = [4 * row["elements"] for row in buckets if row["kind"] == kind]
        assert sum(before) == sum(after)
        # Full buckets hold more than half: what did not fit was larger than the rest.
        assert max(max(before), size) >= max(after)
        assert len(after) <= 2 * sum(before) / size + 3 < len(before)


def sent(plan: Executable, kind: str) -> dict[str, int]:
    """Returns the bytes that rank 0 sends by collectives of a kind, by formats."""
    found: dict[str, int] = {}
    for row in plan.collectives:
        if row["kind"] == kind:
            found[row["dtype"]] = found.get(row["dtype"], 0) + row["sent"]
    return found


def test_narrow_wires_move_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    local = partition(data_parallel(4, 2, monkeypatch), zero=3).text
    fp8 = Recipe.preset("fp8").replace(head=True, sensitive=True)
    recipes = {"fp8": fp8, "bf16": "bf16", "wires": fp8.replace(gradient_wire="f8E5M2")}
    plans = {
        name: plan_of(local, recipe=str(one), declaredScales=True) for name, one in recipes.items()
    }
    # Gradients of the weights that are cast: 75 % less than in F32, and no others changed.
    f32 = sent(plans["fp8"], "reduce_scatter")["f32"]
    rest = sent(plans["wires"], "reduce_scatter")["f32"]
    assert 4 * sent(plans["wires"], "all_to_all")["f8E5M2"] == f32 - rest > 4 * rest
    # Weights, as the products read them: half of BF16.
    weights = sent(plans["fp8"], "all_gather")
    assert 2 * weights["f8E4M3FN"] == sent(plans["bf16"], "all_gather")["bf16"]


def test_masters_move_as_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    local = partition(data_parallel(4, 1, monkeypatch), zero=1).text
    recipe = "fp8-lm-o2"
    narrow = sent(plan_of(local, recipe=recipe), "all_gather")
    wide = sent(plan_of(local, recipe=recipe, narrowCollectives=False), "all_gather")
    gpu = sent(plan_of(local, recipe=recipe, target="sm_90a"), "all_gather")
    assert gpu["f16"] == narrow["f16"]
    # What is left are sums of chunks, for the norm of all gradients.
    assert set(narrow) == {"f16", "f32"}
    assert set(wide) == {"f32"}
    assert 2 * narrow["f16"] == wide["f32"] - narrow["f32"] > 10 * narrow["f32"]


def test_zero_keeps_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    text = data_parallel(8, 2, monkeypatch)
    bytes_of = {}
    for zero in (0, 1, 3):
        local = partition(text, zero=zero).text
        arguments = plan_of(local, recipe="none").memory["arguments"]
        bytes_of[zero] = (arguments["param"], arguments["moment"])
        kinds = re.findall(r'"stablehlo\.(all_reduce|reduce_scatter)"', local)
        # One sum for each parameter and one of the loss; none of a parameter is made whole.
        assert kinds.count("reduce_scatter") == (21 if zero else 0)
        assert kinds.count("all_reduce") == (1 if zero else 22)
    params, moments = bytes_of[0]
    assert moments == 2 * params
    # Sizes that 8 ranks divide: no share is filled up.
    assert bytes_of[1] == (params, moments // 8)
    assert bytes_of[3] == (params // 8, moments // 8)


@pytest.mark.parametrize("zero", [0, 3])
def test_a_rank_takes_the_memory_that_its_plan_says(
    zero: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """By /proc, for each rank's process: its arguments, and the arena to its last page."""
    local = partition(data_parallel(2, 2, monkeypatch), zero=zero).text
    path = tmp_path / "step.scalify"
    # Gathers of weights whose scales are measured are wide, and pack less well.
    path.write_bytes(build(local, {"recipe": "fp8", "declaredScales": True})[0])
    executable = Executable(path.read_bytes(), device="null")
    plan = executable.memory
    command = [
        sys.executable,
        str(pathlib.Path(__file__).with_name("peak_run.py")),
        str(path),
        "3",
        "1",
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SCALIFY_SIZE": "2"}
    env["SCALIFY_JOB"] = f"memory-{os.getpid()}-{zero}"
    ranks = [
        subprocess.Popen(
            command, env={**env, "SCALIFY_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    pages = -(-plan["arena"] // 4096) * 4096
    for measured in map(json.loads, outputs):
        assert measured["arguments"] == sum(plan["arguments"].values())
        assert measured["mapped"] == measured["resident"] == pages
        # The rest are tables, panels of GEMMs and Python's own objects, as in one process.
        assert max(measured["grown"]) < pages + (1 << 20)
    assert 0.97 * plan["arena"] <= live_bytes(executable.manifest) <= plan["arena"]


@pytest.mark.parametrize(("zero", "recipe"), [(1, "none"), (3, "fp8")])
def test_buckets_of_the_default_size_go_beside_products(
    zero: int, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded step of four layers of 3 MB each, on the null device."""
    sharded = program({"data": 4}, monkeypatch, layers=4, dim=256)
    local = partition(lower(sharded), zero=zero).text
    step = Executable(
        build(local, {"recipe": recipe, "packState": False, "declaredScales": True})[0],
        device="null",
    )
    kinds = {"f32": np.float32, "i32": np.int32}
    step(*(np.zeros(arg["shape"], kinds[arg["dtype"]]) for arg in step.args))
    trace = step.trace.splitlines()

    def places(pattern: str) -> list[int]:
        return [i for i, line in enumerate(trace) if re.match(pattern, line)]

    products, waits = places("gemm"), places(r"wait \w+ stream0$")
    sums = [i for i in places("collective reduce_scatter .*stream1") if i < products[-1]]
    # Buckets of 1 MiB at most, an array of more alone: two or more of each layer. Each has products
    # before the next one, every two those of half a layer's backward or more, and nothing computed
    # waits for them.
    assert len(sums) >= 8
    behind = [sum(a < i < b for i in products) for a, b in itertools.pairwise(sums)]
    assert min(behind) >= 2
    assert min(a + b for a, b in itertools.pairwise(behind)) >= 8
    assert not [i for i in waits if sums[0] < i < products[-1]]
    gathers = [
        i for i in places("collective all_gather .*stream1") if "elements=624 " not in trace[i]
    ]
    if zero == 1:
        # Behind the update, for the next step's forward; the first bucket goes while the second
        # one's weights are updated.
        assert len(gathers) >= 2 and gathers[0] > products[-1]
        assert any(line.startswith("kernel") for line in trace[gathers[0] : gathers[1]])
        return
    # All are on their way before the first product: what stays wide, two buckets of FP8, and the
    # head in BF16. Of the
    # forward's products, 9 of each layer and the head's, as large a share goes before the first
    # stream waits for the second of these as the first has of their weights.
    assert len(gathers) == 4 and max(gathers) < products[0]
    sizes = [int(trace[i].split("elements=")[1].split()[0]) for i in gathers[1:3]]
    last = max(i for i in waits if i < sums[0])
    assert sum(i < last for i in products) >= sizes[0] / sum(sizes) * (4 * 9 + 1)
