"""Kernels of a GPU without a GPU: ptxas assembles every one, and none spills.

What they compute is checked by unittests/Codegen/GridTest.cpp, on a simulated grid.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import scalify

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
PIPELINE = "scalify-lower-kernels{machine=gpu},scalify-kernels-to-nvvm,scalify-emit-ptx"
KERNEL = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SHARED = re.compile(r"(\d+) bytes smem")


def find_ptxas() -> str:
    """Returns a toolkit's ptxas, or that of PyPI's nvidia-cuda-nvcc."""
    if found := shutil.which("ptxas"):
        return found
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in pathlib.Path(folder).glob("*/bin/ptxas"):
            return str(path)
    raise FileNotFoundError("no ptxas: run scripts/setup.sh python, or install a CUDA toolkit")


def example(layers: int) -> str:
    """Returns the text of a training step of the example."""
    sys.path.insert(0, str(LLAMA))
    try:
        import config
        import model
        import optimizer
    finally:
        sys.path.remove(str(LLAMA))
    cfg = config.ModelConfig(layers=layers)
    adamw = optimizer.make_optimizer(config.TrainConfig())
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    batch = jax.ShapeDtypeStruct((16, cfg.seq + 1), np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    return step.lower(params, jax.eval_shape(adamw.init, params), batch).as_text(debug_info=True)


def plan_of(step: str, recipe: str, folder: pathlib.Path) -> str:
    source, plan = folder / "step.mlir", folder / "step.plan"
    source.write_text(step)
    tool = pathlib.Path(os.environ.get("SCALIFY_BUILD", "build")) / "bin" / "scalify-compile"
    command = [str(tool), str(source), f"--recipe={recipe}", "--compile-to=fusion"]
    subprocess.run([*command, "-o", str(plan)], capture_output=True, check=True)
    return plan.read_text()


def ptx_of(plan: str) -> str:
    text = scalify.opt(plan, PIPELINE)
    found = re.search(r'assembly = "(.*?)"', text, re.DOTALL)
    assert found
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found[1]).rstrip("\0")


def assemble(ptx: str, folder: pathlib.Path) -> str:
    """Returns what ptxas says of each kernel."""
    source = folder / "kernels.ptx"
    source.write_text(ptx)
    command = [find_ptxas(), "-arch=sm_90a", "-v", str(source), "-o", str(folder / "kernels.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


@pytest.mark.parametrize("recipe", ["none", "bf16", "fp8", "fp8-current", "fp8-lm-o2"])
def test_every_kernel_of_the_example_assembles(recipe: str, tmp_path: pathlib.Path) -> None:
    ptx = ptx_of(plan_of(example(1), recipe, tmp_path))
    said = assemble(ptx, tmp_path)
    kernels = KERNEL.findall(said)
    assert len(kernels) == len(set(kernels)) == ptx.count(".visible .entry") > 30
    # No local memory at all: neither spills nor arrays that threads would keep there.
    stacks = SPILLS.findall(said)
    assert len(stacks) == len(kernels) and set(stacks) == {("0", "0", "0")}
    assert ".extern" not in ptx
    assert all(int(size) <= 48 * 1024 for size in SHARED.findall(said))
    # Vectors of 16 bytes carry most of what is moved.
    assert ptx.count("ld.global.v4.b32") + ptx.count("ld.global.v2.b64") > 100


def test_a_wrong_kernel_is_told_by_ptxas(tmp_path: pathlib.Path) -> None:
    header = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    with pytest.raises(AssertionError, match="Unknown symbol"):
        assemble(f"{header}.visible .entry k()\n{{\nbra away;\n}}\n", tmp_path)
