"""Where rescales are placed, what they read, and scales that move between steps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from programs import LLAMA, llama

import scalify
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
        fn = scalify.transform(grad, recipe, rescale=rescale, scales=scales)
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
    for rescale in ([], ["residual_grad"]):
        fn = scalify.transform(grad, rescale=rescale, scales=scales)
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


def run(steps: int, rescale_every: int | None, **options: Any) -> list[np.ndarray]:
    params, x = deep_arguments(layers=2)
    fn = scalify.jit(step, scales=scalify.measure((params, x)), donate_argnums=0, **options)
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


def test_rescale_moves_scales_until_nothing_clips_without_a_new_compilation() -> None:
    rng = np.random.default_rng(2)
    x = (2.0**20 * rng.normal(size=(64, 64))).astype(np.float32)
    w = (2.0**-20 * rng.normal(size=(64, 32))).astype(np.float32)
    fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], adaptive_scales=True)
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
    """@rescale alone, on counters of our own, for each threshold from both sides."""
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

    fn = scalify.jit(step, recipe='#scalify.recipe<"fp16", head = true>', health="rescale")
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
    fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], adaptive_scales=True)
    first = np.asarray(fn(x, w))
    executable = fn.executable()
    assert [arg["name"] for arg in executable.args] == ["x", "w"]
    # In the order of the report: x is read first.
    assert [row["cast"] for row in fn.report().casts()] == ["c0: x", "c1: w"]
    executable.cast_scales = [2.0**6, 2.0**-3]
    moved = np.asarray(fn(x, w))
    want = scalify.jit(matmul, recipe=HEAD, scales=[6, -3])(x, w)
    np.testing.assert_array_equal(moved, want)
    assert not np.array_equal(first, moved)
    for bad in ([1.0], [3.0, 1.0], [0.0, 1.0], [-1.0, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match=r"power of two|1 scales of casts"):
            executable.cast_scales = bad
    constant = scalify.jit(matmul, recipe=HEAD, scales=[0, 0])
    constant(x, w)
    with pytest.raises(ValueError, match="adaptive_scales=True"):
        constant.rescale()
    with pytest.raises(ValueError, match="1 scales of casts for a step that reads none"):
        constant.executable().cast_scales = [1.0]


def test_health_policy_reports_and_rescales() -> None:
    x = np.full((32, 32), 2.0**15, np.float32)
    w = np.ones((32, 32), np.float32)
    policy = scalify.HealthPolicy("report")
    fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], health=policy)
    with pytest.warns(UserWarning, match=r"cast 'c0: x' to f8E4M3FN at .*1024 saturated"):
        fn(x, w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fn(x, w)  # Said once.
        policy = scalify.HealthPolicy("rescale", every=2, at_once=1)
        fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], health=policy, adaptive_scales=True)
        for _ in range(2):
            before = fn(x, w)
        assert fn.executable().cast_scales.tolist() == [256.0, 1.0]
        for _ in range(6):
            after = fn(x, w)
    assert float(before[0, 0]) == 32 * 448
    assert float(after[0, 0]) == 32 * 2.0**15
    with pytest.raises(ValueError, match="needs adaptive_scales"):
        scalify.jit(matmul, health=scalify.HealthPolicy("rescale"), adaptive_scales=False)
    fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], health="rescale")
    fn(x, w)
    assert fn.executable().cast_scales.tolist() == [256.0, 1.0]
    with pytest.raises(ValueError, match="unknown action 'panic'"):
        scalify.HealthPolicy("panic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a share, 0 to 1"):
        scalify.HealthPolicy(at_once=1.5)


def test_a_step_without_a_policy_is_looked_at_every_20_steps() -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    x[0, 0] = 2.0**15  # of 1,024 values: below the limit
    fn = scalify.jit(matmul, recipe=HEAD, scales=[0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            fn(x, w)
    x[0, 0] = np.nan
    with pytest.warns(UserWarning, match="1 casts read NaN, first cast 'c0: x'"):
        for _ in range(20):
            fn(x, w)
    x[0, :2] = 2.0**15
    quiet = scalify.jit(matmul, recipe=HEAD, scales=[0, 0], health="off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            quiet(x, w)
    fixed: dict[str, Any] = {"scales": [0, 0], "cast_scales": "static", "adaptive_scales": False}
    constant = scalify.jit(matmul, recipe=HEAD, **fixed)
    with pytest.warns(UserWarning, match=r"cast 'c0: x'.* 2 saturated.*health='rescale'") as said:
        constant(x, w)
    assert said[0].filename == __file__
    assert constant.executable().cast_scales is None


def test_constant_scales_that_clip_are_left_for_scales_that_move() -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    x[0, :2] = 2.0**15  # 2 of 1,024 values, twice the limit
    fixed: dict[str, Any] = {"scales": [0, 0], "cast_scales": "static"}
    policy = scalify.HealthPolicy("adapt", every=20)
    fn = scalify.jit(matmul, recipe=HEAD, health=policy, **fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(19):
            before = fn(x, w)
    with pytest.warns(UserWarning, match=r"cast 'c0: x'.* 2 saturated.*compiled once more") as said:
        fn(x, w)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            after = fn(x, w)
    assert float(before[0, 0]) == 2 * 448 + 30
    assert float(after[0, 0]) == 2.0**16 + 30
    scales = fn.executable().cast_scales
    assert scales is not None
    assert scales[0] >= 2.0**15 / 448


def test_packed_state_keeps_its_scales() -> None:
    adam = optax.adam(1e-3)
    recipe = scalify.Recipe.preset("fp8-lm-o2").replace(scales="propagated")

    def step(p: Any, state: Any, x: Any) -> tuple[Any, Any, Any]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(p)
        updates, state = adam.update(gradient, state, p)
        return optax.apply_updates(p, updates), state, loss

    policy = scalify.HealthPolicy("adapt")
    fn = scalify.jit(
        step, recipe, donate_argnums=(0, 1), scales={}, cast_scales="static", health=policy
    )
    p = np.ones((64, 64), np.float32)
    state = adam.init(p)
    with pytest.warns(UserWarning, match="saturated and .* became zero. health='rescale'"):
        for _ in range(3):
            p, state, _ = fn(p, state, np.full((64, 64), 2.0**20, np.float32))
    assert isinstance(p, scalify.ScaledArray)
    assert fn.executable().cast_scales is None


@pytest.mark.parametrize(
    ("recipe", "options", "advice"),
    [
        ("fp8", {"cast_scales": "static"}, "health='rescale'"),
        ("fp8", {}, "Its scale is carried"),
        ("fp8", {"adaptive_scales": True}, r"Jit\.rescale\(\) between"),
        ("fp8-delayed", {}, "A larger `margin`"),
    ],
)
def test_the_advice_fits_the_recipe(recipe: str, options: dict[str, Any], advice: str) -> None:
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    fn = scalify.jit(matmul, recipe, scales=[0, 0], health="report", **options)
    with pytest.warns(UserWarning, match=f"saturated and 0 became zero. {advice}"):
        for step in range(3):
            fn(x * 2.0 ** (15 * step), w)


def two_matmuls(x: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """Both products read w; the second is healthy."""
    return x @ w, v @ w


def sick_arguments() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    x, w, v = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(3))
    return 2.0**15 * x, w, v


def dots(report: Any) -> list[str]:
    return [row["reason"] for row in report if row["op"] == "dot_general"]


def test_a_cast_that_stays_sick_is_left_wide_at_the_next_compile() -> None:
    x, w, v = sick_arguments()
    want = x.astype(np.float64) @ w
    policy = scalify.HealthPolicy("widen", every=2, patience=3)
    fixed: dict[str, Any] = {"scales": [0, 0, 0], "cast_scales": "static"}
    fn = scalify.jit(two_matmuls, recipe=HEAD, health=policy, **fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            fn(x, w, v)
        # A healthy step between starts the count anew.
        for scale in (0, 0, 1, 1, 1, 1, 1):
            fn(x * np.float32(scale), w, v)
        assert fn.widened() == ()
    with pytest.warns(UserWarning, match=r"of cast 'c\d: x'.* saturated at 3 checks in a row"):
        before, _ = fn(x, w, v)
    (cast,) = fn.widened()
    assert re.fullmatch(r"c\d: x", cast.cast) and cast.elements == 32 * 32
    # Until it is compiled anew nothing changes.
    first = fn.executable()
    again, _ = fn(x, w, v)
    assert fn.executable() is first and np.array_equal(before, again)
    fn.recompile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after, healthy = fn(x, w, v)
    assert fn.executable() is not first
    np.testing.assert_allclose(after, want, rtol=1e-4, atol=1e-3 * np.abs(want).max())
    assert np.linalg.norm(before - want) > 0.5 * np.linalg.norm(want)
    # The other dot, which shares w, stays narrow, and its casts keep their names.
    assert 0 < np.linalg.norm(healthy - v @ w) < 0.1 * np.linalg.norm(healthy)
    names = [[row["cast"] for row in exe.report().casts()] for exe in (first, fn.executable())]
    assert {*names[1]} == {*names[0]} - {cast.cast} and len(names[1]) == 2
    (reason,) = (reason for reason in dots(fn.report()) if "health" in reason)
    assert reason.startswith(f"stays wide: health: of cast '{cast.cast}', ")
    assert re.search(r"\d % of the values saturated", reason)
    messages = [remark["message"] for remark in fn.executable().diagnostics]
    assert any("dot stays wide: health" in message for message in messages)


def test_what_is_widened_is_kept_for_other_compilations() -> None:
    x, w, v = sick_arguments()
    fixed: dict[str, Any] = {"scales": [0, 0, 0], "cast_scales": "static"}
    fn = scalify.jit(two_matmuls, recipe=HEAD, health="widen", **fixed)
    with pytest.warns(UserWarning, match="at 3 checks in a row"):
        for _ in range(3):
            fn(x, w, v)
    kept = [scalify.WideCast(**json.loads(json.dumps(dataclasses.asdict(c)))) for c in fn.widened()]
    fn.recompile()
    want, _ = fn(x, w, v)
    other = scalify.jit(two_matmuls, recipe=HEAD, scales=[0, 0, 0], wide=kept)
    np.testing.assert_array_equal(other(x, w, v)[0], want)
    got, _ = scalify.transform(two_matmuls, recipe=HEAD, scales=[0, 0, 0], wide=kept)(x, w, v)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    # With a calibration of the program as it was before.
    calibration = scalify.calibrate(two_matmuls, x, w, v, recipe=HEAD, scales=[0, 0, 0])
    fn = scalify.jit(two_matmuls, recipe=HEAD, calibration=calibration, wide=kept)
    fn(x, w, v)
    exponents = {cast.cast: cast.exponent for cast in calibration.casts}
    assert len(fn.report().casts()) == len(exponents) - 1 == 2
    assert all(row["scale"] == exponents[row["cast"]] for row in fn.report().casts())
    # A second cast of the program that has one wide already.
    twice = [*kept, scalify.WideCast.of(scalify_row(fn, ": v"))]
    both = scalify.jit(two_matmuls, recipe=HEAD, scales=[0, 0, 0], wide=twice)
    np.testing.assert_array_equal(both(x, w, v)[1], scalify.jit(two_matmuls, "none")(x, w, v)[1])
    assert not both.report().casts()
    with pytest.raises(scalify.CompileError, match=r"has no cast 'c\d: x' of 1024 elements"):
        scalify.jit(matmul, recipe=HEAD, scales=[0, 0], wide=kept)(x[:16], w)


def scalify_row(fn: Any, name: str) -> dict[str, Any]:
    (row,) = (row for row in fn.health() if row["cast"].endswith(name))
    return row


def test_moved_scales_survive_a_new_compilation() -> None:
    x, w, v = sick_arguments()
    fn = scalify.jit(two_matmuls, recipe=HEAD, scales=[0, 0, 0], health="rescale")
    for _ in range(5):
        moved = fn(x, w, v)
    scales = fn.executable().cast_scales
    assert max(scales) > 1
    fn.recompile()
    again = fn(x, w, v)
    for a, b in zip(again, moved, strict=True):
        np.testing.assert_array_equal(a, b)


def test_saved_values_and_state_stay_wide_too() -> None:
    def step(params: Any, x: Any) -> tuple[Any, Any]:
        def loss(p: Any) -> Any:
            return jnp.mean(jnp.exp(x @ p) ** 2)

        value, grad = jax.value_and_grad(loss)(params)
        return params - 2.0**30 * grad, value

    rng = np.random.default_rng(6)
    params = rng.normal(0, 0.1, (32, 16)).astype(np.float32)
    x = rng.normal(size=(64, 32)).astype(np.float32)
    recipe = '#scalify.recipe<"fp16", head = true>'
    make = functools.partial(scalify.jit, step, recipe, scales=[-3, 0], donate_argnums=0)
    fn = make(health="widen")
    with pytest.warns(UserWarning, match="at 3 checks in a row"):
        for _ in range(3):
            fn(params, x)
    wide = fn.widened()
    state = {row["cast"] for row in fn.report().casts() if row["reason"].startswith("state")}
    assert state & {cast.cast for cast in wide}
    got, _ = make(wide=wide)(params, x)
    assert np.abs(np.asarray(got)).max() > 2.0 * 65504 * 2.0**-3
    # Every cast of the program may be left wide; then it is the program in F32.
    everything = [scalify.WideCast.of(row) for row in fn.health()]
    exact = scalify.jit(step, "none", donate_argnums=0)
    for a, b in zip(make(wide=everything)(params, x), exact(params, x), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_adaptive_scales_inside_of_other_transformations_name_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"let the step measure scales \(rescale=\)"):
        scalify.transform(matmul, adaptive_scales=True)
    x = jnp.ones((8, 8))
    fn = scalify.jit(matmul, HEAD, adaptive_scales=True)
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
    """What the warning above names: each shard measures its own."""
    rng = np.random.default_rng(7)
    x = (2.0**9 * rng.normal(size=(16, 32))).astype(np.float32)
    w = rng.normal(size=(32, 8)).astype(np.float32)
    fn = scalify.transform(
        lambda x, w: scalify.lax.rescale(x) @ w, HEAD, scales=[0, 0], rescale=["residual"]
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec
    sharded = jax.jit(
        jax.shard_map(fn, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
    )
    got = np.asarray(sharded(x, w))
    assert np.linalg.norm(got - x @ w) < 0.1 * np.linalg.norm(x @ w)


def test_state_is_requantised_at_the_scale_that_moved() -> None:
    """State in, state out: a stored array is read as it is and written at the new scale."""

    def step(params: Any, x: Any, rate: Any) -> tuple[Any, Any]:
        return params * rate, x @ params

    rng = np.random.default_rng(6)
    start = rng.normal(0, 0.1, (32, 16)).astype(np.float32)
    x = rng.normal(size=(64, 32)).astype(np.float32)
    grow, keep = np.float32(2**20), np.float32(1)
    recipe = '#scalify.recipe<"fp16", head = true>'
    fn = scalify.jit(step, recipe, scales=[-3, 0, 0], donate_argnums=0, adaptive_scales=True)
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
