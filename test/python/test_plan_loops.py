"""Loops that a plan runs as loops: of unknown length, and too long to unroll."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.special import betainc, gammainc

import scalify

# One rounding of F32 (2^-24) in each of some hundred operations that XLA may order otherwise.
ROUNDING = 1e-5
RNG = np.random.default_rng(0)
STEPS, BATCH, WIDTH = 600, 3, 16
INPUTS = RNG.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)
WEIGHT = (RNG.normal(size=(WIDTH, WIDTH)) * 0.2).astype(np.float32)


def recurrent(w: Any, x: Any, reverse: bool = False) -> Any:
    def cell(h: Any, xi: Any) -> Any:
        h = jnp.tanh(h @ w + xi)
        return h, h * 2

    return lax.scan(cell, jnp.zeros(x.shape[1:]), x, reverse=reverse)


def recurrent_loss(w: Any, x: Any) -> Any:
    last, all_of_them = recurrent(w, x)
    return (all_of_them**2).mean() + last.sum()


def descend(x: Any, steps: Any) -> Any:
    """Stops when the gradient is small."""

    def goes_on(carry: Any) -> Any:
        _, size, step = carry
        return (size > 1e-3) & (step < steps)

    def body(carry: Any) -> Any:
        x, _, step = carry
        g = jax.grad(lambda x: ((x - 3) ** 2).sum())(x)
        return x - 0.1 * g, jnp.abs(g).max(), step + 1

    return lax.while_loop(goes_on, body, (x, jnp.float32(jnp.inf), 0))


def nested(n: Any, x: Any) -> Any:
    def inner(i: Any, v: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, c[1] + x * i), (0, v))[1]

    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, inner(*c)), (0, x))


def swapped(n: Any, x: Any) -> Any:
    """Each of two carries becomes the other: neither may be overwritten before it is read."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[2], c[1] * 2), (0, x, x + 1))


def written_and_read(n: Any, x: Any) -> Any:
    """Each element is computed from the one before it, in one carry."""

    def body(carry: Any) -> Any:
        i, v = carry
        return i + 1, v.at[i].set(v[i - 1] * 1.5 + v[i])

    return lax.while_loop(lambda c: c[0] < n, body, (1, x))[1]


def moved_inside(n: Any, x: Any) -> Any:
    """Starts outside of the operand are moved, as XLA moves them."""

    def body(carry: Any) -> Any:
        i, v = carry
        part = lax.dynamic_slice(x, (i * 2,), (3,))
        return i + 1, lax.dynamic_update_slice(v, part + i, (i * 3 - 4,))

    return lax.while_loop(lambda c: c[0] < n, body, (0, jnp.zeros_like(x)))[1]


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "halved": (
        lambda n: lax.while_loop(lambda v: v > 1, lambda v: v // 2, n),
        (np.int32(1000),),
    ),
    "no iteration": (
        lambda n: lax.while_loop(lambda v: v > 1, lambda v: v // 2, n),
        (np.int32(0),),
    ),
    "products": (
        lambda n, x, w: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x)
        ),
        (np.int32(7), INPUTS[0], WEIGHT),
    ),
    "swapped": (swapped, (np.int32(5), np.float32(1.5))),
    "nested": (nested, (np.int32(6), np.array([1, 2], np.float32))),
    "stopped early": (descend, (np.zeros(5, np.float32), np.int32(1000))),
    "written and read": (written_and_read, (np.int32(9), INPUTS[0, 0])),
    "moved inside": (moved_inside, (np.int32(9), INPUTS[0, 0])),
    "gamma": (lambda k: jax.random.gamma(k, 2.5, (7,)), (jax.random.PRNGKey(3),)),
    "poisson": (lambda k: jax.random.poisson(k, 4.0, (9,)), (jax.random.PRNGKey(3),)),
    "betainc": (
        betainc,
        (np.array([1, 2.5, 9], "f"), np.array([3, 0.5, 2], "f"), np.array([0.2, 0.7, 0.9], "f")),
    ),
    "gammainc": (gammainc, (np.array([1, 2.5, 7], "f"), np.array([3, 0.5, 9], "f"))),
    "factors": (
        lambda a: lax.while_loop(
            lambda v: jnp.sum(v * v) < 1e4, lambda v: v * 1.5 + jnp.linalg.cholesky(a), a
        ),
        (np.eye(5, dtype=np.float32) * 2 + 0.3,),
    ),
    "scan": (recurrent, (WEIGHT, INPUTS)),
    "reverse scan": (lambda w, x: recurrent(w, x, reverse=True), (WEIGHT, INPUTS)),
    "gradient": (jax.value_and_grad(recurrent_loss, (0, 1)), (WEIGHT, INPUTS)),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_jax(case: str) -> None:
    fn, args = CASES[case]
    step = scalify.jit(fn, recipe="none")
    expected = jax.jit(fn)(*args)
    # The second call runs on memory that the first one left.
    for _ in range(2):
        for mine, theirs in zip(
            jax.tree.leaves(step(*args)), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_allclose(
                np.asarray(mine), np.asarray(theirs), rtol=ROUNDING, atol=ROUNDING
            )


def test_the_artefact_does_not_grow_with_the_steps(tmp_path: pathlib.Path) -> None:
    def size(steps: int) -> int:
        text = jax.jit(jax.grad(recurrent_loss)).lower(WEIGHT, INPUTS[:1].repeat(steps, 0))
        scalify.compile(text.as_text(), "none").save(tmp_path / "step")
        return (tmp_path / "step").stat().st_size

    # The numbers of the shapes have more digits.
    assert size(4000) - size(1000) < 4096


@pytest.mark.parametrize("recipe", ["fp8", "bf16"])
def test_gradients_through_a_long_scan(recipe: str) -> None:
    """The bound of 12 layers for a cosine is .98; the cell is one product of 600 steps."""
    gradient = jax.grad(recurrent_loss)
    found = np.asarray(scalify.jit(gradient, recipe)(WEIGHT, INPUTS)).ravel()
    expected = np.asarray(jax.jit(gradient)(WEIGHT, INPUTS)).ravel()
    cosine = found @ expected / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine > 0.98


def test_casts_of_a_loop_are_counted() -> None:
    step = scalify.jit(jax.grad(recurrent_loss), "fp8")
    step(WEIGHT, INPUTS)
    rows = {row["cast"]: row["elements"] for row in step.health()}
    assert any(elements == STEPS * BATCH * WIDTH for elements in rows.values()), rows


def test_casts_of_a_loop_of_unknown_length_are_counted() -> None:
    """The elements are those of the iterations that ran, so that shares are shares."""

    def step(n: Any, x: Any, w: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x))

    run = scalify.jit(step, "fp8")
    for n in (7, 3):
        run(np.int32(n), INPUTS[0], WEIGHT)
        elements = [row["elements"] for row in run.health()]
        assert n * BATCH * WIDTH in elements
        assert all(row["zeros"] + row["flushed"] <= row["elements"] for row in run.health())


