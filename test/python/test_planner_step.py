"""Compiled steps in the planner: 512 ranks that are not there."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np
import partition_programs
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from partition_programs import P

from scalify import _wire
from scalify.plan import DEVICES, choose, disturb, graph
from scalify.plan.__main__ import main

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
    """What links carry is what `Executable.collectives` counts, which the transport does too."""
    manifest = graph.manifest_of(artefact)
    plan = choose.outcome(H100, graph.read(manifest, H100))
    rows = _wire.collectives(manifest, 0)
    assert plan.nvlink + plan.network == pytest.approx(sum(row["sent"] for row in rows), rel=0.01)
    far = [row for row in rows if len(row["groups"][0]) == DATA]
    assert plan.network == pytest.approx(sum(row["sent"] for row in far), rel=0.01)


def test_choices_change_what_they_should(artefact):
    found = graph.read(graph.manifest_of(artefact), H100)
    plan = choose.outcome(H100, found)
    wide = choose.outcome(H100, found, choose.Choice("f32", "f32"))
    narrow = choose.outcome(H100, found, choose.Choice("fp8", "fp8"))
    assert narrow.network == pytest.approx(wide.network / 4)
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
    assert plan(str(path), "--mesh", "8x8") == 1
    assert "the step's own mesh is 64x8" in capsys.readouterr().err
    assert plan(str(path), "--device", "a100") == 1
    assert "a100 has no products in FP8" in capsys.readouterr().err
    assert plan("--model", "llama-7b", "--mesh", "8x1x1", "--batch", "64") == 0
    assert "tokens" in capsys.readouterr().out
    assert plan("--model", "llama-7b", "--mesh", "3x1x1", "--batch", "64") == 1
    assert "64 sequences are no multiple of 3 x 1" in capsys.readouterr().err
