"""Writes the page on uses of `jax.jit` and its results, which run under it and `scalify.jit`.

python test/python/drop_in.py --write docs/drop-in.md
"""

from __future__ import annotations

import pathlib
import sys
import textwrap

from drop_in_results import USES
from drop_in_wrapper import ENTRIES

__all__ = ["page"]


def page() -> str:
    """Returns the docs page of all entries."""
    lines = [
        "# In place of jax.jit",
        "",
        *textwrap.wrap(
            "This page lists uses of `jax.jit` and its results, and how they differ under "
            "`scalify.jit`. `test/python/test_drop_in.py` runs each line under both, with recipe "
            '"none", and compares values, types and errors. Lines on results also run under `fp8` '
            "and `fp8-lm-o2`, whose narrow state is a `scalify.ScaledArray`. `make drop-in` writes "
            "this page.",
            width=100,
        ),
    ]
    group = ""
    for one in [*USES, *ENTRIES]:
        if one.group != group:
            group = one.group
            lines += [
                "",
                f"## {group}",
                "",
                "| use | as with jax.jit | difference |",
                "|---|---|---|",
            ]
        same = "refused" if one.refused else "yes, but" if one.differs else "yes"
        what = one.what.replace("|", "\\|")
        lines.append(f"| {what} | {same} | {one.differs or one.refused} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        pathlib.Path(sys.argv[2]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
