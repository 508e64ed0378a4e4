"""`scalify tokenize`, and what follows it: instructions on which adapters lower the loss."""

from __future__ import annotations

import gzip
import json
import pathlib

import numpy as np
import pytest
from train_runs import CONFIG, records

from scalify.tokenize import main
from scalify.train.command import main as train
from scalify.train.tokens import TokenFile

tokenizers = pytest.importorskip("tokenizers", reason="text needs the library tokenizers")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "red", "bird", "in", "that"]


@pytest.fixture
def text(tmp_path: pathlib.Path) -> pathlib.Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "text.txt.gz"
    lines = (" ".join(rng.choice(WORDS, 12)) for _ in range(400))
    path.write_bytes(gzip.compress("\n\n".join(lines).encode()))
    return path


def tokenize(tmp_path: pathlib.Path, *options: object) -> int:
    return main(["--tokenizer", f"{tmp_path}/tokenizer.json", *map(str, options)])


def test_documents_come_back_from_a_file_of_tokens(
    tmp_path: pathlib.Path, text: pathlib.Path
) -> None:
    out = tmp_path / "a.tokens"
    options = ("--train", 300, "--split", "\\n\\n", "--held-out", 0.1, "-o", out, text)
    assert tokenize(tmp_path, *options) == 0
    tokenizer = tokenizers.Tokenizer.from_file(f"{tmp_path}/tokenizer.json")
    found = []
    for path in (out, tmp_path / "a.held.tokens"):
        file = TokenFile(path)
        assert file.vocabulary == tokenizer.get_vocab_size() <= 300
        assert file.end == tokenizer.token_to_id("<|endoftext|>")
        for begin, end in zip(file.documents, file.documents[1:], strict=False):
            assert file.tokens[end - 1] == file.end
            found.append(tokenizer.decode(file.tokens[begin : end - 1].tolist()))
    assert sorted(found) == sorted(gzip.decompress(text.read_bytes()).decode().split("\n\n"))
    assert 20 < len(TokenFile(tmp_path / "a.held.tokens").documents) < 70


def test_bytes_that_are_no_text_are_counted(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, chat = tmp_path / "latin.txt", tmp_path / "latin.jsonl"
    words.write_bytes("café, naïve, café\n\nplain".encode("latin-1"))
    chat.write_bytes('{"text": "caf\xe9"}\n{"text": "caf\xe9s"}\n'.encode("latin-1"))
    out = tmp_path / "a.tokens"
    assert tokenize(tmp_path, "--train", 270, "--split", "\\n\\n", "-o", out, words, chat) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{words}: 3 bytes are no UTF-8, now U+FFFD: convert the file by iconv",
        f"{chat}: 2 bytes are no UTF-8, now U+FFFD: convert the file by iconv",
    ]
    tokenizer = tokenizers.Tokenizer.from_file(f"{tmp_path}/tokenizer.json")
    file = TokenFile(out)
    first = tokenizer.decode(file.tokens[: file.documents[1] - 1].tolist())
    assert first == "caf\ufffd, na\ufffdve, caf\ufffd"


def test_errors_name_the_file_and_the_way_out(
    tmp_path: pathlib.Path, text: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*options: object) -> str:
        assert tokenize(tmp_path, *options) == 2
        return capsys.readouterr().err

    assert "name a file of tokens by --out" in said(text)
    assert "bytes and special tokens need 259" in said("--train", 100, text)
    assert tokenize(tmp_path, "--train", 300, text) == 0
    assert "exists: leave out --train" in said("--train", 300, text)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "x"}\n{"other": 1}\n')
    assert f"{bad}:2: no key 'text'" in said("-o", tmp_path / "b.tokens", bad)
    assert f"{bad}:1: no conversation" in said("--chat", "-o", tmp_path / "b.tokens", bad)
    assert "unknown template 'x'" in said("--chat", "--template=x", "-o", tmp_path / "b", bad)
    assert not (tmp_path / "b.tokens").exists()


def test_adapters_learn_instructions(tmp_path: pathlib.Path, text: pathlib.Path) -> None:
    corpus, chat = tmp_path / "corpus.tokens", tmp_path / "chat.jsonl"
    assert tokenize(tmp_path, "--train", 300, "--split", "\\n\\n", "-o", corpus, text) == 0
    rng = np.random.default_rng(1)
    with chat.open("w") as file:
        for _ in range(300):
            asked = " ".join(rng.choice(WORDS, 2).tolist())
            file.write(json.dumps({"instruction": asked, "output": " ".join(WORDS[:8])}) + "\n")
    held = ("--held-out", 0.2, "--template", "plain")
    assert tokenize(tmp_path, "--chat", *held, "-o", tmp_path / "chat.tokens", chat) == 0
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(folder=tmp_path))
    base = [str(config), "--set", f"export.folder={tmp_path}/model"]
    tokenizer = f"data.tokenizer={tmp_path}/tokenizer.json"
    assert train([*base, "--set", "train.steps=20", "--set", tokenizer]) == 0
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    sets = {
        "model": f"{{weights='{tmp_path}/model'}}",
        "data.train": f"['{tmp_path}/chat.tokens']",
        "data.validation": f"['{tmp_path}/chat.held.tokens']",
        "data.packing": "documents",
        "data.sequence": 64,
        "train.steps": 40,
        "lora.rank": 8,
        "evaluation.every": 10,
        "evaluation.batches": 2,
        "log.folder": f"{tmp_path}/tuned",
        "export.folder": f"{tmp_path}/merged",
    }
    options = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    assert train([str(config), *options]) == 0
    losses = [one["loss"] for one in records(tmp_path / "tuned", "evaluation")]
    assert losses[-1] < losses[0] - 0.3, losses
    assert (tmp_path / "merged" / "model.safetensors").exists()
    # The tokenizer beside the weights, with its template.
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / "merged" / name).read_text() == (tmp_path / "model" / name).read_text()
