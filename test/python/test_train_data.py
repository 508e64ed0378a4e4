"""Files of tokens, and batches from them: packing, masks, blends and positions that resume."""

from __future__ import annotations

import collections
import json
import pathlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scalify.train.chat import Template, conversation
from scalify.train.data import FIELDS, Blend, Pick
from scalify.train.order import Permutation, blend
from scalify.train.prefetch import Prefetch
from scalify.train.settings import Source
from scalify.train.tokens import TokenFile, TokenWriter


def write(path: pathlib.Path, documents: list[list[int]], **options: Any) -> Source:
    with TokenWriter(path, 1000, 0, **options) as writer:
        for document in documents:
            writer.add(document, *([[1] * len(document)] if options.get("masked") else []))
    return Source(str(path))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_permutation_reaches_each_index_once(size: int) -> None:
    orders = [[Permutation(size, 3, seed).of(i) for i in range(size)] for seed in range(2)]
    assert all(sorted(order) == list(range(size)) for order in orders)
    assert size < 7 or orders[0] != orders[1]


def test_a_blend_keeps_every_source_close_to_its_share() -> None:
    weights, counts = [5.0, 3.0, 0.01], np.zeros(3, np.int64)
    for number in range(1, 2000):
        blend(weights, counts, 1)
        assert np.all(np.abs(counts - number * np.array(weights) / 8.01) < 3)


def test_a_file_is_what_was_written(tmp_path: pathlib.Path) -> None:
    documents = [[5, 6, 7, 0], [8, 0], [999, 1, 0]]
    write(tmp_path / "a.tokens", documents, masked=True)
    file = TokenFile(tmp_path / "a.tokens")
    assert file.tokens.tolist() == [5, 6, 7, 0, 8, 0, 999, 1, 0]
    assert file.documents.tolist() == [0, 4, 6, 9]
    assert file.tokens.dtype == np.uint16
    assert (file.vocabulary, file.end) == (1000, 0)
    assert file.trained is not None and file.trained.tolist() == [1] * 9


def test_bad_files_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.tokens", [[1, 2, 3]])
    content = (tmp_path / "a.tokens").read_bytes()
    for bad in (content[:-2], b"not tokens at all", b""):
        (tmp_path / "bad.tokens").write_bytes(bad)
        with pytest.raises(ValueError, match=r"bad\.tokens' is no file of tokens"):
            TokenFile(tmp_path / "bad.tokens")
    with pytest.raises(ValueError, match="token 1000 is not in a vocabulary of 1000"):
        write(tmp_path / "b.tokens", [[1000]])
    assert not (tmp_path / "b.tokens").exists()


def test_packed_streams_have_masks_of_documents(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "a.tokens", [[5, 6, 0], [7, 8, 9, 10, 0], [11, 0]])
    data = Blend([source], "stream", 9, seed=0)
    picks, _ = data.take(data.start(), 1)
    sample = {name: part[0].tolist() for name, part in data.read(picks).items()}
    assert sample == {
        "tokens": [5, 6, 0, 7, 8, 9, 10, 0, 11],
        "targets": [6, 0, 7, 8, 9, 10, 0, 11, 0],
        "segments": [1, 1, 1, 2, 2, 2, 2, 2, 3],
        "positions": [0, 1, 2, 0, 1, 2, 3, 4, 0],
        # The end of a document does not tell the first token of the next one.
        "weights": [1, 1, 0, 1, 1, 1, 1, 0, 1],
    }


def test_packed_documents_stay_whole_and_are_padded(tmp_path: pathlib.Path) -> None:
    with TokenWriter(tmp_path / "a.tokens", 1000, 0, masked=True) as writer:
        for first in range(10, 200, 10):
            writer.add([first, first + 1, first + 2, 0], [0, 0, 1, 1])
    data = Blend([Source(str(tmp_path / "a.tokens"))], "documents", 10, seed=0)
    picks, _ = data.take(data.start(), data.sources[0].size(0))
    batch = data.read(picks)
    seen = []
    for row in range(len(picks)):
        sample = {name: part[row] for name, part in batch.items()}
        for segment in range(1, sample["segments"].max() + 1):
            own = sample["segments"] == segment
            first = int(sample["tokens"][own][0])
            seen.append(first)
            assert sample["positions"][own].tolist() == list(range(own.sum()))
            assert sample["targets"][own][:3].tolist() == [first + 1, first + 2, 0]
            # The request does not count, nor does the next document.
            assert sample["weights"][own].tolist() == [0, 1, 1, 0][: own.sum()]
        assert not sample["weights"][sample["segments"] == 0].any()
    assert sorted(seen) == list(range(10, 200, 10))


