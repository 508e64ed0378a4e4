"""Gradients of weights in FP8: FP8-LM's factors and shared scale, against numpy and ml_dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from xla_casts import XLA_CASTS

import scalify

WIDTH, ROWS = 32, 16
BASE = scalify.Recipe.preset("fp8-current").replace(stored_gradient="f8E4M3FN")
F32 = np.float32
LARGEST = F32(448)
Tree = dict[str, np.ndarray]


def init() -> Tree:
    rng = np.random.default_rng(0)
    shapes = {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH), "norm": (WIDTH,)}
    shapes["head"] = (WIDTH, WIDTH)
    return {name: rng.normal(0, 0.15, shape).astype(F32) for name, shape in shapes.items()}


def batch(seed: int, *lead: int) -> np.ndarray:
    return np.random.default_rng(100 + seed).normal(size=(*lead, ROWS, WIDTH)).astype(F32)


def loss(params: Any, x: Any) -> Any:
    hidden = jnp.tanh((x * params["norm"]) @ params["up"]) @ params["down"]
    return jnp.mean(jnp.square(jnp.tanh(hidden) @ params["head"] - jnp.roll(x, 1, axis=1)))


def grads(params: Any, x: Any) -> Any:
    return jax.grad(loss)(params, x)


def over_ranks(params: Any, shards: Any) -> Any:
    return jax.tree.map(lambda g: jnp.mean(g, axis=0), each_rank(params, shards))


def each_rank(params: Any, shards: Any) -> Any:
    each = [jax.grad(loss)(params, shard) for shard in shards]
    return jax.tree.map(lambda *ranks: jnp.stack(ranks), *each)


def compiled(fn: Callable[..., Any], recipe: scalify.Recipe, x: np.ndarray) -> scalify.Jit:
    return scalify.jit(fn, recipe, numerics=scalify.Numerics(scales=scalify.measure((init(), x))))


def on_xla(fn: Callable[..., Any], recipe: scalify.Recipe, x: np.ndarray) -> Callable[..., Any]:
    """Runs by XLA, which keeps the loops that our executable unrolls; mu stays 1."""
    return scalify.transform(
        fn, recipe, numerics=scalify.Numerics(scales=scalify.measure((init(), x)))
    )


# ---------------------------------------------------------------------------
# The rule in numpy.


def scale_of(g: np.ndarray) -> np.float32 | None:
    """The smallest power of two by which a tensor fits E4M3; None if its amax is not."""
    amax = np.abs(g).max()
    if amax == 0 or not np.isfinite(amax):
        return None
    return F32(2.0 ** np.ceil(np.log2(F32(amax / LARGEST))))


def shared(scales: Sequence[np.float32 | None]) -> np.float32:
    """The scale that ranks share: the least of FP8-LM's factors is the largest of our scales."""
    return max((scale for scale in scales if scale is not None), default=F32(1))


def narrow(values: np.ndarray, scale: np.float32) -> np.ndarray:
    """Data in E4M3: to nearest even, saturating."""
    return np.clip(values / scale, -LARGEST, LARGEST).astype(ml_dtypes.float8_e4m3fn)


def fill(data: np.ndarray) -> np.float32:
    """The number of data at the largest value, over the number allowed."""
    count = np.sum(np.abs(data.astype(F32)) >= LARGEST)
    return F32(count) / F32(1e-5 * data.size)


def reduced(ranks: np.ndarray, factor: np.float32) -> tuple[np.ndarray, np.float32]:
    """The mean of the gradients of N ranks, and how full their data are.

    FP8-LM, section 2.1: factor * g_i on the shared scale, summed, the sum in FP8 by the same scale,
    the average folded. One rank is the sum of itself.
    """
    scale = shared([scale_of(g) for g in ranks])
    data = narrow(ranks * factor, scale)
    # At most 16 numbers of 4 bits within 18 binades: F32 sums them without rounding.
    total = np.sum(data.astype(F32) * scale, axis=0, dtype=F32)
    summed = narrow(total, scale) if len(ranks) > 1 else data[0]
    value = summed.astype(F32) * scale * (F32(1) / factor)
    return value / F32(len(ranks)), max(fill(data), fill(summed))


def next_mu(mu: np.float32, full: np.float32) -> np.float32:
    """Halves where more than 0.001 % are at the largest value, else doubles over 1,000 steps."""
    moved = mu * F32(0.5) if full > 1 else mu * F32(2.0 ** (1 / 1000))
    return np.clip(moved, F32(2.0**-10), F32(2))


# ---------------------------------------------------------------------------


def test_presets_store_gradients_and_parts_are_judged() -> None:
    for level in (1, 2, 3):
        recipe = scalify.Recipe.preset(f"fp8-lm-o{level}")
        assert (recipe.stored_gradient, recipe.gradient_scaling) == ("f8E4M3FN", "mu")
        assert (recipe.gradient_sum, recipe.simulated_ranks) == ("given", 1)
    assert scalify.Recipe.preset("fp8").stored_gradient == "given"
    with pytest.raises(scalify.CompileError, match="'gradient_scaling' of a recipe is 'max'"):
        BASE.replace(gradient_scaling="max")
    with pytest.raises(scalify.CompileError, match="'simulated_ranks' of a recipe is 0"):
        BASE.replace(simulated_ranks=0)


