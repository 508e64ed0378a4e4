"""Jobs that are killed at random moments go on from their last checkpoint, bit for bit."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

SCRIPT = pathlib.Path(__file__).with_name("checkpoint_kills.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """Holds the step that all jobs run, which the first of them compiles.

    In memory where it can be: a kill leaves alone what the kernel has, and a disk takes most of
    the time.
    """
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("kills")
        return
    with tempfile.TemporaryDirectory(prefix="kills-", dir="/dev/shm") as name:
        yield pathlib.Path(name)


@pytest.mark.parametrize("victim", ["rank", "job"])
def test_ten_kills(victim: str, folder: pathlib.Path) -> None:
    # A hundred of each: make kills.
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, "--victim", victim, "--kills", "10"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "10 kills of" in done.stdout
    assert "none hung" in done.stdout
