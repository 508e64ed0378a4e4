"""The configuration of a run: every key and type is checked, and errors name the way out."""

from __future__ import annotations

import pathlib

import pytest

from scalify.train.command import main
from scalify.train.config import ConfigError, differences, read_text, to_json

LEAST = """
model.name = "llama"
data.train = "a.tokens"
train.steps = 10
train.batch = 4
"""


def test_defaults_types_and_overrides() -> None:
    config = read_text(LEAST, ["train.batch=8", "recipe.name=fp8-delayed", "log.peak_flops=1e12"])
    assert (config.train.batch, config.recipe.name, config.log.peak_flops) == (
        8,
        "fp8-delayed",
        1e12,
    )
    assert [(one.path, one.weight) for one in config.data.train] == [("a.tokens", 1.0)]
    assert config.schedule.kind == "cosine"
    again = read_text(LEAST, ["train.batch=8", "optimizer.clip=0"])
    assert differences(to_json(config), again) == [
        "log.peak_flops: 1000000000000.0 -> null",
        "optimizer.clip: 1.0 -> 0.0",
        'recipe.name: "fp8-delayed" -> "fp8"',
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("optimiser.clip = 1", "unknown key 'optimiser': did you mean 'optimizer'?"),
        ("optimizer.learning_rat = 1", "did you mean 'optimizer.learning_rate'?"),
        ("optimizer.q = 1", "unknown key 'optimizer.q': known: learning_rate, "),
        ("optimizer.clip = '1'", "optimizer.clip = '1': expected a number, not str"),
        ("train.micro_batches = 1.5", "expected a whole number, not float"),
        ("train.seed = true", "expected a whole number, not bool"),
        ("train.micro_batches = 3", "train.batch = 4 is no multiple of 3"),
        ("train.zero = 4", "expected a level, 0 to 3"),
        ("train.mesh = {stage = 2}", "train.mesh has stage = 2: expected data"),
        ("schedule.kind = 'linear'", "expected one of cosine, wsd, constant"),
        ("schedule.kind = 'wsd'", "'wsd' needs the steps of its decay"),
        ("schedule.warmup = 11", "more than train.steps = 10"),
        ("evaluation.every = 5", "evaluation.every needs data.validation"),
        ("sample.every = 5", "sample.every needs data.tokenizer"),
        ("model.config = 'c.json'", "model has name and config: give one of them"),
        ("recipe.health = 'ignore'", "expected one of"),
        ("lora = 3", "lora = 3: expected a table"),
        ("= 3", "not TOML"),
    ],
)
def test_errors_name_the_key_and_the_way_out(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_text(LEAST + line + "\n")
    assert said in str(caught.value)


def test_missing_keys_and_bad_overrides() -> None:
    with pytest.raises(ConfigError, match=r"'train\.batch' is missing"):
        read_text(LEAST.replace("train.batch = 4", ""))
    for override in ("train.batch", "=3", "train.batch.more=3"):
        with pytest.raises(ConfigError, match="--set"):
            read_text(LEAST, [override])


def test_the_command_reports_errors_in_one_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(LEAST + "log.fodler = 'x'\n")
    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert error == f"scalify train: {path}: unknown key 'log.fodler': did you mean 'log.folder'?\n"
    assert main([str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err
