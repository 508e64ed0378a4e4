"""Placement of rescales, the bytes that they read, and scales that move between steps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import LLAMA, llama

import scalify
from scalify import Numerics
from scalify._executable import compile_text

CFG = dataclasses.replace(LLAMA, layers=3, dim=64, heads=4, kv_heads=4, ffn=176, seq=64)


@functools.cache
def llama_text() -> str:
    params = llama.init(jax.random.key(0), CFG)
    batch = np.random.default_rng(1).integers(0, CFG.vocab, (16, CFG.seq + 1), dtype=np.int32)
    grad = jax.jit(jax.value_and_grad(functools.partial(llama.loss, cfg=CFG)))
    return grad.lower(params, batch).as_text(debug_info=True)


def count_bytes(shape: str) -> int:
    *sizes, element = shape.split("x")
    return math.prod(map(int, sizes)) * {"f32": 4, "bf16": 2}[element]


def measured(pipeline: str) -> list[int]:
    """Returns the bytes that each measured scale reads."""
    text = scalify.opt(
        llama_text(), f"scalify-import,{pipeline},scalify-scaling{{remarks=0 declared-scales=1}}"
    )
    found = re.findall(r"scalify\.measured_scale +(\w+) .*? (\{.*?\} )?: tensor<(.*?)>", text)
    assert {statistic for statistic, _, _ in found} <= {"l2"}
    samples = [re.search(r"sample = (\d+)", attributes) for _, attributes, _ in found]
    return [
        count_bytes(shape) // (int(sample.group(1)) if sample else 1)
        for (_, _, shape), sample in zip(found, samples, strict=True)
    ]


def test_two_rescales_a_layer_and_5_percent_of_what_current_scaling_reads() -> None:
    text = scalify.opt(
        llama_text(),
        "scalify-import,scalify-scaling{remarks=0 declared-scales=1},"
        "scalify-precision{recipe=fp8-current remarks=0}",
    )
    casts = re.findall(r"scalify\.quantize .*? : tensor<(.*?)> ->", text)
    current = sum(map(count_bytes, casts))
    placed = measured("scalify-place-rescales{places=residual_grad}")
    # The last join, the gradient of the embedding, is read by no cast.
    assert len(placed) == 2 * CFG.layers - 1
    assert sum(placed) <= 0.05 * current
    # Without the budget they would read more: the test can fail.
    assert sum(measured("scalify-place-rescales{places=residual_grad budget=1}")) > 0.05 * current
    assert measured("scalify-place-rescales") == []


def test_places_by_drift_and_by_name() -> None:
    everywhere = measured("scalify-place-rescales{places=residual_grad}")
    # A layer is some nine products long: half a binade.
    sparse = measured("scalify-place-rescales{places=residual_grad drift=0.5}")
    assert 0 < len(sparse) < len(everywhere)
    one_layer = measured("scalify-place-rescales{places=grad:layer1.*/ffn}")
    assert 0 < len(one_layer) < len(everywhere)


def test_a_recipe_names_places_as_the_keyword_does() -> None:
    params, x = deep_arguments()
    grad = jax.grad(deep)
    scales = scalify.measure((params, x))

    def text(recipe: str, *rescale: str) -> str:
        fn = scalify.transform(grad, recipe, numerics=Numerics(rescale=rescale, scales=scales))
        # Locations name the line of this test that asked.
        return re.sub(r"#?loc\w*(\(.*\))?", "", fn.text(params, x))

    want = text("fp8", "residual_grad", "tanh")
    assert want.count("stablehlo.sqrt") > text("fp8", "residual_grad").count("stablehlo.sqrt") > 0
    assert text('#scalify.recipe<"fp8", rescale = ["residual_grad", "tanh"]>') == want
    assert text('#scalify.recipe<"fp8", rescale = ["residual_grad"]>', "tanh") == want
    # Twice the same place is one.
    assert text('#scalify.recipe<"fp8", rescale = ["tanh"]>', "residual_grad", "tanh") == want
    assert "stablehlo.sqrt" not in text("fp8")
    with pytest.raises(scalify.CompileError, match="which is neither residual, residual_grad nor"):
        text('#scalify.recipe<"fp8", rescale = ["["]>')


def deep(params: Any, x: Any) -> Any:
    for w, v in params:
        x = x + jnp.tanh(x @ w) @ v
    return jnp.sum(x[:, 0])


def deep_arguments(size: float = 1.0, layers: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    params = [
        tuple((size * rng.normal(0, 0.02, (64, 64))).astype(np.float32) for _ in range(2))
        for _ in range(layers)
    ]
    return params, rng.normal(size=(256, 64)).astype(np.float32)


def test_rescales_follow_gradients_that_the_rules_mispredict() -> None:
    params, x = deep_arguments()
    # The scales say that weights are 2^5 larger than they are.
    scales = [0 if e is None else e + 5 for e in scalify.measure((params, x)).exponents]
    grad = jax.grad(deep)
    worst = {}
    # The dots that are cast are FP8: BF16 has no need of a scale.
    recipe = scalify.Recipe(head=False, sensitive=False)
    for rescale in ([], ["residual_grad"]):
        fn = scalify.transform(
            grad, recipe=recipe, numerics=Numerics(rescale=rescale, scales=scales)
        )
        text = fn.text(params, x)
        assert ("stablehlo.sqrt" in text) == bool(rescale)
        got = jax.tree.leaves(fn(params, x))
        want = jax.tree.leaves(grad(params, x))
        errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(got, want, strict=True)]
        worst[bool(rescale)] = float(np.max(errors))
    assert worst[True] < worst[False]
    # E5M2 has two bits of mantissa, and tanh passes the forward's errors on.
    assert worst[True] < 0.15


def step(params: Any, x: Any) -> tuple[Any, Any]:
    value, grads = jax.value_and_grad(lambda p: jnp.mean(deep(p, x) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 1e-6 * g, params, grads), value


def run(steps: int, rescale_every: int | None, **numerics: Any) -> list[np.ndarray]:
    params, x = deep_arguments(layers=2)
    given = Numerics(scales=scalify.measure((params, x)), **numerics)
    fn = scalify.jit(step, numerics=given, donate_argnums=0)
    outs = []
    for i in range(steps):
        params, value = fn(params, x)
        outs.append(np.asarray(value).copy())
        if rescale_every and (i + 1) % rescale_every == 0:
            assert fn.rescale() == 0
    return [*outs, *(np.asarray(leaf).copy() for leaf in jax.tree.leaves(params))]


def test_while_no_scale_moves_steps_keep_their_bits() -> None:
    static = run(4, None, cast_scales="static")
    for got in (run(4, None, adaptive_scales=True), run(4, 2, adaptive_scales=True)):
        for a, b in zip(got, static, strict=True):
            np.testing.assert_array_equal(a, b)


def matmul(x: Any, w: Any) -> Any:
    return x @ w


HEAD = '#scalify.recipe<"fp8", head = true>'


def by_head(fn: Any, **numerics: Any) -> scalify.Jit:
    return scalify.jit(fn, HEAD, numerics=Numerics(**numerics))


def test_rescale_moves_scales_until_nothing_clips_without_a_new_compilation() -> None:
    rng = np.random.default_rng(2)
    x = (2.0**20 * rng.normal(size=(64, 64))).astype(np.float32)
    w = (2.0**-20 * rng.normal(size=(64, 32))).astype(np.float32)
    fn = by_head(matmul, scales=[0, 0], adaptive_scales=True)
    want = x @ w
    fn(x, w)
    executable = fn.executable()
    np.testing.assert_array_equal(executable.cast_scales, [1, 1])
    for _ in range(20):
        got = fn(x, w)
        if fn.rescale() == 0:
            break
    assert fn.executable() is executable
    scales = dict(
        zip((row["cast"] for row in fn.report().casts()), executable.cast_scales, strict=True)
    )
    up, down = scales["c0: x"], scales["c1: w"]
    assert up >= 2.0**12 and down <= 2.0**-9
    assert np.array_equal(np.frexp([up, down])[0], [0.5, 0.5])
    # The step now is within the error of E4M3's three bits.
    assert np.linalg.norm(got - want) < 0.05 * np.linalg.norm(want)


def moved_by_counts(scale: float, elements: int, saturated: int, flushed: int, top: int) -> float:
    """Returns the scale that @rescale must give, in Python's own arithmetic."""

    def binades(share: float, limits: tuple[float, ...]) -> int:
        return sum(step for limit, step in zip(limits, (1, 1, 2, 4), strict=False) if share > limit)

    up = binades(saturated / elements, (2.0**-12, 0.01, 0.1, 0.3))
    down = 0 if top else binades(flushed / elements, (0.02, 0.1, 0.5))
    return min(max(scale * 2.0 ** (up - down), 2.0**-100), 2.0**100)


