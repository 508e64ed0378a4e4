"""A transformed step under JAX's own transformations, against the step itself."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from programs import cosine

import scalify


def loss(params: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ params["a"])
    return jnp.mean((jnp.tanh(hidden @ params["b"]) @ params["c"] - y) ** 2)


def step(params: dict[str, Any], x: Any, y: Any) -> tuple[dict[str, Any], Any]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = {"a": (32, 48), "b": (48, 32), "c": (32, 16)}
    params = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    x = rng.normal(size=(16, 32)).astype(np.float32)
    return params, x, rng.normal(size=(16, 16)).astype(np.float32)


def transformed(recipe: str = "fp8", **options: Any) -> Any:
    return scalify.transform(
        step, recipe, numerics=scalify.Numerics(scales=scalify.measure(arguments())), **options
    )


def assert_close(left: Any, right: Any, tolerance: float) -> None:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    for a, b in ((np.asarray(a), np.asarray(b)) for a, b in pairs):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.max(np.abs(a - b)) <= tolerance * np.max(np.abs(b))


def assert_equal(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_jit_inside_and_outside_donation_and_lower_compile() -> None:
    args = arguments()
    want = transformed()(*args)
    assert_equal(jax.jit(transformed())(*args), want)
    assert_equal(transformed().lower(*args).compile()(*args), want)
    structs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), args)
    assert_equal(jax.jit(transformed()).lower(*structs).compile()(*args), want)

    inner = scalify.transform(
        jax.jit(step), numerics=scalify.Numerics(scales=scalify.measure(args))
    )
    assert_equal(inner(*args), want)

    donating = transformed(donate_argnums=0).lower(*args)
    assert donating.as_text().count("tf.aliasing_output") == 3
    on_device = jax.tree.map(jnp.asarray, args)
    assert_equal(donating.compile()(*on_device), want)
    assert on_device[0]["a"].is_deleted() and not on_device[1].is_deleted()


def test_trace_and_eval_shape() -> None:
    args = arguments()
    traced = transformed().trace(*args)
    assert "scalify_call" in str(traced.jaxpr) and "f8E4M3FN" in traced.lower().as_text()
    shapes = transformed().eval_shape(*args)
    assert shapes[0]["a"].shape == (32, 48) and shapes[1].dtype == np.float32
    # Of types alone, random keys among them.
    key = jax.eval_shape(lambda: jax.random.key(0))
    lowered = scalify.transform(jax.random.normal, "none").lower(key)
    np.testing.assert_allclose(
        lowered.compile()(jax.random.key(3)), jax.random.normal(jax.random.key(3)), rtol=1e-6
    )


def test_one_trace_merges_a_module_once_and_calls_it_twice() -> None:
    args = arguments()
    inner = transformed("none")

    def two_steps(params: Any, x: Any, y: Any) -> Any:
        return inner(inner(params, x, y)[0], x, y)

    text = jax.jit(two_steps).lower(*args).as_text()
    assert text.count("stablehlo.dot_general") == jax.jit(step).lower(*args).as_text().count(
        "stablehlo.dot_general"
    )
    assert_close(jax.jit(two_steps)(*args), step(step(*args)[0], *args[1:]), 1e-5)


def test_scan_runs_many_steps_in_one_program() -> None:
    params, x, y = arguments()
    inner = transformed()

    def body(params: Any, _: Any) -> Any:
        return inner(params, x, y)

    last, losses = jax.jit(lambda p: jax.lax.scan(body, p, None, length=3))(params)
    for value in losses:
        params, want = inner(params, x, y)
        np.testing.assert_allclose(value, want, rtol=1e-6)
    assert_close(last, params, 1e-5)


@pytest.mark.parametrize("recipe", ["none", "fp8"])
def test_vmap_over_batches_and_over_models(recipe: str) -> None:
    params, x, y = arguments()
    xs, ys = np.stack([x, 2 * x, -x]), np.stack([y, y + 1, y], axis=1)
    models = jax.tree.map(lambda leaf: np.stack([leaf, leaf * 1.5], axis=-1), params)
    fn = transformed(recipe)
    tolerance = 1e-5 if recipe == "none" else 1e-2

    got = jax.vmap(fn, in_axes=(None, 0, 1))(params, xs, ys)
    want = [fn(params, xs[i], ys[:, i]) for i in range(3)]
    assert_close(got, jax.tree.map(lambda *leaves: np.stack(leaves), *want), tolerance)

    got = jax.jit(jax.vmap(fn, in_axes=(-1, None, None), out_axes=({"a": 1, "b": 0, "c": 2}, 0)))(
        models, x, y
    )
    each = [fn(jax.tree.map(lambda leaf, i=i: leaf[..., i], models), x, y) for i in range(2)]
    axes = {"a": 1, "b": 0, "c": 2}
    stacked = {k: np.stack([each[0][0][k], each[1][0][k]], axes[k]) for k in axes}
    assert_close(got, (stacked, np.stack([each[0][1], each[1][1]])), tolerance)


def test_vmap_of_vmap_with_keys_and_static_values() -> None:
    def f(key: Any, x: Any, times: int, *, sign: Any) -> Any:
        return jax.random.fold_in(key, 3), sign * x * times + jax.random.uniform(key, x.shape)

    fn = scalify.transform(f, "none", static_argnums=2)
    keys = jax.random.split(jax.random.key(1), (2, 3))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def run(g: Any) -> Any:
        inner = jax.vmap(lambda key, row: g(key, row, 2, sign=-1.0))
        return jax.vmap(inner, in_axes=(0, None))(keys, x)

    (got_keys, got), (want_keys, want) = run(fn), run(f)
    assert_equal(jax.random.key_data(got_keys), jax.random.key_data(want_keys))
    assert_close(got, want, 1e-6)


def test_vmap_names_scales_as_the_function_itself() -> None:
    params, x, y = arguments()
    names = ("params['a']", "params['b']", "params['c']", "x", "y")
    by_name = dict(zip(names, scalify.measure((params, x, y)).exponents, strict=True))
    xs = np.stack([x, 2 * x])
    got = [
        jax.vmap(
            scalify.transform(step, numerics=scalify.Numerics(scales=scales)),
            in_axes=(None, 0, None),
        )(params, xs, y)
        for scales in (by_name, scalify.measure((params, x, y)))
    ]
    assert_equal(*got)


def test_export_is_serialized_and_called_back() -> None:
    args = arguments()
    fn = transformed()
    exported = jax.export.export(jax.jit(fn), platforms=("cpu", "cuda", "tpu"))(*args)
    again = jax.export.deserialize(exported.serialize())
    assert again.platforms == ("cpu", "cuda", "tpu")
    assert_equal(again.call(*args), fn(*args))
    assert_equal(jax.jit(lambda *a: again.call(*a))(*args), fn(*args))
    # The platforms' forms lie side by side, for the device to choose.
    module = again.mlir_module()
    assert "xbf16>" in module and "HIGHEST" in module


def test_trees_with_none_named_tuples_and_python_numbers() -> None:
    class State(NamedTuple):
        count: Any
        moments: Any

    def f(state: State, x: Any, rate: Any) -> Any:
        return State(state.count + 1, None), [x * rate, None]

    fn = scalify.transform(f, "none")
    got = fn(State(np.int32(1), {"m": None, "n": np.zeros(2, np.float32)}), np.ones(3), 0.5)
    assert isinstance(got[0], State) and got[0].count == 2 and got[0].moments is None
    assert got[1][1] is None and got[1][0].tolist() == [0.5] * 3


@pytest.mark.parametrize("recipe", ["none", "fp8"])
@pytest.mark.parametrize("outer", [jax.jit, lambda fn: jax.jit(jax.vmap(fn, (None, 0)))])
def test_weak_types_are_traced_once(outer: Any, recipe: str) -> None:
    """A Python number in the state, such as a TrainState's step, returns with a weak type."""
    traces = []
    fn = scalify.transform(lambda s, x: {"n": s["n"] + 1, "w": jnp.mean(x @ x) + s["w"]}, recipe)

    def count(state: Any, x: Any) -> Any:
        traces.append(1)
        return jax.tree.map(lambda new, old: new.reshape(-1)[0], fn(state, x), state)

    state, run = {"n": 0, "w": np.float32(1)}, outer(count)
    for _ in range(3):
        state = jax.tree.map(lambda leaf: leaf.reshape(-1)[0], run(state, np.ones((2, 4, 4), "f")))
    assert int(state["n"]) == 3 and state["n"].weak_type
    assert not state["w"].weak_type
    # w is a numpy scalar only at first.
    assert len(traces) <= 2


