"""Trains a tokenizer on local text, and shows the tokens of a text.

python -m scalify.tokenizer train --vocab-size 8192 --out tokenizer docs/*.txt
python -m scalify.tokenizer encode tokenizer "a text"
python -m scalify.tokenizer decode tokenizer 64 220 1124
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from scalify.models import tokenizer

__all__ = ["main", "make_parser"]


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m scalify.tokenizer",
        description="Trains a byte-level BPE tokenizer, and goes between texts and tokens.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="write a tokenizer.json from files of UTF-8 text")
    train.add_argument("files", nargs="+", type=pathlib.Path, help="files of text")
    train.add_argument("--vocab-size", type=int, default=8192, help="number of tokens (8192)")
    train.add_argument("--out", "-o", type=pathlib.Path, required=True, help="folder to write")
    train.add_argument(
        "--special",
        action="append",
        metavar="TOKEN",
        help="a token that is never split, once for each; the first one ends texts "
        f"(default: {', '.join(tokenizer.SPECIAL)})",
    )
    encode = commands.add_parser("encode", help="print the tokens of a text")
    encode.add_argument("tokenizer", type=pathlib.Path, help="tokenizer.json or its folder")
    encode.add_argument("text", nargs="?", help="the text; standard input without it")
    decode = commands.add_parser("decode", help="print the text of tokens")
    decode.add_argument("tokenizer", type=pathlib.Path, help="tokenizer.json or its folder")
    decode.add_argument("tokens", nargs="+", type=int, help="token ids")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        _run(options)
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    if options.command == "train":
        special = options.special or tokenizer.SPECIAL
        trained = tokenizer.train(options.files, options.vocab_size, special)
        tokenizer.save(trained, options.out, special[0])
        print(f"{options.out}/tokenizer.json: byte-level BPE of {trained.get_vocab_size()} tokens")
        return
    loaded = tokenizer.load(options.tokenizer)
    if options.command == "encode":
        text = sys.stdin.read() if options.text is None else options.text
        print(*tokenizer.encode(loaded, text))
        return
    print(tokenizer.decode(loaded, options.tokens))


if __name__ == "__main__":
    sys.exit(main())