def test_a_loop_of_the_other_branch_does_not_run() -> None:
    """With this branch's values it would never end."""

    def step(x: Any) -> Any:
        def grown(x: Any) -> Any:
            return lax.while_loop(lambda v: v < 100, lambda v: v * 2, x)

        return lax.cond(x > 0, grown, lambda x: x - 1, x)

    run = scalify.jit(step, recipe="none")
    for x in (np.float32(3), np.float32(0)):
        np.testing.assert_array_equal(np.asarray(run(x)), jax.jit(step)(x))


@pytest.mark.parametrize(
    ("dtype", "start", "step"),
    [(np.uint8, 0, 1), (np.uint8, 3, 255), (np.int8, 0, 1), (np.int8, 5, -3), (np.int16, 0, 300)],
)
def test_a_counter_wraps_around_in_its_own_type(dtype: Any, start: int, step: int) -> None:
    """A slice read, and one written, at a counter beside the loop's: XLA's to the bit."""
    rows = RNG.normal(size=(100, WIDTH)).astype(np.float32)

    def read(rows: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            count, total = carry
            row = lax.dynamic_slice(rows, (count, dtype(0)), (1, WIDTH))[0]
            return count + dtype(step), lax.select(i % 2 == 0, row, jnp.maximum(total * 0.5, row))

        return lax.fori_loop(0, STEPS, body, (dtype(start), jnp.zeros(WIDTH)))

    def write(rows: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            count, out = carry
            row = (rows[i % 100] + i.astype(np.float32))[None]
            return count + dtype(step), lax.dynamic_update_slice(out, row, (count, dtype(0)))

        return lax.fori_loop(0, STEPS, body, (dtype(start), jnp.zeros_like(rows)))

    for step_of in (read, write):
        found = scalify.jit(step_of, recipe="none")(rows)
        for ours, theirs in zip(found, jax.jit(step_of)(rows), strict=True):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_a_donated_argument_is_a_carry_in_place() -> None:
    def step(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]

    run = scalify.jit(step, recipe="none", donate_argnums=0)
    x = jnp.arange(64, dtype=jnp.float32)
    at = x.unsafe_buffer_pointer()
    found = run(x, np.int32(3))
    assert found.unsafe_buffer_pointer() == at
    np.testing.assert_array_equal(np.asarray(found), np.arange(64, dtype=np.float32) * 8)


def test_callbacks_without_effects_are_called_in_each_iteration() -> None:
    """In the body, before the loop and behind it: the process knows them by their order."""
    shape = jax.ShapeDtypeStruct((4,), np.float32)

    def step(x: Any, n: Any) -> Any:
        x = jax.pure_callback(lambda v: np.asarray(v) + 100, shape, x)
        x = lax.while_loop(
            lambda c: c[0] < n,
            lambda c: (c[0] + 1, jax.pure_callback(lambda v: np.asarray(v) * 2, shape, c[1]) - 1),
            (0, x),
        )[1]
        return jax.pure_callback(lambda v: -np.asarray(v), shape, x)

    run = scalify.jit(step, "none")
    x = np.arange(4, dtype=np.float32)
    for n in (3, 0, 5):
        np.testing.assert_array_equal(
            np.asarray(run(x, np.int32(n))), -(((x + 100) - 1) * 2.0**n + 1)
        )


def test_callbacks_with_effects_name_the_ways_out() -> None:
    def step(x: Any) -> Any:
        def body(v: Any) -> Any:
            jax.debug.print("{}", v)
            return v * 2

        return lax.while_loop(lambda v: v < 10, body, x)

    with pytest.raises(scalify.CompileError, match="callbacks that have side effects"):
        scalify.jit(step, "none")(np.float32(1))
