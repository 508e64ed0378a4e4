"""Gradients of a recipe compared with F32's: shared code of the tables in this folder."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "llama"))

import jax
import numpy as np
from numerics import cosine

__all__ = ["PRESETS", "Agreement", "Program", "compare", "leaves", "names", "table", "write"]

# All presets except the controls, which must lose.
PRESETS = (
    "bf16",
    "fp16",
    "fp8",
    "fp8-current",
    "fp8-delayed",
    "fp8-block",
    "fp8-lm-o1",
    "fp8-lm-o2",
    "fp8-lm-o3",
)

# The tables need many compilations and few runs of each.
FAST = {"xla_backend_optimization_level": 0}

Tree = Any
Program = Callable[..., Tree]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """The cosine of a tree of gradients to a reference.

    Attributes:
        whole: of all leaves as one vector.
        worst: of the worst single leaf.
        where: that leaf's key path.
    """

    whole: float
    worst: float
    where: str

    def text(self) -> str:
        """Returns both figures for a table."""
        return f"{self.whole:.4f} / {self.worst:.4f}"


def leaves(tree: Tree) -> list[np.ndarray]:
    """Returns the leaves as numpy arrays."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def names(tree: Tree) -> list[str]:
    """Returns the key paths of the leaves."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in paths]


def compare(found: Tree, reference: Tree) -> Agreement:
    """Returns the agreement of `found` with `reference`, a tree of the same structure.

    A leaf that is not finite has agreement 0.
    """
    pairs = list(zip(leaves(found), leaves(reference), strict=True))
    if not all(np.isfinite(a).all() for a, _ in pairs):
        pairs = [(np.where(np.isfinite(a), a, 0), b) for a, b in pairs]
    each = [cosine([a], [b]) for a, b in pairs]
    index = int(np.argmin(each))
    whole = cosine([a for a, _ in pairs], [b for _, b in pairs])
    return Agreement(whole, each[index], names(reference)[index])


def compiled(fn: Program, *args: Any) -> Program:
    """Returns `fn` compiled with a fast compilation for arguments like these."""
    return jax.jit(fn).lower(*args).compile(compiler_options=FAST)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


NOTES = "\n## Notes\n"


def write(path: str, title: str, text: str, command: str) -> None:
    """Writes a page of the docs, with the date and the command that made it.

    Hand-written text under its heading of notes is kept.
    """
    target = ROOT / path
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    notes = old[old.index(NOTES) :] if NOTES in old else ""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    # Paragraphs are filled; tables keep their width.
    blocks = [
        block
        if block.startswith(("|", "#", "-"))
        else textwrap.fill(block, 100, break_on_hyphens=False)
        for block in text.rstrip().split("\n\n")
    ]
    text = "\n\n".join(blocks)
    page = f"# {title}\n\nMeasured on {day} by `{command}`.\n\n{text}\n{notes}"
    target.write_text(page, encoding="utf-8")
