"""Scales through loops and branches, on real JAX programs, against JAX itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from programs import cosine

import scalify

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "llama"))

import model
from config import ModelConfig

CONFIG = ModelConfig(vocab=64, dim=32, layers=3, heads=4, kv_heads=2, ffn=64, seq=16)

# The bars of the project: log2(rms / scale) of what a cast reads.
FORWARD_BAR = (-4.0, 5.0)
GRADIENT_BAR = (-8.0, 8.0)


def parameters(config: ModelConfig = CONFIG) -> dict[str, Any]:
    """Returns the example's parameters with the layers' leaves stacked."""
    params = model.init(jax.random.key(0), config)
    params["layers"] = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["layers"])
    return params


def tokens(count: int = 4, seed: int = 1) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), (count, CONFIG.seq + 1), 0, CONFIG.vocab)


def scanned_loss(params: Any, batch: jax.Array, remat: bool = False, unroll: int = 1) -> jax.Array:
    """The example's loss with its layers in a scan."""

    def block(x: jax.Array, layer: Any) -> tuple[jax.Array, None]:
        normal = model.rms_norm(x, layer["attention_norm"], CONFIG.norm_eps)
        x = x + model.attention(normal, layer, CONFIG, tables)
        normal = model.rms_norm(x, layer["ffn_norm"], CONFIG.norm_eps)
        return x + model.swiglu(normal, layer), None

    x = jnp.take(params["embed"], batch[:, :-1], axis=0)
    tables = model.rope_tables(CONFIG, batch.shape[1] - 1)
    x, _ = jax.lax.scan(
        jax.checkpoint(block) if remat else block, x, params["layers"], unroll=unroll
    )
    x = model.rms_norm(x, params["final_norm"], CONFIG.norm_eps)
    losses = optax.softmax_cross_entropy_with_integer_labels(x @ params["head"], batch[:, 1:])
    return jnp.mean(losses)


def scan_step(params: Any, batch: jax.Array) -> Any:
    return jax.value_and_grad(scanned_loss)(params, batch)


def remat_step(params: Any, batch: jax.Array) -> Any:
    return jax.value_and_grad(lambda p, b: scanned_loss(p, b, remat=True))(params, batch)


def accumulate_by_scan(params: Any, batch: jax.Array) -> Any:
    """Sums the gradients of micro-batches in a scan around the scan over layers."""

    def micro(total: Any, part: jax.Array) -> tuple[Any, jax.Array]:
        loss, grads = jax.value_and_grad(scanned_loss)(params, part)
        return jax.tree.map(jnp.add, total, grads), loss

    zeros = jax.tree.map(jnp.zeros_like, params)
    total, losses = jax.lax.scan(micro, zeros, batch.reshape(2, 2, -1))
    return jnp.mean(losses), jax.tree.map(lambda g: g / 2, total)


def accumulate_by_fori(params: Any, batch: jax.Array) -> Any:
    """The same in a loop whose trip count is an argument's value."""
    count = jnp.minimum(batch[0, 0] * 0 + 2, 2)

    def micro(index: jax.Array, carry: Any) -> Any:
        loss, grads = jax.value_and_grad(scanned_loss)(
            params, jax.lax.dynamic_slice_in_dim(batch, 2 * index, 2)
        )
        return carry[0] + loss, jax.tree.map(jnp.add, carry[1], grads)

    zeros = jax.tree.map(jnp.zeros_like, params)
    loss, total = jax.lax.fori_loop(0, count, micro, (0.0, zeros))
    return loss / 2, jax.tree.map(lambda g: g / 2, total)


def loss_scaled(params: Any, batch: jax.Array, dtype: Any = jnp.float32) -> Any:
    """Weights and activations of a type under a loss scale; no update where it overflows."""
    scale = 1024.0

    def loss_fn(p: Any) -> jax.Array:
        narrow = jax.tree.map(lambda leaf: leaf.astype(dtype), p)
        return scanned_loss(narrow, batch).astype(jnp.float32) * scale

    loss, grads = jax.value_and_grad(loss_fn)(params)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads)]))
    grads = jax.lax.cond(
        finite,
        lambda g: jax.tree.map(lambda leaf: leaf / scale, g),
        lambda g: jax.tree.map(jnp.zeros_like, g),
        grads,
    )
    return loss / scale, grads


