"""Kernels of a GPU without a GPU: ptxas assembles every one, and none spills.

Their results are checked by unittests/Codegen/GridTest.cpp, on a simulated grid.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import gpu_steps
import pytest

import scalify
from scalify import _ptxas

PIPELINE = (
    "scalify-set-target,scalify-lower-kernels,func.func(scalify-expand-math,canonicalize,cse),"
    "scalify-kernels-to-nvvm,scalify-emit-ptx"
)
KERNEL = re.compile(r"Compiling entry function '(\w+)'")
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SHARED = re.compile(r"(\d+) bytes smem")
REGISTERS = re.compile(r"Used (\d+) registers")
BLOCK = re.compile(r"\.maxntid (\d+), 1, 1")
FLOAT8 = re.compile(r"quantize [^\n]* -> tensor<[^>]*(f8\w+)>")
# Of an SM of sm_90: registers are given to warps by 256, so to a thread by 8.
ALL_REGISTERS, SHARED_WITHOUT_ASKING = 64 * 1024, 48 * 1024


def plan_of(step: str, recipe: str, folder: pathlib.Path) -> str:
    source, plan = folder / "step.mlir", folder / "step.plan"
    source.write_text(step)
    tool = pathlib.Path(os.environ.get("SCALIFY_BUILD", "build")) / "bin" / "scalify-compile"
    command = [tool, source, f"--recipe={recipe}", "--target=sm_90a", "--compile-to=fusion"]
    subprocess.run([*command, "-o", plan], capture_output=True, check=True)
    return plan.read_text()


def ptx_of(plan: str) -> str:
    text = scalify.opt(plan, PIPELINE)
    found = re.search(r'assembly = "(.*?)"', text, re.DOTALL)
    assert found
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found[1]).rstrip("\0")


def assemble(ptx: str, folder: pathlib.Path) -> str:
    """Returns ptxas's output for each kernel."""
    source = folder / "kernels.ptx"
    source.write_text(ptx)
    ptxas = _ptxas.find()
    assert ptxas, "no ptxas: run scripts/setup.sh python, or install a CUDA toolkit"
    command = [ptxas, "-arch=sm_90a", "-v", str(source), "-o", str(folder / "kernels.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def check_resources(ptx: str, said: str) -> None:
    """Checks that each kernel can be launched, and keeps nothing in local memory."""
    kernels = KERNEL.findall(said)
    assert len(kernels) == len(set(kernels)) == ptx.count(".visible .entry")
    # No local memory at all: neither spills nor arrays that threads would keep there.
    stacks = SPILLS.findall(said)
    assert len(stacks) == len(kernels) and set(stacks) == {("0", "0", "0")}
    assert ".extern" not in ptx
    assert all(int(size) <= SHARED_WITHOUT_ASKING for size in SHARED.findall(said))
    blocks = dict(zip(ENTRY.findall(ptx), map(int, BLOCK.findall(ptx)), strict=True))
    used = dict(zip(kernels, map(int, REGISTERS.findall(said)), strict=True))
    for kernel, registers in used.items():
        assert -(-registers // 8) * 8 * blocks[kernel] <= ALL_REGISTERS, kernel


@pytest.mark.parametrize("recipe", ["none", "bf16", "fp8", "fp8-current", "fp8-lm-o2"])
def test_every_kernel_of_the_example_assembles(recipe: str, tmp_path: pathlib.Path) -> None:
    plan = plan_of(gpu_steps.example(1), recipe, tmp_path)
    ptx = ptx_of(plan)
    check_resources(ptx, assemble(ptx, tmp_path))
    assert ptx.count(".visible .entry") > 30
    # Vectors of 16 bytes carry most of what is moved.
    assert ptx.count("ld.global.v4.b32") + ptx.count("ld.global.v2.b64") > 100
    # Codes are made by instructions: of each format that the plan casts to, and of no other.
    formats = {name.lower()[2:6] for name in FLOAT8.findall(plan)}
    assert formats == set(re.findall(r"cvt\.rn\.satfinite\.(e\dm\d)x2\.f32", ptx))
    assert bool(formats) == recipe.startswith("fp8")


@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
def test_no_kernel_of_scanned_layers_of_8b_shape_spills(
    recipe: str, tmp_path: pathlib.Path
) -> None:
    """Rows of 4,096 elements: left alone, ptxas spills in norms to fit one block more."""
    ptx = ptx_of(plan_of(gpu_steps.large(2, scanned=True), recipe, tmp_path))
    check_resources(ptx, assemble(ptx, tmp_path))


TURNED = """
plan.program @step {{
  %x = plan.argument 0 : memref<4096x4096x{0}>
  %s = plan.argument 1 : memref<f32>
  %a = plan.result 0 : memref<4096x4096x{0}>
  %b = plan.result 1 : memref<4096x4096xf8E4M3FN>
  %c = plan.result 2 : memref<4096x4096xf8E4M3FN>
  plan.kernel "turn" reads(%x : memref<4096x4096x{0}>) writes(%a : memref<4096x4096x{0}>) {{
  ^bb0(%v: tensor<4096x4096x{0}>):
    %t = stablehlo.transpose %v, dims = [1, 0]
        : (tensor<4096x4096x{0}>) -> tensor<4096x4096x{0}>
    plan.yield %t : tensor<4096x4096x{0}>
  }}
  plan.kernel "cast" reads(%x, %s : memref<4096x4096x{0}>, memref<f32>)
      writes(%b, %c : memref<4096x4096xf8E4M3FN>, memref<4096x4096xf8E4M3FN>) {{
  ^bb0(%v: tensor<4096x4096x{0}>, %w: tensor<f32>):
    %f = stablehlo.convert %v : (tensor<4096x4096x{0}>) -> tensor<4096x4096xf32>
    %q = scalify.quantize %f, %w {{cast = "c0"}}
        : tensor<4096x4096xf32> -> tensor<4096x4096xf8E4M3FN>
    %t = stablehlo.transpose %q, dims = [1, 0]
        : (tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xf8E4M3FN>
    plan.yield %q, %t : tensor<4096x4096xf8E4M3FN>, tensor<4096x4096xf8E4M3FN>
  }}
}}
"""


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8E4M3FN", "f8E5M2"])
def test_transposes_move_vectors_both_ways(element: str, tmp_path: pathlib.Path) -> None:
    ptx = ptx_of(TURNED.format(element))
    check_resources(ptx, assemble(ptx, tmp_path))
    turn, cast = ptx.split(".visible .entry")[1:]
    # 16 bytes in, 16 bytes out, and nothing by elements.
    for kernel in (turn, cast):
        moves = set(re.findall(r"\b((?:ld|st)\.global\S*)", kernel))
        assert {"ld.global.v4.b32", "st.global.v4.b32"} <= moves
        assert not {m for m in moves if m.startswith("st") and m.endswith((".b8", ".b16"))}
    # Each element is cast once, though its code goes to two places.
    assert cast.count("cvt.rn.satfinite") == (4 if element == "f32" else 8)


def test_a_wrong_kernel_is_told_by_ptxas(tmp_path: pathlib.Path) -> None:
    header = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    with pytest.raises(AssertionError, match="Unknown symbol"):
        assemble(f"{header}.visible .entry k()\n{{\nbra away;\n}}\n", tmp_path)
