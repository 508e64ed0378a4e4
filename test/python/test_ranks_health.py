"""Health policies on ranks: actions on a cast follow the counts of all ranks."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rank_threads import on_meshes

import scalify
from scalify.mesh import Mesh

P = jax.sharding.PartitionSpec
STEPS = 5
RECIPE = scalify.Recipe.preset("fp8").replace(head=True)


def train_step(params: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def loss(params: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, gradients), value


def arguments() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    params = {
        "in": rng.normal(size=(32, 32)).astype(np.float32) / 64,
        "out": rng.normal(size=(32, 16)).astype(np.float32),
    }
    x = rng.normal(size=(32, 32)).astype(np.float32)
    x[16:, :3] *= 2.0**12  # of the second rank of data alone
    return params, x, rng.normal(size=(32, 16)).astype(np.float32)


def jitted(mesh: Mesh, **numerics: Any) -> scalify.Jit:
    specs = {"in": P(None, "tensor"), "out": P("tensor", None)}
    return scalify.jit(
        train_step,
        RECIPE,
        distribution=mesh,
        in_shardings=(specs, P("data"), P("data")),
        out_shardings=(specs, P()),
        donate_argnums=0,
        numerics=scalify.Numerics(scales=[0, 0, 0, 0], **numerics),
    )


def test_a_rank_looks_at_its_part_of_what_is_assumed() -> None:
    ranges = {r"params['in']": {"max": 1e-3}, r"params['out']": {"max": 1e3}}

    def run(mesh: Mesh) -> list[str]:
        step = jitted(mesh, ranges=ranges, range_use="choose", health="off")
        params, x, y = arguments()
        params, _ = step(params, x, y)
        return [row["assumption"] for row in step.health(params, x, y) if "assumption" in row]

    for found in on_meshes({"data": 2, "tensor": 2}, run):
        assert found == ["params['in']"]


def trained(step: scalify.Jit) -> list[float]:
    params, x, y = arguments()
    losses = []
    for _ in range(STEPS):
        params, loss = step(params, x, y)
        losses.append(float(np.asarray(loss)))
    return losses


@pytest.mark.filterwarnings("ignore:cast")
@pytest.mark.parametrize("zero", [0, 3])
def test_what_ranks_have_alike_counts_as_in_one_process(zero: Any) -> None:
    """A fifth of the weights saturates: between the limit of 10 % and that of 4 times as many."""

    def step(w: Any, x: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 1e-30 * gradient, loss

    rng = np.random.default_rng(0)
    w = rng.normal(size=(32, 32)).astype(np.float32)
    w[rng.random(w.shape) < 0.2] = 2.0**14
    x = rng.normal(size=(32, 32)).astype(np.float32)

    def run(mesh: Mesh) -> Any:
        fn = scalify.jit(
            step,
            RECIPE,
            distribution=scalify.Distribution(mesh=mesh, zero=zero),
            in_shardings=(None, P("data")),
            donate_argnums=0,
            numerics=scalify.Numerics(scales=[0, 0], health="rescale"),
        )
        state, losses = w, []
        for _ in range(3):
            state, loss = fn(state, x)
            losses.append(float(np.asarray(loss)))
        return losses, sorted(fn.executable().cast_scales.tolist())

    losses, scales = run(scalify.make_mesh(data=4))
    assert max(scales) >= 16
    for found in on_meshes({"data": 4}, run):
        assert found == (losses, scales)


@pytest.mark.filterwarnings("ignore:cast")
@pytest.mark.parametrize("health", ["rescale", scalify.HealthPolicy("adapt", every=2)])
def test_scales_move_on_ranks_as_in_one_process(health: Any) -> None:
    # By the policy alone: what a step carries would move before it looks.
    options = {"health": health} | ({} if health == "rescale" else {"cast_scales": "static"})
    alone = jitted(scalify.make_mesh(data=2, tensor=2), **options)
    losses = trained(alone)
    wanted = alone.executable().cast_scales.tolist()
    assert any(scale > 1 for scale in wanted)

    def run(mesh: Mesh) -> Any:
        step = jitted(mesh, **options)
        found = trained(step)
        return found, step.executable().cast_scales.tolist()

    for found, scales in on_meshes({"data": 2, "tensor": 2}, run):
        assert scales == wanted
        assert found == losses
    still = {"health": "off", "cast_scales": "static"}
    constant = trained(jitted(scalify.make_mesh(data=2, tensor=2), **still))
    assert constant != losses


def test_what_one_rank_clips_all_leave_wide() -> None:
    policy = scalify.HealthPolicy("widen", patience=1, flushed=1.0)

    def run(mesh: Mesh) -> Any:
        step = jitted(mesh, health=policy, cast_scales="static")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained(step)
        own = [row["saturated"] for row in step.executable().health()]
        widened = step.widened()
        step.recompile()
        losses = trained(step)
        return own, widened, losses, len(step.executable().health())

    found = on_meshes({"data": 2, "tensor": 2}, run)
    owns = [tuple(own) for own, _, _, _ in found]
    assert len(set(owns)) > 1  # ranks count other things
    for _, widened, losses, casts in found:
        assert widened
        assert widened == found[0][1]
        assert losses == found[0][2]
        assert casts == found[0][3]


def test_stages_of_a_pipeline_count_their_own_casts() -> None:
    mesh = scalify.make_mesh(pipe=2)
    with pytest.raises(ValueError, match=r"'rescale' with pipeline=: a stage counts its own"):
        scalify.jit(
            train_step,
            distribution=scalify.Distribution(mesh=mesh, pipeline=scalify.Pipeline("pipe")),
            numerics=scalify.Numerics(health="rescale"),
        )
