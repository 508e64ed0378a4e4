"""Plans with streams: in the null device's record, commands on the same bytes are ordered.

Streams and events are read off the calls that were recorded, bytes off the manifest, and the order
is derived here, independently of the compiler's own proof.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hand_artefact import build_kernels, kernel, pack, train_step

import scalify
from scalify import _runtime

WORK = re.compile(r"(cuLaunchKernel|cublasLtMatmul|cuMemcpyDtoDAsync|cuMemsetD8Async) ")
EVENT = re.compile(r"(cuEventRecord|cuStreamWaitEvent) event(\d+)")
STREAM = re.compile(r" stream=(\d+)")
ITEM = {"f32": 4, "bf16": 2, "f16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "i32": 4, "ui32": 4, "i1": 1}


def mlp(params: list[Any], x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return jnp.mean(x * x)


def train(params: list[Any], x: Any) -> Any:
    grads = jax.grad(mlp)(params, x)
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)


@pytest.fixture(scope="module")
def steps() -> dict[int, Any]:
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(256, 256)).astype("f4") / 16 for _ in range(4)]
    x = rng.normal(size=(256, 256)).astype("f4")
    found = {}
    for streams in (1, 2):
        step = scalify.jit(
            train,
            "none",
            "sm_90a",
            donate_argnums=0,
            gpu=scalify.GPU(device="null", streams=streams),
        )
        step(params, x)
        found[streams] = step.executable()
    return found


def touched(manifest: dict[str, Any], command: dict[str, Any]) -> list[tuple[Any, int, int, bool]]:
    """Returns memory, first byte, end and whether it is written, for each buffer of a command."""
    if command["op"] == "kernel":
        used = [(index, i >= command["reads"]) for i, index in enumerate(command["bufs"])]
    elif command["op"] == "gemm":
        used = [(command["a"], False), (command["b"], False), (command["c"], True)]
        used += [(command[key], False) for key in ("a_scale", "b_scale") if key in command]
    else:
        used = [(command["dst"], True)]
        used += [(command["src"], False)] if "src" in command else []
    places = []
    for index, is_write in used:
        buffer = manifest["buffers"][index]
        memory, begin = (buffer["kind"], buffer.get("index", 0)), buffer.get("offset", 0)
        if buffer["kind"] == "result":
            alias = manifest["results"][buffer["index"]]["alias_arg"]
            memory = memory if alias is None else ("arg", alias)
        size = int(np.prod(buffer["shape"], dtype=np.int64)) * ITEM[buffer["dtype"]]
        if buffer["kind"] != "const":
            places.append((memory, begin, begin + size, is_write))
    return places


def check_order(manifest: dict[str, Any], lines: list[str]) -> int:
    """Asserts that commands on the same bytes are ordered; returns the number of pairs."""
    commands = iter(c for c in manifest["functions"]["step"] if c["op"] not in ("record", "wait"))
    clocks: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    events: dict[str, dict[str, int]] = {}
    earlier: list[tuple[str, int, list[Any]]] = []
    pairs = 0
    for line in lines:
        match = STREAM.search(line)
        stream = match.group(1) if match else "0"
        clock = clocks[stream]
        if event := EVENT.match(line):
            if event.group(1) == "cuEventRecord":
                events[event.group(2)] = dict(clock)
            for other, count in events[event.group(2)].items():
                clock[other] = max(clock[other], count)
        elif WORK.match(line) and "counters+0 bytes" not in line:
            places = touched(manifest, next(commands))
            for other, number, others in earlier:
                conflicts = any(
                    a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and (a[3] or b[3])
                    for a in places
                    for b in others
                )
                pairs += conflicts
                assert not conflicts or clock[other] > number, line
            earlier.append((stream, clock[stream], places))
            clock[stream] += 1
    assert next(commands, None) is None
    return pairs


def first_step(executable: Any) -> list[str]:
    """Returns the calls of the first step, which runs uncaptured."""
    lines: list[str] = executable.trace.splitlines()
    start = max(i for i, line in enumerate(lines) if line.startswith("cuMemcpyHtoDAsync"))
    return lines[start:]


def test_what_touches_the_same_bytes_is_ordered(steps: dict[int, Any]) -> None:
    lines = first_step(steps[2])
    beside = [line for line in lines if line.endswith(" stream=1") and WORK.match(line)]
    # Gradients of weights, which the update needs, beside those of activations.
    assert sum(line.startswith("cublasLtMatmul") for line in beside) >= 2
    assert check_order(steps[2].manifest, lines) > 20
    # Without the waits it is not.
    kept = [line for line in lines if not line.startswith("cuStreamWaitEvent")]
    with pytest.raises(AssertionError):
        check_order(steps[2].manifest, kept)


def test_streams_change_nothing_but_the_order(steps: dict[int, Any]) -> None:
    one, two = (steps[count].manifest["functions"]["step"] for count in (1, 2))
    assert not any("stream" in command for command in one)
    plain = [command for command in two if command["op"] not in ("record", "wait")]
    assert [c["op"] for c in plain] == [c["op"] for c in one]
    # Not the functions: which kernels work in place is another matter with less memory free.
    names = [[c.get("name") for c in commands] for commands in (plain, one)]
    assert names[0] == names[1]
    # What runs side by side lies apart.
    assert steps[2].memory["arena"] >= steps[1].memory["arena"]


def test_a_step_with_streams_is_one_graph(steps: dict[int, Any]) -> None:
    step = steps[2]
    arrays = [step.put(np.zeros(arg["shape"], np.float32)) for arg in step.args]
    before = len(step.trace)
    for _ in range(2):
        results = step(*arrays)
        arrays[: len(results)] = results
    lines = step.trace[before:].splitlines()
    assert sum(line.startswith("cuGraphInstantiate") for line in lines) == 1
    assert any(line.endswith("stream=1") for line in lines)


def test_a_cpu_runs_such_a_plan_in_order() -> None:
    manifest = train_step(64)
    update, loss, words = manifest["functions"]["step"]
    manifest["functions"]["step"] = [
        update,
        {"op": "record", "event": 0, "stream": 0},
        {"op": "wait", "event": 0, "stream": 1},
        {**loss, "stream": 1},
        {**words, "stream": 2},
    ]
    rng = np.random.default_rng(2)
    w, g = rng.normal(size=(2, 64)).astype("f4")
    x = np.zeros((2, 3), jnp.bfloat16)
    artefact = pack(manifest, build_kernels())
    new, total, _ = _runtime.Executable(artefact).run((w, g, x))
    np.testing.assert_array_equal(np.asarray(new), w - np.float32(0.5) * g)
    np.testing.assert_allclose(float(total), (w - 0.5 * g).sum(), rtol=1e-4)
    null = _runtime.Executable(artefact, device="null")
    null.run((w, g, x))
    assert [line for line in null.trace.splitlines() if "event" in line] == [
        "record event0 stream0",
        "wait event0 stream1",
    ]
    manifest["functions"]["step"][1] = kernel("loss", [3, 4], 1)
    with pytest.raises(RuntimeError, match="waits for event 0, which no command before it records"):
        _runtime.Executable(pack(manifest, build_kernels()))


def test_only_a_gpu_has_streams() -> None:
    with pytest.raises(scalify.CompileError, match="target 'cpu' has no streams"):
        scalify.jit(train, "none", gpu=scalify.GPU(streams=2))(
            [np.zeros((4, 4), "f4")], np.zeros((4, 4), "f4")
        )
    with pytest.raises(scalify.CompileError, match="streams must be 1 to 16, not 17"):
        scalify.jit(train, "none", "sm_90a", gpu=scalify.GPU(streams=17))(
            [np.zeros((4, 4), "f4")], np.zeros((4, 4), "f4")
        )