def test_mu_and_data_are_the_rule_s_in_numpy() -> None:
    wide = compiled(grads, BASE.replace(stored_gradient="given"), batch(0))
    fn = compiled(grads, BASE, batch(0))
    params = init()
    mu = {"down": F32(1), "up": F32(1)}
    halved = 0
    for i in range(24):
        if i == 8:
            # As after 1,000 calm steps: the largest values saturate now, and again later.
            mu = {"down": F32(1.9), "up": F32(0.99)}
            set_mu(fn, mu)
        x = batch(i) * F32(2.0 ** (4 * (i % 3)))
        found, reference = fn(params, x), wide(params, x)
        # What FP8 does not multiply stays as it is.
        for name in ("norm", "head"):
            np.testing.assert_array_equal(found[name], reference[name])
        for name, factor in mu.items():
            value, full = reduced(np.asarray(reference[name])[None], factor)
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} at step {i}")
            mu[name] = next_mu(factor, full)
            halved += mu[name] < factor
        assert sorted(fn.executable().kept["scalify.gradient_mu"]) == sorted(mu.values()), i
    assert halved >= 2


def set_mu(fn: scalify.Jit, mu: dict[str, np.float32]) -> None:
    """The backward reaches the last layer first."""
    values = np.array([mu["down"], mu["up"]], F32)
    fn.executable().kept = {"scalify.gradient_mu": values}


@functools.cache
def wide_ranks(ranks: int) -> scalify.Jit:
    """Returns the step that gives each rank's gradient, which all scalings store."""
    return compiled(each_rank, BASE.replace(stored_gradient="given"), batch(0, ranks))


@pytest.mark.parametrize("ranks", [2, 5, 16])
@pytest.mark.parametrize("scaling", ["mu", "minimum", "inverse_sqrt"])
def test_ranks_are_reduced_as_in_numpy(scaling: str, ranks: int) -> None:
    recipe = BASE.replace(gradient_scaling=scaling, simulated_ranks=ranks)
    wide = wide_ranks(ranks)
    fn = compiled(over_ranks, recipe, batch(0, ranks))
    params = init()
    factors = {"down": F32(1), "up": F32(1)}
    if scaling == "inverse_sqrt":
        factors = dict.fromkeys(factors, F32(1 / np.sqrt(F32(ranks))))
    for i in range(5):
        shards = batch(i, ranks)
        if i == 1:
            # Ranks that agree add up: FP8 overflows.
            shards[:] = shards[0]
        if i == 2:
            # Ranks far apart, and one that has nothing to say.
            shards *= F32(2.0) ** np.linspace(-8, 4, ranks).astype(F32)[:, None, None]
            shards[0] = 0
        if i == 3:
            shards[-1, 0, 0] = np.inf
        found, reference = fn(params, shards), wide(params, shards)
        for name, factor in factors.items():
            with np.errstate(invalid="ignore"):
                value, full = reduced(np.asarray(reference[name]), factor)
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} at step {i}")
            if scaling == "mu":
                factors[name] = next_mu(factor, full)
        if scaling == "mu":
            kept = fn.executable().kept["scalify.gradient_mu"]
            assert sorted(kept) == sorted(factors.values()), i


def test_a_factor_finds_its_way_back_from_ranks_that_agree() -> None:
    ranks = 8
    recipe = BASE.replace(simulated_ranks=ranks)
    fn = compiled(over_ranks, recipe, batch(0, ranks))
    wide = compiled(over_ranks, BASE.replace(stored_gradient="given"), batch(0, ranks))
    params = init()
    shards = np.broadcast_to(batch(0), (ranks, ROWS, WIDTH)).copy()
    reference = wide(params, shards)["up"]
    errors = []
    for _ in range(6):
        found = fn(params, shards)["up"]
        errors.append(float(np.abs(found - reference).max() / np.abs(reference).max()))
    # Eight equal gradients need a factor of at most an eighth: three halvings, at most four.
    assert errors[0] > 0.4
    assert errors[-1] < 2.0**-4
    assert (fn.executable().kept["scalify.gradient_mu"] < 0.25).all()


def summed(params: Any, shards: Any) -> Any:
    def add(total: Any, x: Any) -> Any:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, x)), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    return jax.lax.scan(add, zeros, shards)[0]


def each_in_loop(params: Any, shards: Any) -> Any:
    return jax.lax.map(lambda x: jax.grad(loss)(params, x), shards)


def unrolled(params: Any, shards: Any) -> Any:
    total = jax.grad(loss)(params, shards[0])
    for i in range(1, len(shards)):
        total = jax.tree.map(jnp.add, total, jax.grad(loss)(params, shards[i]))
    return total


