"""The tools alone: text to artefact to tensors on disk, as in the README."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

import scalify

BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD", pathlib.Path(__file__).parents[2] / "build"))


def step(params: dict[str, Any], x: Any, y: Any) -> tuple[dict[str, Any], Any]:
    def loss(params: dict[str, Any]) -> Any:
        return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def arguments() -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"a": (32, 64), "b": (64, 16)}
    params = {k: rng.normal(0, 0.1, shape).astype(np.float32) for k, shape in shapes.items()}
    x = rng.normal(size=(8, 32)).astype(np.float32)
    return params, x, rng.normal(3, 1, size=(8, 16)).astype(np.float32)


def run(folder: pathlib.Path, tool: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(BUILD / "bin" / tool), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def write_inputs(folder: pathlib.Path) -> None:
    params, x, y = arguments()
    lowered = jax.jit(step, donate_argnums=0).lower(params, x, y)
    (folder / "step.mlir").write_text(lowered.as_text(debug_info=True))
    names = {f"params['{name}']": array for name, array in params.items()}
    save_file({**names, "x": x, "y": y}, folder / "state.safetensors")


def test_compile_and_run_from_files(tmp_path: pathlib.Path) -> None:
    write_inputs(tmp_path)
    options = ["--recipe=fp8", "--state=state.safetensors", "--report=text"]
    done = run(tmp_path, "scalify-compile", "step.mlir", "-o", "step.scalify", *options)
    assert done.returncode == 0, done.stderr
    assert "casts to f8E4M3FN" in done.stdout
    files = ["--in", "state.safetensors", "--out", "next.safetensors", "--steps", "3"]
    done = run(tmp_path, "scalify-run", "step.scalify", *files)
    assert done.returncode == 0, done.stderr

    params, x, y = arguments()
    in_python = scalify.jit(step, recipe="fp8", donate_argnums=0)
    for _ in range(3):
        params, _ = in_python(params, x, y)
    written = load_file(tmp_path / "next.safetensors")
    for name, array in params.items():
        np.testing.assert_array_equal(written[f"params['{name}']"], np.asarray(array))


def test_measured_scales_are_those_of_python(tmp_path: pathlib.Path) -> None:
    write_inputs(tmp_path)
    options = ["--recipe=fp8", "--state=state.safetensors"]
    run(tmp_path, "scalify-compile", "step.mlir", "-o", "step.scalify", *options)
    kept = scalify.load(tmp_path / "step.scalify").scales
    measured = scalify.measure(arguments())
    assert kept.exponents == measured.exponents
    assert kept.moments is not None and measured.moments is not None
    assert kept.moments[:3] == measured.moments[:3] == (None, None, None)
    np.testing.assert_allclose(kept.moments[3], measured.moments[3], rtol=1e-6)


def test_a_missing_tensor_is_an_error_with_its_name(tmp_path: pathlib.Path) -> None:
    write_inputs(tmp_path)
    run(tmp_path, "scalify-compile", "step.mlir", "-o", "step.scalify")
    tensors = load_file(tmp_path / "state.safetensors")
    del tensors["y"]
    save_file(tensors, tmp_path / "state.safetensors")
    done = run(tmp_path, "scalify-run", "step.scalify", "--in", "state.safetensors")
    assert done.returncode == 1 and "'y'" in done.stderr
    data = (tmp_path / "step.scalify").read_bytes()
    (tmp_path / "step.scalify").write_bytes(data[: len(data) // 2])
    done = run(tmp_path, "scalify-run", "step.scalify", "--in", "state.safetensors")
    assert done.returncode == 1 and "truncated" in done.stderr


def test_all_tools_print_one_version() -> None:
    project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
    version = project.split('version = "', 1)[1].split('"', 1)[0]
    for tool in ("scalify-compile", "scalify-opt", "scalify-run"):
        done = subprocess.run([BUILD / "bin" / tool, "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{tool} {version}\n"), done.stderr


def test_help_shows_scalify_s_passes_first() -> None:
    done = subprocess.run([BUILD / "bin" / "scalify-opt", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert 0 < done.stdout.index("scalify-propagate") < done.stdout.index("--canonicalize")
