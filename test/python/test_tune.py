"""scalify.tune: the dots that must stay wide are found, and no others."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify._tune import _Dots, _minimal

WIDTH = 32
# By itself the recipe would leave the planted dot wide, and there would be nothing to find.
EVERY = scalify.Recipe(sensitive=True, head=False)


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Its dot with `b` cancels if `b` is made for it: halves of `h` are nearly equal."""
    h = jnp.concatenate([x, x + 1e-3 * jnp.tanh(x @ params["d"])], axis=1)
    return jnp.mean((jnp.tanh(h @ params["b"]) @ params["out"] - 1) ** 2)


def data(planted: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    half = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    other = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    params = {
        # The difference of the halves is 1e-3 of them, and all that is left.
        "b": np.concatenate([1e3 * half, -1e3 * half] if planted else [half, other]),
        "d": rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32),
        "out": rng.normal(0, WIDTH**-0.5, (WIDTH, 16)).astype(np.float32),
    }
    return params, rng.normal(size=(48, WIDTH)).astype(np.float32)


def test_a_planted_dot_is_found_and_no_other() -> None:
    found = scalify.tune(jax.grad(loss), data(planted=True), recipe=EVERY)
    assert [(dot.kind, dot.name) for dot in found.dots] == [("forward_dot", "params['b']")]
    assert found.before > 0.3 >= found.after
    assert found.dots[0].alone > 0.3 and found.dots[0].back > 0.3
    ((pattern, formats),) = found.recipe.where
    assert formats is False and pattern.startswith("forward_dot:^params")
    assert found.recipe.replace(where=()) == EVERY
    assert "forward_dot of params['b']: error" in str(found)
    # The recipe is one like any other: written out, and taken by scalify.jit.
    run = scalify.jit(jax.grad(loss), scalify.Recipe.parse(str(found.recipe)))
    run(*data(planted=True))
    wide = {(row["kind"], row["weight"]) for row in run.report().dots() if is_wide(row)}
    assert wide == {("forward_dot", "params['b']")} | {
        (kind, "params['out']") for kind in ("forward_dot", "input_grad", "weight_grad")
    }


def is_wide(row: dict[str, Any]) -> bool:
    return bool(row["reason"].startswith("stays wide"))


def test_a_healthy_model_keeps_its_recipe() -> None:
    recipe = scalify.Recipe.preset("fp8-current").replace(head=False)
    found = scalify.tune(jax.grad(loss), data(planted=False), recipe=recipe)
    assert found.recipe is recipe and found.dots == () and found.runs == 1
    assert found.before == found.after <= 0.3 and found.narrow == 5


def test_of_a_step_the_change_of_its_state_counts() -> None:
    def step(params: dict[str, jax.Array], x: jax.Array) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 1e-2 * g, params, grads), value

    # The new parameters are the old ones to some digits; what FP8 makes of the update is seen.
    jitted = scalify.jit(step, EVERY, donate_argnums=0)
    found = scalify.tune(jitted, [data(planted=True)] * 2, tolerance=0.5)
    assert found.before > 0.5 >= found.after
    assert ("forward_dot", "params['b']") in {(dot.kind, dot.name) for dot in found.dots}
    # The halves differ by 2^-10, and BF16 has 8 bits.
    with pytest.raises(ValueError, match="with every dot bf16 the error is"):
        scalify.tune(jitted, data(planted=True), 0.5, keep="bf16")


def scanned(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """The loss after gated layers with norms in a scan, each of which is recomputed."""

    @jax.checkpoint
    def layer(x: jax.Array, weights: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        gate, up, down = weights
        y = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down, None

    x, _ = jax.lax.scan(layer, x, (params["gate"], params["up"], params["down"]))
    return loss(params, x)


def test_a_planted_dot_behind_a_scan_is_found() -> None:
    params, x = data(planted=True)
    draw = np.random.default_rng(1)
    for name, shape in (("gate", (3, 32, 64)), ("up", (3, 32, 64)), ("down", (3, 64, 32))):
        params[name] = draw.normal(0, shape[1] ** -0.5, shape).astype(np.float32)
    found = scalify.tune(jax.grad(scanned), (params, x), recipe=EVERY)
    assert [(dot.kind, dot.name) for dot in found.dots] == [("forward_dot", "params['b']")]
    assert found.before > 0.3 >= found.after


def test_what_is_no_dots_fault_is_said() -> None:
    recipe = scalify.Recipe(saved="f8E4M3FN")
    with pytest.raises(ValueError, match="with every dot left wide the error is"):
        scalify.tune(jax.grad(loss), data(planted=False), 1e-7, recipe=recipe)
    with pytest.raises(ValueError, match="no data"):
        scalify.tune(jax.grad(loss), [])


@pytest.mark.parametrize("seed", range(20))
def test_bisection_finds_what_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    dots = [_Dots("forward_dot", str(index), 1) for index in range(rng.randint(1, 40))]
    needed = set(rng.sample(dots, rng.randint(1, min(4, len(dots)))))
    runs = []

    def passes(some: list[_Dots]) -> bool:
        runs.append(some)
        return needed <= set(some)

    found = _minimal(dots, passes)
    assert set(found) == needed and found == sorted(found, key=dots.index)
    assert len(runs) <= 2 + len(needed) * (3 + 2 * len(dots).bit_length())
