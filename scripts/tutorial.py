"""Runs a tutorial, or makes a notebook of it.

    python scripts/tutorial.py run PAGE              in an empty working directory
    python scripts/tutorial.py notebook PAGE OUT     needs nbformat

The `python` blocks of the page run in one namespace, its `sh` blocks in bash, in their order. A
`text` block after one of them is what it prints: its lines must come in this order, numbers apart,
and `...` stands for any lines. A comment before a block excepts it:

    <!-- not run: REASON -->
    <!-- needs: MODULE, ... -->     run where these can be imported
    <!-- test: OLD => NEW -->       the test runs a shorter form of the line
"""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
import re
import subprocess
import sys
import types
from dataclasses import dataclass

__all__ = ["blocks", "main", "run_page", "write_notebook"]

BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENTS = re.compile(r"<!-- (?:not run|needs|test): .*? -->\n", re.DOTALL)
COMMENT = re.compile(r"<!-- (not run|needs|test): (.*?) -->\s*\Z", re.DOTALL)
NUMBER = re.compile(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?")


@dataclass
class Block:
    """A block of a page, with the line it starts at and the comments before it."""

    kind: str
    code: str
    line: int
    comments: list[tuple[str, str]]
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """Returns a page's blocks in order."""
    found, end = [], 0
    for match in BLOCK.finditer(text):
        before, comments = text[end : match.start()], []
        while comment := COMMENT.search(before):
            comments.append((comment[1], " ".join(comment[2].split())))
            before = before[: comment.start()]
        line = text[: match.start()].count("\n") + 2
        found.append(Block(match[1], match[2], line, comments, match.start(), match.end()))
        end = match.end()
    if (rest := BLOCK.sub("", text).find("```")) >= 0:
        raise ValueError(
            f"a block is not closed, or of another kind: {BLOCK.sub('', text)[rest:][:60]!r}"
        )
    return found


@functools.cache
def missing(module: str) -> bool:
    """Returns whether a module cannot be imported, which another process tries."""
    command = [sys.executable, "-c", f"import {module}"]
    return bool(subprocess.run(command, capture_output=True).returncode)


def left_out(block: Block) -> bool:
    """Returns whether a block's comments except it here."""
    for kind, value in block.comments:
        if kind == "not run":
            return True
        if kind == "needs" and any(missing(name.strip()) for name in value.split(",")):
            return True
    return False


def shortened(block: Block) -> str:
    """Returns a block's code with the replacements of its comments."""
    code = block.code
    for kind, value in block.comments:
        if kind == "test":
            old, new = value.split(" => ")
            assert old in code, f"line {block.line}: no '{old}' to replace"
            code = code.replace(old, new)
    return code


def run(block: Block, page: pathlib.Path, names: dict[str, object]) -> str:
    """Runs a block and returns what it printed."""
    code = shortened(block)
    if block.kind == "sh":
        command = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{page.name}:{block.line}: {done.stdout}"
        return done.stdout
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        # Lines of errors are the page's; jax and inspect read the source by its name.
        exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), names)
    return out.getvalue()


def same(wanted: str, printed: str) -> str | None:
    """Returns the first line that was not printed in its place, or None."""

    def plain(line: str) -> str:
        return " ".join(NUMBER.sub("#", line).split())

    rest = [plain(line) for line in printed.splitlines() if line.strip()]
    skip = False
    for line in wanted.splitlines():
        if line.strip() == "...":
            skip = True
            continue
        if not line.strip():
            continue
        if plain(line) not in (rest if skip else rest[:1]):
            return line
        rest = rest[rest.index(plain(line)) + 1 :]
        skip = False
    return None


def run_page(page: pathlib.Path) -> None:
    """Runs a page; prints its output, and fails where it differs from what the page shows."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # dataclasses look their module up
    printed: str | None = None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "text":
            if printed is not None and not left_out(block):
                differs = same(block.code, printed)
                assert differs is None, (
                    f"{page.name}:{block.line}: not printed: {differs}\nbut:\n{printed}"
                )
            printed = None
        elif left_out(block):
            printed = None
            print(f"{page.name}:{block.line}: not run: {block.comments}")
        else:
            printed = run(block, page, vars(module))
            print(printed, end="")


def write_notebook(page: pathlib.Path, out: pathlib.Path) -> None:
    """Writes a notebook whose cells are the page's blocks; those that are not run stay text."""
    import nbformat

    text = page.read_text(encoding="utf-8")
    make = nbformat.v4
    cells, begin = [], 0
    for block in blocks(text):
        kept = any(kind == "not run" for kind, _ in block.comments)
        if block.kind == "text" or kept:
            continue
        cells.append(make.new_markdown_cell(COMMENTS.sub("", text[begin : block.start]).strip()))
        magic = "%%bash\n" if block.kind == "sh" else ""
        cells.append(make.new_code_cell(magic + block.code.rstrip()))
        begin = block.end
    cells.append(make.new_markdown_cell(COMMENTS.sub("", text[begin:]).strip()))
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index}"  # else drawn anew by each build
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = make.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(notebook)
    nbformat.write(notebook, out)


def main() -> None:
    """Does what the command line says."""
    match sys.argv[1:]:
        case ["run", page]:
            run_page(pathlib.Path(page))
        case ["notebook", page, out]:
            write_notebook(pathlib.Path(page), pathlib.Path(out))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
