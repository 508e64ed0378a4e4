"""Loops of plans for a GPU, without one: the calls of their iterations, and their numbers.

The null device records the calls. A plan's kernels say what to compute, and nothing about a GPU:
the numbers are those of the GPU's plan with the CPU's machine code.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from test_plan_loops import CASES, INPUTS, ROUNDING, STEPS, WEIGHT, recurrent, recurrent_loss

import scalify
from scalify import _compiler, _runtime

TOOL = pathlib.Path(os.environ.get("SCALIFY_BUILD", "build")) / "bin" / "scalify-compile"


def plan_of(fn: Any, args: Any, folder: pathlib.Path) -> tuple[str, str]:
    """Returns the plan for a GPU, and the remarks."""
    source, plan = folder / "step.mlir", folder / "step.plan"
    source.write_text(jax.jit(fn, keep_unused=True).lower(*args).as_text(debug_info=True))
    command = [TOOL, source, "--recipe=none", "--target=sm_90a", "--compile-to=fusion", "--remarks"]
    done = subprocess.run([*command, "-o", plan], capture_output=True, text=True, check=True)
    return plan.read_text(), done.stderr


@pytest.mark.parametrize("case", ["products", "nested", "moved inside", "reverse scan", "gradient"])
def test_numbers_of_a_gpus_plan_are_those_of_jax(case: str, tmp_path: pathlib.Path) -> None:
    fn, args = CASES[case]
    plan, remarks = plan_of(fn, args, tmp_path)
    # Only loops of known length run without the host.
    assert plan.count("plan.loop ") == {"nested": 2, "gradient": 2}.get(case, 1)
    assert ("the host waits for the GPU" in remarks) == (" while " in plan)
    moved, count = re.subn(r"#scalify\.target<[^>]*>", '#scalify.target<"cpu">', plan)
    assert count
    artefact, _ = _compiler.compile(moved, json.dumps({"recipe": "none", "compileFrom": "fusion"}))
    found = _runtime.Executable(artefact).run([np.asarray(x) for x in jax.tree.leaves(args)])
    for mine, theirs in zip(found, jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
        np.testing.assert_allclose(
            np.asarray(mine), np.asarray(theirs), rtol=ROUNDING, atol=ROUNDING
        )


def trace_of(fn: Any, *args: Any) -> list[str]:
    """Returns the calls of the first run, which are not captured."""
    step = scalify.jit(fn, "none", "sm_90a", gpu=scalify.GPU(device="null"))
    step(*args)
    lines: list[str] = step.executable().trace.splitlines()
    return lines[max(i for i, line in enumerate(lines) if line.startswith("cuMemcpyHtoD")) + 1 :]


def test_products_of_a_scan_read_and_kernels_write_their_slices() -> None:
    """A row of inputs is read, and one of outputs written, in each iteration, at its address."""
    lines = trace_of(recurrent, WEIGHT, INPUTS)
    row = INPUTS[0].nbytes
    cells = [line for line in lines if line.startswith("cuLaunchKernel") and "arg1+" in line]
    assert len(cells) == STEPS == sum(line.startswith("cublasLtMatmul") for line in lines)
    for i, cell in enumerate(cells):
        assert f"arg1+{row * i}," in cell and f"result1+{row * i}," in cell, cell


def test_the_host_reads_the_condition_on_the_stream_of_the_step() -> None:
    def step(n: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))

    lines = trace_of(step, np.int32(3), INPUTS[0])
    words = [line.split()[0] for line in lines]
    # The record holds one iteration: condition, body, condition.
    first, last = (i for i, line in enumerate(lines) if re.match("cuMemcpyDtoH.* bytes=1$", line))
    assert words[first + 1] == words[last + 1] == "cuStreamSynchronize"
    assert "cuLaunchKernel" in words[:first] and "cuLaunchKernel" in words[first:last]


def test_a_gpus_artefact_does_not_grow_with_the_steps() -> None:
    def size(steps: int) -> int:
        text = jax.jit(jax.grad(recurrent_loss)).lower(WEIGHT, INPUTS[:1].repeat(steps, 0))
        options = {"recipe": "none", "target": "sm_90a", "planOnly": True}
        return len(_compiler.compile(text.as_text(), json.dumps(options))[0])

    # The numbers of the shapes have more digits.
    assert size(4000) - size(1000) < 4096
