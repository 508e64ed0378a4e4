"""Amaxes that a step keeps for the next one give the bits of steps that measure their own.

A step that donates nothing reads its weights for their amaxes itself: it is the oracle.
"""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rank_threads import on_meshes
from test_scalify_run import TOOL, read, save

import scalify

LAYERS, WIDTH, ROWS, MICRO = 3, 48, 16, 2
# All layers in FP8.
RECIPE = scalify.Recipe.preset("fp8-current").replace(head=True, sensitive=True)


def init() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = {"first": (WIDTH, 64), "layers": (LAYERS, 64, 64), "last": (64, WIDTH)}
    return {
        name: rng.normal(0, shape[-2] ** -0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def batch(index: int) -> np.ndarray:
    return np.random.default_rng(index).normal(size=(MICRO, ROWS, WIDTH)).astype(np.float32)


def loss(params: Any, x: Any, dtype: Any) -> Any:
    params = jax.tree.map(lambda w: w.astype(dtype), params)
    hidden = jnp.tanh(x.astype(dtype) @ params["first"])
    hidden, _ = jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), hidden, params["layers"])
    return jnp.mean(jnp.square((hidden @ params["last"]).astype(jnp.float32) - x))


def make_step(dtype: Any = jnp.float32) -> Callable[..., Any]:
    """Returns a step of SGD on micro-batches, which grows weights: each has another amax."""

    def step(params: Any, x: Any) -> Any:
        def add(sums: Any, one: Any) -> Any:
            found = jax.value_and_grad(loss)(params, one, dtype)
            return jax.tree.map(jnp.add, sums, found), None

        zeros = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
        (value, grads), _ = jax.lax.scan(add, zeros, x)
        return jax.tree.map(lambda w, g: 1.3 * w - 0.5 * g, params, grads), value

    return step


def compiled(step: Callable[..., Any], **options: Any) -> scalify.Jit:
    return scalify.jit(
        step,
        RECIPE,
        numerics=scalify.Numerics(scales=scalify.measure((init(), batch(0)))),
        **options,
    )


def pair(dtype: Any = jnp.float32) -> tuple[scalify.Jit, scalify.Jit]:
    """Returns a step that keeps amaxes, and one that reads them."""
    step = make_step(dtype)
    return compiled(step, donate_argnums=0), compiled(step)


def same(found: Any, wanted: Any) -> bool:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def measurements(step: scalify.Jit) -> int:
    """Returns how often a step's arguments were measured since profiling was set."""
    calls = [row["calls"] for row in step.executable().profile() if row["function"] == "measure"]
    return max(calls, default=0)


def warmed(step: scalify.Jit, params: Any) -> Any:
    """Returns what a step makes of parameters, and lets it count from there."""
    params, _ = step(params, batch(0))
    step.executable().profiling(True)
    return params


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_steps_measure_once(dtype: Any) -> None:
    kept, measured = pair(dtype)
    found, wanted = warmed(kept, init()), measured(init(), batch(0))[0]
    assert same(found, wanted)
    for index in range(1, 5):
        found, value = kept(found, batch(index))
        wanted, other = measured(wanted, batch(index))
        assert same((found, value), (wanted, other))
    assert measurements(kept) == 0
    names = [argument["name"] for argument in kept.executable().manifest["args"]]
    assert names[-1] == "scalify.argument_amax"
    # It follows from the parameters: no checkpoint has it.
    assert "scalify.argument_amax" not in kept.executable().kept


def test_measure_is_the_amax() -> None:
    kept, _ = pair()
    params = init()
    executable = kept.executable(params, batch(0))
    taken = executable.manifest["functions"]["measure"]["args"]
    arrays = {argument["name"]: params[argument["name"].split("'")[1]] for argument in taken}
    (found,) = executable._runtime.run(list(arrays.values()), "measure")
    wanted = []
    for array in arrays.values():
        # Of stacked layers each has its own.
        rows = array if array.ndim == 3 else array[None]
        wanted += [np.abs(row).max() for row in rows]
    assert len(wanted) == 2 + LAYERS
    assert np.array_equal(found, np.asarray(wanted, np.float32))


# 2^6: what fits by the old scale would saturate, or lose 6 binades.
@pytest.mark.parametrize("factor", [64.0, 1 / 64, np.nan, np.inf])
@pytest.mark.parametrize("name", ["first", "layers"])
def test_replaced_arguments_are_measured(name: str, factor: float) -> None:
    kept, measured = pair()
    params = warmed(kept, init())
    params, _ = kept(params, batch(1))
    changed = np.array(params[name])
    # Not of all elements, so that the step before has another amax of each slice.
    changed[..., 0] *= np.float32(factor)
    params = {**params, name: changed}
    copies = jax.tree.map(np.array, params)
    assert same(kept(params, batch(2)), measured(copies, batch(2)))
    assert measurements(kept) == 1


def test_other_arrays_of_the_same_step_are_measured() -> None:
    """The amax of one state is not used for another, although both are results."""
    kept, measured = pair()
    larger = jax.tree.map(lambda w: 100 * w, init())
    found = [warmed(kept, init()), kept(larger, batch(0))[0]]
    wanted = [jax.tree.map(np.array, one) for one in found]
    for index in range(1, 3):
        for i in range(2):
            found[i], _ = kept(found[i], batch(index))
            wanted[i], _ = measured(wanted[i], batch(index))
            assert same(found[i], wanted[i])
    # A swap of two results of one shape, too.
    swapped = {**found[0], "first": found[1]["first"]}
    copies = jax.tree.map(np.array, swapped)
    assert same(kept(swapped, batch(3)), measured(copies, batch(3)))


