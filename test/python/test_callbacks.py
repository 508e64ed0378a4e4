"""Callbacks from steps: under scalify.jit in the Python process, under scalify.transform by XLA."""

from __future__ import annotations

import gc
import pathlib
import subprocess
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from safetensors.numpy import save_file

import scalify
from scalify import _runtime
from scalify._callback_ops import callbacks_of

X = np.arange(1, 5, dtype=np.float32)

WAYS: dict[str, Callable[..., Any]] = {
    "jax": jax.jit,
    "jit": lambda fn: scalify.jit(fn, recipe="none"),
    "jit fp8": scalify.jit,
    "transform": lambda fn: scalify.transform(fn, recipe="none"),
    "transform in jax.jit": lambda fn: jax.jit(scalify.transform(fn, recipe="none")),
}
OURS = [way for way in WAYS if way != "jax"]


def shape_of(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def results(way: str, fn: Callable[..., Any], *args: Any) -> Any:
    found = jax.tree.map(np.asarray, WAYS[way](fn)(*args))
    jax.effects_barrier()
    return found


@pytest.mark.parametrize("way", OURS)
def test_pure_callbacks_compute(way: str) -> None:
    def host(x: Any, n: Any) -> Any:
        return np.asarray(x) * np.float32(2) + np.float32(n)

    def step(x: Any, n: Any) -> Any:
        y = jnp.sin(x)
        for _ in range(2):
            y = jax.pure_callback(host, shape_of(y), y, n)
        return y + x

    args = (X, np.int32(3))
    np.testing.assert_allclose(results(way, step, *args), results("jax", step, *args), rtol=1e-6)


@pytest.mark.parametrize("way", OURS)
def test_types_and_shapes_cross_as_they_are(way: str) -> None:
    arrays = {
        "bool": np.array([True, False, True]),
        "uint8": np.array([1, 255], np.uint8),
        "int32": np.array(-5, np.int32),
        "float16": np.array([[1.5, -2]], np.float16),
        "bfloat16": jnp.array([1.5, 3], jnp.bfloat16),
        "empty": np.zeros((0, 3), np.float32),
    }
    seen: list[Any] = []

    def host(tree: Any) -> Any:
        seen.append(jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree))
        return tree

    def step(tree: Any) -> Any:
        return jax.pure_callback(host, jax.tree.map(shape_of, tree), tree)

    found = results(way, step, arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], np.asarray(array))
        assert found[name].dtype == array.dtype
    assert seen[-1] == {name: (a.shape, str(a.dtype)) for name, a in arrays.items()}


@pytest.mark.parametrize("way", WAYS)
def test_ordered_effects_come_in_the_programs_order(way: str) -> None:
    log: list[int] = []

    def host(n: Any) -> Any:
        log.append(int(n))
        return np.int32(n)

    def step(x: Any) -> Any:
        scalar = jax.ShapeDtypeStruct((), np.int32)

        def body(total: Any, i: Any) -> tuple[Any, Any]:
            return total + io_callback(host, scalar, i, ordered=True), None

        first = io_callback(host, scalar, np.int32(100), ordered=True)
        total, _ = jax.lax.scan(body, first, jnp.arange(4, dtype=jnp.int32))
        last = io_callback(host, scalar, np.int32(200), ordered=True)
        return x * (total + last)

    run = WAYS[way](step)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(run(X)), X * 306)
    jax.effects_barrier()
    assert log == [100, 0, 1, 2, 3, 200] * 2


@pytest.mark.parametrize("way", OURS)
def test_prints(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    def step(x: Any) -> Any:
        jax.debug.print("first {x}", x=x.sum(), ordered=True)
        jax.debug.print("second {y}", y=x[0], ordered=True)
        return x * 2

    np.testing.assert_array_equal(results(way, step, X), X * 2)
    assert capfd.readouterr().out.split("\n")[:2] == ["first 10.0", "second 1.0"]


@pytest.mark.parametrize("way", ["jit", "jit fp8"])
def test_a_callback_nobody_reads_is_made_and_in_order(way: str) -> None:
    log: list[str] = []

    def step(x: Any) -> Any:
        jax.debug.callback(lambda x: log.append(f"a{float(x):g}"), x[0])
        y = jnp.tanh(x)
        jax.debug.callback(lambda x: log.append(f"b{float(x):g}"), x[1])
        jax.debug.callback(lambda: log.append("c"))
        return y

    run = WAYS[way](step)
    run(X)
    run(X)
    assert log == ["a1", "b2", "c"] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["cond", "switch"])
