"""FP8-LM's levels: which state is narrow, and scales of state that follow its amax."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from narrowing import saturated
from programs import cosine

import scalify

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
WIDTH, ROWS = 32, 16
E4M3 = ml_dtypes.float8_e4m3fn


def init() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH), "norm": (WIDTH,)}
    return {name: rng.normal(0, 0.15, shape).astype(np.float32) for name, shape in shapes.items()}


def batch(seed: int) -> np.ndarray:
    return np.random.default_rng(100 + seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def loss(params: Any, x: Any) -> Any:
    hidden = jnp.tanh((x * params["norm"]) @ params["up"]) @ params["down"]
    return jnp.mean(jnp.square(hidden - jnp.roll(x, 1, axis=1)))


def make_step(optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    def step(params: Any, opt: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        updates, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, value

    return step


def compiled(recipe: str, optimizer: optax.GradientTransformation) -> tuple[scalify.Jit, Any]:
    params = init()
    opt = jax.tree.map(np.asarray, optimizer.init(params))
    scales = scalify.measure((params, opt, batch(0)))
    fn = scalify.jit(
        make_step(optimizer),
        recipe,
        donate_argnums=(0, 1),
        numerics=scalify.Numerics(scales=scales),
    )
    return fn, [params, opt]


def train(fn: Any, state: Any, steps: int, first: int = 0) -> tuple[Any, list[np.float32]]:
    losses = []
    for i in range(first, first + steps):
        *state, value = fn(*state, batch(i))
        losses.append(np.float32(value))
    return state, losses


def test_the_levels_say_what_they_store() -> None:
    one, two, three = (scalify.Recipe.preset(f"fp8-lm-o{level}") for level in (1, 2, 3))
    assert one.scales == "current" and one.linear is True
    assert (one.masters, one.first_moment, one.second_moment) == ("f16", "given", "given")
    assert (two.masters, two.first_moment, two.second_moment) == ("f16", "f8E4M3FN", "f16")
    assert two == three
    base = scalify.Recipe.preset("fp16")
    both = base.replace(moments="bf16")
    assert (both.first_moment, both.second_moment) == ("bf16", "bf16")
    assert str(both) == '#scalify.recipe<"fp16", moments = bf16>'
    mixed = base.replace(first_moment="f8E4M3FN", second_moment="given")
    assert scalify.Recipe.parse(str(mixed)) == mixed
    assert str(mixed) == '#scalify.recipe<"fp16", first_moment = f8E4M3FN, second_moment = given>'
    with pytest.raises(scalify.CompileError, match="part 'second_moment' of a recipe is 'f9'"):
        base.replace(second_moment="f9")


FIRST, SECOND = ("f8E4M3FN", False), ("f16", True)


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (optax.adam(1e-3), {".mu": FIRST, ".nu": SECOND}),
        (optax.adamw(1e-3), {".mu": FIRST, ".nu": SECOND}),
        (optax.lamb(1e-3), {".mu": FIRST, ".nu": SECOND}),
        (optax.sgd(1e-3, momentum=0.9), {".trace": FIRST}),
        (
            optax.adafactor(1e-3, min_dim_size_to_factor=8),
            {".v_row['up']": SECOND, ".v_row['down']": SECOND, ".v['norm']": SECOND}
            | {".v_col['up']": SECOND, ".v_col['down']": SECOND},
        ),
    ],
    ids=["adam", "adamw", "lamb", "sgd", "adafactor"],
)
def test_state_of_optax_is_stored_by_what_it_is(optimizer: Any, expected: dict[str, Any]) -> None:
    fn, state = compiled("fp8-lm-o2", optimizer)
    args = fn.executable(*state, batch(0)).args
    found = {}
    for arg in args:
        # Where Adafactor keeps nothing it has arrays of one zero.
        if np.prod(arg["shape"]) == 1:
            continue
        storage = arg["storage"]
        found[arg["name"]] = None if storage is None else (storage.dtype, storage.root)
    for name, kind in found.items():
        if name.startswith("params"):
            assert kind == ("f16", False), name
    for part, kind in expected.items():
        names = [name for name in found if part in name]
        assert names and {found[name] for name in names} == {kind}, found
    known = sum(part in name for name in found for part in expected)
    assert sum(kind is not None for kind in found.values()) == known + 3


def test_state_is_stored_as_itself_in_any_order_of_arguments() -> None:
    """JAX pairs donated arguments and results by type and order: moments with parameters here."""
    optimizer = optax.adamw(1e-2)
    params = jax.tree.map(jnp.asarray, init())
    step = scalify.jit(make_step(optimizer), "fp8-lm-o2", donate_argnames=("params", "opt"))
    wide = scalify.jit(make_step(optimizer), "none")
    # Arguments by name are flattened in the names' order: `opt` before `params`.
    _, found = train(
        lambda p, o, x: step(params=p, opt=o, x=x), [params, optimizer.init(params)], 8
    )
    _, expected = train(wide, [init(), optimizer.init(init())], 8)
    # State of 8 and 16 bits changes a loss by 0.04 %; formats exchanged, by 14 %.
    np.testing.assert_allclose(found, expected, rtol=0.02)


def fitting(amax: float, largest: float) -> float:
    """Returns the smallest power of two by which an amax fits, plus a binade."""
    return float(2.0 ** (np.ceil(np.log2(np.float32(amax) / np.float32(largest))) + 1))


def test_a_scale_of_state_is_the_rule_s_in_numpy() -> None:
    def step(state: Any, g: Any) -> Any:
        return {"mu": 0.5 * state["mu"] + g}

    recipe = scalify.Recipe.preset("fp8-lm-o2").replace(state_rounding="nearest")
    numerics = scalify.Numerics(scales=[-127, 0], roles={"mu": "moment"})
    fn = scalify.jit(step, recipe, donate_argnums=0, numerics=numerics)
    rng = np.random.default_rng(0)
    state: Any = {"mu": np.zeros((8, 16), np.float32)}
    value = state["mu"]
    scale = last = 0.0
    sizes = [1, 1, 4, 4, 2.0**-9, 2.0**-9, 2.0**-9, 2.0**-9, 2.0**12, 1, 1, 1, 1]
    for i, size in enumerate(sizes):
        g = (rng.normal(size=(8, 16)) * size).astype(np.float32)
        if i == len(sizes) - 2:
            g[0, 0] = np.inf  # NaN from then on, as it stays infinite in F32
        state = fn(state, g)
        leaf = state["mu"]
        # Where nothing was written yet the scale is the predicted one.
        scale = fitting(last, 448) if last else leaf.scale
        assert leaf.scale == scale, i
        value = np.float32(0.5) * value + g
        amax = float(np.abs(value).max())
        last = amax if np.isfinite(amax) and amax > 0 else last
        data = saturated(value / np.float32(scale), 448).astype(E4M3)
        np.testing.assert_array_equal(leaf.data.view(np.uint8), data.view(np.uint8))
        value = data.astype(np.float32) * np.float32(scale)
        np.testing.assert_array_equal(np.asarray(leaf), value)
    kept = fn.executable().kept
    assert kept["scalify.state_scales"] == [scale] and kept["scalify.state_amax"] == [last]


def test_training_holds_and_resumes_to_the_bit() -> None:
    optimizer = optax.adam(1e-2, b2=0.95)
    fn, state = compiled("fp8-lm-o2", optimizer)
    plain, start = compiled("none", optimizer)
    _, expected = train(plain, start, 40)
    state, losses = train(fn, state, 20)
    saved = jax.tree.map(np.array, state)
    kept = fn.executable().kept
    assert list(kept["scalify.step"]) == [0, 20]
    assert all((kept[name] > 0).all() for name in kept if name != "scalify.step")
    # A scale has moved from where the compiler put it.
    args = fn.executable().args
    first = [2.0 ** arg["storage"].exponent for arg in args if arg["storage"] is not None]
    assert (kept["scalify.state_scales"] != first).any()
    _, rest = train(fn, state, 20, first=20)
    np.testing.assert_allclose(losses + rest, expected, rtol=0.1)
    resumed, _ = compiled("fp8-lm-o2", optimizer)
    resumed.executable(*saved, batch(0)).kept = kept
    assert train(resumed, saved, 20, first=20)[1] == rest


def test_packed_state_brings_its_scales_along() -> None:
    optimizer = optax.adam(1e-2, b2=0.95)
    fn, state = compiled("fp8-lm-o2", optimizer)
    state, _ = train(fn, state, 6)
    copied = jax.tree.map(
        lambda leaf: (
            scalify.ScaledArray(np.array(leaf.data), leaf.storage)
            if isinstance(leaf, scalify.ScaledArray)
            else np.array(leaf)
        ),
        state,
    )
    # Another executable, whose scales are those of its start.
    other, start = compiled("fp8-lm-o2", optimizer)
    executable = other.executable(*start, batch(6))
    executable.kept = {"scalify.step": fn.executable().kept["scalify.step"]}
    assert train(other, copied, 1, first=6)[1] == train(fn, state, 1, first=6)[1]


def test_one_kernel_updates_a_parameter() -> None:
    """Both moments and the master, read and written narrow: run-time scales, chance, amaxes."""
    optimizer = optax.adam(1e-2, b2=0.95)
    fn, state = compiled("fp8-lm-o2", optimizer)
    executable = fn.executable(*state, batch(0))
    arguments = [arg["name"] for arg in executable.args]
    stored = [arg["name"] for arg in executable.manifest["args"] if arg.get("stored")]
    assert len(stored) == 9
    commands = executable.manifest["functions"]["step"]
    for name in ("up", "down", "norm"):
        places = [
            arguments.index(arg)
            for arg in stored
            if arg == f"params['{name}']" or arg.endswith(f"u['{name}']")
        ]
        assert len(places) == 3
        # Nothing else touches a moment; the master is also read by what casts it for the dots.
        reads = [[c for c in commands if place in c.get("bufs", ())] for place in places]
        (update,) = reads[1]
        assert reads[2] == [update] and update in reads[0]
        assert update["op"] == "kernel" and len(update["counters"]) == 3  # a cast each


@pytest.mark.parametrize("recipe", ["fp8-lm-o2", "fp8-delayed"])
def test_the_last_steps_by_another_recipe(recipe: str) -> None:
    """The same state is passed to a BF16 step and back; each loss and update is jax's."""
    optimizer = optax.adam(1e-2, b2=0.95)
    first, state = compiled(recipe, optimizer)
    last, _ = compiled("bf16", optimizer)
    plain, start = compiled("none", optimizer)
    exact = jax.jit(make_step(optimizer))
    losses = []
    for i in range(32):
        is_narrow = i < 20 or i >= 26
        wide = jax.tree.map(np.array, state)
        *state, value = (first if is_narrow else last)(*state, batch(i))
        params, _, want = exact(*wide, batch(i))
        losses.append(np.float32(value))
        # A rounding moves an element by 2^-9 in BF16 and by 2^-4 in E4M3, and a sum of 32 such
        # terms by a fifth of that.
        np.testing.assert_allclose(value, want, rtol=2.0**-6 if is_narrow else 2.0**-9)
        # The bar of gradients, and BF16's rounding. Adam's first updates are signs of gradients.
        for name, old in wide[0].items() if i >= 20 else ():
            moved, moves = np.asarray(state[0][name]) - old, np.asarray(params[name]) - old
            assert cosine(moved, moves) >= (0.98 if is_narrow else 1 - 2.0**-12), (i, name)
    np.testing.assert_allclose(losses, train(plain, start, 32)[1], rtol=0.1)
    assert max(losses[29:]) < min(losses[17:20])