def test_the_second_function_of_the_artefact_moves_by_the_rule() -> None:
    """@rescale alone, on counters made by hand, for each threshold from both sides."""
    program = """
    func.func @main(%x: tensor<100x1000xf32>, %m: tensor<f32>) -> (tensor<100x1000xf32>,
        tensor<100x1000xf32>) {
      %s = stablehlo.constant dense<0.5> : tensor<f32>
      %q = scalify.quantize %x, %s {cast = "c0: x"}
          : tensor<100x1000xf32> -> tensor<100x1000xf8E4M3FN>
      %a = scalify.dequantize %q, %s : tensor<100x1000xf8E4M3FN> -> tensor<100x1000xf32>
      %p = scalify.quantize %x, %m {cast = "c1: x"}
          : tensor<100x1000xf32> -> tensor<100x1000xf8E5M2>
      %b = scalify.dequantize %p, %m : tensor<100x1000xf8E5M2> -> tensor<100x1000xf32>
      return %a, %b : tensor<100x1000xf32>, tensor<100x1000xf32>
    }"""
    text = scalify.opt(program, "scalify-adapt-scales")
    artefact = compile_text(text, {"compileFrom": "precision"})
    assert set(artefact.manifest["functions"]) == {"step", "rescale"}
    executable = artefact._runtime
    assert np.array_equal(artefact.cast_scales, [0.5, 1.0])
    for saturated in (0, 1, 24, 25, 1000, 1001, 10000, 10001, 30000, 30001, 100000):
        for flushed in (0, 2000, 2001, 10000, 10001, 50000, 50001):
            # What saturates is at the top.
            for scale, more in itertools.product((2.0**-100, 0.25, 2.0**99), (0, 1)):
                top = saturated + more
                counters = np.array([[saturated, flushed, 7, 9, top, 11]] * 2, np.uint64)
                scales = np.array([scale, scale], np.float32)
                (got,) = executable.run((scales, counters), "rescale")
                want = moved_by_counts(scale, 100_000, saturated, flushed, top)
                # The second cast measures its scale in the step: it is not ours to move.
                assert np.array_equal(np.asarray(got), [want, scale]), (saturated, flushed, scale)
    x = np.full((100, 1000), 3000, np.float32)
    artefact(x, np.float32(2.0**10))
    assert executable.counters()[:, :2].tolist() == [[100_000, 0], [0, 0]]
    assert artefact.rescale() == 1 and np.array_equal(artefact.cast_scales, [128.0, 1.0])
    # The counters are the step's, and running the other function leaves them.
    assert executable.counters()[:, :2].tolist() == [[100_000, 0], [0, 0]]