def test_memory_that_another_library_had_is_measured() -> None:
    """Only for an Executable's arrays: nobody writes to those of JAX."""
    kept, measured = pair()
    start = warmed(kept, init())
    executable, names = kept.executable(), sorted(start)
    *flat, _ = executable(*(np.array(start[name]) for name in names), batch(1))
    params = dict(zip(names, flat, strict=True))
    executable.profiling(True)
    lent = np.from_dlpack(params["first"])
    data = np.full(lent.shape, 77, np.float32)
    ctypes.memmove(lent.ctypes.data, data.ctypes.data, data.nbytes)
    del lent
    assert params["first"].is_lent()
    copies = {**jax.tree.map(np.array, params), "first": data}
    found, wanted = executable(*flat, batch(2)), measured(copies, batch(2))
    assert same(found, jax.tree.leaves(wanted))
    assert measurements(kept) == 1


def test_numpy_cannot_write_to_results() -> None:
    kept, _ = pair()
    params = warmed(kept, init())
    view = np.asarray(params["first"])
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    # To look at a result costs nothing, and the step works on a copy as long as it is looked at.
    params, _ = kept(params, batch(1))
    assert measurements(kept) == 0


def test_a_step_that_fails_leaves_no_amax() -> None:
    kept, measured = pair()
    params = warmed(kept, init())
    wanted = jax.tree.map(np.array, params)
    executable = kept.executable()
    foreign = jax.tree.leaves(jax.tree.map(lambda w: 100 * w, wanted))
    with pytest.raises(ValueError, match="takes"):
        executable(*foreign, batch(1)[0])
    assert same(kept(params, batch(1)), measured(wanted, batch(1)))


def test_weights_that_stay() -> None:
    """An argument that is returned unchanged keeps its amax."""

    def step(params: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x[0], jnp.float32)
        new = jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)
        return {**new, "first": params["first"]}, value

    kept, measured = compiled(step, donate_argnums=0), compiled(step)
    found, wanted = warmed(kept, init()), measured(init(), batch(0))[0]
    for index in range(1, 4):
        found, value = kept(found, batch(index))
        wanted, other = measured(wanted, batch(index))
        assert same((found, value), (wanted, other))
    assert measurements(kept) == 0


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_ranks_that_are_given_other_arrays(zero: Any) -> None:
    """Each rank measures for itself; one alone simulates the ranks, and is the oracle."""
    spec = jax.sharding.PartitionSpec(None, "data")

    def train(mesh: scalify.Mesh) -> Any:
        step = compiled(
            make_step(),
            distribution=scalify.Distribution(mesh=mesh, zero=zero),
            in_shardings=(None, spec),
            donate_argnums=0,
        )
        params = warmed(step, init())
        values = []
        for index in range(1, 5):
            if index == 2:
                # The first rank alone is given copies, of the same values.
                whole = jax.tree.map(
                    lambda one: one.gather() if isinstance(one, scalify.mesh.Shard) else one, params
                )
                if mesh.rank == 0:
                    params = jax.tree.map(np.array, whole)
            params, value = step(params, batch(index))
            values.append(float(np.asarray(value)))
        whole = jax.tree.map(
            lambda one: one.gather() if isinstance(one, scalify.mesh.Shard) else one, params
        )
        return values, jax.tree.map(np.array, whole), measurements(step)

    alone = train(scalify.make_mesh(data=2))
    for rank, (values, params, count) in enumerate(on_meshes({"data": 2}, train)):
        assert values == alone[0]
        assert same(params, alone[1])
        # Parameters of ZeRO 1 are gathered: nothing is left of them, and nothing measured.
        assert count == (rank == 0 and zero != 1)


def test_scalify_run(tmp_path: pathlib.Path) -> None:
    kept, measured = pair()
    wanted = init()
    executable = kept.executable(wanted, batch(0))
    executable.save(tmp_path / "step.scalify")
    named = {f"params['{name}']": array for name, array in wanted.items()}
    names = [argument["name"] for argument in executable.args]
    assert set(named) < set(names)
    batches = np.stack([batch(index) for index in range(3)])
    save(tmp_path / "in.safetensors", {**named, names[-1]: batches})
    command = [TOOL, tmp_path / "step.scalify", "--in", tmp_path / "in.safetensors"]
    done = subprocess.run(
        [*command, "--out", tmp_path / "out.safetensors", "--steps=3"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for index in range(3):
        wanted, _ = measured(wanted, batch(index))
    found = read(tmp_path / "out.safetensors")
    assert same([found[f"params['{name}']"] for name in wanted], list(wanted.values()))
    assert "scalify.argument_amax" not in found


def test_a_step_that_was_not_measured_is_an_error() -> None:
    kept, _ = pair()
    params = init()
    runtime = kept.executable(params, batch(0))._runtime
    amaxes = np.zeros(2 + LAYERS, np.float32)
    with pytest.raises(ValueError, match="run the function 'measure' on them first"):
        runtime.run([*jax.tree.leaves(params), batch(0), amaxes])
