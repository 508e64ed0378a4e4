"""Ranks that do not call a step alike get errors, not numbers of some of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from rank_threads import on_meshes

import scalify
from scalify.mesh import Mesh


def squares(w: Any, x: Any) -> Any:
    """A step whose sum goes over all ranks, and has one element for batches of any size."""
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


def runs(
    mesh: Mesh | scalify.Distribution, fn: Callable[..., Any] = squares, **options: Any
) -> scalify.Jit:
    """Returns the step on a mesh, whose batch is split by rows."""
    shardings = (P(), P("data"))
    return scalify.jit(fn, "none", distribution=mesh, in_shardings=shardings, **options)


WEIGHT, ROWS = np.ones(3, np.float32), np.arange(24, dtype=np.float32).reshape(8, 3) / 8


def failures(axes: dict[str, int], body: Callable[[Mesh], Any]) -> list[str]:
    """Returns the text of the error that `body` raises on each rank."""

    def caught(mesh: Mesh) -> str:
        with pytest.raises((ValueError, RuntimeError)) as raised:
            body(mesh)
        return str(raised.value)

    return on_meshes(axes, caught)


def test_batches_of_other_shapes() -> None:
    def body(mesh: Mesh) -> Any:
        return runs(mesh)(WEIGHT, ROWS[: 4 + 4 * mesh.rank])

    for said in failures({"data": 2}, body):
        assert "rank 1 calls 'squares' with float32[8, 3] as x" in said
        assert "rank 0 with float32[4, 3]" in said
        assert "mesh.array" in said


def test_other_steps() -> None:
    def zeros(w: Any, x: Any) -> Any:
        return w - 0 * x.mean(0)

    def body(mesh: Mesh) -> Any:
        return runs(mesh, zeros if mesh.rank else squares)(WEIGHT, ROWS)

    for said in failures({"data": 2}, body):
        assert "rank 1 calls 'zeros', and rank 0 'squares'" in said


def test_compiled_steps_of_other_shapes() -> None:
    """The exchanges of both are equal: a sum of three numbers in the second step."""

    def body(mesh: Mesh) -> Any:
        step = runs(mesh)
        for count in (8, 4, 4 if mesh.rank else 8):
            step(WEIGHT, ROWS[:count])

    with pytest.raises(RuntimeError, match="runs another program than rank"):
        on_meshes({"data": 2}, body)


def test_compiled_steps_of_other_numbers() -> None:
    """Their programs differ in a constant alone, which is in the code of a kernel."""

    def of_rate(rate: float) -> Callable[..., Any]:
        return lambda w, x: w - rate * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)

    def body(mesh: Mesh) -> Any:
        steps = [runs(mesh, of_rate(rate)) for rate in (0.1, 0.2)]
        for step in (*steps, steps[mesh.rank]):
            step(WEIGHT, ROWS)

    with pytest.raises(RuntimeError, match="runs another program than rank"):
        on_meshes({"data": 2}, body)


def test_whole_arguments_of_other_values() -> None:
    def body(mesh: Mesh) -> Any:
        return runs(mesh)(WEIGHT + mesh.rank // 2, ROWS)

    for said in failures({"data": 4}, body):
        assert "w of 'squares' has other values on rank 2 than on rank 0" in said


def test_restored_state_outlives_an_error_of_arguments() -> None:
    def product(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(lambda w: ((jax.numpy.tanh(x @ w) @ w) ** 2).mean())(w)

    def made(mesh: Mesh) -> scalify.Jit:
        return scalify.jit(product, "fp8-delayed", distribution=mesh, in_shardings=(P(), P("data")))

    def body(mesh: Mesh) -> tuple[Any, ...]:
        w, x = np.random.default_rng(2).normal(size=(2, 256, 256)).astype(np.float32)
        first = made(mesh)
        first(30 * w, x)
        other, again, fresh = made(mesh), made(mesh), made(mesh)
        for step in (other, again):
            step.restore(first.state())
        with pytest.raises(ValueError, match="w of 'product' has other values"):
            other(w + mesh.rank, x)
        return tuple(np.asarray(step(w, x)) for step in (other, again, fresh))

    for found, expected, fresh in on_meshes({"data": 2}, body):
        np.testing.assert_array_equal(found, expected)
        assert not np.array_equal(found, fresh)


@pytest.mark.parametrize("is_part", [False, True])
def test_rows_that_ranks_of_another_axis_share(is_part: bool) -> None:
    """Ranks of a tensor axis read the same rows, so rows by the rank's own number are an error."""

    def body(mesh: Mesh) -> Any:
        own = ROWS + mesh.rank
        return runs(mesh)(
            WEIGHT, mesh.array(own.shape, P("data"), own.__getitem__) if is_part else own
        )

    for said in failures({"data": 2, "tensor": 2}, body):
        assert "x of 'squares' has other values on rank 1 than on rank 0" in said


def test_shares_that_a_step_does_not_update() -> None:
    """An evaluation takes what a step with ZeRO returns as whole arrays."""

    def body(mesh: Mesh) -> Any:
        train = runs(scalify.Distribution(mesh=mesh, zero=3), donate_argnums=0)
        share = train(WEIGHT, ROWS)
        evaluate = runs(mesh, lambda w, x: ((x @ w) ** 2).mean())
        with pytest.raises(ValueError, match=r"a share of state .* pass \.gather\(\)"):
            evaluate(share, ROWS)
        return evaluate(share.gather(), ROWS)

    one, other = on_meshes({"data": 2}, body)
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_equal_values_of_other_kinds_are_alike() -> None:
    """The step reads numbers, and arrays of 64 bits, in its own types."""

    def scaled(w: Any, x: Any, rate: Any, key: Any) -> Any:
        return w - rate * (x.T @ (x @ w)) + jax.random.normal(key, w.shape)

    def body(mesh: Mesh) -> Any:
        shardings = (P(), P("data"), P(), P())
        step = scalify.jit(scaled, "none", distribution=mesh, in_shardings=shardings)
        key = jax.random.key(0)
        wide = np.float64 if mesh.rank else np.float32
        rate = np.float32(0.1) if mesh.rank else np.float32(0.1).astype(np.float64)
        return np.asarray(step(WEIGHT.astype(wide), ROWS.astype(wide), rate, key))

    one, other = on_meshes({"data": 2}, body)
    np.testing.assert_array_equal(one, other)


def test_a_whole_batch_of_a_rank_s_own_is_said() -> None:
    def body(mesh: Mesh) -> Any:
        return np.asarray(runs(mesh)(WEIGHT, ROWS + mesh.rank))

    with pytest.warns(UserWarning, match="ranks pass other values as x to 'squares'"):
        one, other = on_meshes({"data": 2}, body)
    np.testing.assert_array_equal(one, other)


def test_a_rank_s_own_rows_are_nothing_to_say() -> None:
    def body(mesh: Mesh) -> Any:
        return np.asarray(runs(mesh)(WEIGHT, mesh.array(ROWS.shape, P("data"), ROWS.__getitem__)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = on_meshes({"data": 2}, body)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("zero", [4, -1])
def test_levels_that_zero_does_not_have(zero: Any) -> None:
    with pytest.raises(ValueError, match=f"zero={zero}: ZeRO has levels 1 to 3"):
        scalify.Distribution(mesh=scalify.make_mesh(data=2), zero=zero)