@pytest.mark.parametrize("outer", [jax.grad, jax.value_and_grad, jax.jacfwd, jax.hessian])
def test_a_derivative_is_refused_with_the_way_out(outer: Any) -> None:
    params, x, y = arguments()
    fn = scalify.transform(loss, numerics=scalify.Numerics(scales=scalify.measure((params, x, y))))
    for call in (outer(fn), jax.jit(outer(fn))):
        with pytest.raises(TypeError, match=r"'loss' has no derivative.*jax.grad before"):
            call(params, x, y)
    # The way out that the message names.
    before = scalify.transform(
        jax.grad(loss), numerics=scalify.Numerics(scales=scalify.measure((params, x, y)))
    )
    assert cosine(before(params, x, y), jax.grad(loss)(params, x, y)) > 0.98


def test_a_constant_for_the_derivative_is_no_fault() -> None:
    params, x, y = arguments()
    fn = scalify.transform(loss, "none")

    def weighted(w: Any) -> Any:
        return w * jax.lax.stop_gradient(fn(params, x, y))

    np.testing.assert_allclose(jax.grad(weighted)(2.0), loss(params, x, y), rtol=1e-6)


SHARDED = """
    import jax, numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    import scalify
    from test_transform_compose import arguments, assert_close, cosine, loss, step, transformed

    params, x, y = arguments()
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    grads = jax.value_and_grad(loss)
    numerics = scalify.Numerics(scales=scalify.measure((params, x, y)))
    fn = scalify.transform(grads, numerics=numerics)

    def shard(params, x, y):
        assert x.shape == (8, 32)
        return jax.tree.map(lambda leaf: jax.lax.pmean(leaf, "data"), fn(params, x, y))

    specs = dict(in_specs=(P(), P("data"), P("data")), out_specs=P())
    for check_vma in (True, False):
        sharded = jax.jit(jax.shard_map(shard, mesh=mesh, check_vma=check_vma, **specs))
        value, got = sharded(params, x, y)
        halves = [fn(params, x[:8], y[:8]), fn(params, x[8:], y[8:])]
        want = jax.tree.map(lambda a, b: (a + b) / 2, *halves)
        assert_close((value, got), want, 1e-5)
        assert cosine(got, grads(params, x, y)[1]) > 0.98

    # Left to the partitioner: global shapes, sharded arguments.
    everywhere, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    put = jax.device_put((params, x, y), (everywhere, rows, rows))
    assert_close(jax.jit(transformed())(*put), transformed()(params, x, y), 1e-5)

    def inner(params, x, y):
        return jax.lax.pmean(loss(params, x, y), "data")

    try:
        jax.shard_map(scalify.transform(inner, numerics=numerics), mesh=mesh, **specs)(params, x, y)
    except NotImplementedError as error:
        assert "'inner' has a collective over the axes ('data',)" in str(error), error
        assert "apply the collective to its results" in str(error), error
    else:
        raise AssertionError("expected an error")

    # A function that holds a shard_map itself takes arrays of one device too, as in plain JAX.
    whole = jax.shard_map(inner, mesh=mesh, **specs)
    for recipe, tolerance in (("none", 1e-6), ("fp8", 0.05)):
        rewritten = scalify.transform(whole, recipe, numerics=numerics)
        for call in (rewritten, jax.jit(rewritten)):
            for given in ((params, x, y), put):
                np.testing.assert_allclose(call(*given), whole(*given), rtol=tolerance)
    print("done")
"""


def test_shard_map_and_sharded_arguments_on_two_devices() -> None:
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = dict(os.environ, XLA_FLAGS=flags)
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0 and run.stdout == "done\n", run.stderr[-3000:]
