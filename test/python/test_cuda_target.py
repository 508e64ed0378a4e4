"""Artefacts for an H100, on a machine without one: their contents, and the calls of a step.

A null device records every call of a step on a driver and a cuBLASLt that check arguments and
compute nothing; so what is asserted here is the sequence, the pointers and the descriptors.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import gpu_steps
import jax
import numpy as np
import pytest

import scalify
from scalify import _compiler, _ptxas, _runtime
from scalify._executable import Executable, build, compile_text

RECIPES = ("none", "bf16", "fp8", "fp8-current", "fp8-block")
FP8 = {"f8E4M3FN", "f8E5M2"}
ITEM = {"f32": 4, "bf16": 2, "f16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "i1": 1, "i32": 4, "ui32": 4}
MATMUL = re.compile(
    r"cublasLtMatmul a=(\S+) b=(\S+) d=(\S+)(?: a_scale=(\S+) b_scale=(\S+))? alpha=(\S+)"
)


def compile_step(text: str, recipe: str, **more: Any) -> tuple[bytes, dict[str, Any]]:
    """Returns the artefact of a step and its manifest."""
    options = {"recipe": recipe, "target": "sm_90a", "ptxas": _ptxas.find() or ""} | more
    artefact, _ = _compiler.compile(text, json.dumps(options))
    length = int.from_bytes(artefact[8:16], "little")
    return artefact, json.loads(artefact[32 : 32 + length])


@functools.cache
def compiled(recipe: str) -> tuple[bytes, dict[str, Any]]:
    """Returns the artefact and manifest of a step of the example."""
    return compile_step(gpu_steps.example(2), recipe)


def section(artefact: bytes, manifest: dict[str, Any], name: str) -> bytes:
    place = manifest["sections"][name]
    return artefact[place["offset"] : place["offset"] + place["size"]]


def size_of(buffer: dict[str, Any]) -> int:
    return ITEM[buffer["dtype"]] * int(np.prod(buffer["shape"], dtype=np.int64))


def operands(command: dict[str, Any]) -> list[int]:
    """Returns the indices of the buffers that a command names."""
    names = ("a", "b", "c", "a_scale", "b_scale", "bias", "aux", "src", "dst")
    listed = ["bufs"] if command["op"] == "kernel" else ["reads", "writes"]
    lists = [command.get(name, []) for name in listed]
    return [
        *(index for each in lists for index in each),
        *(command[name] for name in names if name in command),
    ]


def written_by(command: dict[str, Any]) -> list[int]:
    """Returns the indices of the buffers that a command writes."""
    if command["op"] == "kernel":
        return command["bufs"][command["reads"] :]
    named = [command[name] for name in ("c", "aux", "dst") if name in command]
    return [*command.get("writes", []), *named]


def place_of(manifest: dict[str, Any], index: int) -> str:
    """Returns how the recording names a buffer of the manifest."""
    buffer = manifest["buffers"][index]
    if buffer["kind"] == "result":
        alias = manifest["results"][buffer["index"]]["alias_arg"]
        name = f"result{buffer['index']}" if alias is None else f"arg{alias}"
        return f"{name}+{buffer.get('offset', 0)}"
    name = {"arg": f"arg{buffer.get('index')}", "temp": "arena", "const": "const"}[buffer["kind"]]
    return f"{name}+{buffer.get('offset', 0)}"


def run_steps(recipe: str, steps: int) -> list[str]:
    """Runs steps on a null device and returns its record."""
    artefact, manifest = compiled(recipe)
    exe = Executable(artefact, device="null")
    dtypes = {"f32": np.float32, "i32": np.int32}
    arrays = [np.zeros(a["shape"], dtypes[a["dtype"]]) for a in exe.args]
    args: list[Any] = [
        _runtime.array(array) if argument["alias_result"] is not None else array
        for array, argument in zip(arrays, exe.args, strict=True)
    ]
    fed = {a["alias_result"]: i for i, a in enumerate(exe.args) if a["alias_result"] is not None}
    for _ in range(steps):
        results = exe(*args)
        for result, index in fed.items():
            args[index] = results[result]
        del results  # the next step takes their memory, and so replays its graph
    assert manifest["target"] == "sm_90a"
    return exe.trace.splitlines()


def check_matmul(manifest: dict[str, Any], command: dict[str, Any], seen: Iterator[str]) -> None:
    """Finds the call of a GEMM among the remaining ones; of several batches, the first."""
    # Row-major C = A B is the library's column-major C' = B' A'; a result that is stored
    # transposed turns that round again.
    left, right = ("b", "a") if command["c_strides"][1] == 1 else ("a", "b")
    places = [
        shifted(manifest, command[name], command[f"{name}_off"]) for name in (left, right, "c")
    ]
    for line in seen:
        if (match := MATMUL.match(line)) and list(match.groups()[:3]) == places:
            break
    else:
        pytest.fail(f"no call multiplies {places} for {command}")
    a_scale, b_scale, alpha = match.groups()[3:]
    if "a_scale" in command:
        assert a_scale == place_of(manifest, command[f"{left}_scale"])
        assert b_scale == place_of(manifest, command[f"{right}_scale"])
    assert np.float32(alpha) == np.float32(command["alpha"])


def shifted(manifest: dict[str, Any], index: int, elements: int) -> str:
    """Returns the recording's name of an element of a buffer."""
    name, offset = place_of(manifest, index).split("+")
    return f"{name}+{int(offset) + elements * ITEM[manifest['buffers'][index]['dtype']]}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_kernels_are_assembled(recipe: str) -> None:
    artefact, manifest = compiled(recipe)
    ptx = section(artefact, manifest, "kernels").decode()
    assert ".target sm_90a" in ptx
    assert section(artefact, manifest, "cubin")[:4] == b"\x7fELF"
    entries = set(re.findall(r"\.entry (\w+)\(", ptx))
    # The step's are a list; another function has its own buffers beside.
    functions = manifest["functions"].values()
    lists = [one if isinstance(one, list) else one["commands"] for one in functions]
    kernels = [c for commands in lists for c in commands if c["op"] == "kernel"]
    assert {kernel["symbol"] for kernel in kernels} == entries
    assert all(kernel["threads"] % 32 == 0 for kernel in kernels)


