"""Programs that skip a step with values that are not finite skip it under every recipe too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalify

WIDTH, LAYERS, ROWS = 64, 4, 32
OPTIMIZER = optax.apply_if_finite(optax.adamw(1e-2), 5)
PATHS: dict[str, Callable[..., Any]] = {"jit": scalify.jit, "transform": scalify.transform}


def initial() -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(0), LAYERS)
    params = [jax.random.normal(key, (WIDTH, WIDTH)) * WIDTH**-0.5 for key in keys]
    return params, OPTIMIZER.init(params)


def loss(params: Any, x: Any, y: Any) -> Any:
    h = x
    for w in params[:-1]:
        h = jax.nn.gelu(h @ w)
    return jnp.mean((h @ params[-1] - y) ** 2)


def guarded(params: Any, state: Any, x: Any, y: Any) -> Any:
    gradients = jax.grad(loss)(params, x, y)
    updates, state = OPTIMIZER.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, state.notfinite_count


def scaled(params: Any, state: Any, x: Any, y: Any) -> Any:
    """A step under loss scaling, whose scale would halve."""
    gradients = jax.grad(lambda p: 2.0**10 * loss(p, x, y))(params)
    finite = jnp.stack([jnp.isfinite(g).all() for g in gradients]).all()
    updates, new = OPTIMIZER.update([g / 2.0**10 for g in gradients], state, params)
    new_params = optax.apply_updates(params, updates)
    params, state = jax.tree.map(
        lambda a, b: jnp.where(finite, a, b), (new_params, new), (params, state)
    )
    return params, state, finite


@pytest.mark.parametrize("recipe", ["fp8", "fp8-current", "fp8-block", "fp8-lm-o2", "bf16", "fp16"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("step", [guarded, scaled])
@pytest.mark.filterwarnings("ignore:.*")
def test_a_step_with_an_infinity_is_skipped(step: Any, path: str, recipe: str) -> None:
    rng = np.random.default_rng(0)
    run, plain = PATHS[path](step, recipe), jax.jit(step)
    if path == "transform":
        run = jax.jit(run)
    params, state = initial()
    for i in range(4):
        x, y = (rng.normal(size=(ROWS, WIDTH)).astype(np.float32) for _ in range(2))
        if i == 2:
            x[3, 5] = np.inf
        want = int(plain(params, state, x, y)[2])
        new, new_state, is_bad = run(params, state, x, y)
        assert int(is_bad) == want
        same = [bool(np.array_equal(a, b)) for a, b in zip(new, params, strict=True)]
        assert same == [i == 2] * LAYERS
        params, state = new, new_state
    assert np.isfinite(np.asarray(params[0])).all()