STEPS = {
    "scan": scan_step,
    "remat": remat_step,
    "accumulate-scan": accumulate_by_scan,
    "accumulate-fori": accumulate_by_fori,
    "cond": loss_scaled,
    "cond-f16": functools.partial(loss_scaled, dtype=jnp.float16),
}
# Seven linear layers a body, once forward and twice backward; a checkpoint makes all but the
# last again.
CAST_DOTS = dict.fromkeys(STEPS, 7 + 14) | {"remat": 7 + 6 + 14}


def drift(row: dict[str, Any]) -> float:
    value = np.asarray(row["value"], np.float64)
    return float(np.log2(np.sqrt(np.mean(value * value)) / row["scale"]))


@pytest.mark.parametrize("name", ["remat", "accumulate-scan", "cond"])
def test_recipe_none_is_the_step_itself(name: str) -> None:
    args = (parameters(), tokens())
    got = scalify.transform(STEPS[name], recipe="none")(*args)
    want = jax.jit(STEPS[name])(*args)
    # XLA sums in another order where a loop is not fused alike.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_with_loops_is_cast_under_strict(name: str) -> None:
    args = (parameters(), tokens())
    # All dots in FP8, also those that would be BF16 where weights have grown.
    recipe = scalify.Recipe.preset("fp8").replace(sensitive=True)
    transformed = scalify.transform(STEPS[name], recipe=recipe, strict=True)
    loss, grads = transformed(*args)
    want_loss, want = jax.jit(STEPS[name])(*args)
    assert abs(loss - want_loss) < 0.01
    assert cosine(grads, want) >= 0.98
    for left, right in zip(jax.tree.leaves(grads), jax.tree.leaves(want), strict=True):
        assert cosine(left, right) >= 0.95
    dots = transformed.report().dots()
    cast = [row for row in dots if "f8" in row["format"]]
    wide = {row["reason"].split(":")[1].split("_")[0] for row in dots if "f8" not in row["format"]}
    assert len(cast) == CAST_DOTS[name]
    assert wide == {" sqrt(K = 8)", " sqrt(K = 16)", " sqrt(K = 32)", " sqrt(K = 64)"}
    assert all(row["format"].startswith("f8E4M3FN x f8E4M3FN") for row in cast[:7])
    assert sum("f8E5M2" in row["format"] for row in cast) == 14


@pytest.mark.parametrize("name", STEPS)
def test_drift_is_within_the_bars(name: str) -> None:
    rows = scalify.probe(STEPS[name])(parameters(), tokens())
    rows = [row for row in rows if row["format"].startswith("float8")]
    assert len(rows) >= 18
    for row in rows:
        least, most = FORWARD_BAR if row["phase"] == "forward" else GRADIENT_BAR
        # Of the loop over layers one entry per iteration.
        is_one = name.startswith("accumulate")
        entries = [row["value"]] if is_one else row["value"]
        assert len(entries) in (1, CONFIG.layers)
        for value in entries:
            assert least <= drift(row | {"value": value}) <= most, row["name"]
        assert (row["format"] == "float8_e5m2") == (row["phase"] == "backward")


@pytest.mark.parametrize("name", ["scan", "accumulate-scan"])
def test_stacks_are_narrow(name: str) -> None:
    """Weights are cast once, on their stacks; the backward slices narrow activations."""
    args = (parameters(), tokens())
    # Scales that are known before the loop: those that a step measures come with each slice.
    known = scalify.Numerics(scales=scalify.measure(args), cast_scales="static")
    # All in FP8: of a weight that the forward reads in F32, the backward casts slices.
    recipe = scalify.Recipe.preset("fp8").replace(sensitive=True)
    text = jax.jit(scalify.transform(STEPS[name], recipe, strict=True, numerics=known))
    lines = text.lower(*args).as_text().splitlines()
    stack = f"tensor<{CONFIG.layers}x"
    casts = [line for line in lines if "stablehlo.convert" in line and "-> " + stack in line]
    assert sum("f8E4M3FN>" in line.split("->")[1] for line in casts) == 7
    written = [line for line in lines if "stablehlo.dynamic_update_slice" in line]
    narrow = [line for line in written if "f8E4M3FN>" in line.split("->")[-1]]
    # The inputs of q, k, v; of the output projection; of gate and up; and of down.
    assert len(narrow) == 4