@pytest.fixture(scope="module")
def llama() -> dict[str, ModuleType]:
    sys.path.insert(0, str(LLAMA))
    try:
        names = ("config", "data", "model", "optimizer")
        return {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(LLAMA))


@pytest.mark.parametrize(("layers", "steps"), [(2, 30), (12, 10)])
def test_the_example_trains_with_narrow_state(
    llama: dict[str, ModuleType], layers: int, steps: int
) -> None:
    cfg = llama["config"].ModelConfig(layers=layers, seq=32)
    train_config = llama["config"].TrainConfig(steps=steps, warmup=2)
    optimizer = llama["optimizer"].make_optimizer(train_config)
    step = llama["optimizer"].make_step(cfg, optimizer)
    # Values that F16 has, so that both runs start from the same weights.
    params = llama["model"].init(jax.random.key(0), cfg)
    params = jax.tree.map(lambda w: np.asarray(w, np.float16).astype(np.float32), params)
    opt = jax.tree.map(np.asarray, optimizer.init(params))
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 32, (steps, 4, cfg.seq + 1)).astype(np.int32)

    def run(recipe: str) -> tuple[Any, Any, list[float]]:
        scales = scalify.measure((params, opt, tokens[0]))
        fn = scalify.jit(
            step, recipe, donate_argnums=(0, 1), numerics=scalify.Numerics(scales=scales)
        )
        state, losses, moments = (params, opt), [], None
        for batch in tokens:
            *state, value = fn(*state, batch)
            moments = moments or first_moments(state)
            losses.append(float(value))
        if recipe != "none":
            # E5M2 flushes what is 2^-30 of a gradient's largest; nothing saturates.
            rows = fn.health()
            elements = sum(row["elements"] for row in rows)
            assert sum(row["saturated"] for row in rows) <= 1e-4 * elements
        update = jax.tree.map(lambda new, old: np.asarray(new) - old, state[0], params)
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(state))
        return moments, update, losses

    moments, update, losses = run("fp8-lm-o2")
    wide, expected, others = run("none")
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, others, rtol=0.03)
    # After one step a first moment is a tenth of the gradient, at equal weights.
    assert cosine(moments, wide) >= 0.98
    assert min(cosine(moments[name], wide[name]) for name in wide) >= 0.95
    assert cosine(update, expected) >= 0.9


def first_moments(state: Any) -> dict[str, np.ndarray]:
    paths = jax.tree_util.tree_leaves_with_path(state)
    named = {jax.tree_util.keystr(path): leaf for path, leaf in paths}
    return {name: np.array(leaf) for name, leaf in named.items() if ".mu" in name}
