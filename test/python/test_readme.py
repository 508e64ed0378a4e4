"""The commands and code of the README and docs/python.md run as written."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin"


def block(page: str, start: str) -> list[str]:
    """Returns the lines of code from the first with this start to the next line of text."""
    lines = (ROOT / page).read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"    {start}"))
    rest = lines[begin:]
    end = next(i for i, line in enumerate(rest) if line and not line.startswith("    "))
    return [line[4:] for line in rest[:end] if line]


def test_the_readme_s_python_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss_of(params: list[jax.Array], batch: jax.Array) -> jax.Array:
        for weight in params:
            batch = jnp.tanh(batch @ weight)
        return jnp.mean(batch**2)

    def train_step(params, state, batch):  # type: ignore[no-untyped-def]
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, state), state, loss

    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    params = [draw.normal(size=(64, 64)).astype(np.float32) / 8 for _ in range(8)]
    names = {
        "train_step": train_step,
        "params": params,
        "state": [np.zeros_like(weight) for weight in params],
        "batch": draw.normal(size=(32, 64)).astype(np.float32),
    }
    arguments = (params, names["state"], names["batch"])
    lines = block("README.md", "import scalify")
    exec("\n".join(line for line in lines if not line.startswith("$")), names)
    assert isinstance(names["params"][0], jax.Array)
    # A cast to E4M3 errs by 0.42 * 2^-4 of an element, and a mean of 2,048 squares by less.
    want = train_step(*arguments)[2]
    np.testing.assert_allclose(names["loss"], want, rtol=0.05)
    np.testing.assert_allclose(names["jax_step"](*arguments)[2], want, rtol=0.05)


def test_the_readme_s_commands_run(tmp_path: pathlib.Path) -> None:
    commands = [line[2:] for line in block("README.md", "import scalify") if line[:1] == "$"]
    assert len(commands) == 5
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
    }
    for command in commands:
        command = command.replace(".venv/bin/python examples", f"{sys.executable} {ROOT}/examples")
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert "no scale rule" not in done.stderr, command
    assert (tmp_path / "next.safetensors").exists()


def test_the_recipes_of_the_page_on_python_are_recipes() -> None:
    names = {"scalify": scalify}
    *lines, equal = block("docs/python.md", "recipe = scalify.Recipe(")
    exec("\n".join(lines), names)
    assert eval(equal, names)


def test_the_page_of_reported_bugs_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "reported-bugs.md").read_text()
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", page)
    assert len(named) >= 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / "test" / "python" / file).read_text(), f"{file}::{test}"
