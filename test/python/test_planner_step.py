"""Compiled steps in the planner, on 512 ranks that do not exist."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import partition_programs
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from partition_programs import P

from scalify import _wire
from scalify_plan import DEVICES, chakra, choose, disturb, events, graph
from scalify_plan.__main__ import main

H100 = DEVICES["h100"]
DATA, TENSOR = 64, 8


def lower() -> str:
    """Returns a step of a small LLaMA, 64 x 8, as JAX lowers it without any device."""
    model, optimizer = partition_programs.model, partition_programs.optimizer
    cfg = partition_programs.config.ModelConfig(
        layers=1, seq=16, dim=128, ffn=256, heads=8, kv_heads=8
    )
    adamw = optimizer.make_optimizer(partition_programs.config.TrainConfig())
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    state = jax.eval_shape(adamw.init, params)
    mesh = AbstractMesh((DATA, TENSOR), ("data", "tensor"))

    def placed(tree: Any) -> Any:
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: NamedSharding(
                mesh, partition_programs.tensor_parallel(jax.tree_util.keystr(path), leaf)
            ),
            tree,
        )

    own = (placed(params), placed(state))
    batch = jax.ShapeDtypeStruct((2 * DATA, cfg.seq + 1), np.int32)
    jitted = jax.jit(
        optimizer.make_step(cfg, adamw),
        in_shardings=(*own, NamedSharding(mesh, P("data"))),
        out_shardings=(*own, NamedSharding(mesh, P())),
        donate_argnums=(0, 1),
    )
    traced = jitted.trace(params, state, batch)
    return traced.lower(lowering_platforms=("cuda",)).as_text(debug_info=True)


@pytest.fixture(scope="module")
def artefact() -> bytes:
    return graph.compile_step(lower(), recipe="fp8", zero=1)


def test_a_step_of_512_ranks_has_a_plan(artefact):
    manifest = graph.manifest_of(artefact)
    found = graph.read(manifest, H100)
    assert found.mesh == {"data": DATA, "tensor": TENSOR}
    commands = manifest["functions"]["step"]
    timed = [c for c in commands if c["op"] not in ("record", "wait")]
    assert len(found.commands) == len(timed)
    wires = [command.wire for command in found.commands if command.wire is not None]
    # A node has the eight tensor ranks; each replica is in another one.
    groups = {(one.ranks.ranks, one.ranks.inside, one.stride) for one in wires}
    assert {(TENSOR, TENSOR, 1), (DATA, 1, TENSOR)} <= groups
    # A product of a part: 256 columns of the feed-forward over 8 ranks.
    assert any(c["op"] == "gemm" and c["n"] == 256 // TENSOR for c in commands)
    assert found.memory["peak"] == manifest["memory"]["peak"]
    assert found.memory["arguments"]["moment"] * DATA == pytest.approx(
        2 * found.memory["arguments"]["param"], rel=0.1
    )


def test_bytes_are_the_plans(artefact):
    """Bytes over links are those of `Executable.collectives`, which the transport counts too."""
    manifest = graph.manifest_of(artefact)
    plan = choose.outcome(H100, graph.read(manifest, H100))
    rows = _wire.collectives(manifest, 0)
    assert plan.nvlink + plan.network == pytest.approx(sum(row["sent"] for row in rows), rel=0.01)
    far = [row for row in rows if len(row["groups"][0]) == DATA]
    assert plan.network == pytest.approx(sum(row["sent"] for row in far), rel=0.01)


def test_choices_change_what_they_should(artefact):
    manifest = graph.manifest_of(artefact)
    found = graph.read(manifest, H100)
    plan = choose.outcome(H100, found)
    wide = choose.outcome(H100, found, choose.Choice("f32", "f32"))
    narrow = choose.outcome(H100, found, choose.Choice("fp8", "fp8"))
    half = choose.outcome(H100, found, choose.Choice("bf16", "bf16"))
    bytes_of_one = half.network - narrow.network
    assert wide.network - half.network == pytest.approx(2 * bytes_of_one)
    # What is left goes as F32 in all: two numbers of each cast whose scale is carried.
    (carried,) = (a for a in manifest["args"] if a["name"] == "scalify.carried_scales")
    assert 0 < narrow.network - bytes_of_one <= 2 * 2 * 4 * carried["shape"][0]
    assert narrow.nvlink == plan.nvlink  # tensor ranks' are the step's own
    joined, wires = choose.tasks(H100, found, choose.Choice(bucket=1e9))
    assert len(joined) < len(found.commands)
    alone = choose.tasks(H100, found, choose.Choice())[1]
    assert sum(one.size for one in wires) == sum(one.size for one in alone)
    best = choose.choices(H100, found)[0]
    assert best.seconds <= plan.seconds
    assert best.choice.bucket > 0  # all of this model is less than a message's latency


def test_overlap_loses_no_more_when_links_misbehave(artefact):
    found = graph.read(graph.manifest_of(artefact), H100)
    cases = disturb.losses(choose.tasks(H100, found, choose.Choice())[0])
    assert len(cases) == 5
    for case in cases:
        assert case.overlapped < case.serial, case
        assert case.lost <= case.serial_lost * (1 + 1e-9), case


def records_of(content: bytes) -> list[bytes]:
    """Returns the messages of a length-prefixed file."""
    found, at = [], 0
    while at < len(content):
        length, at = varint(content, at)
        found.append(content[at : at + length])
        at += length
    return found


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Returns a number by protobuf's wire format, read by hand, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at


def fields(content: bytes) -> list[tuple[int, Any]]:
    """Returns (number, value) of a message's fields."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(content):
        key, at = varint(content, at)
        value, at = varint(content, at)
        assert key & 7 in (0, 2), "only numbers, and what has a length"
        if key & 7 == 2:
            value, at = content[at : at + value], at + value
        found.append((key >> 3, value))
    return found


