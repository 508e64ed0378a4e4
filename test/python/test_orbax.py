"""Orbax saves a step's own state beside its tree, and a resumed run has the same bits."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify

ocp = pytest.importorskip("orbax.checkpoint", reason="Orbax is an option")

from scalify.orbax import StepHandler, StepRestore, StepSave  # noqa: E402


def loss(params: Any, x: Any) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - x[:, :8]) ** 2)


def update(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, jax.grad(loss)(params, x))


def batch(index: int) -> np.ndarray:
    return np.random.default_rng(index).normal(size=(32, 16)).astype(np.float32) * (1 + index)


def make_step() -> scalify.Jit:
    # Amaxes of earlier steps: a step that starts anew has other bits.
    return scalify.jit(update, recipe="fp8-delayed")


def manager(folder: pathlib.Path) -> Any:
    handlers = {"tree": ocp.StandardCheckpointHandler(), "step": StepHandler()}
    return ocp.CheckpointManager(folder, item_names=tuple(handlers), item_handlers=handlers)


@pytest.mark.filterwarnings("ignore")
def test_a_run_resumes_from_orbax_bit_for_bit(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (16, 32), "b": (32, 8)}
    start = {
        name: jnp.asarray(rng.normal(size=shape), jnp.float32) / 4 for name, shape in shapes.items()
    }
    step, params = make_step(), start
    with manager(tmp_path) as orbax:
        with pytest.raises(ValueError, match="before its first call"):
            StepHandler().save(orbax.directory, StepSave(step))
        for index in range(6):
            params = step(params, batch(index))
            if index == 2:
                saved = ocp.args.Composite(tree=ocp.args.StandardSave(params), step=StepSave(step))
                orbax.save(index, args=saved)
                orbax.wait_until_finished()
    again = make_step()
    with manager(tmp_path) as orbax:
        wanted = ocp.args.Composite(tree=ocp.args.StandardRestore(start), step=StepRestore(again))
        found = orbax.restore(2, args=wanted)
    resumed, anew = found["tree"], found["tree"]
    other = make_step()
    for index in range(3, 6):
        resumed, anew = again(resumed, batch(index)), other(anew, batch(index))
    for name in shapes:
        np.testing.assert_array_equal(np.asarray(resumed[name]), np.asarray(params[name]))
    assert any(np.any(np.asarray(anew[name]) != np.asarray(params[name])) for name in shapes)