@pytest.mark.parametrize(
    ("fn", "by"),
    [
        pytest.param(summed, on_xla, marks=XLA_CASTS),
        (summed, compiled),
        pytest.param(unrolled, on_xla, marks=XLA_CASTS),
        (unrolled, compiled),
    ],
)
def test_micro_batches_are_cast_once(fn: Callable[..., Any], by: Callable[..., Any]) -> None:
    shards = batch(0, 4)
    found = by(fn, BASE, shards)(init(), shards)
    reference = by(fn, BASE.replace(stored_gradient="given"), shards)(init(), shards)
    for name in ("up", "down"):
        value, _ = reduced(np.asarray(reference[name])[None], F32(1))
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("name", "dtype", "by"),
    [
        pytest.param("f8E4M3FN", ml_dtypes.float8_e4m3fn, on_xla, marks=XLA_CASTS),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, compiled),
        ("bf16", ml_dtypes.bfloat16, on_xla),
        ("bf16", ml_dtypes.bfloat16, compiled),
    ],
)
def test_a_sum_in_the_loop_is_rounded_at_each_micro_batch(
    name: str, dtype: Any, by: Callable[..., Any]
) -> None:
    shards = batch(0, 6)
    # The same dots in both programs: the analysis of noise judges each program by itself.
    given = BASE.replace(stored_gradient="given", sensitive=True)
    found = by(summed, given.replace(gradient_sum=name), shards)(init(), shards)
    found = {weight: np.asarray(g) for weight, g in found.items()}
    terms = by(each_in_loop, given, shards)(init(), shards)
    largest = F32(ml_dtypes.finfo(dtype).max)
    for weight in ("up", "down"):
        total = np.zeros_like(terms[weight][0])
        for term in np.asarray(terms[weight]):
            exact = total + term
            scale = F32(2.0 ** np.ceil(np.log2(F32(np.abs(exact).max() / largest))))
            data = np.clip(exact / scale, -largest, largest).astype(dtype)
            total = data.astype(F32) * scale
        np.testing.assert_array_equal(found[weight], total)


def test_more_than_16_micro_batches_in_fp8_are_refused_under_strict() -> None:
    shards = batch(0, 17)
    recipe = BASE.replace(gradient_sum="f8E4M3FN")
    scales = scalify.measure((init(), shards))
    with pytest.raises(scalify.CompileError, match="adds up 17 gradients in FP8, which holds 16"):
        scalify.transform(summed, recipe, numerics=scalify.Numerics(scales=scales), strict=True)(
            init(), shards
        )
    # 16 are what it holds.
    found = scalify.transform(
        summed, recipe, numerics=scalify.Numerics(scales=scales), strict=True
    )(init(), shards[:16])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


def test_micro_batches_of_a_python_loop_are_refused_under_strict() -> None:
    def unrolled(params: Any, shards: Any) -> Any:
        total: Any = None
        for shard in shards:
            found = grads(params, shard)
            total = found if total is None else jax.tree.map(jnp.add, total, found)
        return total

    shards = batch(0, 3)
    scales = scalify.measure((init(), shards))
    with pytest.raises(scalify.CompileError, match="micro-batches outside of a loop"):
        scalify.transform(
            unrolled,
            BASE.replace(gradient_sum="bf16"),
            numerics=scalify.Numerics(scales=scales),
            strict=True,
        )(init(), shards)
    # Nothing is asked of their sum, or they are one.
    scalify.transform(unrolled, BASE, numerics=scalify.Numerics(scales=scales), strict=True)(
        init(), shards
    )
    one = BASE.replace(gradient_sum="bf16")
    scalify.transform(unrolled, one, numerics=scalify.Numerics(scales=scales), strict=True)(
        init(), shards[:1]
    )


@XLA_CASTS
def test_transform_keeps_mu_at_1_and_says_so() -> None:
    x = batch(0)
    fn = scalify.transform(
        grads, BASE, numerics=scalify.Numerics(scales=scalify.measure((init(), x)))
    )
    found = fn(init(), x)
    reference = scalify.transform(
        grads,
        BASE.replace(stored_gradient="given"),
        numerics=scalify.Numerics(scales=scalify.measure((init(), x))),
    )(init(), x)
    value, _ = reduced(np.asarray(reference["up"])[None], F32(1))
    np.testing.assert_array_equal(found["up"], value)


def test_the_optimizer_reads_what_is_stored_and_clips_by_its_norm() -> None:
    x = batch(0)
    optimizer = optax.chain(optax.clip_by_global_norm(1e-3), optax.sgd(1.0))

    def step(params: Any, x: Any) -> Any:
        updates, _ = optimizer.update(jax.grad(loss)(params, x), optimizer.init(params), params)
        return updates

    updates = compiled(step, BASE, x)(init(), x)
    stored = compiled(grads, BASE, x)(init(), x)
    norm = np.sqrt(sum(np.sum(np.square(g.astype(np.float64))) for g in stored.values()))
    assert norm > 1e-3
    for name, update in updates.items():
        # F32's rounding of a norm over 4,000 elements, and of three products.
        np.testing.assert_allclose(update, -stored[name] * (1e-3 / norm), rtol=1e-5)
    clipped = np.sqrt(sum(np.sum(np.square(np.float64(u))) for u in updates.values()))
    np.testing.assert_allclose(clipped, 1e-3, rtol=1e-5)
