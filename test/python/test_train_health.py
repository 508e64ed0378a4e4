"""The health policy of a run's file, on runs whose casts clip until the policy mends them."""

from __future__ import annotations

import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from train_runs import prepare, records

from scalify import checkpoint
from scalify.models import llama
from scalify.train.config import read
from scalify.train.loop import Run


@pytest.fixture(autouse=True)
def kept_code(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the code of kernels, which the runs of a test share."""
    monkeypatch.setenv("SCALIFY_CACHE", str(tmp_path_factory.mktemp("kernels")))


def unhealthy(run: Run) -> list[str]:
    """Returns the casts of the last step that lost half of their values."""
    return [row["cast"] for row in run.step.health() if 2 * row["flushed"] > row["elements"]]


def losses(folder: pathlib.Path) -> list[float]:
    return [one["loss"] for one in records(folder)]


def pruned_model(folder: pathlib.Path) -> pathlib.Path:
    """Returns a configuration of a model of which a matrix is nearly zero in three rows of four.

    E4M3 has 18 binades, and these rows are 30 below the others: any scale flushes them.
    """
    config = prepare(folder)
    made = Run(read(config))
    params, rows = made.trained, made.model.intermediate_size * 3 // 4
    matrix = np.array(params["layers"][0]["w_down"])
    matrix[:rows] *= 2.0**-30
    params["layers"][0]["w_down"] = jnp.asarray(matrix)
    llama.hf.save(folder / "pruned", made.model, params)
    made.close()
    text = config.read_text()
    text = f"[model]\nweights = '{folder}/pruned'\n" + text[text.index("[data]") :]
    # Adapters leave the matrix as it is.
    config.write_text(text + "[lora]\nrank = 2\ntargets = ['q_proj']\n")
    return config


@pytest.mark.filterwarnings("ignore:of cast:UserWarning")
@pytest.mark.parametrize("ranks", [1, 2])
def test_widen_leaves_a_cast_wide_that_no_scale_keeps(
    tmp_path: pathlib.Path, ranks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = pruned_model(tmp_path)
    sets = ["recipe.health=widen", "recipe.health_every=2", "checkpoint.every=1"]
    sets += ["schedule.kind=constant", f"train.mesh={{data={ranks}}}"]

    def run(name: str, steps: int) -> tuple[Run, str]:
        one = Run(read(config, [*sets, f"train.steps={steps}", f"log.folder={tmp_path}/{name}"]))
        assert one.train() == 0
        one.close()
        return one, capsys.readouterr().out

    # The policy looks after 2 and 4 steps, and loses its patience after 6.
    five, said = run("part", 5)
    (cast,) = unhealthy(five)
    assert "frozen['layers'][0]['w_down']" in cast
    assert "wide" not in said
    # The policy's counts are part of the checkpoint. Gradients through the matrix were zero before,
    # and are small numbers now.
    nine, said = run("part", 9)
    assert f"step 6: {cast} is wide from here on" in said
    after = unhealthy(nine)
    assert after and cast not in after
    # Resumed, it keeps the cast wide; and the next ones follow after 8, 10 and 12 steps.
    resumed, said = run("part", 15)
    assert unhealthy(resumed) == []
    run("whole", 15)
    assert losses(tmp_path / "part") == losses(tmp_path / "whole")
    trees: list[Any] = [
        checkpoint.load(tmp_path / name / "checkpoints").tree for name in ("part", "whole")
    ]
    assert trees[0].keys() == trees[1].keys()
    for name, array in trees[0].items():
        np.testing.assert_array_equal(array, trees[1][name], err_msg=name)
    for name in ("part", "whole"):
        found = records(tmp_path / name, "wide")
        assert [one["step"] for one in found] == [6] + [12] * len(after)
        assert [one["cast"] for one in found] == [cast, *after]
        assert found[0]["reason"] == "75 % of the values became zero"


def test_rescale_follows_weights_that_outgrow_their_scales(tmp_path: pathlib.Path) -> None:
    config = prepare(tmp_path)
    sets = ["recipe.health=rescale", "recipe.health_every=1", "log.health_every=1"]
    # A step of Adam moves each weight by its rate: twenty times what they begin with.
    sets += ["optimizer.learning_rate=0.4", "schedule.warmup=0", "schedule.kind=constant"]
    run = Run(read(config, [*sets, "train.steps=8", "recipe.replace.sensitive=true"]))
    assert run.train() == 0
    run.close()
    shares = [one["saturated"] for one in records(tmp_path / "run")]
    assert max(shares[:4]) > 0.001
    assert shares[-1] < 1e-4
