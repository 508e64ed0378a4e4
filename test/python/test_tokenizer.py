"""scalify.models.tokenizer and its command: training on files, texts that come back."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from scalify import tokenizer as command
from scalify.models import tokenizer

pytest.importorskip("tokenizers", reason="the library 'tokenizers' is not installed")


DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
FILES = [DOCS / "python.md", DOCS / "runtime.md", DOCS / "glossary.md"]
# Nothing of these is in the files: other scripts, controls, spaces that are easily lost.
ODD = "  two  spaces\r\n\ttab \u00e9\u0301 \u65e5\u672c\u8a9e \U0001f600 \x00\x7f don't .  "


def test_the_command_trains_a_tokenizer_for_any_text(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", "--vocab-size", "1000", "--out", str(tmp_path / "new"), *map(str, FILES)]
    assert command.main(train) == 0
    assert "byte-level BPE of 1000 tokens" in capsys.readouterr().out
    trained = tokenizer.load(tmp_path / "new")
    assert trained.get_vocab_size() == 1000
    text = FILES[0].read_text(encoding="utf-8")
    tokens = tokenizer.encode(trained, text)
    assert tokens.dtype == np.int32 and tokens.max() < 1000
    # A thousand tokens of the same text are longer than two bytes on average.
    assert len(tokens) < len(text.encode()) / 2
    for one in (text, ODD, ""):
        assert tokenizer.decode(trained, tokenizer.encode(trained, one)) == one
    end = trained.token_to_id(tokenizer.END)
    assert tokenizer.encode(trained, f"a{tokenizer.END}").tolist()[-1] == end
    assert tokenizer.decode(trained, [end]) == ""
    assert tokenizer.decode(trained, [end], special=True) == tokenizer.END
    config = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())
    assert config["eos_token"] == tokenizer.END

    assert command.main(["encode", str(tmp_path / "new"), "a scale"]) == 0
    ids = capsys.readouterr().out.split()
    assert command.main(["decode", str(tmp_path / "new" / "tokenizer.json"), *ids]) == 0
    assert capsys.readouterr().out == "a scale\n"


def test_transformers_reads_it(tmp_path: pathlib.Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    trained = tokenizer.train(FILES, 600, ["<end>", "<turn>"])
    tokenizer.save(trained, tmp_path, "<end>")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = f"<turn>{ODD}<end>"
    ids = theirs(text)["input_ids"]
    assert ids == tokenizer.encode(trained, text).tolist()
    assert theirs.decode(ids, skip_special_tokens=True) == ODD
    assert theirs.eos_token_id == trained.token_to_id("<end>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "-o", "x", "--vocab-size", "100", "text"], "bytes and special tokens need 259"),
        (["train", "-o", "x", "missing"], "No such file"),
        (["train", "-o", "x", "binary"], "'binary' is no UTF-8 text"),
        (["encode", ".", "a"], "tokenizer.json' does not exist"),
        (["encode", "text", "a"], "'text' is no tokenizer"),
    ],
)
def test_errors_name_the_cause(
    arguments: list[str],
    message: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("text").write_text("some text\n")
    pathlib.Path("binary").write_bytes(b"\xff\xfe\x00")
    assert command.main(arguments) == 1
    assert message in capsys.readouterr().err
