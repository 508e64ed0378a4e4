"""Executable.memory: the plan's bytes, and FP8-LM's arithmetic of state."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify

WIDTH, ROWS, DEPTH = 64, 32, 3
PARAMETERS = DEPTH * WIDTH * WIDTH


def params() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(DEPTH)]


def loss(params: Any, x: Any) -> Any:
    for weight in params:
        x = x + jnp.tanh(x @ weight)
    return jnp.mean(jnp.square(x))


def memory(recipe: str) -> dict[str, Any]:
    optimizer = optax.adam(1e-3)

    def step(params: Any, opt: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        updates, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, value

    weights = params()
    opt = jax.tree.map(np.asarray, optimizer.init(weights))
    x = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    fn = scalify.jit(step, recipe, donate_argnums=(0, 1))
    return fn.executable(weights, opt, x).memory


@pytest.mark.parametrize(("recipe", "each"), [("none", 12), ("fp8", 12), ("fp8-lm-o2", 5)])
def test_state_takes_the_bytes_of_its_formats(recipe: str, each: int) -> None:
    """FP8-LM (section 2.3): 2 bytes of the master, 1 and 2 of the moments, in place of 3 x 4."""
    found = memory(recipe)
    assert found["parameters"] == PARAMETERS
    assert found["state"] == each * PARAMETERS


def test_forward_keeps_less_where_it_is_rounded() -> None:
    """bf16 rounds each tanh that the backward reads; F32 keeps all of them wide."""
    wide, narrow = memory("none"), memory("bf16")
    tanhs = DEPTH * ROWS * WIDTH * 4
    assert wide["kept"] >= tanhs
    assert narrow["kept"] < wide["kept"]


@pytest.mark.parametrize("recipe", ["none", "fp8-lm-o2"])
def test_peak_is_the_sum_of_its_parts(recipe: str) -> None:
    found = memory(recipe)
    parts = sum(found["arguments"].values()) + found["results"] + found["constants"]
    assert found["peak"] == parts + found["arena"]
    assert max(found["kept"], found["gradients"]) <= found["arena"]