def test_what_is_at_the_top_keeps_its_scale_however_much_becomes_zero() -> None:
    """A softmax that is nearly one-hot: most of it becomes zero at any scale that holds 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 64)).astype(np.float32) * 20
    w = rng.normal(size=(64, 64)).astype(np.float32)

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.nn.softmax(x) @ w

    fn = scalify.jit(
        step, recipe='#scalify.recipe<"fp16", head = true>', numerics=Numerics(health="rescale")
    )
    want = np.asarray(step(x, w))
    moves = []
    for _ in range(8):
        # A relative error of 2^-11 of each operand, and as much of subnormal ones at the top of
        # the format is far below it.
        np.testing.assert_allclose(np.asarray(fn(x, w)), want, rtol=2**-9, atol=2**-9)
        rows = fn.health()
        assert not any(row["saturated"] for row in rows)
        moves.append([row["moved"] for row in rows])
    assert any(row["flushed"] > 0.5 * row["elements"] for row in rows)
    # It comes to rest.
    assert moves[-1] == moves[-2] == [0] * len(rows)


def test_scales_of_casts_are_state_that_can_be_kept() -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(2))
    fn = by_head(matmul, scales=[0, 0], adaptive_scales=True)
    first = np.asarray(fn(x, w))
    executable = fn.executable()
    assert [arg["name"] for arg in executable.args] == ["x", "w"]
    # In the order of the report: x is read first.
    assert [row["cast"] for row in fn.report().casts()] == ["c0: x", "c1: w"]
    executable.cast_scales = [2.0**6, 2.0**-3]
    moved = np.asarray(fn(x, w))
    want = by_head(matmul, scales=[6, -3])(x, w)
    np.testing.assert_array_equal(moved, want)
    assert not np.array_equal(first, moved)
    for bad in ([1.0], [3.0, 1.0], [0.0, 1.0], [-1.0, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match=r"power of two|1 scales of casts"):
            executable.cast_scales = bad
    constant = by_head(matmul, scales=[0, 0])
    constant(x, w)
    with pytest.raises(ValueError, match="adaptive_scales=True"):
        constant.rescale()
    with pytest.raises(ValueError, match="1 scales of casts for a step that reads none"):
        constant.executable().cast_scales = [1.0]


def test_adaptive_scales_inside_of_other_transformations_name_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"let the step measure scales \(rescale=\)"):
        scalify.transform(matmul, numerics=Numerics(adaptive_scales=True))
    x = jnp.ones((8, 8))
    fn = by_head(matmul, adaptive_scales=True)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    for wrapped in (
        jax.jit(fn),
        jax.vmap(fn),
        jax.shard_map(fn, mesh=mesh, in_specs=(spec, spec), out_specs=spec),
    ):
        with pytest.warns(UserWarning, match=r"no recipe applies.*scalify\.transform"):
            np.testing.assert_array_equal(wrapped(x[None], x[None]), x[None] @ x[None])


def test_the_step_measures_scales_inside_of_shard_map() -> None:
    """The alternative that the warning names: each shard measures its own scales."""
    rng = np.random.default_rng(7)
    x = (2.0**9 * rng.normal(size=(16, 32))).astype(np.float32)
    w = rng.normal(size=(32, 8)).astype(np.float32)
    fn = scalify.transform(
        lambda x, w: scalify.lax.rescale(x) @ w,
        HEAD,
        numerics=Numerics(scales=[0, 0], rescale=["residual"]),
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec
    sharded = jax.jit(
        jax.shard_map(fn, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
    )
    got = np.asarray(sharded(x, w))
    assert np.linalg.norm(got - x @ w) < 0.1 * np.linalg.norm(x @ w)


def test_state_is_requantised_at_the_scale_that_moved() -> None:
    """A stored array is read at its own scale and written at the new one."""

    def step(params: Any, x: Any, rate: Any) -> tuple[Any, Any]:
        return params * rate, x @ params

    rng = np.random.default_rng(6)
    start = rng.normal(0, 0.1, (32, 16)).astype(np.float32)
    x = rng.normal(size=(64, 32)).astype(np.float32)
    grow, keep = np.float32(2**20), np.float32(1)
    recipe = '#scalify.recipe<"fp16", head = true>'
    fn = scalify.jit(
        step,
        recipe,
        numerics=Numerics(scales=[-3, 0, 0], adaptive_scales=True),
        donate_argnums=0,
    )
    params, _ = fn(start, x, grow)
    assert np.abs(np.asarray(params)).max() == 65504 * 2.0**-3
    while fn.rescale():
        params, _ = fn(start, x, grow)
    want = start * grow
    # One of the two neighbours in F16, which are at most 2^-10 apart.
    assert np.max(np.abs(np.asarray(params) - want) / np.abs(want)) <= 2.0**-10
    # What was stored is a value of the format at the scale that holds now: it stays as it is.
    stored = np.asarray(params).copy()
    for _ in range(12):
        params, product = fn(params, x, keep)
        np.testing.assert_array_equal(np.asarray(params), stored)
        fn.rescale()
    want = x.astype(np.float64) @ stored
    assert np.linalg.norm(product - want) < 1e-3 * np.linalg.norm(want)