def test_chakra_traces(artefact, tmp_path):
    """Fields by the numbers of MLCommons' et_def.proto."""
    found = graph.read(graph.manifest_of(artefact), H100)
    made, wires = choose.tasks(H100, found, choose.Choice())
    line = events.run(made)
    paths = chakra.write(tmp_path, range(2), line, wires)
    assert [path.name for path in paths] == ["step.0.et", "step.1.et"]
    head, *nodes = (fields(record) for record in records_of(paths[1].read_bytes()))
    assert head[0] == (1, b"0.0.4")
    assert len(nodes) == len(made)
    exchanges = []
    for number, (node, task, span) in enumerate(zip(nodes, made, line.spans, strict=True)):
        own = dict(node)
        assert own.get(1, 0) == number
        assert own[2].decode() == task.name
        assert own[3] == (4 if task.chunk < 0 else 7)  # COMP_NODE, COMM_COLL_NODE
        packed, needs, at = own.get(5, b""), [], 0
        while at < len(packed):
            need, at = varint(packed, at)
            needs.append(need)
        assert needs == list(task.needs)
        assert own.get(7, 0) == round((span[1] - span[0]) * 1e6)
        attributes = [fields(value) for key, value in node if key == 10]
        named = {one[0][1].decode(): one[1] for one in attributes}
        if task.chunk >= 0:
            exchanges.append(named)
        else:
            assert named["num_ops"] == (9, round(task.flops))
    # int64_val is field 9; ALL_REDUCE 0, ALL_GATHER 2, REDUCE_SCATTER 7.
    assert {one["comm_type"] for one in exchanges} == {(9, 0), (9, 2), (9, 7)}
    assert [one["comm_size"] for one in exchanges] == [(9, round(one.size)) for one in wires]


