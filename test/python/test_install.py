"""The installed package: a wheel in an empty environment, and a C++ project by find_package.

Both install from the build tree by CMake's rules, which are those of `pip install .`.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD") or ROOT / "build")
PROJECT = ROOT / "test" / "install"

# Neither PYTHONPATH nor SCALIFY_BUILD.
CLEAN = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

TEN_LINES = """
import json, jax, jax.numpy as jnp, scalify
def step(w, x, y):
    loss = lambda w: jnp.mean((jax.nn.gelu(jax.nn.gelu(x @ w[0]) @ w[1]) @ w[2] - y) ** 2)
    value, slope = jax.value_and_grad(loss)(w)
    return [p - 0.2 * g for p, g in zip(w, slope)], value
k = jax.random.split(jax.random.key(0), 4)
shapes = [(64, 128), (128, 128), (128, 16)]
w = [jax.random.normal(k[i], s) / s[0]**0.5 for i, s in enumerate(shapes)]
x = jax.random.normal(k[3], (256, 64))
steps = {"f32": jax.jit(step), "fp8": scalify.jit(step, recipe="fp8")}
losses = {name: [] for name in steps}
for name, run in steps.items():
    v = w
    for _ in range(60):
        v, loss = run(v, x, jnp.sin(x[:, :16]))
        losses[name].append(float(loss))
print(json.dumps([losses, [row["format"] for row in steps["fp8"].health()], scalify.__file__]))
"""

TEN_LINES_OF_TORCH = """
import copy, json, torch, scalify.torch
def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 16))
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)
x = torch.randn(256, 64, generator=torch.Generator().manual_seed(1))
y, loss_of, losses = torch.sin(x[:, :16]), torch.nn.functional.mse_loss, {"f32": [], "fp8": []}
model, optimizer = make()
step = scalify.torch.compile(model, loss_of, optimizer, recipe="fp8")
losses["fp8"] = [float(step(x, y)) for _ in range(60)]
trained, (model, optimizer) = model, make()
for _ in range(60):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    losses["f32"].append(float(loss.detach()))
formats = [row["format"] for row in step.health()]
print(json.dumps([losses, formats, float(loss_of(trained(x), y)), scalify.__file__]))
"""


def settings(source: pathlib.Path) -> dict[str, Any]:
    """Returns a package's pyproject.toml."""
    return tomllib.loads((source / "pyproject.toml").read_text())


