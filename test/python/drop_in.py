"""The page of what one does with `jax.jit`'s results and wrapper, each run under it and under ours.

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
            "What one does with `jax.jit`'s results and wrapper, each line run under it and under "
            '`scalify.jit` by recipe "none" in `test/python/test_drop_in.py`: the same values, '
            "types and errors, or what differs and why. Lines on results run under `fp8` and "
            "`fp8-lm-o2` too, whose narrow state is a `scalify.ScaledArray`. `make drop-in` writes "
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
                "| what | as with jax.jit | what differs |",
                "|---|---|---|",
            ]
        same = "refused" if one.refused else "yes, but" if one.differs else "yes"
        what = one.what.replace("|", "\\|")
        lines.append(f"| {what} | {same} | {one.differs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        pathlib.Path(sys.argv[2]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