def test_commands_of_a_manifest():
    """Events, permutes and messages of a pipeline's stage, from a manifest written by hand."""
    manifest = {
        "buffers": [{"dtype": "bf16", "shape": [1024, 512]}],
        "memory": {"peak": 0},
        "mesh": [["stage", 16]],
        "pipeline": {"stage": 7},
        "functions": {
            "step": [
                {"op": "kernel", "name": "a", "bytes": 3.05e9},
                {"op": "record", "event": 0, "stream": 0},
                {"op": "wait", "event": 0, "stream": 1},
                {"op": "collective", "kind": "message", "src": 0, "dst": 0, "to": 8, "stream": 1},
                {"op": "collective", "kind": "message", "src": 0, "dst": 0, "from": 6},
                {"op": "collective", "kind": "permute", "src": 0, "dst": 0, "groups": [[0, 1]]},
            ]
        },
    }
    found = graph.read(manifest, H100)
    kernel, send, receive, permute = found.commands
    assert kernel.seconds == pytest.approx(1e-3, rel=0.01)
    assert (send.stream, send.needs) == (1, (0,))
    assert [one.wire.kind for one in (send, receive, permute)] == ["send", "receive", "permute"]
    # Stage 8 is in the next node.
    assert send.wire.links() == (0, 2 * 1024 * 512)
    assert receive.wire.links() == (0, 0)
    assert permute.wire.links() == (2 * 1024 * 512, 0)
    plan = choose.outcome(H100, found)
    assert (plan.nvlink, plan.network) == (2 * 1024 * 512, 2 * 1024 * 512)
    made, wires = choose.tasks(H100, found, choose.Choice())
    assert [node.type for node in chakra.nodes(events.run(made), wires)] == [4, 5, 6, 5]


def test_it_stands_beside_the_other_tools():
    root = pathlib.Path(__file__).resolve().parents[2]
    build = pathlib.Path(os.environ.get("SCALIFY_BUILD", root / "build"))
    command = [build / "bin" / "scalify-plan", "--model", "gpt-7b", "--mesh", "8", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["step"]["simulated"] is True


def plain(shardings: bool) -> str:
    """Returns a step on 16 rows, with its batch over 8 data-parallel ranks or without shardings."""
    model, optimizer = partition_programs.model, partition_programs.optimizer
    cfg = partition_programs.config.ModelConfig(layers=1, seq=16, dim=32, ffn=64)
    adamw = optimizer.make_optimizer(partition_programs.config.TrainConfig())
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    state = jax.eval_shape(adamw.init, params)
    batch = jax.ShapeDtypeStruct((16, cfg.seq + 1), np.int32)
    options: dict[str, Any] = {}
    if shardings:
        mesh = AbstractMesh((8,), ("data",))
        whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
        options = {"in_shardings": (whole, whole, rows), "out_shardings": whole}
    jitted = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1), **options)
    traced = jitted.trace(params, state, batch)
    return traced.lower(lowering_platforms=("cuda",)).as_text(debug_info=True)


@functools.cache
def data_parallel(zero: int) -> bytes:
    """Returns the artefact of the step without shardings on eight ranks."""
    return graph.compile_step(plain(False), recipe="fp8", zero=zero, ranks=8)


@pytest.mark.parametrize("zero", [0, 3])
def test_a_plain_step_is_data_parallel(zero):
    wanted = graph.compile_step(plain(True), recipe="fp8", zero=zero)
    artefacts = (data_parallel(zero), wanted)
    ours, theirs = (graph.read(graph.manifest_of(one), H100) for one in artefacts)
    assert ours.mesh == theirs.mesh == {"data": 8}
    wires = [[one.wire for one in plan.commands if one.wire] for plan in (ours, theirs)]
    assert wires[0] == wires[1] and len(wires[0]) > 3
    flops = [sum(one.flops for one in plan.commands) for plan in (ours, theirs)]
    assert flops[0] == flops[1] > 0
    assert ours.memory == theirs.memory


def test_overlap_of_data_parallel_ranks_loses_less_when_links_misbehave():
    """For a compiled step without tensor ranks, which would wait for exchanges."""
    found = graph.read(graph.manifest_of(data_parallel(3)), H100)
    usual, *wrong = disturb.losses(choose.tasks(H100, found, choose.Choice())[0])
    assert usual.lost == usual.serial_lost == 0 and len(wrong) == 4
    for case in wrong:
        assert 0 < case.lost < 0.999 * case.serial_lost, case


def test_a_plain_step_on_a_mesh(tmp_path, monkeypatch, capsys):
    path = tmp_path / "step.mlir"
    path.write_text(plain(False))

    def plan(mesh: str) -> int:
        command = ["scalify-plan", str(path), "--mesh", mesh, "--zero", "1"]
        monkeypatch.setattr(sys, "argv", command)
        return main()

    assert plan("2x4") == 0
    assert "ZeRO-1, data 8" in capsys.readouterr().out
    assert plan("64x8") == 1
    assert "16x17xi32>' has no rows that 512 ranks divide" in capsys.readouterr().err
    path.write_text(plain(True))
    assert plan("2x4") == 1
    assert "--mesh 2x4: the step's own mesh is 8" in capsys.readouterr().err


