"""scalify-run on artefacts assembled by hand; safetensors files are written by code here."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hand_artefact import (
    KERNELS,
    PTX,
    buffer,
    build_kernels,
    for_gpu,
    pack,
    tensor,
    train_step,
)

import scalify

N = 64
BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD") or pathlib.Path(__file__).parents[2] / "build")
TOOL = BUILD / "bin" / "scalify-run"
NAMES = {
    "F32": np.float32,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F16": np.float16,
    "I32": np.int32,
    "I64": np.int64,
    "U32": np.uint32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def save(path: pathlib.Path, tensors: dict[str, np.ndarray]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    body = b""
    for name, value in tensors.items():
        spelling = next(k for k, v in NAMES.items() if value.dtype == v)
        data = value.tobytes()
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": spelling, "shape": value.shape, "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    assert (8 + length) % 8 == 0
    out, covered = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        covered += end - begin
        dtype = np.dtype(NAMES[entry["dtype"]])
        assert begin % dtype.itemsize == 0
        out[name] = np.frombuffer(body[begin:end], dtype).reshape(entry["shape"])
    assert covered == len(body)
    return out


class Bench:
    """A folder with an artefact and its input."""

    def __init__(self, folder: pathlib.Path, code: bytes) -> None:
        self.folder = folder
        self.step = folder / "step.scalify"
        self.step.write_bytes(pack(train_step(N), code))
        self.state = folder / "state.safetensors"
        self.out = folder / "next.safetensors"
        rng = np.random.default_rng(0)
        self.tensors = {
            "params['w']": rng.normal(size=N).astype("f4") * 2,
            "batch['g']": rng.normal(size=N).astype("f4"),
            "x": np.arange(6, dtype="f4").reshape(2, 3).astype(ml_dtypes.bfloat16),
        }
        save(self.state, self.tensors)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        command = [str(TOOL), str(self.step), "--in", str(self.state), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def error(self, *more: str) -> str:
        done = self.run(*more)
        assert done.returncode == 1
        assert done.stderr.startswith("scalify-run: error: ")
        return done.stderr


@pytest.fixture(scope="module")
def code() -> bytes:
    return build_kernels(KERNELS)


@pytest.fixture
def bench(tmp_path: pathlib.Path, code: bytes) -> Bench:
    return Bench(tmp_path, code)


def test_steps_feed_donated_results_back(bench: Bench) -> None:
    done = bench.run("--out", str(bench.out), "--steps=3", "--threads", "2")
    assert done.returncode == 0, done.stderr
    w, g = bench.tensors["params['w']"], bench.tensors["batch['g']"]
    losses = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("step ")]
    for loss in losses:
        w = w - np.float32(0.5) * g
        assert float(loss) == pytest.approx(float(w.sum()), rel=1e-4)
    assert len(losses) == 3 and "2 threads" in done.stdout
    result = read(bench.out)
    assert set(result) == {"params['w']", "result[1]", "result[2]"}
    np.testing.assert_array_equal(result["params['w']"], w)
    np.testing.assert_array_equal(result["result[2]"], bench.tensors["x"])


def test_positional_names_and_a_batch_per_step(bench: Bench) -> None:
    rng = np.random.default_rng(1)
    batches = rng.normal(size=(2, N)).astype("f4")
    w, x = bench.tensors["params['w']"], bench.tensors["x"]
    save(bench.state, {"arg0": w, "arg1": batches, "arg2": x})
    done = bench.run("--steps", "3", "--out", str(bench.out))
    assert done.returncode == 0, done.stderr
    for i in (0, 1, 0):
        w = w - np.float32(0.5) * batches[i]
    np.testing.assert_array_equal(read(bench.out)["params['w']"], w)


def test_profile_and_health(bench: Bench) -> None:
    done = bench.run("--profile", "--health", "--steps", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if "GFLOP/s" in line)
    rows = [line.split() for line in lines[start + 1 : start + 4]]
    assert {row[-1] for row in rows} == {"update", "loss", "words"}
    times = [float(row[0]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert sum(float(row[1]) for row in rows) == pytest.approx(100, abs=0.3)
    w = bench.tensors["params['w']"] - bench.tensors["batch['g']"]
    # NaN, saturated, flushed, zero, elements.
    assert lines[-1].split()[:5] == ["0", str(int((w > 1).sum())), "0", "0", str(N)]


def test_errors_are_clear(bench: Bench, tmp_path: pathlib.Path) -> None:
    def with_state(**changes: Any) -> str:
        tensors = {**bench.tensors, **changes.pop("edit", {})}
        save(bench.state, {k: v for k, v in tensors.items() if k != changes.get("drop")})
        return bench.error()

    assert "argument 'x' (bf16[2,3]) is missing" in with_state(drop="x")
    assert "takes f32[64], the tensor" in with_state(edit={"params['w']": np.ones(63, "f4")})
    assert "is i32[64]" in with_state(edit={"batch['g']": np.ones(N, "i4")})
    save(bench.state, bench.tensors)
    assert "unknown option '--stops'" in bench.error("--stops", "1")
    assert "at least 1, not '0'" in bench.error("--steps", "0")
    assert "no function 'rescale'" in bench.error("--function=rescale")
    assert "cannot be written" in bench.error("--out", str(tmp_path / "absent" / "x"))
    whole = bench.step.read_bytes()
    bench.step.write_bytes(whole[:-1])
    assert "truncated" in bench.error()
    bench.step.unlink()
    assert "No such file" in bench.error()


def function(args: list[Any], results: list[Any]) -> dict[str, Any]:
    """Returns a function without commands."""
    return {"arena_bytes": 0, "args": args, "results": results, "buffers": [], "commands": []}


def test_functions_that_do_not_fit_the_step(bench: Bench, code: bytes) -> None:
    """`measure` and `rescale` would work in the memory of arguments of other sizes."""
    amax = tensor("amax", [1])
    for name, shape in (("absent", [N]), ("x", [1 << 24]), ("x", [2, 3])):
        manifest = train_step(N)
        manifest["functions"]["measure"] = function([tensor(name, shape, "bf16")], [amax])
        bench.step.write_bytes(pack(manifest, code))
        found = bench.error()
        what = "scalify.argument_amax" if shape == [2, 3] else name
        assert f"function 'measure' works on '{what}' of type" in found, found

    def rescale(scales: dict[str, Any], counts: list[int], own: dict[str, Any]) -> str:
        manifest = train_step(N)
        manifest["args"].append(own | {"name": "scalify.scales", "alias_result": None})
        both = [scales | {"alias_result": 0}, tensor("counts", counts, "ui64")]
        manifest["functions"]["rescale"] = function(both, [scales | {"alias_arg": 0}])
        bench.step.write_bytes(pack(manifest, code))
        return bench.error("--rescale-every=1")

    one, more = tensor("scales", [1]), tensor("scales", [1 << 24])
    assert "takes 96 bytes of counts, and those of the step have 48" in rescale(one, [2, 6], one)
    assert "works on 'scalify.scales' of type f32[16777216]" in rescale(more, [1, 6], one)
    bits = tensor("scales", [1], "i8")
    assert "scales are of type i8[1], not f32" in rescale(bits, [1, 6], bits)

    # So would a function that is run in place of the step.
    for key in ("args", "results"):
        manifest = train_step(N)
        other = function(list(manifest["args"]), list(manifest["results"]))
        other[key][1] = other[key][1] | {"shape": [1 << 24]}
        manifest["functions"]["other"] = other
        bench.step.write_bytes(pack(manifest, code))
        found = bench.error("--function=other")
        assert "'other' has not the arguments and results of the step" in found, found


def test_scalars_of_complex_numbers_are_printed(bench: Bench, code: bytes) -> None:
    for dtype, made in (("complex<f32>", np.complex64), ("complex<f64>", np.complex128)):
        value = made(1.5 - 2j)
        manifest = train_step(N)
        manifest["buffers"] = [buffer("const", 0, [], dtype), buffer("result", 1, [], dtype)]
        manifest["results"][1] = tensor("result[1]", [], dtype, alias_arg=None)
        copy = {"op": "copy", "src": 0, "dst": 1, "bytes": value.nbytes}
        manifest["functions"]["step"] = [copy]
        bench.step.write_bytes(pack(manifest, code, value.tobytes()))
        done = bench.run()
        assert done.returncode == 0, done.stderr
        assert "result[1] 1.5-2i" in done.stdout


def test_truncated_safetensors(bench: Bench) -> None:
    whole = bench.state.read_bytes()
    for size in [*range(0, 200, 7), len(whole) - 1, len(whole) - 100]:
        bench.state.write_bytes(whole[:size])
        assert "truncated" in bench.error(), size


def test_malformed_safetensors(bench: Bench) -> None:
    def with_header(header: Any) -> str:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        bench.state.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 256)
        return bench.error()

    def entry(**change: Any) -> dict[str, Any]:
        base = {"dtype": "F32", "shape": [N], "data_offsets": [0, 4 * N]}
        return {"params['w']": {**base, **change}}

    assert "no JSON object" in with_header(b"{{{")
    assert "no JSON object" in with_header([1])
    assert "'F31' is not supported" in with_header(entry(dtype="F31"))
    assert "is no extent" in with_header(entry(shape=[-N]))
    assert "is no extent" in with_header(entry(shape=["64"]))
    assert "span 252 bytes" in with_header(entry(data_offsets=[0, 4 * N - 4]))
    assert "out of range" in with_header(entry(data_offsets=[-4, 4 * N]))
    assert "out of range" in with_header(entry(shape=[2**62, 2**62]))
    assert "truncated" in with_header(entry(data_offsets=[4, 4 * N + 4]))
    assert "two data_offsets" in with_header(entry(data_offsets=[0]))
    assert "two data_offsets" in with_header({"params['w']": 1})


def test_help_and_no_arguments() -> None:
    done = subprocess.run([str(TOOL), "--help"], capture_output=True, text=True, check=True)
    assert "--profile" in done.stdout
    done = subprocess.run([str(TOOL)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no artefact given" in done.stderr


def test_rescale_moves_the_scales_of_casts_and_keeps_them_in_the_output(
    tmp_path: pathlib.Path,
) -> None:
    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    x = np.full((32, 32), 2.0**20, np.float32)
    w = np.ones((32, 32), np.float32)
    recipe = '#scalify.recipe<"fp8", head = true>'
    fn = scalify.jit(
        matmul, recipe=recipe, numerics=scalify.Numerics(scales=[0, 0], adaptive_scales=True)
    )
    fn.executable(x, w).save(tmp_path / "step.scalify")
    save(tmp_path / "state.safetensors", {"x": x, "w": w})

    def run(state: str, out: str, *more: str) -> str:
        files = [str(tmp_path / name) for name in ("step.scalify", state, out)]
        command = [str(TOOL), files[0], "--in", files[1], "--out", files[2], *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    once = run("state.safetensors", "once.safetensors")
    out = read(tmp_path / "once.safetensors")
    # Untouched, the scales are the constants that the code was made with.
    assert "rescale" not in once and out["scalify.scales"].tolist() == [1.0, 1.0]
    assert out["result"][0, 0] == 32 * 448
    text = run("state.safetensors", "out.safetensors", "--steps=6", "--rescale-every=2")
    assert text.count("rescale: 1 scales moved") == 2
    out = read(tmp_path / "out.safetensors")
    # x is read first. It needs 2^20 / 448, and gets it in moves of eight binades.
    assert out["scalify.scales"].tolist() == [2.0**16, 1.0]
    assert out["result"][0, 0] == 32 * 2.0**20
    # The output is the next run's input.
    save(tmp_path / "next.safetensors", {"x": x, "w": w, "scalify.scales": out["scalify.scales"]})
    run("next.safetensors", "last.safetensors")
    assert np.array_equal(read(tmp_path / "last.safetensors")["result"], out["result"])
    with pytest.raises(subprocess.CalledProcessError) as error:
        scalify.jit(matmul, numerics=scalify.Numerics(scales=[0, 0])).executable(x, w).save(
            tmp_path / "step.scalify"
        )
        run("state.safetensors", "out.safetensors", "--rescale-every=1")
    assert "scales are constants" in error.value.stderr


def test_state_that_the_compiler_adds_goes_with_the_user_s(tmp_path: pathlib.Path) -> None:
    def step(w: Any, x: Any) -> Any:
        return w - (x.T @ (x @ w)) / 64, x @ w

    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(2))
    recipe = '#scalify.recipe<"fp8-delayed", head = true>'
    fn = scalify.jit(step, recipe, donate_argnums=0, numerics=scalify.Numerics(scales=[0, 0]))
    executable = fn.executable(w, x)
    executable.save(tmp_path / "step.scalify")
    save(tmp_path / "start.safetensors", {"w": w, "x": x})

    def run(source: str, target: str, steps: int) -> dict[str, np.ndarray]:
        command = [str(TOOL), str(tmp_path / "step.scalify"), "--in", str(tmp_path / source)]
        command += ["--out", str(tmp_path / target), f"--steps={steps}"]
        subprocess.run(command, capture_output=True, text=True, check=True)
        return read(tmp_path / target)

    straight = run("start.safetensors", "straight.safetensors", 4)
    half = run("start.safetensors", "half.safetensors", 2)
    save(tmp_path / "half.safetensors", half | {"x": x})
    resumed = run("half.safetensors", "resumed.safetensors", 2)
    for _ in range(4):
        w, _ = fn(w, x)
    own = {"w": np.asarray(w), "scalify.amax_history": executable.amax_history}
    for name, value in own.items():
        np.testing.assert_array_equal(straight[name], value)
        np.testing.assert_array_equal(resumed[name], value)
    assert (half["scalify.amax_history"][:, -2:] > 0).all()


def test_null_device_on_an_artefact_for_a_gpu(bench: Bench) -> None:
    bench.step.write_bytes(pack(for_gpu(train_step(N)), PTX.encode()))
    done = bench.run()
    assert done.returncode == 1 and "load it with device 'cuda'" in done.stderr
    done = bench.run("--device=null", "--trace", "--steps=3", "--out", str(bench.out))
    assert done.returncode == 0, done.stderr
    # The second step is captured and launched, the third replays it.
    assert done.stdout.count("cuGraphLaunch exec0") == 2
    assert "cuLaunchKernel update" in done.stdout and "mean" in done.stdout
    np.testing.assert_array_equal(read(bench.out)["params['w']"], bench.tensors["params['w']"])
    done = bench.run("--device", "tpu")
    assert done.returncode == 1 and "cpu, cuda or null, not 'tpu'" in done.stderr