def test_only_the_branch_that_runs_calls(way: str, form: str) -> None:
    log: list[int] = []

    def branch(number: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            jax.debug.callback(lambda: log.append(number))
            return x * (number + 1)

        return run

    def step(index: Any, x: Any) -> Any:
        if form == "cond":
            return jax.lax.cond(index > 0, branch(1), branch(0), x)
        return jax.lax.switch(index, [branch(0), branch(1), branch(2)], x)

    run = WAYS[way](step)
    last = 1 if form == "cond" else 2
    for index in (0, 1, last, 7, -3):
        np.testing.assert_array_equal(
            np.asarray(run(np.int32(index), X)), X * (min(max(index, 0), last) + 1)
        )
    jax.effects_barrier()
    assert log == [0, 1, last, last, 0]


@pytest.mark.parametrize("way", OURS)
def test_a_pure_callback_is_not_called_for_the_other_branch(way: str) -> None:
    """The callback may reject the other branch's values."""

    def host(x: Any) -> Any:
        if (x < 0).any():
            raise ValueError("negative")
        return np.sqrt(x)

    def step(x: Any) -> Any:
        def root(x: Any) -> Any:
            return jax.pure_callback(host, shape_of(x), x)

        return jax.lax.cond(jnp.min(x) >= 0, root, lambda x: -x, x)

    for x in (X, -X):
        np.testing.assert_array_equal(results(way, step, x), results("jax", step, x))


def test_errors_come_out_and_the_next_step_runs() -> None:
    class OwnError(Exception):
        pass

    def host(x: Any) -> Any:
        if x.sum() > 20:
            raise OwnError("too much")
        return x

    step = scalify.jit(lambda x: jax.pure_callback(host, shape_of(x), x) + 1, recipe="none")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(step(X)), X + 1)
        with pytest.raises(OwnError, match="too much"):
            step(X * 10)


def test_a_result_of_another_type_is_named() -> None:
    step = scalify.jit(
        lambda x: jax.pure_callback(lambda x: np.zeros(3, np.float32), shape_of(x), x),
        recipe="none",
    )
    with pytest.raises(RuntimeError, match="shape"):
        step(X)


