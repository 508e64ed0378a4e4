"""scalify._runtime on artefacts assembled by hand."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hand_artefact import KERNELS, PTX, build_kernels, for_gpu, kernel, pack, train_step

from scalify import _runtime

N = 64


@pytest.fixture(scope="module")
def code() -> bytes:
    return build_kernels(KERNELS)


@pytest.fixture
def step(code: bytes) -> _runtime.Executable:
    return _runtime.Executable(pack(train_step(N), code))


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    return rng.normal(size=N).astype("f4") * 2, rng.normal(size=N).astype("f4"), x


def test_step_gives_numbers_and_arrays(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    kept = w.copy()
    new, loss, y = step.run([w, g, x])
    want = w - np.float32(0.5) * g
    np.testing.assert_array_equal(np.asarray(new), want)
    np.testing.assert_array_equal(w, kept)  # foreign memory is never written
    assert isinstance(new, _runtime.Array)
    assert isinstance(loss, np.ndarray) and loss.shape == () and loss.dtype == np.float32
    assert float(loss) == pytest.approx(float(want.sum()), rel=1e-5)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x)
    assert y.ctypes.data % 64 == 0
    (health,) = step.health()
    assert health["saturated"] == int((want > 1).sum()) and health["flushed"] == 0
    assert health["cast"] == "w" and health["elements"] == N


def test_donated_array_goes_back_without_a_copy(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    state = step.run([w, g, x])[0]
    address = np.asarray(state).ctypes.data
    assert address % 64 == 0
    for _ in range(3):
        old = state
        state = step.run([state, g, x])[0]
        assert np.asarray(state).ctypes.data == address
        assert old.is_deleted()
    with pytest.raises(ValueError, match="donated"):
        step.run([old, g, x])
    with pytest.raises(ValueError, match="donated"):
        np.asarray(old)
    assert "donated" in repr(old)


def test_view_outlives_donation_unchanged(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    state = step.run([w, g, x])[0]
    view = np.asarray(state)
    kept = view.copy()
    assert not view.flags.writeable
    new = step.run([state, g, x])[0]
    np.testing.assert_array_equal(view, kept)
    assert np.asarray(new).ctypes.data != view.ctypes.data
    with pytest.raises(ValueError, match="donated"):
        step.run([state, g, x])


def test_array_protocols(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    state = step.run([w, g, x])[0]
    assert state.shape == (N,) and state.dtype == np.float32
    assert state.ndim == 1 and state.size == N and state.nbytes == 4 * N and len(state) == N
    np.testing.assert_array_equal(np.from_dlpack(state), np.asarray(state))
    np.testing.assert_array_equal(jnp.asarray(state), np.asarray(state))
    assert np.asarray(state, dtype=np.float64).dtype == np.float64
    assert np.array(state, copy=True).flags.writeable
    assert "f32[64]" in repr(state)
    scalar = _runtime.array(np.float32(2.5))
    assert float(scalar) == 2.5 and scalar.item() == 2.5 and scalar.shape == ()
    half = _runtime.array([1.0, 2.0], dtype=ml_dtypes.float8_e5m2)
    assert half.dtype == ml_dtypes.float8_e5m2 and half.nbytes == 2


def test_foreign_arrays_of_many_kinds(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    want = np.asarray(step.run([w, g, x])[0])
    strided = np.repeat(w, 2)[::2]
    swapped = w.astype(">f4")
    for first in (jnp.asarray(w), _runtime.array(w), strided, swapped, w.tolist()):
        got = step.run([first, jnp.asarray(g), jnp.asarray(x)])[0]
        np.testing.assert_array_equal(np.asarray(got), want)


def test_arguments_are_checked(step: _runtime.Executable) -> None:
    w, g, x = inputs()
    with pytest.raises(ValueError, match="takes 3 arguments, not 2"):
        step.run([w, g])
    with pytest.raises(ValueError, match=r"'batch\['g'\]' takes f32\[64\], not f32\[63\]"):
        step.run([w, g[1:], x])
    with pytest.raises(ValueError, match=r"takes bf16\[2,3\], not f16"):
        step.run([w, g, x.astype(np.float16)])
    state = _runtime.array(w)
    with pytest.raises(ValueError, match="f64"):
        step.run([state, g.astype(np.float64), x])
    assert not state.is_deleted()  # a refused call consumes nothing
    with pytest.raises(ValueError, match="overlaps"):
        step.run([state, state, x])
    assert not state.is_deleted()
    with pytest.raises(ValueError, match="no function 'rescale'"):
        step.run([w, g, x], "rescale")


def test_file_and_bad_artefacts(tmp_path: pathlib.Path, code: bytes) -> None:
    data = pack(train_step(N), code)
    path = tmp_path / "step.scalify"
    path.write_bytes(data)
    step = _runtime.Executable(path, threads=2)
    assert step.threads == 2
    assert json.loads(step.manifest)["recipe"] == "fp8"
    assert step.args[0]["alias_result"] == 0 and step.results[1]["shape"] == ()
    with pytest.raises(RuntimeError, match="truncated"):
        _runtime.Executable(data[:-1])
    with pytest.raises(RuntimeError, match="checksum"):
        _runtime.Executable(data[:-1] + b"x")
    with pytest.raises(OSError, match="No such file"):
        _runtime.Executable(tmp_path / "absent.scalify")
    with pytest.raises(RuntimeError, match="SCALIFY1"):
        _runtime.Executable(b"\0" * 100)


def test_profile(step: _runtime.Executable) -> None:
    step.set_profiling(True)
    for _ in range(3):
        step.run(list(inputs()))
    rows = step.profile()
    assert [row["name"] for row in rows] == ["update", "loss", "words"]
    assert all(row["calls"] == 3 and row["nanoseconds"] > 0 for row in rows)


def slow_step(code: bytes) -> _runtime.Executable:
    manifest = train_step(N)
    manifest["functions"]["step"] = [kernel("spin", [4], 1)] * 200
    return _runtime.Executable(pack(manifest, code))


def test_run_releases_the_interpreter(code: bytes) -> None:
    manifest = train_step(N)
    manifest["functions"]["step"] = [kernel("spin", [4], 1)] * 4
    step = _runtime.Executable(pack(manifest, code))
    beats: list[float] = []
    stop = threading.Event()

    def beat() -> None:
        while not stop.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    count = len(beats)
    step.run(list(inputs()))
    stop.set()
    thread.join()
    assert len(beats) - count > 10


def test_interrupt(code: bytes) -> None:
    step = slow_step(code)
    w, g, x = inputs()
    state = _runtime.array(w)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    # A shell starts what it puts in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            step.run([state, g, x])
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - start < 5
    assert state.is_deleted()


def test_no_compiler_is_loaded() -> None:
    """The runtime must work where MLIR and LLVM are not installed."""
    program = (
        "import sys; from importlib import util;"
        "spec = util.spec_from_file_location('_runtime', sys.argv[1]);"
        "module = util.module_from_spec(spec); spec.loader.exec_module(module); module.version();"
        "maps = open('/proc/self/maps').read();"
        "assert '_runtime' in maps; assert 'libLLVM' not in maps and 'libMLIR' not in maps"
    )
    subprocess.run([sys.executable, "-c", program, _runtime.__file__], check=True)


def test_null_device_records_what_a_gpu_would_do() -> None:
    gpu = _runtime.Executable(pack(for_gpu(train_step(N)), PTX.encode()), device="null")
    params, batch, x = inputs()
    kept = gpu.run((params, batch, x))[0]
    np.testing.assert_array_equal(np.asarray(kept), params)
    launches = [line for line in gpu.trace.splitlines() if line.startswith("cuLaunchKernel ")]
    assert launches[0] == (
        f"cuLaunchKernel update grid={N} block=128 shared=0 args=[arg0+0,arg1+0,arg0+0,counters+0]"
    )
    # The second step is captured, the third replays it.
    kept = gpu.run((kept, batch, x))[0]
    before = len(gpu.trace)
    gpu.run((kept, batch, x))
    assert "cuLaunchKernel" not in gpu.trace[before:]
    assert "cuGraphLaunch exec0" in gpu.trace[before:]


def test_devices_take_their_own_artefacts(code: bytes) -> None:
    with pytest.raises(RuntimeError, match="load it with device 'cuda'"):
        _runtime.Executable(pack(for_gpu(train_step(N)), PTX.encode()))
    with pytest.raises(RuntimeError, match="load it with device 'cpu'"):
        _runtime.Executable(pack(train_step(N), code), device="cuda")
    with pytest.raises(ValueError, match="'cpu', 'cuda' or 'null'"):
        _runtime.Executable(pack(train_step(N), code), device="gpu")


@pytest.mark.parametrize("file", ["lib/libscalify_runtime.so", "bin/scalify-run"])
def test_runtime_links_the_c_library_alone(file: str) -> None:
    path = pathlib.Path(os.environ.get("SCALIFY_BUILD", "build")) / file
    done = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True)
    needed = {
        line.split("[")[1].split(".")[0] for line in done.stdout.splitlines() if "(NEEDED)" in line
    }
    assert needed <= {
        "libstdc++",
        "libgcc_s",
        "libm",
        "libc",
        "libpthread",
        "libdl",
        "ld-linux-x86-64",
    }
