"""Makes the corpus of long runs: texts of Debian packages, a BPE, and files of tokens.

The packages come from the machine's own apt sources; nothing of them is kept in the repository.
Each step writes a file when it is complete, and a second call goes on after the last one.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import pathlib
import subprocess
import sys
import tarfile
from collections.abc import Iterator

__all__ = ["SOURCES", "Source", "prepare"]

VOCABULARY = 8192
HELD_OUT = 0.02
# Dictionaries are one text: entries are joined into documents of about this many characters.
PIECE = 4096


@dataclasses.dataclass(frozen=True)
class Source:
    """Texts of a package.

    Attributes:
        package: its name; a package that only depends on others stands for the first of them.
        begins: how paths of its texts begin.
        ends: how they end.
        licence: of the texts, from the package's file `copyright`.
        is_dictionary: whether a text has many entries.
    """

    package: str
    begins: str
    ends: tuple[str, ...]
    licence: str
    is_dictionary: bool = False


SOURCES = (
    Source("dict-gcide", "./usr/share/dictd/", (".dict.dz",), "GPL 2 or later", True),
    Source("dict-wn", "./usr/share/dictd/", (".dict.dz",), "WordNet 3.0", True),
    Source("dict-foldoc", "./usr/share/dictd/", (".dict.dz",), "GFDL 1.1 or later", True),
    # The package has its pages a second time, as sources of its HTML.
    Source("linux-doc", "./usr/share/doc/linux-doc-", (".rst.txt",), "GPL 2"),
    Source("manpages", "./usr/share/man/man", (".gz",), "various, free; see its copyright"),
    Source("manpages-dev", "./usr/share/man/man", (".gz",), "various, free; see its copyright"),
)


def _run(command: list[str], folder: pathlib.Path) -> str:
    """Runs a command and returns its output.

    Raises:
        OSError: it fails; the text has its errors and what to do.
    """
    try:
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout
    except FileNotFoundError as error:
        raise OSError(f"{command[0]} is missing: the corpus needs Debian's apt and dpkg") from error
    except subprocess.CalledProcessError as error:
        raise OSError(
            f"{' '.join(command)} failed (`apt-get update`, then try again): {error.stderr.strip()}"
        ) from error


def _archive(source: Source, folder: pathlib.Path) -> pathlib.Path:
    """Returns the package's archive, after a download if it is not there."""
    name = source.package
    for line in _run(["apt-cache", "depends", name], folder).splitlines():
        kind, _, other = line.strip().partition(": ")
        if kind == "Depends" and other.startswith(f"{name}-"):
            name = other
            break
    found = sorted(folder.glob(f"{name}_*.deb"))
    if not found:
        _run(["apt-get", "download", name], folder)
        found = sorted(folder.glob(f"{name}_*.deb"))
    return found[-1]


def _texts(source: Source, archive: pathlib.Path) -> Iterator[str]:
    """Yields the texts of a package, in the order of its archive."""
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as files:
            for entry in files:
                is_text = entry.name.startswith(source.begins) and entry.name.endswith(source.ends)
                if not (is_text and entry.isfile()):
                    continue
                file = files.extractfile(entry)
                assert file is not None
                data = file.read()
                if data[:2] == b"\x1f\x8b":
                    data = gzip.decompress(data)
                yield data.decode("utf-8", errors="replace")
        # dpkg-deb pads the archive: without its rest it would end by SIGPIPE.
        assert process.stdout is not None
        process.stdout.read()
    if process.returncode:
        raise OSError(f"'{archive}' cannot be read: remove it, and run again")


def _pieces(text: str) -> Iterator[str]:
    """Yields whole lines of a text in pieces of about PIECE characters."""
    lines: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        # An entry begins in the first column.
        if size >= PIECE and not line[:1].isspace():
            yield "".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    yield "".join(lines)


def _extract(source: Source, packages: pathlib.Path, out: pathlib.Path) -> None:
    beside = out.with_suffix(".partial")
    with beside.open("w", encoding="utf-8") as file:
        for text in _texts(source, _archive(source, packages)):
            for piece in _pieces(text) if source.is_dictionary else [text]:
                if piece.strip():
                    file.write(json.dumps({"text": piece}) + "\n")
    if not beside.stat().st_size:
        raise OSError(f"'{source.package}' has no file {source.begins}*{source.ends}")
    beside.rename(out)


def prepare(folder: pathlib.Path) -> pathlib.Path:
    """Returns the file of tokens for training; its neighbours are tokenizer.json and *.held.tokens.

    Args:
        folder: for packages, texts and tokens; made if it does not exist.

    Raises:
        OSError: a package cannot be had or read.
        ValueError: `scalify tokenize` failed.
    """
    from scalify import tokenize

    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    tokens, tokenizer = folder / "corpus.tokens", folder / "tokenizer.json"
    if tokens.exists():
        return tokens
    texts = []
    for source in SOURCES:
        texts.append(folder / f"{source.package}.jsonl")
        if not texts[-1].exists():
            print(f"corpus: {source.package}", flush=True)
            _extract(source, packages, texts[-1])
    options = ["--tokenizer", str(tokenizer), "-o", str(tokens), "--held-out", str(HELD_OUT)]
    if not tokenizer.exists():
        options += ["--train", str(VOCABULARY)]
    if tokenize.main([*options, *map(str, texts)]):
        raise ValueError(f"the corpus in '{folder}' was not tokenised: see the error above")
    return tokens


if __name__ == "__main__":
    print(prepare(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/long-run/corpus")))