def test_a_weight_of_an_open_loop_is_cast_before_it() -> None:
    """Decoding: one cast of a weight for all tokens, whose number depends on data."""

    def decode(w: jax.Array, x: jax.Array, stop: jax.Array) -> jax.Array:
        def goes_on(carry: Any) -> jax.Array:
            return (carry[1] < 20) & (jnp.max(carry[0]) < stop)

        def body(carry: Any) -> Any:
            return jnp.tanh(carry[0] @ w + 0.1), carry[1] + 1

        return jax.lax.while_loop(goes_on, body, (x, 0))[0]

    args = (normal((16, 16), 0.3), normal((4, 16)), np.float32(2.0))
    transformed = scalify.transform(
        decode, strict=True, numerics=scalify.Numerics(scales=scalify.measure(args))
    )
    lines = jax.jit(transformed).lower(*args).as_text().splitlines()
    loop = next(i for i, line in enumerate(lines) if "stablehlo.while" in line)
    weight = [i for i, line in enumerate(lines) if "-> tensor<16x16xf8E4M3FN>" in line]
    assert len(weight) == 1 and weight[0] < loop
    assert cosine(transformed(*args), jax.jit(decode)(*args)) > 0.99


def test_a_scan_has_the_scales_of_its_unrolled_layers() -> None:
    args = (parameters(), tokens())

    def unrolled(params: Any, batch: jax.Array) -> Any:
        loss = functools.partial(scanned_loss, unroll=CONFIG.layers)
        return jax.value_and_grad(loss)(params, batch)

    def exponents(step: Callable[..., Any]) -> dict[str, list[float]]:
        # A weight has the scale that was measured; what else is cast, by phase.
        rows = [
            row
            for row in scalify.probe(step)(*args)
            if "slice" not in row["name"] and "params" not in row["name"]
        ]
        return {
            phase: sorted(np.log2(row["scale"]) for row in rows if row["phase"] == phase)
            for phase in ("forward", "backward")
        }

    loop, flat = exponents(scan_step), exponents(unrolled)
    for phase, found in flat.items():
        for exponent in found:
            assert min(abs(exponent - other) for other in loop[phase]) <= 2, (phase, exponent)


def test_measured_scales_are_measured_in_each_iteration() -> None:
    args = (parameters(), tokens())
    transformed = scalify.transform(scan_step, recipe="fp8-current", strict=True)
    _, grads = transformed(*args)
    _, want = jax.jit(scan_step)(*args)
    assert cosine(grads, want) >= 0.99
    # BF16 has as many binades as F32.
    casts = [row for row in transformed.report().casts() if row["format"].startswith("f8")]
    assert casts and all(row["reason"] == "measured in the step" for row in casts)


def run_and_compare(fn: Callable[..., Any], *args: Any, tolerance: float = 1e-5) -> None:
    """Runs `fn` strictly; without dots that are cast, it equals JAX."""
    got = scalify.transform(fn, strict=True)(*args)
    want = jax.jit(fn)(*args)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), got, want
    )


def test_branches_and_open_loops_propagate_under_strict() -> None:
    x = np.random.default_rng(0).random((16, 16)).astype(np.float32)
    run_and_compare(lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x * 2), x)
    run_and_compare(lambda x: jax.lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c + 1, x), x)
    run_and_compare(lambda x, i: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), x, 1)


def test_random_keys_pass_untouched() -> None:
    def noise(key: jax.Array) -> jax.Array:
        return jax.random.uniform(key, (8, 4))

    key = jax.random.key(3)
    got = scalify.transform(noise, strict=True)(key)
    np.testing.assert_array_equal(got, noise(key))


