"""The parts of the long run: texts out of packages, tables, the best rate, the model of muS."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalify.models import llama
from scalify.train.config import read

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "numerics"))

import corpus  # noqa: E402
import long_run_table  # noqa: E402
import mus  # noqa: E402
import transfer  # noqa: E402
from train_runs import prepare  # noqa: E402

CONFIG = llama.LlamaConfig(
    vocab_size=64,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")
def test_texts_of_a_package_are_documents(tmp_path: pathlib.Path) -> None:
    entry = "word\n   says something\n"
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: words\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: words\n"
    )
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share/a.txt").write_text(entry * 1000)
    (tree / "usr/share/a.png").write_bytes(b"no text")
    subprocess.run(["dpkg-deb", "-b", tree, tmp_path / "words.deb"], check=True)
    source = corpus.Source("words", "./usr/share/", (".txt",), "ours")
    texts = list(corpus._texts(source, tmp_path / "words.deb"))
    assert texts == [entry * 1000]
    pieces = list(corpus._pieces(texts[0]))
    assert "".join(pieces) == texts[0]
    # Each begins with an entry, and is at most one entry longer than asked for.
    assert all(piece.startswith("word\n") for piece in pieces)
    assert max(map(len, pieces)) < corpus.PIECE + len(entry)


def records(losses: list[float], held: dict[int, float]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {"kind": "step", "step": i, "loss": loss, "seconds": 2.0, "tokens_per_second": 1.0}
        | {"casts": 7, "moved": i % 2, "saturated": 0, "flushed": 0.1}
        for i, loss in enumerate(losses, 1)
    ]
    return steps + [{"kind": "evaluation", "step": at, "loss": x} for at, x in held.items()]


def test_gaps_are_paired_at_the_last_common_step() -> None:
    runs = []
    for seed, gap in ((0, 0.01), (1, 0.03)):
        base = long_run_table.summary("none", seed, records([2.0] * 50, {25: 4.0, 50: 2.0}))
        # The F32 run is further: its last evaluation has no partner.
        runs += [base, long_run_table.summary("fp8", seed, records([2.0] * 30, {25: 4 + 4 * gap}))]
    row = long_run_table.gaps(runs).splitlines()[2]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # The deviation of 1 and 3 is sqrt(2), so a t quantile of 6.314 gives 2 + 6.314.
    assert cells[:5] == ["fp8", "2", "25", "+2.00 %", "+8.31 %"]
    assert runs[0]["windows"][0]["moved"] == 13 and runs[0]["casts"] == 7
    results = {"runs": runs, "quiet": True}
    assert json.loads(json.dumps(results)) == results
    assert "| fp8 | 1 | 2.000 | 1.00 x |" in long_run_table.tables(results)
    assert "## Time" not in long_run_table.tables(results | {"quiet": False})


def test_the_best_rate_is_a_parabolas_vertex() -> None:
    losses = {at: (at + 8.25) ** 2 for at in range(-11, -5)}
    assert transfer.optimum(losses) == pytest.approx(-8.25)
    assert transfer.optimum(losses | {-6: math.nan}) == pytest.approx(-8.25)
    assert transfer.optimum({at: float(at) for at in range(-11, -5)}) is None


def test_values_of_mus_have_unit_variance() -> None:
    params = mus.init(CONFIG, jax.random.key(0))
    shape = (8, 32)
    rng = np.random.default_rng(0)
    batch = {
        "tokens": jnp.asarray(rng.integers(0, 64, shape)),
        "targets": jnp.asarray(rng.integers(0, 64, shape)),
        "weights": jnp.ones(shape),
        "segments": jnp.ones(shape, jnp.int32),
        "positions": jnp.broadcast_to(jnp.arange(32), shape),
    }
    value, grads = jax.jit(jax.value_and_grad(mus.loss), static_argnums=2)(params, batch, CONFIG)
    # The head's division by its fan-in gives logits a variance of 1/128, so that the loss begins at
    # ln V + 1/256, and the mean of the targets' logits adds up to three of its deviations:
    # sqrt(1/128 / 256) = 0.006.
    assert float(value) == pytest.approx(math.log(64), abs=0.02)
    # The gradient of the head's input, (p - onehot) W / width for one token, has the variance
    # (1 - 1/V) / width^2 over tokens^2; the recipe's factor makes it 1. It passes to the embedding
    # through the trunk, which keeps variances; rows add the tokens that they have.
    factor = 2.0 ** -mus.recipe(8 * 32, CONFIG.hidden_size).gradient_exponent
    each = np.asarray(grads["embed"]) * factor / np.sqrt(8 * 32 / 64)
    # Attention and GELU do not keep variances exactly, but within half a binade, which a format's
    # range does not notice; 8192 elements have 1 % of noise.
    assert 0.7 < each.std() < 1.4
    assert mus.rates(params)["layers"][0]["wq"] == math.sqrt(2)
    assert mus.rates(params)["head"] == 1.0


def test_mus_learns_in_static_fp8(tmp_path: pathlib.Path) -> None:
    config = read(prepare(tmp_path), ["optimizer.learning_rate=0.1", "train.steps=12"])
    recipe = str(mus.recipe(8 * 32, 32))
    config = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, name=recipe))
    run = mus.MusRun(config)
    assert run.train() == 0
    run.close()
    formats = {row["format"] for row in run.step.health()}
    assert {"f8E4M3FN", "f8E5M2"} <= formats
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    # As above: logits have a variance of 1/32, and half of that is 0.016; FP8 adds less.
    assert losses[0] == pytest.approx(math.log(64), abs=0.05)
    # Weights that do not move leave it within that of ln V, batch for batch.
    assert losses[-1] < math.log(64) - 0.3
