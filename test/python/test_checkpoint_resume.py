"""Runs that go on from a checkpoint have the bits of runs that were not stopped."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P
from rank_threads import on_meshes

import scalify
from scalify import checkpoint
from scalify.mesh import Mesh

ADAM = optax.adamw(1e-2)


def initial() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    sizes = {"first": (16, 64), "middle": (64, 64), "second": (64, 8)}
    params = {
        name: rng.normal(size=size).astype(np.float32) * size[0] ** -0.5
        for name, size in sizes.items()
    }
    return params, jax.tree.map(np.asarray, ADAM.init(params))


def batch(index: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 + index)
    x = rng.normal(size=(8, 16)).astype(np.float32)
    # They grow, so that scales move.
    return x * 2**index, np.tanh(x[:, :8])


def train_step(params: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
    def loss(params: Any) -> jax.Array:
        hidden = jax.nn.relu(jax.nn.relu(x @ params["first"]) @ params["middle"])
        return jnp.mean((hidden @ params["second"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = ADAM.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def make(name: str, numerics: scalify.Numerics | None = None, **options: Any) -> Any:
    # Every dot narrow: the model has no other layers than its first ones and its last one.
    recipe = scalify.Recipe.preset(name).replace(head=True, sensitive=False)
    by: Any = name if name == "none" else recipe
    return scalify.jit(
        train_step, by, donate_argnums=(0, 1), threads=1, numerics=numerics, **options
    )


def run(step: Any, tree: Any, indices: range) -> tuple[Any, list[float]]:
    losses = []
    for index in indices:
        *tree, loss = step(*tree, *batch(index))
        losses.append(float(np.asarray(loss)))
    return tuple(tree), losses


def bits(tree: Any, step: Any) -> dict[str, bytes]:
    """Returns all state that the next step depends on."""
    leaves = {
        jax.tree_util.keystr(path): np.asarray(leaf).tobytes()
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
    return leaves | {name: array.tobytes() for name, array in step.executable().kept.items()}


def counts(executable: Any, *others: str) -> list[dict[str, Any]]:
    # Their places hold the lines of this file that called the step.
    left_out = {"loc", *others}
    return [{key: row[key] for key in row.keys() - left_out} for row in executable.health()]


NUMERICS = {
    "none": scalify.Numerics(),
    "fp8": scalify.Numerics(health="report"),
    "fp8-current": scalify.Numerics(),
    "fp8-delayed": scalify.Numerics(),
    "fp8-lm-o2": scalify.Numerics(),
    "fp8-lm-o3": scalify.Numerics(),
    "fp8 with scales that move": scalify.Numerics(
        health=scalify.HealthPolicy("rescale", every=2),
    ),
    "fp8 that has left its constants, whose scales move": scalify.Numerics(
        cast_scales="static",
        health=scalify.HealthPolicy("adapt", every=2, flushed=1e-3, saturated=1e-3),
    ),
    "fp8 that leaves its constants at the next step": scalify.Numerics(
        cast_scales="static",
        health=scalify.HealthPolicy("adapt", every=3, flushed=1e-3, saturated=1e-3),
    ),
    "fp8 with casts that widen": scalify.Numerics(
        health=scalify.HealthPolicy("widen", patience=2, flushed=1e-3, saturated=1e-3),
    ),
}


@pytest.mark.filterwarnings("ignore:(of )?cast")
@pytest.mark.parametrize("name", NUMERICS)
def test_six_steps_are_three_and_three(name: str, tmp_path: pathlib.Path) -> None:
    recipe, numerics = name.split()[0], NUMERICS[name]
    straight = make(recipe, numerics)
    wanted, losses = run(straight, initial(), range(6))

    first = make(recipe, numerics)
    old, before = run(first, initial(), range(2))
    tree, last = run(first, old, range(2, 3))
    before += last
    checkpoint.save(tmp_path, tree, 3, jit=first)
    if name == "none":
        with pytest.raises(
            ValueError, match=r"leaf '\[0\]\['first'\]' cannot be saved: .* donated"
        ):
            checkpoint.save(tmp_path, old, 2)
    # How far scales moved into that step is not in a checkpoint. A step that has left its constants
    # has kernels that multiply by scales, where GEMMs took the constants: their names differ.
    others = ("moved", "op") if "leaves its constants" in name else ("moved",)
    health = counts(first.executable(), *others)
    second = make(recipe, numerics)
    start, tree = checkpoint.load(tmp_path, initial(), jit=second)
    assert start == 3
    # What the last step counted is there before the next one.
    assert counts(second.executable(*tree, *batch(3)), *others) == health
    tree, after = run(second, tree, range(3, 6))
    assert before + after == losses
    assert bits(tree, second) == bits(wanted, straight)
    assert counts(second.executable()) == counts(straight.executable())
    assert second.widened() == straight.widened()
    if recipe != "none":
        assert second.scales() == straight.scales()
    if recipe in ("fp8-delayed", "fp8-lm-o2", "fp8-lm-o3") or "move" in name:
        # It matters: what is kept has moved, and without it the bits are others.
        assert second.executable().kept
        third = make(recipe, numerics)
        _, tree = checkpoint.load(tmp_path, initial())
        without, _ = run(third, tree, range(3, 6))
        assert bits(without, third) != bits(wanted, straight)
    if "widen" in name:
        assert second.widened()
    if "constants" in name:
        assert second.executable().cast_scales is not None


def test_another_recipe_goes_on_and_says_what_it_drops(tmp_path: pathlib.Path) -> None:
    first = make("fp8-delayed")
    tree, _ = run(first, initial(), range(2))
    checkpoint.save(tmp_path, tree, 2, jit=first)
    second = make("bf16")
    _, tree = checkpoint.load(tmp_path, initial(), jit=second)
    with pytest.warns(UserWarning, match="drops 'scalify.amax_history' of the checkpoint"):
        tree, _ = run(second, tree, range(2, 3))
    checkpoint.save(tmp_path, tree, 3, jit=second)
    back = make("fp8-delayed")
    _, tree = checkpoint.load(tmp_path, initial(), jit=back)
    with pytest.warns(UserWarning, match="starts 'scalify.amax_history' anew"):
        back.executable(*tree, *batch(3))
    # For arguments of other shapes it is left aside.
    third = make("fp8-delayed")
    _, tree = checkpoint.load(tmp_path, initial(), jit=third, step=2)
    x, y = batch(2)
    with pytest.warns(UserWarning, match="starts anew for these arguments"):
        third(*tree, x[:4], y[:4])


def test_an_interrupted_compilation_goes_on_from_the_checkpoint(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make("fp8-delayed")
    tree, _ = run(first, initial(), range(2))
    checkpoint.save(tmp_path, tree, 2, jit=first)
    second = make("fp8-delayed")
    _, tree = checkpoint.load(tmp_path, initial(), jit=second)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(second, "_compile", interrupted)
        second(*tree, *batch(2))
    wanted, losses = run(first, tree, range(2, 4))
    _, tree = checkpoint.load(tmp_path, initial())
    found, again = run(second, tree, range(2, 4))
    assert again == losses
    assert bits(found, second) == bits(wanted, first)


@pytest.mark.filterwarnings("ignore:of cast")
def test_a_step_without_saved_state_starts_anew(tmp_path: pathlib.Path) -> None:
    """A process that resumes an earlier step would else keep the state of later steps."""
    for name in ("fp8-delayed", "fp8 with casts that widen"):
        recipe, folder = name.split()[0], tmp_path / name
        step = make(recipe, NUMERICS[name])
        tree, _ = run(step, initial(), range(1))
        checkpoint.save(folder, tree, 1)
        tree, _ = run(step, tree, range(1, 4))
        step.recompile()
        with pytest.warns(UserWarning, match="has no state of a step, so 'train_step' starts anew"):
            _, tree = checkpoint.load(folder, initial(), jit=step)
        assert step.state() is None
        fresh = make(recipe, NUMERICS[name])
        _, same = checkpoint.load(folder, initial())
        found, losses = run(step, tree, range(1, 4))
        wanted, after = run(fresh, same, range(1, 4))
        assert losses == after
        assert bits(found, step) == bits(wanted, fresh)
        assert step.widened() == fresh.widened()
        assert step.scales() == fresh.scales()
    # Nothing is missing of a step that had not run yet.
    checkpoint.save(tmp_path, initial(), 0, jit=make("fp8-delayed"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.load(tmp_path, initial(), jit=make("fp8-delayed"))


def test_rows_of_another_program_start_anew(tmp_path: pathlib.Path) -> None:
    """Both sides have the same number of unmatched rows, of different casts."""

    def scoped(scope: str) -> Any:
        def step(params: Any, x: jax.Array) -> Any:
            def loss(params: Any) -> jax.Array:
                hidden = jax.nn.relu(x @ params["first"])
                with jax.named_scope(scope):
                    hidden = jax.nn.relu(hidden @ params["middle"])
                return jnp.mean((hidden @ params["second"]) ** 2)

            return jax.tree.map(lambda p, g: p - 0.01 * g, params, jax.grad(loss)(params))

        recipe = scalify.Recipe.preset("fp8-delayed").replace(head=True, sensitive=False)
        return scalify.jit(step, recipe, donate_argnums=0, threads=1)

    params, _ = initial()
    first, second = scoped("here"), scoped("there")
    for index in range(2):
        params = first(params, batch(index)[0])
    checkpoint.save(tmp_path, params, 2, jit=first)
    _, params = checkpoint.load(tmp_path, initial()[0], jit=second)
    with pytest.warns(UserWarning, match=r"starts \d rows of 'scalify.amax_history' anew.*there"):
        executable = second.executable(params, batch(2)[0])
    saved, found = (one.kept["scalify.amax_history"] for one in (first.executable(), executable))
    names = [row["loc"] for row in executable.manifest["report"] if "cast" in row]
    anew = ["there" in name for name in names]
    assert 0 < sum(anew) < len(anew)
    for before, after, is_anew in zip(saved, found, anew, strict=True):
        assert np.any(before)
        np.testing.assert_array_equal(after, np.zeros_like(before) if is_anew else before)


FOUR, GRID = {"data": 4}, {"data": 2, "tensor": 2}
SPECS = (
    {"first": P(None, "tensor"), "middle": P("tensor"), "second": P()},
    None,
    P("data"),
    P("data"),
)


def ranked(mesh: Mesh, recipe: str, zero: Any) -> Any:
    shardings: dict[str, Any] = {"in_shardings": (P(), P(), P("data"), P("data"))}
    if "tensor" in mesh.axes:
        shardings["in_shardings"] = SPECS
        shardings["out_shardings"] = (SPECS[0], None, P())
    return make(recipe, distribution=scalify.Distribution(mesh=mesh, zero=zero), **shardings)


def whole(tree: Any) -> Iterator[np.ndarray]:
    for leaf in jax.tree.leaves(tree):
        yield leaf.gather() if isinstance(leaf, scalify.Shard) else np.asarray(leaf)


@pytest.mark.parametrize(
    ("axes", "recipe", "zero", "others"),
    [
        (FOUR, "fp8-delayed", 3, [{"data": 1}, {"data": 2}, {"data": 8}, GRID]),
        (FOUR, "fp8-lm-o2", 1, [GRID]),
        (GRID, "fp8-delayed", 0, [FOUR]),
    ],
)
def test_what_4_ranks_trained_others_go_on_with(
    axes: dict[str, int], recipe: str, zero: int, others: Any, tmp_path: pathlib.Path
) -> None:
    def train(mesh: Mesh) -> Any:
        step = ranked(mesh, recipe, zero)
        tree, before = run(step, initial(), range(3))
        checkpoint.save(tmp_path, tree, 3, jit=step)
        found, kept = list(whole(tree)), step.executable().kept
        tree, after = run(step, tree, range(3, 6))
        return found, kept, before + after, list(whole(tree)), step.executable().kept

    found, kept, losses, trained, last = on_meshes(axes, train)[0]
    assert any(np.any(array) for array in kept.values())

    def resume(mesh: Mesh) -> Any:
        step = ranked(mesh, recipe, zero)
        _, tree = checkpoint.load(tmp_path, initial(), jit=step)
        tree, after = run(step, tree, range(3, 6))
        return after, list(whole(tree)), step.executable().kept

    for after, again, ends in on_meshes(axes, resume):
        assert after == losses[3:]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(again, trained, strict=True))
        assert all(ends[name].tobytes() == last[name].tobytes() for name in last)

    def start(mesh: Mesh) -> Any:
        step = ranked(mesh, recipe, zero)
        _, tree = checkpoint.load(tmp_path, initial(), jit=step)
        # Compiled for another mesh, with the scales that were kept.
        own, state = step.executable(*tree, *batch(3)).kept, list(whole(tree))
        (*_, loss) = step(*tree, *batch(3))
        return state, own, float(np.asarray(loss))

    for other in others:
        for state, own, loss in on_meshes(other, start):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(state, found, strict=True))
            assert all(own[name].tobytes() == kept[name].tobytes() for name in kept)
            # Of the same state, with sums in another order and casts of other parts.
            assert loss == pytest.approx(losses[3], rel=0.02)


def test_what_one_process_trained_for_4_ranks_they_go_on_with(tmp_path: pathlib.Path) -> None:
    def straight(mesh: Mesh) -> Any:
        step = ranked(mesh, "fp8-delayed", 3)
        tree, losses = run(step, initial(), range(4))
        return list(whole(tree)), losses, step.executable().kept

    wanted, losses, kept = on_meshes(FOUR, straight)[0]
    alone = ranked(scalify.make_mesh(**FOUR), "fp8-delayed", 3)
    tree, before = run(alone, initial(), range(2))
    assert any(isinstance(leaf, scalify.Shard) for leaf in jax.tree.leaves(tree))
    checkpoint.save(tmp_path, tree, 2, jit=alone)

    def resume(mesh: Mesh) -> Any:
        step = ranked(mesh, "fp8-delayed", 3)
        _, tree = checkpoint.load(tmp_path, initial(), jit=step)
        tree, after = run(step, tree, range(2, 4))
        return list(whole(tree)), before + after, step.executable().kept

    for found, seen, ends in on_meshes(FOUR, resume):
        assert seen == losses
        assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]
        assert all(ends[name].tobytes() == kept[name].tobytes() for name in kept)