@pytest.mark.parametrize("name", ["scan", "remat", "accumulate-scan", "cond"])
def test_phases_in_bodies_do_not_need_names(name: str) -> None:
    lowered = jax.jit(STEPS[name]).lower(parameters(), tokens())

    def dot_phases(debug_info: bool) -> list[str]:
        text = scalify.opt(lowered.as_text(debug_info=debug_info), "scalify-import")
        return [
            line.split("#scalify.phase<")[1].split(">")[0]
            for line in text.splitlines()
            if "stablehlo.dot_general" in line
        ]

    by_names = dot_phases(True)
    assert {"forward", "backward"} == set(by_names)
    assert dot_phases(False) == by_names


@pytest.mark.parametrize("remat", [False, True])
def test_routers_in_a_scan_have_their_role(remat: bool) -> None:
    """With both gradients, and the dot that a checkpoint recomputes."""

    def layer(x: Any, p: Any) -> Any:
        gates, _ = jax.lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
        return x + jnp.tanh(x @ p["w"]) * gates.sum(-1, keepdims=True), None

    def loss(p: Any, x: Any) -> Any:
        body = jax.checkpoint(layer) if remat else layer
        return jnp.mean((jax.lax.scan(body, x @ p["in"], p["layers"])[0] @ p["head"]) ** 2)

    rng = np.random.default_rng(0)
    shapes = {"in": (16, 16), "layers": {"router": (3, 16, 8), "w": (3, 16, 16)}, "head": (16, 8)}
    args = jax.tree.map(
        lambda shape: rng.normal(0, 0.2, shape).astype(np.float32),
        (shapes, (32, 16)),
        is_leaf=lambda leaf: isinstance(leaf, tuple) and isinstance(leaf[0], int),
    )
    dots = scalify.transform(jax.grad(loss), recipe="fp8").report(*args).dots()
    routers = [row for row in dots if row["reason"].startswith("stays wide: router")]
    assert len(routers) == (4 if remat else 3)


def normal(shape: tuple[int, ...], std: float = 1.0, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, std, shape)
    return np.asarray(values, np.float32)


def assert_within_bars(
    step: Callable[..., Any], *args: Any, recipe: scalify.Recipe | str = "fp8"
) -> None:
    """Drift of each cast, by iteration where the scale is known at run time."""
    rows = scalify.probe(step, recipe)(*args)
    assert rows
    for row in rows:
        scale = np.asarray(row["scale"], np.float64)
        # An entry for each iteration of all loops around, where its scale moves.
        value = np.asarray(row["value"], np.float64).reshape(scale.size, -1)
        size = np.sqrt(np.mean(value * value, axis=1))
        drifts = np.log2(size[size > 0] / scale.reshape(-1)[size > 0])
        least, most = FORWARD_BAR if row["phase"] == "forward" else GRADIENT_BAR
        assert np.all((least <= drifts) & (drifts <= most)), (row["name"], row["loc"], drifts)


GROWING_LAYERS = 24


def growing_parameters() -> dict[str, np.ndarray]:
    return {
        "in": normal((16, 32), 0.25),
        "layers": normal((GROWING_LAYERS, 32, 32), 0.1, 1),
        "head": normal((32, 8), 0.2, 2),
    }


def growing_loss(params: Any, x: jax.Array, layer: Callable[..., Any]) -> jax.Array:
    """A stream that each layer more than doubles, and its norm at the end."""
    x, _ = jax.lax.scan(layer, x @ params["in"], params["layers"])
    x = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    return jnp.mean((x @ params["head"]) ** 2)


