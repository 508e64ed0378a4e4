"""State that is narrow data between steps: the same bits as F32 state of the same values."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

import scalify

WIDTH, ROWS = 64, 32
FP16 = "fp16"
FP8_MOMENTS = '#scalify.recipe<"fp16", moments = f8E4M3FN>'
TO_NEAREST = '#scalify.recipe<"fp16", moments = f8E4M3FN, state_rounding = nearest>'
OPTIMIZER = optax.adam(1e-2, b2=0.95)


def init() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shapes = {"gate": (WIDTH, WIDTH), "down": (WIDTH, WIDTH), "norm": (WIDTH,)}
    params = {name: rng.normal(0, 0.1, shape) for name, shape in shapes.items()}
    # Values that F16 has, so that what comes in first is not rounded.
    params = {name: value.astype(np.float16).astype(np.float32) for name, value in params.items()}
    return params, jax.tree.map(np.asarray, OPTIMIZER.init(params))


def batch(seed: int) -> np.ndarray:
    return np.random.default_rng(100 + seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def loss(params: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ params["gate"]) * params["norm"]
    return jnp.mean(jnp.square(hidden @ params["down"] - x))


def step(params: Any, opt: Any, x: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    updates, opt = OPTIMIZER.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, value


def compiled(recipe: str, pack_state: bool = True) -> scalify.Jit:
    numerics = scalify.Numerics(scales=scalify.measure((*init(), batch(0))), pack_state=pack_state)
    return scalify.jit(step, recipe, donate_argnums=(0, 1), numerics=numerics)


def train(
    fn: Callable[..., Any], state: Any, steps: int, first: int = 0
) -> tuple[Any, list[np.float32]]:
    losses = []
    for i in range(first, first + steps):
        *state, value = fn(*state, batch(i))
        losses.append(np.float32(value))
    return state, losses


def leaves(state: Any) -> dict[str, Any]:
    paths = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def copy(state: Any) -> Any:
    def of(leaf: Any) -> Any:
        if isinstance(leaf, scalify.ScaledArray):
            return scalify.ScaledArray(np.array(leaf.data), leaf.storage)
        return np.array(leaf)

    return jax.tree.map(of, state)


def narrow(values: Any, scale: float, dtype: Any) -> np.ndarray:
    """Casts as the format has it, by ml_dtypes."""
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.clip(np.asarray(values) / np.float32(scale), -largest, largest).astype(dtype)


@pytest.mark.parametrize(
    ("recipe", "first", "second"),
    [
        (FP16, np.float16, np.float16),
        (TO_NEAREST, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
        (
            f"{TO_NEAREST[:-1]}, second_moment = f8E5M2>",
            ml_dtypes.float8_e4m3fn,
            ml_dtypes.float8_e5m2,
        ),
    ],
    ids=["F16", "E4M3", "E5M2"],
)
def test_packed_and_unpacked_state_have_the_same_bits(recipe: str, first: Any, second: Any) -> None:
    packed, plain = compiled(recipe), compiled(recipe, pack_state=False)
    state, losses = train(packed, init(), 8)
    expected, others = train(plain, init(), 8)
    assert losses == others and losses[-1] < losses[0]
    wide = leaves(expected)
    assert not any(isinstance(leaf, scalify.ScaledArray) for leaf in wide.values())
    found = leaves(state)
    for name, leaf in found.items():
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(wide[name]), err_msg=name)
        if ".count" in name:
            continue
        assert isinstance(leaf, scalify.ScaledArray) and leaf.dtype == np.float32
        dtype = np.float16 if name.startswith("[0]") else second if ".nu" in name else first
        # The data are what ml_dtypes makes of the true values, or of their roots.
        values = np.asarray(wide[name])
        if ".nu" in name:
            values = np.sqrt(values)
        np.testing.assert_array_equal(leaf.data, narrow(values, leaf.scale, dtype), err_msg=name)
        assert leaf.nbytes == leaf.size * np.dtype(dtype).itemsize


def state_bytes(fn: scalify.Jit) -> int:
    executable = fn.executable(*init(), batch(0))
    sizes = {"f32": 4, "f16": 2, "f8E4M3FN": 1, "i32": 4}
    donated = [arg for arg in executable.args if arg["alias_result"] is not None]
    return sum(int(np.prod(arg["shape"])) * sizes[arg["dtype"]] for arg in donated)


def test_bytes_fall_as_the_formats_say() -> None:
    count = 2 * WIDTH * WIDTH + WIDTH
    assert state_bytes(compiled("fp8")) == 4 + 12 * count
    assert state_bytes(compiled(FP16)) == 4 + 6 * count
    assert state_bytes(compiled(FP8_MOMENTS)) == 4 + 4 * count


def test_packed_state_is_donated_in_place() -> None:
    fn = compiled(FP8_MOMENTS)
    (params, opt), _ = train(fn, init(), 1)
    before = {name: leaf.data for name, leaf in leaves((params, opt)).items() if ".c" not in name}
    places = {name: data.unsafe_buffer_pointer() for name, data in before.items()}
    (new, new_opt), _ = train(fn, (params, opt), 1, first=1)
    for name, leaf in leaves((new, new_opt)).items():
        if name in places:
            assert before[name].is_deleted()
            assert leaf.data.unsafe_buffer_pointer() == places[name], name
    assert params["gate"].is_deleted() and "donated" in repr(params["gate"])
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        np.asarray(params["gate"])
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        fn(params, opt, batch(2))
    # No result is copied to where it belongs.
    commands = fn.executable().manifest["functions"]["step"]
    assert not [command for command in commands if command["op"] == "copy"]


def test_steps_of_other_recipes_take_packed_state() -> None:
    state, _ = train(compiled(FP8_MOMENTS), init(), 4)
    true = jax.tree.map(np.array, state)
    for evaluate in (
        scalify.jit(loss, "none"),
        scalify.jit(loss, "bf16"),
        scalify.jit(loss, "fp8"),
        scalify.transform(loss, "fp8"),
    ):
        assert evaluate(state[0], batch(9)) == evaluate(true[0], batch(9))
    # A change of recipe in the middle of a run, there and back.
    for recipe in ("none", "bf16", FP16):
        # Each from its first step: later ones have other random words.
        found = train(compiled(recipe), copy(state), 2)[1]
        assert found == train(compiled(recipe), true, 2)[1]
    mixed, _ = train(compiled("none"), state, 1, first=4)
    mixed, losses = train(compiled(FP8_MOMENTS), mixed, 2, first=5)
    assert np.isfinite(losses).all() and isinstance(mixed[0]["gate"], scalify.ScaledArray)


def test_a_checkpoint_of_true_values_resumes_to_the_bit(tmp_path: pathlib.Path) -> None:
    fn = compiled(FP8_MOMENTS)
    state, _ = train(fn, init(), 3)
    flat, tree = jax.tree.flatten(state)
    np.savez(tmp_path / "state.npz", *flat)
    scales, kept = fn.scales(), fn.executable().kept
    _, straight = train(fn, state, 4, first=3)
    with np.load(tmp_path / "state.npz") as saved:
        assert saved["arr_0"].dtype == np.float32
        loaded = jax.tree.unflatten(tree, [saved[f"arr_{i}"] for i in range(len(flat))])
    resumed = scalify.jit(
        step, FP8_MOMENTS, donate_argnums=(0, 1), numerics=scalify.Numerics(scales=scales)
    )
    resumed.executable(*loaded, batch(3)).kept = kept
    assert train(resumed, loaded, 4, first=3)[1] == straight


def test_what_comes_in_as_f32_is_rounded_to_nearest() -> None:
    params, opt = init()
    rng = np.random.default_rng(1)
    # Beyond F16 at this scale, subnormal, and not a number.
    params["gate"] = rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32)
    params["gate"][0, :4] = [1e30, -1e30, 1e-9, np.nan]
    executable = compiled(FP16).executable(params, opt, batch(0))
    index = [arg["name"] for arg in executable.args].index("params['gate']")
    storage = executable.args[index]["storage"]
    expected = narrow(params["gate"], 2.0**storage.exponent, np.float16)
    np.testing.assert_array_equal(storage.narrow(params["gate"]), expected)
    array = scalify.ScaledArray(expected, storage)
    assert np.isnan(np.asarray(array)[0, 3])
    flat = jax.tree.leaves((params, opt, batch(0)))
    given = executable(*flat)
    flat[index] = array
    for one, two in zip(given, executable(*flat), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def test_operators_with_numpy_on_the_left_give_jax_s_arrays() -> None:
    executable = compiled(FP16).executable(*init(), batch(0))
    storage = next(arg["storage"] for arg in executable.args if arg["storage"] is not None)
    array = scalify.ScaledArray(storage.narrow(np.ones((4, 4), np.float32)), storage)
    plain, ones = array.wide(), np.ones((4, 4), np.float32)
    for operate in (
        lambda x: ones * x,
        lambda x: np.float32(2) * x,
        lambda x: np.array(2.0) * x,
        lambda x: ones @ x,
        lambda x: ones < x,
    ):
        found, wanted = operate(array), operate(plain)
        assert isinstance(found, jax.Array) and found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.from_dlpack(array), plain)
    assert array.__array_namespace__() is jnp


def test_a_root_keeps_zero_for_zero() -> None:
    executable = compiled(FP8_MOMENTS).executable(*init(), batch(0))
    storages = {arg["name"]: arg["storage"] for arg in executable.args}
    storage = next(entry for name, entry in storages.items() if ".nu['gate']" in name)
    assert storage.root and storage.dtype == "f8E4M3FN"
    values = np.float32([0, 1e-38, 4.0**storage.exponent, np.nan])
    data = storage.narrow(values).astype(np.float32)
    np.testing.assert_array_equal(data, [0, 2.0**-9, 1, np.nan])
    np.testing.assert_array_equal(storage.widen(storage.narrow(values))[[0, 2]], values[[0, 2]])


def test_errors_are_clear() -> None:
    fn = compiled(FP8_MOMENTS)
    executable = fn.executable(*init(), batch(0))
    flat = jax.tree.leaves((*init(), batch(0)))
    index = [arg["name"] for arg in executable.args].index("params['gate']")
    for bad in (flat[index][:1], flat[index].astype(np.float64), flat[index].astype(np.float16)):
        with pytest.raises(ValueError, match=r"'params\['gate'\]' takes float32 .* as f16"):
            executable(*flat[:index], bad, *flat[index + 1 :])
    with pytest.raises(ValueError, match="the step takes"):
        executable(*flat[:-1])
    state, _ = train(fn, init(), 1)
    array = state[0]["gate"]
    with pytest.raises(ValueError, match="data of float32 for an array that stores f16"):
        scalify.ScaledArray(flat[index], array.storage)
    with pytest.raises(ValueError, match="are a copy of its data"):
        np.asarray(array, copy=False)
    if array.storage == state[0]["down"].storage:
        with pytest.raises(RuntimeError, match="donate the same buffer twice"):
            fn(state[0] | {"down": array}, state[1], batch(1))
    assert np.asarray(array, np.float64).dtype == np.float64
    assert np.array(array).shape == array.shape == (WIDTH, WIDTH) and len(array) == WIDTH
    assert "stored as f16" in repr(array) and array.ndim == 2


def test_an_artefact_takes_and_gives_packed_state(tmp_path: pathlib.Path) -> None:
    fn = compiled(FP16)
    fn.executable(*init(), batch(0)).save(tmp_path / "step.scalify")
    loaded = scalify.load(tmp_path / "step.scalify")
    flat = jax.tree.leaves((*init(), batch(0)))
    results = loaded(*flat)
    (params, opt), losses = train(fn, init(), 1)
    assert np.float32(results[-1]) == losses[0]
    for one, two in zip(results[:-1], jax.tree.leaves((params, opt)), strict=True):
        assert isinstance(one, scalify.ScaledArray) == isinstance(two, scalify.ScaledArray)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def guarded(params: Any, opt: Any, x: Any) -> Any:
    """The step, whose updates are dropped if its loss is not finite."""
    *new, value = step(params, opt, x)

    def keep(new: Any, old: Any) -> Any:
        return jnp.where(jnp.isfinite(value), new, old)

    return *jax.tree.map(keep, tuple(new), (params, opt)), value


def test_a_step_that_may_be_left_out_stores_its_state_as_any_other() -> None:
    recipe = "fp8-lm-o2"
    scales = scalify.measure((*init(), batch(0)))
    plain, losses = train(compiled(recipe), init(), 4)
    fn = scalify.jit(
        guarded, recipe, donate_argnums=(0, 1), numerics=scalify.Numerics(scales=scales)
    )
    found, others = train(fn, init(), 4)
    assert others == losses
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(plain), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    with np.errstate(invalid="ignore"):
        *kept, value = fn(*found, np.full_like(batch(0), np.nan))
    assert np.isnan(value)
    for one, other in zip(jax.tree.leaves(kept), jax.tree.leaves(plain), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.apply_if_finite(optax.adam(1e-2), 3),
        optax.MultiSteps(optax.adam(1e-2), 2),
        optax.amsgrad(1e-2),
    ],
)
def test_moments_of_optimizers_in_branches_are_narrow(optimizer: Any) -> None:
    """And the second ones roots; sums of gradients between two updates stay as they are."""

    def step(params: Any, opt: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        updates, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, value

    params, _ = init()
    fn = scalify.jit(step, "fp8-lm-o2", donate_argnums=(0, 1))
    executable = fn.executable(params, optimizer.init(params), batch(0))
    kinds = {"mu": ("f8E4M3FN", False), "nu": ("f16", True), "acc_grads": ("f32", None)}
    met = set()
    for argument in executable.args:
        for kind, (dtype, root) in kinds.items():
            if f".{kind}[" in argument["name"] and "nu_max" not in argument["name"]:
                storage = argument["storage"]
                assert argument["dtype"] == dtype, argument["name"]
                assert (storage.root if storage else None) == root, argument["name"]
                met.add(kind)
    assert {"mu", "nu"} <= met
