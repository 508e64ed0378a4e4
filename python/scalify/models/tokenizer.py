"""Tokenizers of the `tokenizers` library: read from tokenizer.json, or trained on local text.

`load` and `train` return the library's own `Tokenizer`; `encode` and `decode` go between texts and
the arrays of token ids that models take.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

__all__ = ["END", "SPECIAL", "decode", "encode", "load", "save", "train", "train_texts"]

END = "<|endoftext|>"
# The end of a text, and the marks of a turn in conversations (ChatML).
SPECIAL = (END, "<|im_start|>", "<|im_end|>")
# Characters that the trainer gets at once of a file.
PIECE = 1 << 20


def load(path: str | pathlib.Path) -> Any:
    """Returns the `tokenizers.Tokenizer` in a tokenizer.json, or in the folder of a model.

    Raises:
        OSError: there is no such file.
        ValueError: it is no tokenizer.
    """
    file = pathlib.Path(path)
    file = file / "tokenizer.json" if file.is_dir() else file
    if not file.exists():
        hint = ""
        if (file.parent / "tokenizer.model").exists():
            hint = "; convert tokenizer.model by transformers' AutoTokenizer and save_pretrained"
        raise FileNotFoundError(f"'{file}' does not exist{hint}")
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library's errors have no type of their own
        raise ValueError(f"'{file}' is no tokenizer: {error}") from error


def encode(tokenizer: Any, text: str, *, special: bool = True) -> NDArray[np.int32]:
    """Returns the tokens of a text, int32 [T]; `special` adds those that start and end texts."""
    ids = tokenizer.encode(text, add_special_tokens=special).ids
    return np.asarray(ids, np.int32)


def decode(tokenizer: Any, tokens: Iterable[int], *, special: bool = False) -> str:
    """Returns the text of tokens; `special` keeps those that are no text."""
    ids = [int(token) for token in tokens]
    return str(tokenizer.decode(ids, skip_special_tokens=not special))


def train(
    files: Sequence[str | pathlib.Path], vocab_size: int, special: Sequence[str] = SPECIAL
) -> Any:
    """Returns a byte-level BPE tokenizer trained on files of UTF-8 text.

    It has all 256 bytes, so every text has tokens and comes back as it was (Radford et al. 2019,
    section 2.2). Invalid UTF-8 is an error.

    Args:
        files: are read piece by piece.
        vocab_size: number of tokens, special ones and bytes included. Less text gives fewer.
        special: tokens that are never split; the first ones of the vocabulary.

    Raises:
        ValueError: no room for all bytes, or a file is no UTF-8 text.
        OSError: a file cannot be read.
    """
    return train_texts(_pieces(files), vocab_size, special)


def train_texts(texts: Iterable[str], vocab_size: int, special: Sequence[str] = SPECIAL) -> Any:
    """Returns the tokenizer of `train`, trained on texts.

    Raises:
        ValueError: no room for all bytes.
    """
    least = 256 + len(special)
    if vocab_size < least:
        raise ValueError(f"vocab_size is {vocab_size}: bytes and special tokens need {least}")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _pieces(files: Sequence[str | pathlib.Path]) -> Iterator[str]:
    """Yields text in pieces that end at ends of lines, where files have some."""
    for name in files:
        with pathlib.Path(name).open(encoding="utf-8", newline="") as file:
            try:
                while piece := file.read(PIECE):
                    yield piece + file.readline()
            except UnicodeDecodeError as error:
                raise ValueError(f"'{name}' is no UTF-8 text: {error}") from error


def save(tokenizer: Any, folder: str | pathlib.Path, end: str | None = END) -> None:
    """Writes tokenizer.json and tokenizer_config.json, which transformers' AutoTokenizer reads.

    Args:
        tokenizer: the library's `Tokenizer`.
        folder: is made if it does not exist.
        end: the special token that ends texts, if any.

    Raises:
        ValueError: the tokenizer has no token `end`.
        OSError: a file cannot be written.
    """
    if end is not None and tokenizer.token_to_id(end) is None:
        raise ValueError(f"the tokenizer has no token '{end}'")
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        # Texts come back as they were, without spaces taken away.
        "clean_up_tokenization_spaces": False,
    }
    if end is not None:
        config |= {"eos_token": end, "bos_token": end}
    text = json.dumps(config, indent=2) + "\n"
    (path / "tokenizer_config.json").write_text(text, encoding="utf-8")
