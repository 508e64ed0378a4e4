"""Steps as one operation within other people's `jax.jit`: `Jit.call` and `Executable.call`."""

from __future__ import annotations

import functools
import gc
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import scalify
from scalify import _runtime

OPTIMIZER = optax.adam(1e-2)
RECIPES = ["none", "fp8", "fp8-current", "fp8-delayed"]


def loss_of(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)


def train_step(params: Any, state: Any, x: Any, y: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = OPTIMIZER.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


def setting() -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "a": 0.1 * jax.random.normal(keys[0], (64, 128)),
        "b": 0.1 * jax.random.normal(keys[1], (128, 64)),
    }
    batch = tuple(jax.random.normal(key, (64, 64)) for key in keys[2:])
    return (params, OPTIMIZER.init(params)), batch


def compiled(recipe: str, **options: Any) -> scalify.Jit:
    return scalify.jit(train_step, recipe=recipe, donate_argnums=(0, 1), **options)


def equal(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_scan_of_steps_is_the_same_steps_bit_for_bit(recipe: str) -> None:
    state, batch = setting()
    outside, inside = compiled(recipe), compiled(recipe)
    *first, _ = outside(*jax.tree.map(jnp.copy, state), *batch)
    *state, _ = inside(*state, *batch)
    losses = []
    for _ in range(4):
        *first, loss = outside(*first, *batch)
        losses.append(loss)

    @jax.jit
    def loop(state: Any, batch: Any) -> Any:
        def body(state: Any, _: Any) -> Any:
            *state, loss = inside.call(*state, *batch)
            return state, loss

        return jax.lax.scan(body, state, None, length=4)

    state, found = loop(state, batch)
    equal(found, jnp.stack(losses))
    equal(state, first)
    assert inside.health() == outside.health()
    # And outside again, from the state that the runs within XLA have left.
    equal(inside(*state, *batch), outside(*first, *batch))


def test_donated_state_stays_in_its_memory() -> None:
    step = compiled("fp8")
    run = jax.jit(lambda state, batch: step.call(*state, *batch), donate_argnums=0)
    state, batch = setting()
    for _ in range(3):
        places = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
        *state, _ = run(tuple(state), batch)
        after = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
        # XLA pairs donated arrays by their type: the memory is the same set.
        assert set(after) == set(places)


def test_an_argument_that_is_read_later_is_kept() -> None:
    step = compiled("none")
    state, batch = setting()

    @jax.jit
    def run(state: Any, batch: Any) -> Any:
        params, new, loss = step.call(*state, *batch)
        moved = jax.tree.map(lambda new, old: new - old, params, state[0])
        return params, new, loss, moved

    params, _, _, moved = run(state, batch)
    for name, before in state[0].items():
        np.testing.assert_allclose(moved[name], params[name] - before, rtol=0, atol=1e-7)
        assert float(jnp.abs(moved[name]).max()) > 1e-3


def test_code_around_the_step_and_several_of_them() -> None:
    double = scalify.jit(lambda x: (2 * x, x.sum()), recipe="none")

    @jax.jit
    def run(x: Any) -> Any:
        y, total = double.call(x + 1)
        z, _ = double.call(y[:2] * total)
        return jnp.sin(z)

    x = jnp.arange(4.0)
    np.testing.assert_allclose(run(x), jnp.sin(4 * (x + 1)[:2] * 10), rtol=1e-6)


def test_an_artefact(tmp_path: pathlib.Path) -> None:
    (params, state), batch = setting()
    step = compiled("fp8")
    step(*jax.tree.map(jnp.copy, (params, state)), *batch)
    step.executable().save(tmp_path / "step.scalify")
    executable = scalify.load(tmp_path / "step.scalify")
    leaves, tree = jax.tree.flatten((params, state, *batch))
    expected = scalify.load(tmp_path / "step.scalify")(*leaves)
    found = jax.jit(lambda *leaves: executable.call(*leaves))(*leaves)
    equal(found, list(expected))
    assert tree.num_leaves == len(executable.args)
    with pytest.raises(ValueError, match="takes 9 arguments, not 1"):
        jax.jit(executable.call)(leaves[0])


def test_the_program_keeps_the_step_alive() -> None:
    state, batch = setting()

    def program() -> Any:
        step = compiled("none")
        run = jax.jit(lambda state, batch: step.call(*state, *batch)[-1])
        return run.lower(state, batch).compile()

    run = program()
    gc.collect()
    assert float(run(state, batch)) == pytest.approx(float(loss_of(state[0], *batch)), rel=1e-5)


SCRIPT = """
import sys
import jax, jax.numpy as jnp
import scalify
for factor in map(float, sys.argv[1:]):
    step = scalify.jit(lambda x: x * factor + jnp.tanh(x).sum(), recipe="none")
    print(float(jax.jit(lambda x: step.call(x)[0] + 1)(jnp.zeros(4))))
    step = scalify.jit(lambda x: (x + factor) * 2, recipe="none")
    print(float(jax.jit(lambda x: step.call(x)[0] + 1)(jnp.zeros(4))))
"""


def test_a_program_of_jax_s_persistent_cache_finds_its_step(tmp_path: pathlib.Path) -> None:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    # The second process has other programs first.
    for factors in (("3", "5"), ("5", "3")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *factors],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        wanted = [word for factor in factors for word in ("1.0", str(2 * float(factor) + 1))]
        assert done.stdout.split() == wanted


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(64, 128, rngs=rngs)
        self.second = nnx.Linear(128, 64, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(nnx.relu(self.first(x)))


def test_flax_nnx() -> None:
    _, (x, y) = setting()
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, OPTIMIZER, wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state: Any, x: Any, y: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return nnx.state((model, optimizer)), loss

    inside = scalify.jit(step, recipe="none", donate_argnums=0)

    @functools.partial(jax.jit, donate_argnums=0)
    def epoch(state: Any, x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda state, _: inside.call(state, x, y), state, None, length=3)

    expected = jax.tree.map(jnp.copy, state)
    for _ in range(3):
        expected, loss = jax.jit(step)(expected, x, y)
    state, losses = epoch(state, x, y)
    # XLA's sums and ours are in other orders; Adam divides by the size of a gradient.
    np.testing.assert_allclose(losses[-1], loss, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state, expected)
    nnx.update((model, optimizer), state)
    assert int(optimizer.step[...]) == 3


def test_equinox() -> None:
    _, (x, y) = setting()
    model = eqx.nn.MLP(64, 64, 128, 1, key=jax.random.key(1))
    params, static = eqx.partition(model, eqx.is_array)

    def step(params: Any, x: Any, y: Any) -> Any:
        def loss_of(params: Any) -> Any:
            return jnp.mean((jax.vmap(eqx.combine(params, static))(x) - y) ** 2)

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda one, grad: one - 0.1 * grad, params, grads), loss

    inside = scalify.jit(step, recipe="fp8", donate_argnums=0)

    @eqx.filter_jit
    def train(model: Any, x: Any, y: Any) -> Any:
        params, static = eqx.partition(model, eqx.is_array)
        params, loss = inside.call(params, x, y)
        return eqx.combine(params, static), loss

    losses = []
    for _ in range(5):
        model, loss = train(model, x, y)
        losses.append(float(loss))
    plain = step(params, x, y)[1]
    # E4M3's noise averages out over the mean of 4,096 squares.
    assert losses[0] == pytest.approx(float(plain), rel=1e-2)
    assert losses[-1] < losses[0]
    assert any(row["format"] == "f8E4M3FN" for row in inside.report().casts())


def test_a_step_that_fails_raises_from_the_program() -> None:
    step = compiled("fp8")
    run = jax.jit(lambda state, batch: step.call(*state, *batch)[-1])
    state, batch = setting()
    good = float(run(state, batch))
    kept = step.executable()._kept
    broken, kept.added = kept.added, lambda arrays: [np.zeros(3)] * 9  # type: ignore[assignment]
    with pytest.raises(Exception, match="wrong number of arguments"):
        jax.block_until_ready(run(state, batch))
    kept.added = broken  # type: ignore[method-assign]
    assert float(run(state, batch)) == pytest.approx(good, rel=1e-3)


def test_refusals() -> None:
    state, batch = setting()
    step = compiled("none")
    with pytest.raises(NotImplementedError, match=r"no derivative.*scalify\.transform"):
        jax.grad(lambda params: step.call(params, state[1], *batch)[-1])(state[0])
    with pytest.raises(NotImplementedError, match=r"no jax\.vmap"):
        jax.vmap(lambda x: step.call(*state, x, batch[1])[-1])(jnp.stack([batch[0]] * 2))
    packed = compiled("fp8-lm-o2")
    with pytest.raises(NotImplementedError, match=r"stores state narrow: .*pack_state=False"):
        jax.jit(lambda state: packed.call(*state, *batch))(state)
    calls = scalify.jit(lambda x: jax.debug.print("{}", x) or x * 2, recipe="none")
    with pytest.raises(NotImplementedError, match="calls back"):
        jax.jit(calls.call)(batch[0])
    gpu = scalify.jit(lambda x: x * 2, recipe="none", target="sm_90a")
    with pytest.raises(NotImplementedError, match="must run on one device"):
        jax.jit(gpu.call)(batch[0])


def test_outside_of_a_trace_it_is_a_call() -> None:
    state, batch = setting()
    called, plain = compiled("fp8"), compiled("fp8")
    equal(
        called.call(*jax.tree.map(jnp.copy, state), *batch),
        plain(*state, *batch),
    )


def test_the_handler_of_cuda_runs_a_step_of_a_gpu(tmp_path: pathlib.Path) -> None:
    """A CPU's XLA calls it: the null device of a GPU's artefact records the driver's calls."""
    w, x = np.ones((64, 64), np.float32), np.ones((8, 64), np.float32)
    step = scalify.jit(
        lambda w, x: (w - x.sum(), jnp.tanh(x)), recipe="none", target="sm_90a", donate_argnums=0
    )
    path = tmp_path / "step.scalify"
    step.executable(w, x).save(path)
    header = (pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    version = [
        int(re.findall(rf"define XLA_FFI_API_{part} (\d+)", header)[0])
        for part in ("MAJOR", "MINOR")
    ]
    handler = _runtime.xla_handler(*version, True)
    jax.ffi.register_ffi_target("scalify_test_gpu", handler, platform="cpu")
    types = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (w, x)]
    custom = jax.ffi.ffi_call(
        "scalify_test_gpu", types, has_side_effect=True, input_output_aliases={0: 0}
    )
    run = jax.jit(lambda number, *arrays: custom(*arrays, id=number), static_argnums=0)

    gpu = _runtime.Executable(str(path), 1, "null")
    call = gpu.xla_call([0, 1], [0, 1])
    call.prepare([])
    jax.block_until_ready(run(np.int64(call.id), w, x))
    assert call.finish() == []
    lines = gpu.trace.splitlines()
    # What XLA's streams do must be done before the step's first kernel.
    first = next(i for i, line in enumerate(lines) if "Launch" in line)
    assert any("Synchronize" in line for line in lines[:first])

    host = scalify.jit(lambda w, x: (w, x), recipe="none").executable(w, x)
    other = host._runtime.xla_call([0, 1], [0, 1])
    other.prepare([])
    with pytest.raises(Exception, match="XLA runs on a GPU, and the step on a CPU"):
        jax.block_until_ready(run(np.int64(other.id), w, x))
    other.finish()
