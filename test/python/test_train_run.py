"""`scalify train` on a tiny model: the loss falls, and runs resume bit for bit."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from train_runs import finish, prepare, records, start, write_corpus

from scalify import checkpoint
from scalify.models import tokenizer
from scalify.train.command import main


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Is in memory where it can be: a kill leaves alone what the kernel has, and a disk is slow."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="train-", dir="/dev/shm") as name:
        yield pathlib.Path(name)


def run(config: pathlib.Path, *overrides: str) -> None:
    sets = [word for override in overrides for word in ("--set", override)]
    assert main([str(config), *sets]) == 0


def losses(folder: pathlib.Path) -> list[float]:
    found = records(folder)
    assert [one["step"] for one in found] == list(range(1, len(found) + 1))
    return [one["loss"] for one in found]


@pytest.fixture(scope="module", autouse=True)
def kept_code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keeps the code of kernels, which all runs here share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALIFY_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


def test_twenty_steps_in_fp8_lower_the_loss(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = prepare(tmp_path)
    evaluated = ("evaluation.every=10", "evaluation.batches=2", "log.peak_flops=1e12")
    if importlib.util.find_spec("tensorboardX"):
        evaluated += ("log.tensorboard=true",)
    run(config, *evaluated, "train.steps=20")
    folder = tmp_path / "run" / "tensorboard"
    assert len(list(folder.glob("events.*"))) == ("log.tensorboard=true" in evaluated)
    write_corpus(tmp_path / "corpus.tokens", documents=61)
    assert main([str(config), "--set", "train.steps=30"]) == 2
    assert "tokens, and had" in capsys.readouterr().err
    found = losses(tmp_path / "run")
    # The log of a uniform guess over the vocabulary is 4.16.
    assert 3.9 < found[0] < 4.4
    assert found[-1] < 3.2
    validated = [one["loss"] for one in records(tmp_path / "run", "evaluation")]
    assert len(validated) == 2 and validated[1] < validated[0]
    last = records(tmp_path / "run")[-1]
    assert last["samples"] == 20 * 8
    assert 0 <= last["saturated"] < 0.01 and 0 <= last["flushed"] < 0.1
    assert last["mfu"] > 0 and last["tokens_per_second"] > 0 and last["memory"] > 1 << 20
    assert len(list((tmp_path / "run" / "checkpoints").glob("step-*"))) == 2


def test_micro_batches_have_the_gradients_of_the_batch(tmp_path: pathlib.Path) -> None:
    config = prepare(tmp_path)
    found = []
    for parts in (1, 4):
        # Samples are padded, so that micro-batches have different numbers of targets.
        sets = [f"log.folder={tmp_path}/{parts}", f"train.micro_batches={parts}"]
        run(config, *sets, "recipe.name=none", "train.steps=2", "data.packing=documents")
        first = records(tmp_path / str(parts))[0]
        found.append([first["loss"], first["gradient_norm"]])
    # Sums of F32 in another order.
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_ranks_that_split_matrices_have_the_losses_of_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = prepare(tmp_path)
    end = ("schedule.kind=constant", "train.steps=3")
    four = ("train.mesh={data=2,tensor=2}", "recipe.name=none", f"log.folder={tmp_path}/four")
    run(config, "recipe.name=none", f"log.folder={tmp_path}/one", *end)
    run(config, *four, *end, "train.steps=2")
    # One rank continues what four began, and ends with a text.
    words = tokenizer.train_texts(["a b c"], 259)
    tokenizer.save(words, tmp_path)
    sample = ("sample.every=3", "sample.tokens=2", "sample.prompt=!")
    run(config, *four, *end, "train.mesh={}", f"data.tokenizer={tmp_path}/tokenizer.json", *sample)
    said = capsys.readouterr().out
    assert "resumed after step 2" in said
    assert "the configuration has changed: train.mesh.data: 2 -> null" in said
    # Sums of F32 in another order; a step's error enters the next one's weights.
    np.testing.assert_allclose(losses(tmp_path / "four"), losses(tmp_path / "one"), rtol=1e-4)
    (text,) = records(tmp_path / "four", "sample")
    assert text["step"] == 3 and text["text"].startswith("!")
    sets = ["train.mesh={tensor=2}", "model.override.vocab_size=65", "model.override.head_dim=16"]
    assert main([str(config), *(word for one in sets for word in ("--set", one))]) == 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_run_resumes_bit_for_bit(folder: pathlib.Path, ranks: int) -> None:
    config = prepare(folder)
    on = [f"train.mesh={{data={ranks}}}", "train.micro_batches=2", f"train.zero={2 * (ranks - 1)}"]
    on += ["train.steps=60", "checkpoint.every=10", "evaluation.every=30", "evaluation.batches=1"]
    # One process computes the steps of all ranks.
    run(config, *on, f"log.folder={folder}/whole")
    victims = start(config, *on, ranks=ranks, job=f"{folder.name}-a")
    checkpoints = folder / "run" / "checkpoints"
    deadline = time.monotonic() + 120
    while not list(checkpoints.glob("step-*")):
        assert time.monotonic() < deadline, "the run writes no checkpoint"
        time.sleep(0.001)
    for one in victims:
        os.kill(one.pid, signal.SIGKILL)
    said = [one.communicate()[0] for one in victims]
    assert [one.returncode for one in victims] == [-signal.SIGKILL] * ranks, said
    said = finish(start(config, *on, ranks=ranks, job=f"{folder.name}-b"))
    assert re.search(r"resumed after step \d+0 ", said)
    assert losses(folder / "run") == losses(folder / "whole")
    evaluated = [records(folder / name, "evaluation") for name in ("run", "whole")]
    assert len(evaluated[0]) == 2 and evaluated[0] == evaluated[1]
    saved = [checkpoint.load(folder / name / "checkpoints") for name in ("run", "whole")]
    assert saved[0].step == saved[1].step == 60
    assert saved[0].tree.keys() == saved[1].tree.keys()
    for name, array in saved[0].tree.items():
        np.testing.assert_array_equal(array, saved[1].tree[name], err_msg=name)


@pytest.mark.parametrize("change", ["model.override.hidden_size=48", "lora.rank=2"])
def test_a_resumed_run_of_another_model(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    config = prepare(tmp_path)
    run(config, "train.steps=3")
    assert main([str(config), "--set", "train.steps=4", "--set", change]) == 2
    said = capsys.readouterr().err
    assert "are of another model, adapter or optimizer" in said
    assert "start a new run in another folder" in said


def test_ctrl_c_saves_and_ends(folder: pathlib.Path) -> None:
    config = prepare(folder)
    (command,) = start(config, "train.steps=1000000", "checkpoint.every=1000000")
    log = folder / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not log.exists() or not log.read_text():
        assert time.monotonic() < deadline, "the run writes no log"
        time.sleep(0.01)
    command.send_signal(signal.SIGINT)
    said, _ = command.communicate(timeout=60)
    assert command.returncode == 128 + signal.SIGINT, said
    done = len(records(folder / "run"))
    assert f"SIGINT: saved after step {done};" in said
    assert checkpoint.load(folder / "run" / "checkpoints").step == done