def run(*command: str | os.PathLike[str], **options: object) -> str:
    """Returns a command's standard output, in an environment without Scalify's variables."""
    done = subprocess.run(command, capture_output=True, text=True, env=CLEAN, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def make_wheel(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """Packs what CMake installs as a package's component with scikit-build-core's metadata."""
    files = folder / "files"
    (component,) = settings(source)["tool"]["scikit-build"]["install"]["components"]
    run("cmake", "--install", BUILD, "--component", component, "--prefix", files, "--strip")
    make = (
        "import sys; from scikit_build_core.build import prepare_metadata_for_build_wheel as make"
    )
    metadata = (
        files
        / run(sys.executable, "-c", f"{make}; print(make(sys.argv[1]))", files, cwd=source).split()[
            -1
        ]
    )
    tag = next(
        line.removeprefix("Tag: ")
        for line in (metadata / "WHEEL").read_text().splitlines()
        if line.startswith("Tag: ")
    )
    names = [path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()]
    record = (metadata / "RECORD").relative_to(files).as_posix()
    (files / record).write_text("".join(f"{name},,\n" for name in [*names, record]))
    wheel = folder / f"{metadata.name.removesuffix('.dist-info')}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*names, record]:
            archive.write(files / name, name)
    return wheel


def install(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """Returns the bin folder of an environment with a wheel; other packages are this one's."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    bin_folder = folder / "venv" / "bin"
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "project.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", bin_folder / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", make_wheel(folder, source))
    return bin_folder


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The bin folder of an environment with Scalify."""
    return install(tmp_path_factory.mktemp("wheel"), ROOT)


def test_ten_lines_train_in_fp8(scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    losses, formats, file = json.loads(
        run(scripts / "python", "-W", "ignore", "-c", TEN_LINES, cwd=tmp_path)
    )
    assert pathlib.Path(file).is_relative_to(scripts.parent)
    assert {"f8E4M3FN", "f8E5M2"} <= set(formats)
    assert losses["fp8"][-1] < losses["fp8"][0] / 2
    # E4M3 rounds a factor by 6 % at most, and a product sums 128 of them: errors of both signs.
    np.testing.assert_allclose(losses["fp8"], losses["f32"], rtol=0.02)


def test_ten_lines_of_torch_train_in_fp8(scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for module in ("torch", "torchax"):
        pytest.importorskip(module, reason=f"{module} is not installed: make test-torch")
    losses, formats, after, file = json.loads(
        run(scripts / "python", "-W", "ignore", "-c", TEN_LINES_OF_TORCH, cwd=tmp_path)
    )
    assert pathlib.Path(file).is_relative_to(scripts.parent)
    assert {"f8E4M3FN", "f8E5M2"} <= set(formats)
    assert losses["fp8"][-1] < losses["fp8"][0] / 2
    # As in JAX.
    np.testing.assert_allclose(losses["fp8"], losses["f32"], rtol=0.02)
    # The module itself has what was trained.
    assert after < losses["fp8"][-1]


def test_commands(scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(scripts / "scalify", "compile", PROJECT / "step.mlir", "-o", tmp_path / "step.scalify")
    x = np.arange(8, dtype=np.float32)
    inputs = {"arg0": np.float32([1]).reshape(()), "arg1": x, "arg2": 3 * x}
    safetensors.numpy.save_file(inputs, tmp_path / "in.safetensors")
    out = ("--in", tmp_path / "in.safetensors", "--out", tmp_path / "out.safetensors")
    run(scripts / "scalify", "run", tmp_path / "step.scalify", *out)
    values = safetensors.numpy.load_file(tmp_path / "out.safetensors").values()
    # Loss: mean of 4 x^2. Slope of half the sum: -2 times the sum of x^2.
    assert sorted(float(value) for value in values) == [1 + 2 * 140 / 16, 4 * 140 / 8]
    for name in ("scalify-opt", "scalify-compile", "scalify-run"):
        assert run(scripts / name, "--version").startswith(name)
    version = settings(ROOT)["project"]["version"]
    assert run(scripts / "scalify", "--version") == f"scalify {version}\n"
    assert "--mesh" in run(scripts / "scalify", "plan", "--help")
    assert run(scripts / "scalify-plan", "--version") == f"scalify-plan {version}\n"
    wrong = subprocess.run([scripts / "scalify", "fly"], capture_output=True, text=True, env=CLEAN)
    assert wrong.returncode == 2
    assert "no command 'fly'" in wrong.stderr


def test_commands_of_modules(scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "trainer.py").write_text("def main(argv):\n    print(argv)\n    return 3\n")
    (tmp_path / "needy.py").write_text("import no_such_package\n")
    code = (
        "import sys, scalify_cli as cli; cli.MODULES['train'] = (sys.argv.pop(1), '');"
        "sys.exit(cli.main())"
    )
    # Modules of our own, so that the test does not depend on those of the package.
    for module, status, text in (
        ("trainer", 3, "['config.toml', '--steps', '2']"),
        ("needy", 1, "it needs the package 'no_such_package': pip install no_such_package"),
        ("no_such_module", 1, "no module no_such_module: install a scalify that has it"),
    ):
        command = [scripts / "python", "-c", code, module, "train", "config.toml", "--steps", "2"]
        done = subprocess.run(command, capture_output=True, text=True, env=CLEAN, cwd=tmp_path)
        assert done.returncode == status
        assert text in done.stdout + done.stderr


def test_runtime_alone(scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(scripts / "scalify-compile", PROJECT / "step.mlir", "-o", tmp_path / "step.scalify")
    own = install(tmp_path / "runtime", ROOT / "runtime")
    code = """
import sys, numpy as np, scalify_runtime
step = scalify_runtime.load(sys.argv[1])
w, x = np.float32(1), np.arange(8, dtype=np.float32)
for _ in range(2):
    w, loss = step.run([w, x, 3 * x])
print(float(w), float(loss), {"jax", "scalify"} & set(sys.modules))
"""
    out = run(own / "python", "-c", code, tmp_path / "step.scalify", cwd=tmp_path)
    # w goes from 1 by (3 - w) * 140 / 16 each time; the loss is that of the step before.
    first = 1 + 2 * 140 / 16
    second = first + (3 - first) * 140 / 16
    assert out.split() == [str(second), str((3 - first) ** 2 * 140 / 8), "set()"]
    assert run(own / "scalify-run", "--version").startswith("scalify-run")
    # Beside the other package in one process, in either order.
    packages = next(own.parent.rglob("scalify_runtime")).parent
    for both in ("scalify_runtime, scalify", "scalify, scalify_runtime"):
        beside = (
            f"import sys; sys.path += sys.argv[2:]; import {both}{code}"
            "assert scalify.jit(lambda w: 2 * w)(np.float32(4)) == 8"
        )
        out = run(scripts / "python", "-c", beside, tmp_path / "step.scalify", packages)
        assert out.split()[0] == str(second)
    files = [*own.parent.rglob("*.so"), *own.parent.rglob("bin/scalify-run")]
    assert len(files) >= 2
    for file in files:
        assert b"libLLVM" not in file.read_bytes()


def check_share(share: pathlib.Path, programs: dict[str, str]) -> None:
    """A man page and a completion for each program, with an option that its --help prints."""
    pages = share / "man" / "man1"
    assert {page.stem for page in pages.iterdir()} == set(programs)
    completions = share / "bash-completion" / "completions"
    for name, word in programs.items():
        text = (pages / f"{name}.1").read_text().replace("\\-", "-")
        assert word in text
        assert "SYNOPSIS" in text
        assert run("bash", "-c", '. "$0"; complete -p "$1"', completions / name, name)


@pytest.mark.skipif(not shutil.which("help2man"), reason="help2man is missing: make setup")
def test_man_pages_of_the_wheel(scripts: pathlib.Path) -> None:
    words = {"scalify": "tokenize", "scalify-opt": "--scalify-import", "scalify-run": "--steps"}
    words |= {"scalify-compile": "--recipe", "scalify-plan": "--mesh"}
    check_share(scripts.parent / "share", words)


def test_install_without_man_pages(tmp_path: pathlib.Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "help2man").write_text("#!/bin/sh\nexit 1\n")
    (tools / "help2man").chmod(0o755)
    command = ("cmake", "--install", BUILD, "--component", "python", "--prefix", tmp_path / "files")
    paths = {**CLEAN, "PATH": f"{tools}:{CLEAN['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=paths)
    assert done.returncode == 0
    assert "not all man pages are installed" in done.stderr
    assert (tmp_path / "files" / "scalify" / "bin" / "scalify-opt").is_file()
    assert list((tmp_path / "files").glob("*.data/data/share/bash-completion/completions/scalify"))


def test_cpp_project(tmp_path: pathlib.Path) -> None:
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    if shutil.which("help2man"):
        words = {"scalify-opt": "--scalify-import", "scalify-run": "--steps"}
        check_share(prefix / "share", words | {"scalify-compile": "--recipe"})
    compilers = ("-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22")
    run(
        *("cmake", "-S", PROJECT, "-B", build, "-G", "Ninja"),
        *(f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld-22", *compilers),
    )
    run("cmake", "--build", build)
    # By the compiler's program, and by its libraries.
    run(build / "compile", PROJECT / "step.mlir", build / "other.scalify")
    for artefact in ("step.scalify", "other.scalify"):
        assert run(build / "train", build / artefact).startswith("w 3.0000 ")
    needs = subprocess.run(["ldd", build / "train"], capture_output=True, text=True).stdout
    assert str(prefix) in needs
    assert "LLVM" not in needs
    shutil.copy(PROJECT / "step.mlir", tmp_path / "bad.scalify")
    bad = subprocess.run(
        [build / "train", tmp_path / "bad.scalify"], capture_output=True, text=True, env=CLEAN
    )
    assert bad.returncode == 1
    assert "not a Scalify artefact" in bad.stderr


def test_versions_of_the_builds() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = {line.split("#")[0].strip() for line in lines}
    whole, runtime = settings(ROOT), settings(ROOT / "runtime")
    assert set(whole["build-system"]["requires"]) <= pinned
    assert runtime["build-system"] == whole["build-system"]
    assert runtime["project"]["version"] == whole["project"]["version"]
