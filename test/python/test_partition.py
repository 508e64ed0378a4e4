"""Partitioned programs: the shards on all devices of a mesh equal the whole program's results."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import partition_programs
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import scalify
from scalify import CompileError
from scalify import partition as partitioner
from scalify.partition import partition

P = PartitionSpec
COLLECTIVE = re.compile(r'"stablehlo\.(all_\w+|reduce_scatter|collective_permute)"')


@pytest.mark.parametrize("name", partition_programs.PROGRAMS)
def test_parts_make_the_whole(name: str) -> None:
    if name == "uneven" and jax.__version_info__ < (0, 8):
        pytest.skip("Shardy of jaxlib 0.7 makes an invalid sum of a gather from parts")
    program = partition_programs.PROGRAMS[name]()
    done = partition(partition_programs.lower(program))
    assert done.mesh == program.axes
    assert program.contains <= set(COLLECTIVE.findall(done.text))
    results = partition_programs.run_parts(program, done.text)
    with partition_programs.set_mesh(program.mesh()):
        wanted = jax.tree.leaves(jax.jit(program.fn)(*program.args))
    placed = jax.tree.leaves(program.shardings()[1])
    assert len(results) == len(wanted) == len(placed)
    for parts, want, sharding in zip(results, wanted, placed, strict=True):
        want = np.asarray(want)
        places = sharding.devices_indices_map(want.shape)
        ordered = [places[device] for device in sorted(places, key=lambda one: one.id)]
        for part, place in zip(parts, ordered, strict=True):
            # Sums go in another order, over several devices: a few roundings of F32 at the
            # largest element, more after AdamW's quotient.
            bound = 2e-5 * max(np.max(np.abs(want), initial=0), 1e-6)
            np.testing.assert_allclose(part, want[place], rtol=0, atol=bound)


def lowered(shape: tuple[int, ...], spec: PartitionSpec, fn: object, **axes: int) -> str:
    """Returns the text of a function of one array on a mesh of devices that need not exist."""
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes))
    jitted = jax.jit(fn, in_shardings=NamedSharding(mesh, spec))  # type: ignore[call-overload]
    traced = jitted.trace(jax.ShapeDtypeStruct(shape, np.float32))
    text: str = traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    return text


def test_a_mesh_of_512_devices_that_are_not_there() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x.T @ x

    done = partition(lowered((1024, 64), P("data", "tensor"), fn, data=64, tensor=8))
    assert done.devices == 512
    assert "tensor<16x8xf32>" in done.text


def test_a_random_key_brings_a_mesh_of_its_own() -> None:
    def fn(key: jax.Array, x: jax.Array) -> jax.Array:
        return x + jax.random.normal(key, x.shape)

    mesh = AbstractMesh((8,), ("data",))
    jitted = jax.jit(fn, in_shardings=(None, NamedSharding(mesh, P("data"))))
    traced = jitted.trace(jax.random.key(0), jax.ShapeDtypeStruct((16, 4), np.float32))
    text = traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    assert "@empty_mesh" in text
    done = partition(text)
    assert done.mesh == {"data": 8}
    assert "tensor<2x4xf32>" in done.text


def test_no_mesh_is_an_error() -> None:
    text = jax.jit(lambda x: x + 1).lower(np.float32(1)).as_text()
    with pytest.raises(CompileError, match=r"no mesh.*in_shardings"):
        partition(text)


def test_an_op_across_devices_names_its_place_and_the_way_out() -> None:
    def fn(x: jax.Array) -> jax.Array:
        # A sum from 1 on, which each device would add.
        return jax.lax.reduce(x, np.float32(1), jax.lax.add, (0,))

    with pytest.raises(CompileError, match="with_sharding_constraint") as caught:
        partition(lowered((16, 4), P("data"), fn, data=8))
    assert "reduce" in str(caught.value)
    assert "test_partition.py" in str(caught.value)


def test_what_needs_no_other_device_asks_none() -> None:
    """The indices of an argmax are generated whole; only the values are gathered."""
    text = partition(lowered((16, 8), P(None, "data"), lambda x: jnp.argmax(x, 1), data=8)).text
    assert COLLECTIVE.findall(text) == ["all_gather"]
    assert "iota dim = 1 : tensor<16x8xi32>" in text


def test_marks_of_scales_are_on_parts() -> None:
    def fn(x: jax.Array) -> jax.Array:
        data, scale = scalify.lax.get_data_scale(scalify.lax.rescale(x, "max"))
        return scalify.lax.set_scaling(data, scale)

    text = partition(lowered((16, 4), P("data"), fn, data=8)).text
    for mark in ("rescale_point +max", "data_scale", "override_scale"):
        assert re.search(rf"scalify\.{mark} .* tensor<2x4xf32>", text)
    assert "scalify.mark" not in text


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (
            "print('Check failed', file=sys.stderr, flush=True); os.abort()",
            r"crashed \(SIGABRT\).*Check failed",
        ),
        ("sys.stdin.readline(); sys.exit('no rule')", "cannot partition the program: no rule"),
        ("sys.stdin.readline(); time.sleep(600)", "took longer than 0.5 s"),
    ],
)
def test_a_fault_of_shardy_is_an_error(
    code: str, match: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "shardy.py"
    script.write_text(f"import os, sys, time\n{code}\n")
    monkeypatch.setattr(partitioner, "SHARDY", script)
    # Only the last one may take this long.
    seconds = 0.5 if "longer" in match else 600
    with pytest.raises(CompileError, match=f"(?s){match}"):
        partition(lowered((16, 4), P("data"), lambda x: x * 2, data=8), seconds=seconds)


def test_the_command(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "step.mlir"
    program.write_text(lowered((16, 4), P("data"), lambda x: x.sum(0), data=8))
    command = [sys.executable, "-W", "error", "-m", "scalify.partition", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert '"stablehlo.all_reduce"' in done.stdout
    assert "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]>" in done.stdout
    program.write_text("module {}")
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 1
    assert "no mesh" in done.stderr
    program.unlink()
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("scalify.partition: error: ")
    assert "No such file" in done.stderr


def test_the_package_has_the_module() -> None:
    code = "import scalify; scalify.partition.partition"
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=True)


def on_two_ranks(step: Any, zero: Any, numerics: scalify.Numerics | None = None) -> scalify.Jit:
    """Returns a step of state and a batch, whose rows two ranks share, by a level of ZeRO."""
    mesh, specs = scalify.make_mesh(data=2), (None, P("data"))
    return scalify.jit(
        step,
        "none",
        distribution=scalify.Distribution(mesh=mesh, zero=zero),
        in_shardings=specs,
        donate_argnums=0,
        numerics=numerics,
    )


def test_state_that_stays_whole_is_said() -> None:
    """Also in the executable's remarks, since it does not have the memory that zero= implies."""

    def step(w: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: jnp.mean(jnp.square(x @ w)))(w)
        return jnp.sort(w - grads, axis=0), jnp.float32(0)

    made = on_two_ranks(step, 3)
    said = made.executable(np.ones((8, 8), np.float32), np.ones((4, 8), np.float32)).diagnostics
    assert any("stays whole on every rank" in entry["message"] for entry in said), said


def test_roles_that_are_given_decide_what_is_shared() -> None:
    """ZeRO-1 shards moments; an average of weights, which rules take for one, may be a param."""

    def step(state: Any, x: Any) -> Any:
        w, average = state
        w = w - jax.grad(lambda w: jnp.mean(jnp.square(x @ w)))(w)
        return (w, 0.9 * average + 0.1 * w), jnp.float32(0)

    def shared(roles: dict[str, str] | None) -> list[bool]:
        made = on_two_ranks(step, 1, scalify.Numerics(roles=roles))
        w = np.ones((8, 8), np.float32)
        args = made.executable((w, w), np.ones((4, 8), np.float32)).manifest["args"]
        return ["flat" in arg for arg in args]

    assert shared(None) == [False, True, False]
    assert shared({r"state\[1\]": "param"}) == [False, False, False]
    with pytest.raises(CompileError, match=r"has no argument 'ema'.*state\[1\]"):
        shared({"ema": "param"})
