"""Wrapped functions beyond the table of jax.jit's uses, under both wrappers."""

from __future__ import annotations

import functools
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rank_threads import on_meshes

import scalify

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRAPPERS = [scalify.jit, scalify.transform]


@jax.tree_util.register_pytree_node_class
class Converting:
    """A pytree whose constructor takes nothing but arrays, as loss scales of jmp do."""

    def __init__(self, w: Any) -> None:
        self.w = jnp.asarray(w)
        if self.w.ndim != 2:
            raise ValueError(f"expected a matrix, not shape {self.w.shape}")

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: tuple[Any, ...]) -> Converting:
        return cls(*leaves)


@scalify.jit(recipe="none")
def jitted(x: Any) -> Any:
    return 2 * x


@scalify.transform(recipe="none")
def transformed(x: Any) -> Any:
    return 2 * x


def tripled(x: Any) -> Any:
    return 3 * x


@pytest.mark.parametrize("step", [jitted, transformed])
def test_decorated_functions_are_pickled_by_name(step: Any) -> None:
    assert pickle.loads(pickle.dumps(step)) is step
    assert step.__name__ in ("jitted", "transformed")
    np.testing.assert_array_equal(step(jnp.ones(3)), 2)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_others_are_pickled_with_their_options(wrap: Any) -> None:
    step = wrap(tripled, recipe="bf16", donate_argnums=0)
    step(jnp.ones(3))
    again = pickle.loads(pickle.dumps(step))
    assert again.recipe == "bf16" and again is not step
    x = jnp.ones(3)
    np.testing.assert_array_equal(again(x), 3)
    assert x.is_deleted()
    with pytest.raises(AttributeError, match="local object"):
        pickle.dumps(wrap(lambda x: x))


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_methods(wrap: Any) -> None:
    class Model:
        size = 3

        @functools.partial(wrap, recipe="none", static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return x * self.size

        @wrap(recipe="none", static_argnames="self")
        def twice(self, x: Any) -> Any:
            return x * 2

    np.testing.assert_array_equal(Model().scaled(jnp.ones(2)), 3)
    np.testing.assert_array_equal(Model().twice(jnp.ones(2)), 2)
    assert isinstance(Model.scaled, type(wrap(tripled)))


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_errors_name_the_argument(wrap: Any) -> None:
    def step(count: Any, state: Any, x: Any) -> Any:
        return x

    run = wrap(step, "none", static_argnums=0)
    state = {"w": jnp.ones(2), "name": {"first": "text"}}
    with pytest.raises(TypeError, match=r"argument state\['name'\]\['first'\] of 'step'"):
        run(1, state, jnp.ones(2))
    with pytest.raises(TypeError, match=r"static argument 'count' of 'step' is of type list"):
        run([1], {}, jnp.ones(2))
    with pytest.raises(ValueError, match="not hashable"):
        run([1], {}, jnp.ones(2))


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_equal_static_values_of_two_types_are_two(wrap: Any) -> None:
    def times(x: Any, count: Any) -> Any:
        return x * count

    run, plain = (
        make(times, static_argnums=1) for make in (functools.partial(wrap, recipe="none"), jax.jit)
    )
    for count in (1, 1.0, True, 1):
        found, wanted = (one(jnp.arange(4), count) for one in (run, plain))
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_change_of_jax_s_configuration_is_another_program(wrap: Any) -> None:
    """As for jax.jit, whose compilations depend on it."""

    def third(x: Any) -> Any:
        return x * jnp.ones(3, float) + jnp.asarray(1 / 3, float)

    def times(x: Any, y: Any) -> Any:
        return x * y

    def types(make: Any) -> list[Any]:
        run, product, x = make(third), make(times), jnp.arange(6.0).reshape(2, 3)
        found = [run(x).dtype]
        with jax.enable_x64(True):
            found.append(run(x).dtype)
        found.append(run(x).dtype)
        mixed = jnp.ones(2, jnp.int32), jnp.ones(2, jnp.bfloat16)
        found.append(product(*mixed).dtype)
        with jax.numpy_dtype_promotion("strict"), pytest.raises(Exception, match="promotion"):
            product(*mixed)
        return found

    assert types(functools.partial(wrap, recipe="none")) == types(jax.jit)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_gradients_of_integers_are_float0(wrap: Any) -> None:
    gradient = jax.grad(lambda tree: jnp.sum(tree["x"] ** 2), allow_int=True)
    tree = {"x": jnp.ones(3), "n": jnp.arange(3)}
    found = wrap(gradient, recipe="none")(tree)
    assert found["n"].dtype == jax.dtypes.float0 and found["n"].shape == (3,)
    np.testing.assert_array_equal(found["x"], jax.jit(gradient)(tree)["x"])


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_gradients_of_integers_are_arguments_too(wrap: Any) -> None:
    def loss(params: Any, x: Any) -> Any:
        return (params["w"] * x).sum()

    def update(params: Any, gradient: Any) -> Any:
        return jax.tree.map(
            lambda w, g: w if g.dtype == jax.dtypes.float0 else w - g, params, gradient
        )

    params = {"n": np.arange(3, dtype=np.int32), "w": np.ones(3, np.float32)}
    gradient = jax.grad(loss, allow_int=True)(params, np.full(3, 0.25, np.float32))
    found = wrap(update)(params, gradient)
    np.testing.assert_array_equal(found["n"], params["n"])
    np.testing.assert_array_equal(found["w"], np.full(3, 0.75, np.float32))


def test_gradients_of_integers_are_arguments_within_jax_and_on_ranks() -> None:
    def update(w: Any, gradient: Any) -> Any:
        assert gradient["n"].dtype == jax.dtypes.float0
        return w - gradient["w"]

    gradient = {"n": np.zeros(4, jax.dtypes.float0), "w": np.full(4, 0.25, np.float32)}
    w = np.ones(4, np.float32)
    within = jax.jit(lambda w: scalify.jit(update, "none").call(w, gradient))
    np.testing.assert_array_equal(within(w), w - 0.25)
    spec = jax.sharding.PartitionSpec("data")

    def run(mesh: scalify.Mesh) -> Any:
        specs = {"in_shardings": (spec, spec), "out_shardings": spec}
        return scalify.jit(update, "none", distribution=mesh, **specs)(w, gradient).gather()

    for found in on_meshes({"data": 2}, run):
        np.testing.assert_array_equal(found, w - 0.25)


@pytest.mark.parametrize("bad", [None, 1])
def test_nans_of_one_rank_are_an_error_on_all_under_debug_nans(bad: int | None) -> None:
    spec = jax.sharding.PartitionSpec("data")
    x = np.ones(4, np.float32)
    if bad is not None:
        x[2 * bad :] = -1

    def run(mesh: scalify.Mesh) -> Any:
        specs = {"in_shardings": spec, "out_shardings": spec}
        step = scalify.jit(jnp.log, "none", distribution=mesh, **specs)
        try:
            with jax.debug_nans(True):
                return step(x).gather().tolist()
        except FloatingPointError as error:
            return str(error)

    expected = [0.0] * 4 if bad is None else "invalid value (nan) encountered in jit(log)"
    assert on_meshes({"data": 2}, run) == [expected] * 2


def test_update_heeds_debug_nans() -> None:
    run = scalify.jit(jnp.log, "none", donate_argnums=0)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        run.update(np.array([1, -1], np.float32))


def test_what_a_compiled_step_says_of_itself() -> None:
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jnp.sum(x @ x.T), jnp.sum(x)

    arguments = jnp.ones((8, 8)), jnp.ones((4, 8))
    lowered = scalify.jit(step, "none", donate_argnums=0).lower(*arguments)
    ours = lowered.compile(compiler_options={}).memory_analysis()
    theirs = jax.jit(step, donate_argnums=0).lower(*arguments).compile().memory_analysis()
    for name in ("argument_size_in_bytes", "alias_size_in_bytes"):
        assert getattr(ours, name) == getattr(theirs, name), name
    # XLA counts the pointers of a tuple of results, too.
    assert ours.output_size_in_bytes == 256 + 4
    assert ours.temp_size_in_bytes > 0
    assert ours.peak_memory_in_bytes >= ours.argument_size_in_bytes
    assert "stablehlo" in lowered.compile().as_text()
    with pytest.raises(ValueError, match=r"xla_cpu_use_thunk_runtime.*'step'"):
        lowered.compile(compiler_options={"xla_cpu_use_thunk_runtime": True})


SEVERAL = """
import jax, jax.numpy as jnp, numpy as np, scalify
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("data",))
x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("data")))
other = jax.device_put(jnp.arange(8.0), jax.devices()[1])
step = scalify.jit(lambda w, x: (w + x, jnp.sum(x)), "none", donate_argnums=0)
for _ in range(2):
    w, total = step(jnp.ones(8), x)
    np.testing.assert_array_equal(w, 1 + np.arange(8.0))
    assert float(total) == 28
w, _ = step(jnp.ones(8), other)
assert w.devices() == {jax.devices()[1]}, w.devices()
key = jax.device_put(jax.random.key(3), NamedSharding(mesh, P()))
drawn = scalify.jit(lambda key: jax.random.bits(key, (4,)), "none")(key)
np.testing.assert_array_equal(drawn, jax.random.bits(jax.random.key(3), (4,)))
"""


def test_arrays_on_several_devices_of_the_host() -> None:
    """They are gathered on the host; one committed to another device runs the step there."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run(
        [sys.executable, "-c", SEVERAL],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT / "python")},
        check=True,
    )


def test_shardings_of_one_device() -> None:
    """Loops for several devices name shardings on one as well."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "d")
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    state, x = {"w": jax.device_put(jnp.ones(2), whole)}, jnp.arange(4.0)

    def step(state: Any, x: Any) -> Any:
        return jax.tree.map(lambda w: w * x.sum(), state), x.mean()

    options = {"in_shardings": (whole, spread), "out_shardings": (whole, None)}
    found = scalify.jit(step, "none", donate_argnums=0, **options)(state, x)
    assert found[0]["w"].sharding == whole
    assert found[0]["w"].tolist() == [6, 6] and float(found[1]) == 1.5
    with pytest.raises(ValueError, match="shardings need a mesh"):
        scalify.jit(step, "none", in_shardings=jax.sharding.PartitionSpec("d"))


def test_random_keys_are_donated() -> None:
    run = scalify.jit(
        lambda key, x: (jax.random.fold_in(key, 1), x + 1), "none", donate_argnums=(0, 1)
    )
    key = jax.random.key(3)
    again, _ = run(key, jnp.ones(2))
    wanted = jax.random.fold_in(jax.random.key(3), 1)
    assert jax.random.key_data(again).tolist() == jax.random.key_data(wanted).tolist()
    assert key.is_deleted()


@pytest.mark.parametrize("recipe", ["none", "fp8"])
@pytest.mark.parametrize("wrap", [*WRAPPERS, lambda f, r, **k: jax.jit(scalify.transform(f, r))])
def test_constructors_of_pytrees_see_arrays_alone(wrap: Any, recipe: str) -> None:
    """Of a class that JAX's placeholders would not go into; `jax.jit` runs it."""

    def step(p: Any, state: Any, x: Any) -> Any:
        grad = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p.w)))(p)
        return jax.tree.map(lambda w, g: w - 0.25 * g, p, grad), {"old": p, "n": state["n"] + 1}

    x = np.eye(4, dtype=np.float32)
    start = np.full((4, 4), 0.5, np.float32)
    run, expected = wrap(step, recipe, donate_argnums=0), jax.jit(step)
    found, wanted = ((Converting(start), {"old": Converting(start), "n": 0}) for _ in range(2))
    for _ in range(3):
        found, wanted = run(*found, x), expected(*wanted, x)
    assert isinstance(found[0], Converting) and int(found[1]["n"]) == 3
    # A cast of 0.5 and of what a step of 1/4 leaves is exact to E4M3's 2^-4.
    tolerance = 2**-4 if recipe == "fp8" else 1e-6
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, tolerance)


def test_names_of_arguments_are_paths() -> None:
    class Layer(NamedTuple):
        w: Any

    run = scalify.jit(lambda s, *, y: (s["a"][0] + s["b"].w, y), "none")
    run({"b": Layer(np.ones(2)), "a": [np.ones(2, np.float32)]}, y=(np.ones(3), None))
    names = [one["name"] for one in run.executable().manifest["args"]]
    assert names == ["s['a'][0]", "s['b'].w", "y[0]"]


def test_specs_over_a_mesh_of_one_device_change_nothing() -> None:
    def double(x: Any) -> Any:
        return 2 * jax.lax.with_sharding_constraint(x, jax.sharding.PartitionSpec("data"))

    with jax.set_mesh(jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))):
        step = scalify.jit(
            double,
            "none",
            in_shardings=jax.sharding.PartitionSpec("data"),
            out_shardings=jax.sharding.PartitionSpec(),
        )
        np.testing.assert_array_equal(step(jnp.ones(4)), 2)
    with pytest.raises(ValueError, match="distribution="):
        scalify.jit(double, "none", in_shardings=jax.sharding.PartitionSpec("data"))
