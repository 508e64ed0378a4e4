"""Trains LLaMA for 20 steps on each mesh, in each format of gradients, and compares all bits.

`make matrix` prints a table; the exit status is 1 where ranks differ from one process, or do not
exchange what the row is of. Ranks are threads, and at the end processes by mpirun, which are held
to the script alone by a digest. `--write PAGE` puts the table into a page.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import math
import pathlib
import re
import sys
import time
from typing import Any

import jax
import numpy as np
import pytest
import test_ranks_llama as steps
import test_ranks_mpirun as processes
from rank_steps import check_ranks

from scalify.partition import partition
from scalify.recipe import Recipe, RecipeLike

MESHES: dict[str, tuple[dict[str, int], int]] = {
    "2": ({"data": 2}, 3),
    "4": ({"data": 4}, 1),
    "8": ({"data": 8}, 2),
    "4x2": ({"data": 4, "tensor": 2}, 1),
    "2x2x2": ({"data": 2, "tensor": 2, "sequence": 2}, 0),
}
# And the format that ranks must be seen to exchange something in.
FORMATS: dict[str, tuple[RecipeLike, str]] = {
    "F32": ("none", "f32"),
    "BF16": ("bf16", "f32"),
    "BF16 gradients": (Recipe("wires", gradient_wire="bf16"), "bf16"),
    "E4M3 gradients": (Recipe("wires", gradient_wire="f8E4M3FN"), "f8E4M3FN"),
    "E5M2 gradients": (Recipe("wires", gradient_wire="f8E5M2"), "f8E5M2"),
}
NAMES = {"f32": "F32", "bf16": "BF16", "f8E4M3FN": "E4M3", "f8E5M2": "E5M2"}
# Of FP8-LM, whose levels exchange E4M3: weights too with ZeRO 3. BF16 weights with ZeRO 3.
MORE = [("8", "bf16", 3), ("8", "fp8-lm-o1", 2), ("8", "fp8-lm-o3", 3)]


@dataclasses.dataclass
class Row:
    """A line of the table; `fault` is empty where all bits are equal."""

    mesh: str
    form: str
    zero: int
    ranks: str
    what: str
    seconds: float
    fault: str

    def text(self) -> str:
        """Returns the line."""
        result = self.fault or "equal"
        cells = (self.mesh, self.form, self.zero, self.ranks, self.what, result)
        return f"| {' | '.join(map(str, cells))} |"


def on_threads(mesh: str, form: str) -> tuple[str, str, str]:
    """Returns a text of exchanges and losses, the differences, and all losses."""
    axes, zero = MESHES[mesh]
    with pytest.MonkeyPatch.context() as patch:
        sharded = steps.program(axes, patch)
        local = partition(steps.lower(sharded), zero=zero)
    options: dict[str, Any] = {"recipe": str(FORMATS[form][0]), "packState": False}
    *state, first = (np.asarray(leaf) for leaf in jax.tree.leaves(sharded.args))
    rng = np.random.default_rng(0)
    # Text that can be learnt: each token follows the one before it.
    count = np.arange(first.shape[1], dtype=np.int32)
    starts = [rng.integers(0, 256, (first.shape[0], 1), dtype=np.int32) for _ in range(steps.STEPS)]
    try:
        losses, kinds = check_ranks(local, options, state, [(s + count) % 256 for s in starts])
    except AssertionError as error:
        return "", f"DIFFERENT: {str(error).splitlines()[0] if str(error) else 'bits'}", ""
    wanted = FORMATS[form][1]
    by_type = {kind: sum(n for name, n in kinds.items() if kind in name) for kind in ("f8", wanted)}
    what = f"{sum(kinds.values())} collectives, {by_type[wanted]} in {NAMES[wanted]}; "
    is_sane = losses[-1] < losses[0] and by_type[wanted] > 0
    if zero < 3:  # else weights that products read in FP8 are gathered so
        is_sane &= by_type["f8"] == (by_type[wanted] if wanted.startswith("f8") else 0)
    return (
        f"{what}{losses[0]:.3f} to {losses[-1]:.3f}",
        "" if is_sane else "DIFFERENT: not what was to be compared",
        str(losses),
    )


def on_processes(mesh: str, recipe: RecipeLike, zero: int) -> tuple[str, str, str]:
    """Returns a text of the processes' digest, the difference from one process, and the digest."""
    axes = ",".join(f"{name}={size}" for name, size in MESHES[mesh][0].items())
    options = ["--mesh", axes, "--recipe", str(recipe), "--zero", str(zero)]
    options += ["--steps", str(steps.STEPS), "--dim", "64"]
    ranks = math.prod(MESHES[mesh][0].values())
    told = [processes.launch(size, processes.SCRIPT, *options) for size in (ranks, 0)]
    found = [re.findall("bits ([0-9a-f]+)", text) for text in told]
    is_equal = len(found[0]) == ranks and set(found[0]) == set(found[1])
    digest = found[1][0]
    return f"digest {digest}", "" if is_equal else f"DIFFERENT: {set(found[0])}", digest


def rows(only: str) -> Any:
    """Yields each line as soon as it is there."""
    cases = [
        (mesh, form, MESHES[mesh][1], ranks)
        for ranks, meshes in (("threads", MESHES), ("processes", ("8", "4x2", "2x2x2")))
        for mesh in meshes
        for form in FORMATS
    ]
    cases += [(mesh, recipe, zero, "processes") for mesh, recipe, zero in MORE]
    trained: dict[tuple[str, str], str] = {}
    for mesh, form, zero, ranks in cases:
        if only not in f"{mesh} {form} {ranks}":
            continue
        started = time.monotonic()
        if ranks == "threads":
            found = on_threads(mesh, form)
        else:
            found = on_processes(mesh, FORMATS.get(form, (form,))[0], zero)
        # A format that changes nothing was not there: only the level of ZeRO changes no bit.
        given = str(FORMATS.get(form, (form,))[0])
        is_new = trained.setdefault((f"{mesh} {ranks}", found[2]), given) == given
        fault = found[1] or ("" if is_new else "DIFFERENT: trains as another format does")
        yield Row(mesh, form, zero, ranks, found[0], time.monotonic() - started, fault)


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="cases whose name has this: '4x2 BF16'")
    parser.add_argument("--write", type=pathlib.Path, help="the page to put the table into")
    options = parser.parse_args()
    head = "| mesh | format | ZeRO | ranks | 20 steps | bits |\n|---|---|---|---|---|---|"
    print(head, flush=True)
    lines, failed = [head], False
    for row in rows(options.only):
        print(f"{row.text()} {row.seconds:.0f} s", flush=True)
        lines.append(row.text())
        failed = failed or bool(row.fault)
    if options.write:
        text = options.write.read_text()
        start, end = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        dated = f"By `make matrix`, {datetime.date.today()}:\n\n"
        table = "\n".join(lines)
        options.write.write_text(f"{before}{start}{dated}{table}\n{end}{after}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