@pytest.mark.parametrize("way", ["jit fp8", "transform fp8"])
def test_values_cross_at_their_true_size_under_a_recipe(way: str) -> None:
    seen: list[Any] = []

    def step(params: Any, x: Any) -> tuple[Any, Any]:
        def loss(params: Any) -> Any:
            hidden = x @ params["a"]
            jax.debug.callback(lambda h: seen.append(np.asarray(h)), hidden)
            return jnp.mean((jax.nn.gelu(hidden) @ params["b"]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 1e-9 * g, params, grads), value

    rng = np.random.default_rng(0)
    params = {
        "a": rng.normal(0, 3e3, (32, 32)).astype(np.float32),
        "b": rng.normal(0, 1e-4, (32, 16)).astype(np.float32),
    }
    x = rng.normal(size=(16, 32)).astype(np.float32)
    if way == "jit fp8":
        scalify.jit(step)(params, x)
    else:
        scalify.transform(step)(params, x)
        jax.effects_barrier()
    expected = x @ params["a"]
    # Products of operands in E4M3, each wrong by 0.026 in the root mean square.
    error = np.linalg.norm(seen[-1] - expected) / np.linalg.norm(expected)
    assert error < 0.06


def test_under_vmap() -> None:
    def one(x: Any) -> Any:
        return jax.pure_callback(
            lambda x: np.asarray(x) * 2, shape_of(x), x, vmap_method="expand_dims"
        )

    batch = np.stack([X, X + 1])
    for run in (
        scalify.jit(jax.vmap(one), recipe="none"),
        jax.vmap(scalify.transform(one, recipe="none")),
    ):
        np.testing.assert_array_equal(np.asarray(run(batch)), batch * 2)


@pytest.mark.parametrize("way", OURS)
def test_shapes_are_the_functions_where_a_reshape_is_beside_it(way: str) -> None:
    seen: list[tuple[int, ...]] = []

    def host(x: Any) -> Any:
        seen.append(x.shape)
        return np.asarray(x).reshape(4, 1)

    def step(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct((4, 1), x.dtype)
        return jax.pure_callback(host, shape, x.reshape(2, 2)).reshape(4)

    np.testing.assert_array_equal(results(way, step, X), X)
    assert set(seen) == {(2, 2)}


def test_weak_types_of_results_stay() -> None:
    def step(x: Any) -> Any:
        n, y = jax.lax.scan(lambda c, r: (c + 1, 2.0), 0, x)
        return n, y, jax.pure_callback(lambda x: x, shape_of(x), x)

    found, wanted = (run(step)(jnp.asarray(X)) for run in (WAYS["jit"], jax.jit))
    assert [one.aval for one in found] == [one.aval for one in wanted]
    assert wanted[1].weak_type


def test_an_artefact_that_calls_back_is_refused_elsewhere(tmp_path: pathlib.Path) -> None:
    def step(x: Any) -> Any:
        return jax.pure_callback(lambda x: x, shape_of(x), x) + 1

    jitted = scalify.jit(step, recipe="none")
    jitted(X)
    path = tmp_path / "step.scalify"
    jitted.executable().save(path)
    with pytest.raises(RuntimeError, match=r"pure_callback.*compile it here by scalify\.jit"):
        scalify.load(path)(X)
    save_file({"x": X}, tmp_path / "x.safetensors")
    run = scalify._build_folder / "bin" / "scalify-run"
    command = [run, path, f"--in={tmp_path / 'x.safetensors'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "pure_callback" in done.stderr and "scalify.jit" in done.stderr


def test_what_calls_back_to_its_owner_is_collected() -> None:
    """The runtime refers to the function, and the function to the executable's owner."""
    jitted = scalify.jit(lambda x: jax.pure_callback(lambda x: x, shape_of(x), x), recipe="none")
    jitted(X)

    class Owner:
        def __init__(self) -> None:
            self.runtime = _runtime.Executable(jitted.executable()._artefact, 1)
            self.runtime.set_host_call(self)

        def __call__(self, index: int, addresses: int) -> bool:
            return True

    owner = Owner()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4])
@pytest.mark.parametrize("shape", [(16,), (3, 5), ()])
def test_integers_of_four_bits(dtype: Any, shape: tuple[int, ...]) -> None:
    seen = []

    def flipped(x: Any) -> Any:
        seen.append(x.dtype)
        return (np.asarray(x, np.int8) ^ 3).astype(dtype)

    def step(x: Any) -> Any:
        return jax.pure_callback(flipped, jax.ShapeDtypeStruct(shape, dtype), x)

    x = jnp.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 8).astype(dtype)
    exact = np.asarray(x, int) ^ 3
    # XLA up to jax 0.9 takes the last of an odd number of values from memory that it has not set:
    # jax.jit itself differs from run to run there.
    is_defined = jax.__version_info__ >= (0, 10) or x.size % 2 == 0
    for wrapped, has_values in (
        (scalify.jit(step, "none"), True),
        (jax.jit(scalify.transform(step, "none")), is_defined),
    ):
        result = wrapped(x)
        assert result.dtype == dtype
        if has_values:
            np.testing.assert_array_equal(np.asarray(result, int), exact)
    assert set(seen) == {np.dtype(dtype)}


def test_another_number_of_arguments_than_operands_is_an_error() -> None:
    x = jnp.arange(4).astype(jnp.int4)

    def step(x: Any) -> Any:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((4,), jnp.float32), x)

    (function,) = callbacks_of(jax.jit(step).lower(x))
    with pytest.raises(TypeError, match=r"stablehlo.custom_call @xla_ffi_python_cpu_callback at "):
        function(x, x)