@pytest.mark.parametrize("packing", ["stream", "documents"])
def test_batches_resume_at_the_sample(tmp_path: pathlib.Path, packing: str) -> None:
    rng = np.random.default_rng(0)
    sources = []
    for name, count in (("a", 30), ("b", 50)):
        documents = [rng.integers(1, 1000, rng.integers(2, 40)).tolist() for _ in range(count)]
        sources.append(write(tmp_path / name, documents))

    def batches(sizes: list[int], position: Any = None) -> tuple[dict[str, Any], Any]:
        data = Blend(sources, packing, 16, seed=1)
        position = data.start() if position is None else position
        parts = []
        for size in sizes:
            picks, position = data.take(position, size)
            parts.append(data.read(picks))
        return {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}, position

    # More samples than an epoch has, and batches of other sizes.
    whole, end = batches([96, 96])
    first, middle = batches([10, 30, 17])
    second, last = batches([100, 35], middle)
    for name in FIELDS:
        np.testing.assert_array_equal(np.concatenate([first[name], second[name]]), whole[name])
    np.testing.assert_array_equal(last, end)
    assert end[:, 1].min() > 0


def test_batches_read_ahead_are_those_of_their_positions(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "a.tokens", [list(range(1, 322))])
    data = Blend([source], "stream", 16, seed=2)
    threads = []

    def make(picks: Sequence[Pick]) -> NDArray[Any]:
        threads.append(threading.current_thread().name)
        if len(threads) > 6:
            raise OSError("the disk is gone")
        return data.read(picks)["tokens"]

    wanted, places = [], [data.start()]
    for _ in range(5):
        picks, after = data.take(places[-1], 4)
        wanted.append(data.read(picks)["tokens"])
        places.append(after)
    batches = Prefetch(data, 4, make)
    position = data.start()
    for number in range(3):
        batch, position = batches.take(position)
        np.testing.assert_array_equal(batch, wanted[number])
        # That of the batch that was taken, not of the one ahead.
        np.testing.assert_array_equal(position, places[number + 1])
    # A position of an earlier checkpoint, and no batch after it.
    batch, position = batches.take(places[1], has_next=False)
    np.testing.assert_array_equal(batch, wanted[1])
    assert len(threads) == 5 and threading.current_thread().name not in threads
    batches.take(position)
    with pytest.raises(OSError, match="the disk is gone"):
        batches.take(places[3])
    batches.close()


def test_positions_belong_to_data(tmp_path: pathlib.Path) -> None:
    first = write(tmp_path / "a.tokens", [list(range(1, 322))])
    second = write(tmp_path / "b.tokens", [list(range(1, 99))])
    # As long, but for one token, or for where a document begins.
    other = write(tmp_path / "c.tokens", [[*range(1, 321), 5]])
    parted = write(tmp_path / "d.tokens", [list(range(1, 9)), list(range(9, 322))])
    before = Blend([first], "stream", 16, seed=2).order
    Blend([Source(first.path, 3.0)], "stream", 16, seed=2).check_order(before)
    for sources, packing, sequence, seed, said in (
        ([first, second], "stream", 16, 2, "data.train has 2 files, and had 1"),
        ([second], "stream", 16, 2, "b.tokens' has 98 tokens, and had 321"),
        ([other], "stream", 16, 2, "c.tokens' has other tokens, or documents, than it had"),
        ([parted], "stream", 16, 2, "d.tokens' has other tokens, or documents, than it had"),
        ([first], "documents", 16, 2, "data.packing is 'documents', and was 'stream'"),
        ([first], "stream", 32, 2, "data.sequence is 32, and was 16"),
        ([first], "stream", 16, 3, "train.seed is 3, and was 2"),
    ):
        with pytest.raises(ValueError, match=said):
            Blend(sources, packing, sequence, seed).check_order(before)


