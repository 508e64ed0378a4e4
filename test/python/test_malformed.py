"""Broken text gives a diagnostic and a normal exit, never a crash.

Valid programs are damaged at random (with fixed seeds): tokens are dropped, doubled, swapped or
replaced by one from elsewhere. Each damaged function is a module of its own in one long input.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin" / "scalify-opt"
SEEDS = sorted((ROOT / "test" / "Dialect").glob("*/*.mlir"))
TOKEN = re.compile(r"[%@#!]?[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\"[^\"]*\"|->|\S|\s+")


def damage(text: str, everything: list[str], rng: random.Random) -> str:
    """Returns `text` with one to three tokens changed."""
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(rng.randint(1, 3)):
        i = rng.choice(words)
        kind = rng.randrange(5)
        if kind == 0:
            tokens[i] = ""
        elif kind == 1:
            tokens[i] += " " + tokens[i]
        elif kind == 2:
            j = rng.choice(words)
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 3:
            tokens[i] = rng.choice(["-1", "0", "99999999999999999999", "[]", "{}", "none", "?"])
        else:
            tokens[i] = rng.choice(everything)
    return "".join(tokens)


def functions(path: pathlib.Path) -> list[str]:
    """Returns the chunks of a lit test, without its comments."""
    text = re.sub(r"^\s*//(?! -----).*\n", "", path.read_text(), flags=re.MULTILINE)
    chunks = text.split("// -----\n")
    return [part for chunk in chunks for part in re.split(r"(?=^func\.func)", chunk, flags=re.M)]


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_crash(path: pathlib.Path) -> None:
    rng = random.Random(path.stem)
    parts = [part for part in functions(path) if part.strip()]
    everything = [token for part in parts for token in TOKEN.findall(part) if token.strip()]
    chunks = [damage(rng.choice(parts), everything, rng) for _ in range(300)]
    text = "\n// -----\n".join(chunks)
    done = subprocess.run(
        [OPT, "-", "-split-input-file", "-allow-unregistered-dialect"],
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert "error: " in done.stderr
