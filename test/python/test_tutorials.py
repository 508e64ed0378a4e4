"""The tutorials run as written; `scripts/tutorial.py` says what of them is checked."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin"
RUN = ROOT / "scripts" / "tutorial.py"
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def run(page: pathlib.Path, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Runs a page in an empty folder, in the shell of someone who has installed Scalify."""
    path = [BIN, pathlib.Path(sys.executable).parent, "/usr/lib/llvm-22/bin"]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "python"),
        "SOURCE": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore::UserWarning", str(RUN), "run", str(page)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_tutorials() -> None:
    assert len(PAGES) >= 7


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nprint(1 + 1, 'yes')\n```\n```text\n5 yes\n```\n", ""),
        ("```sh\necho one; echo two; echo three\n```\n\n```text\n...\nthree\n```\n", ""),
        ("```sh\necho one; echo two\n```\n```text\ntwo\none\n```\n", "not printed: two"),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "line 6, in <module>"),
        ("```sh\nfalse | cat\n```\n", "page.md:2: "),
        ("```python 1 / 0\n```\n", "a block is not closed, or of another kind"),
        ("<!-- not run: here -->\n```sh\nfalse\n```\n", ""),
        ("<!-- needs: no_such_module.at_all -->\n```python\n1 / 0\n```\n", ""),
        ("<!-- test: 9 => 0 -->\n```python\nassert not 9\n```\n", ""),
        ("<!-- test: 8 => 0 -->\n```python\nassert not 9\n```\n", "no '8' to replace"),
    ],
)
def test_a_page_that_errs_is_found(text: str, error: str, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    done = run(page, tmp_path)
    assert bool(done.returncode) == bool(error), done.stdout + done.stderr
    assert error in done.stderr