def test_a_digest_reads_a_sample_of_a_large_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scalify.train import tokens

    tokens_before = np.arange(1, 900, dtype=np.int64)
    shuffled = np.random.default_rng(0).permutation(tokens_before)
    # One token of 2 bytes is changed at each end, where no sample may miss it.
    first, last = tokens_before.copy(), tokens_before.copy()
    first[0], last[-1] = 999, 999
    monkeypatch.setattr(tokens, "_BLOCKS", 4)
    monkeypatch.setattr(tokens, "_BLOCK", 16)
    digests = set()
    for number, content in enumerate((tokens_before, shuffled, first, last)):
        for copy in range(2):
            path = tmp_path / f"{number}-{copy}.tokens"
            write(path, [content.tolist()])
            digests.add(TokenFile(path).digest)
        assert len(digests) == number + 1


def test_an_epoch_has_each_sample_once_and_the_next_another_order(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "a.tokens", [list(range(1, 322))])
    data = Blend([source], "stream", 16, seed=2)
    picks, _ = data.take(data.start(), 40)
    firsts = data.read(picks)["tokens"][:, 0].tolist()
    counts = collections.Counter(firsts)
    assert set(counts.values()) == {2} and len(counts) == 20
    assert firsts[:20] != firsts[20:]


class Words:
    """A tokenizer for tests: each character is a token."""

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        return type("Encoding", (), {"ids": [ord(letter) for letter in text]})()


def test_the_loss_counts_what_the_assistant_says(tmp_path: pathlib.Path) -> None:
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "two"},
    ]
    chatml = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    pytest.importorskip("jinja2", reason="templates of files need Jinja")
    # transformers writes the template into a file of its own, earlier versions into the settings.
    old, several, new = (tmp_path / name for name in ("old", "several", "new"))
    for folder, template in (
        (old, chatml),
        (several, [{"name": "tools", "template": "x"}, {"name": "default", "template": chatml}]),
        (new, None),
    ):
        folder.mkdir()
        settings = {"eos_token": "E"} | ({"chat_template": template} if template else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (new / "chat_template.jinja").write_text(chatml)
    results = []
    for name in (
        "chatml",
        *map(str, (old, several, new, old / "tokenizer_config.json")),
        *map(str, (new / "tokenizer_config.json", new / "chat_template.jinja")),
    ):
        tokens, trained = Template.of(name).encode(conversation({"messages": messages}), Words(), 1)
        text = "".join(chr(one) for one, counts in zip(tokens, trained, strict=True) if counts)
        assert text == "one<|im_end|>\ntwo<|im_end|>\n\x01"
        results.append(tokens)
    assert all(one == results[0] for one in results)


def test_a_template_may_refuse_and_fail(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("jinja2", reason="templates of files need Jinja")
    path = tmp_path / "chat_template.jinja"
    messages = conversation({"prompt": "p", "completion": "c"})
    for text, said in (
        ("{{ raise_exception('no ' ~ messages[0].role) }}", "refuses the conversation: no user"),
        ("{{ messages[0].role.x.y }}", "the template fails: "),
        ("{% for m in messages %}{% break %}{% endfor %}{{ messages | length }}", "changes"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            Template.of(str(tmp_path)).encode(messages, Words(), 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no chat_template"):
        Template.of(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("record", "asked", "answered"),
    [
        ({"instruction": "add", "input": "1 2", "output": "3"}, "add\n\n1 2", "3"),
        ({"prompt": "p", "completion": "c"}, "p", "c"),
    ],
)
def test_instructions_are_conversations(record: dict[str, str], asked: str, answered: str) -> None:
    assert [one["content"] for one in conversation(record)] == [asked, answered]


@pytest.mark.parametrize(
    "record",
    [
        {"text": "x"},
        {"messages": [{"role": "user", "content": "x"}]},
        {"messages": [{"role": "x"}]},
    ],
)
def test_lines_without_an_answer_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|assistant"):
        conversation(record)