@pytest.mark.parametrize("recipe", RECIPES)
def test_dots_run_in_the_format_of_the_report(recipe: str) -> None:
    _, manifest = compiled(recipe)
    buffers = manifest["buffers"]
    gemms = [c for c in manifest["functions"]["step"] if c["op"] == "gemm"]
    planned = [tuple(buffers[gemm[side]]["dtype"] for side in "ab") for gemm in gemms]
    dots = [row["format"] for row in manifest["report"] if row["op"] == "dot_general"]
    narrow = [tuple(text.split(" -> ")[0].split(" x ")) for text in dots if "f8" in text]
    # Which operand is the left one of the call is the library's matter.
    assert sorted(map(sorted, narrow)) == sorted(sorted(p) for p in planned if set(p) <= FP8)
    assert not any(set(pair) & FP8 and not set(pair) <= FP8 for pair in planned)
    if recipe == "bf16":
        assert set(planned) == {("bf16", "bf16")}


@pytest.mark.parametrize("recipe", RECIPES)
def test_temporaries_that_live_together_lie_apart(recipe: str) -> None:
    _, manifest = compiled(recipe)
    buffers, commands = manifest["buffers"], manifest["functions"]["step"]
    lives: dict[int, tuple[int, int]] = {}
    for when, command in enumerate(commands):
        for index in operands(command):
            first, _ = lives.get(index, (when, when))
            lives[index] = (first, when)
    temps = [i for i in lives if buffers[i]["kind"] == "temp" and size_of(buffers[i])]

    def place(index: int) -> tuple[int, int]:
        return buffers[index]["offset"], buffers[index]["offset"] + size_of(buffers[index])

    # What nobody writes is a part of what somebody does, and keeps that alive.
    written = {index for command in commands for index in written_by(command)}
    for part in [i for i in temps if i not in written]:
        (begin, end), (first, last) = place(part), lives[part]
        whole = [
            i
            for i in written & set(temps)
            if place(i)[0] <= begin and end <= place(i)[1] and lives[i][0] < first
        ]
        assert whole, part
        owner = max(whole, key=lambda i: lives[i][0])
        lives[owner] = (lives[owner][0], max(last, lives[owner][1]))
        temps.remove(part)
    for i in temps:
        begin, end = place(i)
        assert 0 <= begin <= end <= manifest["arena_bytes"]
        for j in temps:
            apart = end <= buffers[j]["offset"] or lives[i][1] < lives[j][0]
            if i == j or apart or lives[j][1] < lives[i][0]:
                continue
            if buffers[j]["offset"] + size_of(buffers[j]) <= begin:
                continue
            # One kernel may write where it reads for the last time.
            early, late = sorted((i, j), key=lambda k: lives[k])
            assert lives[early][1] == lives[late][0], (commands[lives[late][0]], i, j)
            assert commands[lives[late][0]]["op"] == "kernel"
            assert buffers[early]["offset"] == buffers[late]["offset"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_is_one_graph_of_the_plan(recipe: str) -> None:
    _, manifest = compiled(recipe)
    trace = run_steps(recipe, steps=3)
    assert sum(line.startswith("cuGraphInstantiate") for line in trace) == 1
    # The first step runs uncaptured, the second is captured.
    assert sum(line.startswith("cuGraphLaunch") for line in trace) == 2
    begin = trace.index("cuStreamBeginCapture")
    captured = trace[begin : next(i for i, s in enumerate(trace) if s.startswith("cuStreamEnd"))]
    assert not any("Synchronize" in line or "cuMemAlloc" in line for line in captured)
    seen = iter(captured[1:])
    for command in manifest["functions"]["step"]:
        if command["op"] == "kernel":
            line = next(s for s in seen if s.startswith("cuLaunchKernel"))
            symbol, pointers = re.match(r"cuLaunchKernel (\w+) .*args=\[(.*)\]", line).groups()  # type: ignore[union-attr]
            assert symbol == command["symbol"]
            assert f"block={command['threads']} " in line
            wanted = [place_of(manifest, index) for index in command["bufs"]]
            assert pointers.split(",")[:-1] == wanted
        elif command["op"] == "gemm":
            check_matmul(manifest, command, seen)


def test_fast_sums_are_the_forwards() -> None:
    _, manifest = compiled("fp8")
    gemms = [c for c in manifest["functions"]["step"] if c["op"] == "gemm"]
    fast = {("transpose(" in g["loc"]) for g in gemms if g.get("fast_accumulation")}
    assert fast == {False}


@pytest.mark.parametrize(
    ("precision", "compute"), [("tensorfloat32", "tf32"), ("highest", "f32"), (None, "f32")]
)
def test_f32_products_are_tf32_where_the_program_says_so(
    precision: str | None, compute: str
) -> None:
    def loss(w: Any, x: Any) -> Any:
        return (jax.numpy.tanh(x @ w) ** 2).sum()

    args = [np.ones(shape, np.float32) for shape in ((64, 32), (16, 64))]
    with jax.default_matmul_precision(precision):
        text = jax.jit(jax.grad(loss)).lower(*args).as_text()
    step = scalify.compile(text, "none", target="sm_90a", gpu=scalify.GPU(device="null"))
    step(*args)
    found = re.findall(r"cublasLtMatmul .*compute=(\S+)", step.trace)
    assert found == [compute] * 2


def test_updates_of_equal_parameters_are_one_kernel() -> None:
    """Scales of state are entries of one array; no kernel contains their indices."""

    def kernels(layers: int) -> set[str]:
        options = {"recipe": "fp8-lm-o2", "packState": True, "planOnly": True}
        artefact, _ = build(gpu_steps.example(layers), options)
        commands = Executable(artefact, device="null").manifest["functions"]["step"]
        return {command["symbol"] for command in commands if command["op"] == "kernel"}

    # A layer more has nine parameters more; what it adds are updates of all of a kind together.
    assert abs(len(kernels(4)) - len(kernels(3))) <= 2


def test_products_by_blocks_are_within_the_librarys_table() -> None:
    """The scales of each operand that a step by blocks multiplies, and how many there are."""
    _, manifest = compiled("fp8-block")
    buffers = manifest["buffers"]
    scaled = [c for c in manifest["functions"]["step"] if "a_scaling" in c]
    pairs = {(c["a_scaling"], c["b_scaling"]) for c in scaled}
    # Sums of 96 are one block: then scales are the rows'. Gradients of weights have two of 1x128.
    assert pairs == {("rows", "rows"), ("vectors", "blocks"), ("vectors", "vectors")}
    for command in scaled:
        for side, extent in (("a", command["m"]), ("b", command["n"])):
            along = -(-command["k"] // 128)
            wanted = {
                "rows": extent,
                "vectors": extent * along,
                "blocks": -(-extent // 128) * -(-along // 4) * 4,
            }
            found = np.prod(buffers[command[f"{side}_scale"]]["shape"], dtype=np.int64)
            assert found == wanted[command[f"{side}_scaling"]]
        assert not command.get("fast_accumulation") or command["a_scaling"] == "rows"
    trace = "\n".join(run_steps("fp8-block", steps=1))
    for modes in ("rows,rows", "128x128,1x128", "1x128,1x128"):
        assert f"scales={modes}" in trace


def test_a_machine_without_a_gpu_says_so(tmp_path: pathlib.Path) -> None:
    exe = scalify.compile(
        jax.jit(lambda x: x + 1).lower(np.ones(8, np.float32)).as_text(), target="sm_90a"
    )
    if not exe._cannot_run_reason:
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match=r"cannot run an artefact for 'sm_90a'.*libcuda"):
        exe(np.ones(8, np.float32))
    exe.save(tmp_path / "step.scalify")
    assert scalify.load(tmp_path / "step.scalify").args[0]["shape"] == exe.args[0]["shape"]
    with pytest.raises(RuntimeError, match="sm_90a"):
        scalify.load(tmp_path / "step.scalify", device="cpu")


def test_a_failing_assembler_is_an_error() -> None:
    text = jax.jit(lambda x: x * 2).lower(np.ones(8, np.float32)).as_text()
    with pytest.raises(scalify.CompileError, match="'/bin/false' failed"):
        compile_text(text, {"target": "sm_90a", "ptxas": "/bin/false"})


def test_kernels_stay_ptx_where_none_is_assembled() -> None:
    text = jax.jit(lambda x: x * 2).lower(np.ones(8, np.float32)).as_text()
    artefact, manifest = compile_step(text, "none", ptxas="none")
    assert "cubin" not in manifest["sections"]
    assert b".visible .entry" in section(artefact, manifest, "kernels")
    # That is enough to record it.
    exe = Executable(artefact, device="null")
    exe(np.ones(8, np.float32))
    assert "cuLaunchKernel" in exe.trace


def commands_of_a_run(manifest: dict[str, Any], name: str) -> Iterator[tuple[Any, Any]]:
    """Yields commands with their function's buffers: those of a loop in each iteration."""
    function = manifest["functions"][name]
    own = isinstance(function, dict)
    for command in function["commands"] if own else function:
        if command["op"] != "loop":
            yield command, (function if own else manifest)["buffers"]
            continue
        for _ in range(command["trips"]):
            yield from commands_of_a_run(manifest, command["function"])


@pytest.mark.parametrize(
    ("layers", "scanned", "recipe"),
    [
        *((4, False, recipe) for recipe in RECIPES[:4]),
        # All 32 layers once: layers share their kernels under every recipe.
        *((32 if recipe == "fp8" else 4, True, recipe) for recipe in RECIPES[:4]),
    ],
)
def test_a_llama_of_8b_shape_compiles(layers: int, scanned: bool, recipe: str) -> None:
    # Without the kernels that move scales.
    # test_gpu_kernels.py assembles the kernels of scanned layers under these recipes.
    plan_only = scanned and recipe in ("bf16", "fp8")
    text = gpu_steps.large(layers, scanned)
    artefact, manifest = compile_step(text, recipe, carryScales=False, planOnly=plan_only)
    assert plan_only or section(artefact, manifest, "cubin")[:4] == b"\x7fELF"
    issued = list(commands_of_a_run(manifest, "step"))
    gemms = [c | {"buffers": buffers} for c, buffers in issued if c["op"] == "gemm"]
    # Layers share their kernels, wherever in a stack their weights lie.
    kernels = [c["symbol"] for c, _ in issued if c["op"] == "kernel"]
    assert len(set(kernels)) < 160 and len(kernels) > 50 * layers
    # A layer has seven linear layers of three products; a checkpoint computes six again. All
    # attentions are the library's, forward and backward, under every recipe.
    assert len(gemms) >= 21 * layers
    attentions = [c for c, _ in issued if c["op"] == "attention"]
    assert sum(command["gradient"] for command in attentions) == layers
    assert len(attentions) == (3 if scanned else 2) * layers
    linear = [{gemm["buffers"][gemm[side]]["dtype"] for side in "ab"} for gemm in gemms]
    # A checkpoint computes all linear layers but the last one again.
    narrow = (27 if scanned else 21) * layers
    assert sum(bool(kinds & FP8) for kinds in linear) == (narrow if "fp8" in recipe else 0)