def test_command_line(artefact, tmp_path, monkeypatch, capsys):
    path = tmp_path / "step.scalify"
    path.write_bytes(artefact)

    def plan(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["scalify-plan", *arguments])
        return main()

    assert plan(str(path), "--mesh", "64x8") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("SIMULATED")
    assert "data 64, tensor 8" in printed
    assert plan(str(path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["simulated"] is True
    assert plan(str(path), "--chakra", str(tmp_path / "traces"), "--ranks", "3") == 0
    assert len(list((tmp_path / "traces").glob("step.*.et"))) == 3
    capsys.readouterr()
    assert plan(str(path), "--mesh", "8x8") == 1
    assert "the step's own mesh is 64x8" in capsys.readouterr().err
    assert plan(str(path), "--device", "a100") == 1
    assert "a100 has no products in FP8" in capsys.readouterr().err
    assert plan("--model", "llama-7b", "--mesh", "8x1x1", "--batch", "64") == 0
    assert "tokens" in capsys.readouterr().out
    assert plan("--model", "llama-7b", "--mesh", "64", "--batch", "1024", "--zero", "best") == 0
    assert "ZeRO-" in capsys.readouterr().out
    alone = tmp_path / "alone.mlir"
    alone.write_text(ALONE)
    assert plan(str(alone), "--recipe", "none") == 0
    assert "one rank, 1 commands" in capsys.readouterr().out
    assert plan("--model", "llama-7b", "--mesh", "3x1x1", "--batch", "64") == 1
    assert "64 sequences are no multiple of 3 x 1" in capsys.readouterr().err


ALONE = jax.jit(lambda x: x @ x).lower(np.zeros((8, 8), np.float32)).as_text()
MODEL = ("--model", "llama-7b")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*MODEL, "--gpus", "-8"), "--gpus: '-8': expected a whole number of 1 or more"),
        ((*MODEL, "--gpus", "0"), "--gpus: '0'"),
        ((*MODEL, "--batch", "-1"), "--batch: '-1'"),
        ((*MODEL, "--batch", "0"), "--batch: '0'"),
        ((*MODEL, "--micro", "0"), "--micro: '0'"),
        ((*MODEL, "--interleave", "0"), "--interleave: '0'"),
        ((*MODEL, "--gpus", "8", "--cap", "0"), "--cap: '0': expected a number above 0"),
        ((*MODEL, "--gpus", "8", "--cap", "nan"), "--cap: 'nan'"),
        ((*MODEL, "--mesh", "8x"), "--mesh: '8x': expected sizes of axes, as 64x8"),
        ((*MODEL, "--mesh", "8x0"), "--mesh: '8x0'"),
        ((*MODEL, "--mesh", "16x4x8x2"), "--mesh 16x4x8x2: a model's has data x tensor x stages"),
        ((*MODEL, "--gpus", "8", "--mesh", "8"), "--mesh does not apply to a search"),
        ((*MODEL, "--gpus", "8", "--micro", "2"), "--micro does not apply to a search"),
        ((*MODEL, "--gpus", "8", "--interleave", "2"), "--interleave does not apply to a search"),
        ((*MODEL, "--gpus", "8", "--zero", "1"), "--zero does not apply to a search"),
        ((*MODEL, "--chakra", "traces"), "--chakra does not apply to a model"),
        ((*MODEL, "--mesh", "8", "--cap", "40"), "--cap is for a choice of levels: --zero best"),
        (("step.mlir", "--cap", "40"), "--cap is for a choice of levels: --zero best"),
        (("step.mlir", "--batch", "4"), "--batch does not apply to a step"),
        (("step.mlir", "--gpus", "4"), "--gpus does not apply to a step"),
        (("step.mlir", "--ranks", "4"), "--ranks is for --chakra"),
        (("step.mlir", *MODEL), "give a step, or --model"),
        ((), "give a step, or --model"),
        (("--published", "--json"), "--json does not apply to published rows"),
        (("--published", "--device", "a100"), "--device does not apply to published rows"),
    ],
)
def test_what_would_be_ignored_is_refused(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scalify-plan", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_formats_of_a_model(artefact, tmp_path, monkeypatch, capsys):
    def plan(*arguments: str) -> tuple[int, Any]:
        monkeypatch.setattr(sys, "argv", ["scalify-plan", *arguments])
        status = main()
        printed = capsys.readouterr()
        return status, printed.err or json.loads(printed.out)

    mesh = (*MODEL, "--mesh", "8", "--batch", "64", "--json")
    for recipe, form in (("fp16", "bf16"), ("bf16", "bf16"), ("fp8-delayed", "fp8")):
        status, found = plan(*mesh, "--recipe", recipe)
        assert (status, found["layout"]["compute"]) == (0, form)
    status, found = plan(*mesh, "--recipe", "fp8-lm-o2")
    layout = found["layout"]
    assert (status, layout["compute"], layout["level"]) == (0, "fp8", "o2")
    assert layout["wire"] == ["fp8", "fp8"]
    for recipe, words in (
        ("none", "a model is simulated in 16 bits or FP8, and 'none' computes in F32"),
        ("pf8", "'pf8' is no recipe of a model: give one of fp16, bf16, fp8,"),
    ):
        assert plan(*mesh, "--recipe", recipe)[0] == 1
        assert words in plan(*mesh, "--recipe", recipe)[1]
    status, text = plan(*mesh, "--device", "a100")
    assert (status, "a100 has no products in FP8" in text) == (1, True)
    status, found = plan(*mesh, "--device", "a100", "--recipe", "bf16")
    assert (status, found["layout"]["compute"]) == (0, "bf16")
    # An artefact has its recipe and level.
    path = tmp_path / "step.scalify"
    path.write_bytes(artefact)
    for option in (("--recipe", "bf16"), ("--zero", "3")):
        status, text = plan(str(path), *option)
        assert status == 1
        assert f"is compiled already: {option[0]} does not apply" in text


@pytest.mark.parametrize("size", [1, 4])
def test_a_step_that_exchanges_nothing(size, tmp_path, monkeypatch, capsys):
    placed = NamedSharding(AbstractMesh((size,), ("data",)), P("data"))
    jitted = jax.jit(lambda x: 2 * x, in_shardings=placed, out_shardings=placed)
    traced = jitted.trace(jax.ShapeDtypeStruct((8, 8), np.float32))
    path = tmp_path / "alone.mlir"
    path.write_text(traced.lower(lowering_platforms=("cuda",)).as_text())
    monkeypatch.setattr(sys, "argv", ["scalify-plan", str(path), "--recipe", "none"])
    assert main() == 0
    printed = capsys.readouterr().out
    assert ("data 4" if size > 1 else "one rank") in printed
    assert ("links that misbehave" in printed) == (size > 1)


def test_exchanges_of_different_ranks_are_not_joined():
    """Groups of neighbouring tensor ranks and of all ranks: both have a stride of 1."""

    def reduce(ranks: int, **to: Any) -> dict[str, Any]:
        group = [list(range(ranks))]
        own = {"op": "collective", "kind": "all_reduce", "src": 0, "dst": 1, "groups": group}
        return {**own, "stream": 1, **to}

    def wires(*commands: dict[str, Any]) -> list[tuple[str, int, int]]:
        manifest = {
            "buffers": [{"dtype": "f32", "shape": [1024]}] * 2,
            "memory": {"peak": 0},
            "mesh": [["data", 64], ["tensor", 8]],
            "pipeline": {"stage": 7},
            "functions": {"step": list(commands)},
        }
        found = choose.tasks(H100, graph.read(manifest, H100), choose.Choice(bucket=1e9))[1]
        return [(wire.kind, wire.ranks.ranks, wire.elements) for wire in found]

    assert wires(reduce(8), reduce(8), reduce(512)) == [
        ("all_reduce", 8, 2048),
        ("all_reduce", 512, 1024),
    ]
    # Nor are messages, which may go to different ranks.
    first, second = (reduce(2, kind="message", to=peer) for peer in (6, 5))
    assert wires(first, second) == [("send", 2, 1024)] * 2