def doubling(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
    return 2.0 * x + 0.5 * jnp.tanh(x) @ w + x @ w, None


def doubling_in_branches(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
    y = jax.lax.cond(w[0, 0] > 0, lambda x: x, lambda x: 0.5 * x, x)
    return 2.0 * x + y @ w, None


GROWING = {
    "layers": doubling,
    "remat": jax.checkpoint(doubling),
    "branches": doubling_in_branches,
}


@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
@pytest.mark.parametrize("name", GROWING)
def test_a_growing_carry_has_a_scale_of_run_time(name: str, recipe: str) -> None:
    def step(params: Any, x: jax.Array) -> Any:
        return jax.value_and_grad(growing_loss)(params, x, GROWING[name])

    args = (growing_parameters(), normal((64, 16)))
    # It is the scales of all dots that are looked at, also of those that fp8 would leave wide.
    every = scalify.Recipe.preset(recipe).replace(sensitive=True)
    transformed = scalify.transform(step, recipe=every, strict=True)
    _, grads = transformed(*args)
    _, want = jax.jit(step)(*args)
    for left, right in zip(jax.tree.leaves(grads), jax.tree.leaves(want), strict=True):
        assert cosine(left, right) >= (0.98 if recipe == "fp8" else 0.9999)
    assert_within_bars(step, *args, recipe=every)
    reasons = [row["reason"] for row in transformed.report().casts()]
    # The stream and its gradient move by some 26 binades; nothing is measured for it.
    assert sum(reason.startswith("carry of a loop, dynamic: grows by 2^1.") for reason in reasons)
    assert sum("times the growth of a loop's carry" in reason for reason in reasons) >= 2
    assert not any("measured" in reason for reason in reasons)


def test_a_carry_that_grows_as_often_as_the_data_says() -> None:
    def run(x: jax.Array, w: jax.Array, limit: jax.Array) -> Any:
        def body(carry: Any) -> Any:
            x, _ = carry
            y = x @ w
            return 2.0 * x + y, y

        return jax.lax.while_loop(lambda c: jnp.max(jnp.abs(c[0])) < limit, body, (x, x))

    transformed = scalify.transform(run, recipe="fp8", strict=True)
    for limit in (2.0, 1e6, 1e30):
        args = (normal((32, 32)), normal((32, 32), 0.1, 1), np.float32(limit))
        for got, want in zip(transformed(*args), jax.jit(run)(*args), strict=True):
            assert cosine(got, want) > 0.99


def test_a_carry_that_shrinks_out_of_range_leaves_no_nan() -> None:
    def run(x: jax.Array, w: jax.Array) -> Any:
        def body(_: Any, carry: Any) -> Any:
            return 0.25 * carry[0], carry[1] + carry[0] @ w

        return jax.lax.fori_loop(0, 90, body, (x, x))

    args = (normal((32, 32)), normal((32, 32), 0.1, 1))
    for got, want in zip(
        scalify.transform(run, strict=True)(*args), jax.jit(run)(*args), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=0.3)


def test_a_carry_that_jumps_and_rests_is_measured() -> None:
    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 40, lambda _, x: jnp.cos(x @ w) + 0.0 * x, x)

    def recur(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 40, lambda i, x: 0.5 * x @ w + jnp.cos(i * w), x)

    args = (normal((64, 64), 2.0**-40), normal((64, 64), 0.1, 1))
    for fn in (run, recur):
        transformed = scalify.transform(fn, strict=True)
        assert cosine(transformed(*args), jax.jit(fn)(*args)) > 0.999
        reasons = [row["reason"] for row in transformed.report().casts()]
        assert any("measured" in reason or "rescaled" in reason for reason in reasons)
        assert_within_bars(fn, *args)


@pytest.mark.parametrize(
    ("recipe", "element", "bar"),
    [("fp16", "f16", 0.9999), ('#scalify.recipe<"fp8", saved = f8E4M3FN>', "f8E4M3FN", 0.98)],
)
def test_what_the_backward_keeps_of_a_loop_is_narrow(recipe: str, element: str, bar: float) -> None:
    """All stacks except statistics, which have at most one number per row."""
    args = (parameters(), tokens())
    transformed = scalify.transform(
        scan_step,
        recipe=recipe,
        strict=True,
        numerics=scalify.Numerics(scales=scalify.measure(args)),
    )
    loss, grads = transformed(*args)
    want_loss, want = jax.jit(scan_step)(*args)
    assert abs(loss - want_loss) < 0.01
    assert cosine(grads, want) >= bar
    lines = jax.jit(transformed).lower(*args).as_text().splitlines()
    first = next(i for i, line in enumerate(lines) if "stablehlo.while" in line)
    forward = lines[
        first : first
        + 1
        + next(i for i, line in enumerate(lines[first + 1 :]) if "stablehlo.while" in line)
    ]
    written = [line.split("->")[-1] for line in forward if "dynamic_update_slice" in line]
    wide = [line for line in written if "xf32>" in line]
    assert len(written) - len(wide) >= 10
