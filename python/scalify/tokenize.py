"""The command `scalify tokenize`: files of tokens from text, and tokenizers trained on it.

scalify tokenize --train 8192 --tokenizer tokenizer.json -o corpus.tokens docs/*.txt
scalify tokenize --chat --tokenizer tokenizer.json -o chat.tokens chat.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from scalify.models.tokenizer import END, load, train_texts
from scalify.train.chat import TEMPLATES, Template, conversation
from scalify.train.tokens import TokenWriter

__all__ = ["documents", "main", "make_parser"]

BATCH = 256  # documents that the tokenizer gets at once, for its threads

# What the error handler "surrogateescape" makes of bytes that are no UTF-8.
_ESCAPED = re.compile("[\udc80-\udcff]")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="scalify tokenize", description="Writes a file of tokens from files of text."
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=pathlib.Path,
        help="text, or .jsonl with a key 'text' in each line; also compressed by gzip",
    )
    parser.add_argument("-o", "--out", type=pathlib.Path, help="the file of tokens")
    parser.add_argument(
        "--tokenizer", type=pathlib.Path, required=True, help="tokenizer.json of Hugging Face"
    )
    parser.add_argument(
        "--train", type=int, metavar="N", help="first train a byte-level BPE of N tokens, write it"
    )
    parser.add_argument(
        "--split", metavar="TEXT", help="separates the documents of a text, as '\\n\\n'"
    )
    parser.add_argument("--end", help=f"the token that ends a document ({END}, or </s>)")
    parser.add_argument(
        "--held-out", type=float, default=0.0, metavar="SHARE", help="of documents, in a file aside"
    )
    parser.add_argument(
        "--chat", action="store_true", help="lines of .jsonl are conversations or instructions"
    )
    parser.add_argument(
        "--template",
        default="chatml",
        help=f"of conversations: {', '.join(TEMPLATES)}, or a tokenizer's folder (chatml)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = make_parser().parse_args(argv)
    try:
        _run(options)
    except (OSError, ValueError, ImportError) as error:
        print(f"scalify tokenize: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    if options.out is None and options.train is None:
        raise ValueError("nothing to write: name a file of tokens by --out, or --train a tokenizer")
    split = options.split and options.split.encode().decode("unicode_escape")
    if options.train is not None:
        if options.tokenizer.exists():
            raise ValueError(f"'{options.tokenizer}' exists: leave out --train, or remove it")
        if options.chat:
            raise ValueError("--train reads text: train the tokenizer without --chat first")
        quiet = options.out is not None  # The files are read again.
        made = train_texts(documents(options.files, split, quiet=quiet), options.train)
        made.save(str(options.tokenizer))
        count = made.get_vocab_size()
        few = "" if count == options.train else ": the text has no more pairs to merge"
        print(f"{options.tokenizer}: byte-level BPE of {count:,} tokens{few}")
    if options.out is not None:
        _write(options, split)


def _write(options: argparse.Namespace, split: str | None) -> None:
    tokenizer = load(options.tokenizer)
    names = (options.end,) if options.end else (END, "</s>", "<|end_of_text|>")
    end = next((i for n in names if (i := tokenizer.token_to_id(n)) is not None), None)
    if end is None:
        raise ValueError(f"the tokenizer has none of {', '.join(names)}: name a token by --end")
    held = options.out.with_suffix(f".held{options.out.suffix}")
    writers = [_writer(options, options.out, tokenizer, end)]
    if options.held_out:
        if not 0 < options.held_out < 1:
            raise ValueError(f"--held-out {options.held_out}: expected a share below 1")
        writers.append(_writer(options, held, tokenizer, end))
    encoded = (
        _conversations(options, tokenizer, end)
        if options.chat
        else _texts(options.files, split, tokenizer, end)
    )
    for number, (tokens, trained) in enumerate(encoded):
        # A hash spreads the held-out documents over the input, the same in every run.
        is_held = zlib.crc32(str(number).encode()) < options.held_out * (1 << 32)
        writers[is_held].add(tokens, trained)
    for writer in writers:
        count, documents = writer.count, writer.documents
        writer.close()
        print(f"{writer.path}: {count:,} tokens of {documents:,} documents")


def _writer(
    options: argparse.Namespace, path: pathlib.Path, tokenizer: Any, end: int
) -> TokenWriter:
    return TokenWriter(path, tokenizer.get_vocab_size(), end, options.chat)


def _texts(
    files: Sequence[pathlib.Path], split: str | None, tokenizer: Any, end: int
) -> Iterator[tuple[list[int], None]]:
    batch: list[str] = []

    def flush() -> Iterator[tuple[list[int], None]]:
        for found in tokenizer.encode_batch(batch, add_special_tokens=False):
            yield [*found.ids, end], None
        batch.clear()

    for text in documents(files, split):
        batch.append(text)
        if len(batch) == BATCH:
            yield from flush()
    yield from flush()


def _conversations(
    options: argparse.Namespace, tokenizer: Any, end: int
) -> Iterator[tuple[list[int], list[int]]]:
    template = Template.of(options.template)
    for place, record in _records(options.files):
        try:
            yield template.encode(conversation(record), tokenizer, end)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error


def _records(
    files: Sequence[pathlib.Path], *, quiet: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the objects of JSONL files, with their places."""
    for path in files:
        for number, line in enumerate(_lines(path, quiet), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}:{number}: expected an object")
            yield f"{path}:{number}", record


def _lines(path: pathlib.Path, quiet: bool) -> Iterator[str]:
    """Yields the lines of a text, which may be compressed by gzip (or dictzip).

    Says how many bytes are no UTF-8, unless it is `quiet`.
    """
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    count = 0
    opened = gzip.open if is_packed else open
    with opened(path, "rt", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            text, escaped = _ESCAPED.subn("\ufffd", line)
            count += escaped
            yield text
    if count and not quiet:
        what = f"{count:,} bytes are" if count > 1 else "1 byte is"
        print(f"{path}: {what} no UTF-8, now U+FFFD: convert the file by iconv", file=sys.stderr)


def documents(
    files: Sequence[pathlib.Path], split: str | None = None, *, quiet: bool = False
) -> Iterator[str]:
    """Yields the documents of files of text; of .jsonl the key `text` of each line.

    Says how many bytes of a file are no UTF-8, unless it is `quiet`.

    Raises:
        OSError: a file cannot be read.
        ValueError: a line of .jsonl has no text.
    """
    for path in files:
        if ".jsonl" in path.suffixes:
            for place, record in _records([path], quiet=quiet):
                if not isinstance(record.get("text"), str):
                    raise ValueError(f"{place}: no key 'text'; conversations need --chat")
                yield record["text"]
            continue
        text = "".join(_lines(path, quiet))
        yield from (part for part in (text.split(split) if split else [text]) if part.strip())


if __name__ == "__main__":
    sys.exit(main())
