"""Stochastic rounding: random words, neighbours by distance, state that keeps small updates.

The oracles are Threefry as JAX has it and rounding written in numpy on F64, in which every value
of F32 and of the formats is exact.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpu_run import compile_text
from jax.extend.random import threefry_2x32
from narrowing import saturated
from stablehlo_run import run_stablehlo

import scalify

# Type, largest finite number, bits behind the point, log2 of the smallest normal number.
FORMATS: dict[str, tuple[Any, float, int, int]] = {
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, 448.0, 3, -6),
    "f8E5M2": (ml_dtypes.float8_e5m2, 57344.0, 2, -14),
    "f16": (np.float16, 65504.0, 10, -14),
    "bf16": (ml_dtypes.bfloat16, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), 7, -126),
}
KEY = np.array([0x243F6A88, 7], np.uint32)
STREAM = 37


def numpy_threefry(key: np.ndarray, high: int, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the two words of the blocks with counters (high, low): 20 rounds of Threefry-2x32."""
    keys = [np.uint32(k) for k in (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))]
    with np.errstate(over="ignore"):
        x = np.full(low.shape, np.uint32(high)) + keys[0]
        y = low.astype(np.uint32) + keys[1]
        for group in range(5):
            for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = x + y
                y = (y << np.uint32(turn)) | (y >> np.uint32(32 - turn))
                y = y ^ x
            x = x + keys[(group + 1) % 3]
            y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def words(shape: tuple[int, ...], key: np.ndarray = KEY, stream: int = STREAM) -> np.ndarray:
    """Returns the random word of each element of a cast."""
    places = np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint32)
    return numpy_threefry(key, stream >> 1, places)[stream & 1].reshape(shape)


def rounded(x: np.ndarray, name: str, exponent: int, random: np.ndarray) -> np.ndarray:
    """Returns x / 2^exponent rounded up or down by 32 random bits, as F64 before saturation."""
    _, _, mantissa, smallest = FORMATS[name]
    value = np.ldexp(x.astype(np.float64), -exponent)
    magnitude = np.abs(value)
    is_small = magnitude < 2.0**smallest
    bits = np.where(is_small, 31, 23 - mantissa)
    top = random >> (32 - bits).astype(np.uint32)
    with np.errstate(all="ignore"):
        binade = np.maximum(np.frexp(magnitude)[1] - 1, smallest)
        quantum = np.ldexp(1.0, binade - mantissa)
        count = magnitude / quantum
        lower = np.floor(count)
        chance = np.floor(np.ldexp(count - lower, bits))
        # Small numbers compare; normal ones carry where the sum overflows.
        is_up = np.where(is_small, top < chance, top + chance >= np.ldexp(1.0, bits))
        result = (lower + is_up) * quantum
    return np.copysign(np.where(np.isfinite(value), result, magnitude), value)


def reference(x: np.ndarray, name: str, exponent: int, random: np.ndarray) -> np.ndarray:
    dtype, largest, _, _ = FORMATS[name]
    return saturated(rounded(x, name, exponent, random), largest).astype(dtype)


def program(shape: tuple[int, ...], name: str, exponent: int = 0, stream: int = STREAM) -> str:
    """Returns main(x, key) with one stochastic cast."""
    dims = "".join(f"{extent}x" for extent in shape)
    return f"""
      func.func public @main(%x: tensor<{dims}f32>, %key: tensor<2xui32>) -> tensor<{dims}{name}> {{
        %s = stablehlo.constant dense<{2.0**exponent!r}> : tensor<f32>
        %q = scalify.quantize %x, %s at %key {{cast = "c",
            rounding = #scalify.rounding<stochastic>, stream = {stream} : i64}}
            : tensor<{dims}f32> -> tensor<{dims}{name}>
        return %q : tensor<{dims}{name}>
      }}"""


def on_cpu(x: np.ndarray, name: str, exponent: int = 0, **options: Any) -> tuple[Any, Any]:
    """Runs the cast on the CPU target and returns the result and its health."""
    key = options.pop("key", KEY)
    exe = compile_text(program(x.shape, name, exponent, **options), compileFrom="precision")
    (result,) = exe.run([x, key])
    return np.asarray(result), exe.health()[0]


def on_xla(x: np.ndarray, name: str, exponent: int = 0) -> np.ndarray:
    text = scalify.opt(program(x.shape, name, exponent), "scalify-to-stablehlo")
    (result,) = run_stablehlo(text, x, KEY)
    return np.asarray(result)


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compares words; a NaN may have any payload and sign."""
    is_nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(actual.astype(np.float32)), is_nan)
    word = np.uint8 if expected.itemsize == 1 else np.uint16
    np.testing.assert_array_equal(actual.view(word)[~is_nan], expected.view(word)[~is_nan])


def values_of(name: str) -> np.ndarray:
    """Returns all non-negative finite values of a format in order, as F32."""
    dtype = FORMATS[name][0]
    word = np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16
    every = np.arange(2 ** (8 * np.dtype(word).itemsize - 1), dtype=word).view(dtype)
    values = every.astype(np.float32)
    return values[np.isfinite(values)]


def between_neighbours(name: str, count: int) -> np.ndarray:
    """Returns F32 values, `count` between each two neighbours of a format and as many below 0."""
    values = values_of(name).astype(np.float64)
    if name == "bf16":
        values = values[values >= 2.0**-126]  # F32 has no more than 16 bits below these
    parts = np.random.default_rng(0).random((count, values.size - 1))
    parts[0] = 0.5
    x = (values[:-1] + parts * np.diff(values)).astype(np.float32)
    return np.concatenate([x, -x]).reshape(-1)


def test_words_are_those_of_jax() -> None:
    low = np.arange(999, dtype=np.uint32)
    counters = np.concatenate([np.full_like(low, STREAM >> 1), low])
    expected = np.asarray(threefry_2x32(KEY, counters)).reshape(2, -1)
    np.testing.assert_array_equal(numpy_threefry(KEY, STREAM >> 1, low), expected)
    text = """
      func.func public @main(%key: tensor<2xui32>) -> (tensor<27x37xi32>, tensor<27x37xi32>) {
        %stream = stablehlo.constant dense<18> : tensor<i32>
        %x = scalify.random_bits 0 of %key, %stream : tensor<27x37xi32>
        %y = scalify.random_bits 1 of %key, %stream : tensor<27x37xi32>
        return %x, %y : tensor<27x37xi32>, tensor<27x37xi32>
      }"""
    on_target = compile_text(text, compileFrom="precision").run([KEY])
    for results in (on_target, run_stablehlo(scalify.opt(text, "scalify-to-stablehlo"), KEY)):
        got = np.stack([np.asarray(result) for result in results])
        np.testing.assert_array_equal(got.view(np.uint32).reshape(2, -1), expected)


@pytest.mark.parametrize("exponent", [0, -9, 20])
@pytest.mark.parametrize("name", FORMATS)
def test_every_pair_of_neighbours(name: str, exponent: int) -> None:
    """Up or down between any two neighbours, subnormal and negative ones, as the words decide."""
    with np.errstate(over="ignore"):
        x = np.ldexp(between_neighbours(name, 16 if name.startswith("f8") else 3), exponent)
    if name == "bf16":
        x = x[(np.abs(x) > 2.0**-100) & (np.abs(x) < 2.0**100)]
    expected = reference(x, name, exponent, words(x.shape))
    result, health = on_cpu(x, name, exponent)
    assert_same_bits(result, expected)
    assert_same_bits(on_xla(x, name, exponent), expected)
    wide = np.ldexp(x.astype(np.float64), -exponent)
    assert health["flushed"] == int(((x != 0) & (expected.astype(np.float32) == 0)).sum())
    assert (np.abs(expected.astype(np.float64)) <= np.abs(wide)).any()
    assert (np.abs(expected.astype(np.float64)) >= np.abs(wide)).any()


@pytest.mark.parametrize("name", FORMATS)
def test_what_the_format_holds_does_not_move(name: str) -> None:
    values = values_of(name)
    if name == "bf16":
        values = values[(values == 0) | (values >= 2.0**-126)]
    x = np.concatenate([values, -values])
    for key in (KEY, KEY + np.uint32(1)):
        result, health = on_cpu(x, name, key=key)
        assert_same_bits(result, x.astype(FORMATS[name][0]))
        assert health["saturated"] == health["flushed"] == 0


@pytest.mark.parametrize("name", FORMATS)
def test_special_values_are_those_of_the_plain_cast(name: str) -> None:
    dtype, largest, mantissa, _ = FORMATS[name]
    nans = np.array([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 3.0e38, -3.0e38, largest], np.float32)
    x = np.tile(np.concatenate([special, nans]), 64)
    for result in (on_cpu(x, name)[0], on_xla(x, name)):
        assert_same_bits(
            np.asarray(result),
            saturated(x, largest).astype(dtype)
            if name != "bf16"
            else reference(x, name, 0, words(x.shape)),
        )
    # Between the largest number and the next one that a wider exponent would hold, the share that
    # goes up counts as saturated.
    above = np.float32(largest * (1 + 2.0 ** -(mantissa + 3)))
    x = np.full(1 << 14, above, np.float32)
    result, health = on_cpu(x, name)
    assert (result.astype(np.float64) == largest).all()
    expected = np.abs(rounded(x, name, 0, words(x.shape))) > largest
    assert health["saturated"] == int(expected.sum())
    assert 0 < health["saturated"] < x.size


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("fraction", [2.0**-8, 0.3, 0.5, 0.96])
def test_chances_are_the_fractions(name: str, fraction: float) -> None:
    """2^18 draws for a normal and two subnormal pairs, of both signs.

    The count of those that go up is binomial: 5 sigma, passed by chance in 1 of 1.7 million.
    """
    _, _, mantissa, smallest = FORMATS[name]
    size = 1 << 18
    pairs = [(1.0, 2.0**-mantissa)]
    if name != "bf16":
        last = 2.0 ** (smallest - mantissa)
        pairs += [(0.0, last), (last, last)]
    signed = [(sign, low, step) for low, step in pairs for sign in (1.0, -1.0)]
    values = np.array([sign * (low + fraction * step) for sign, low, step in signed], np.float32)
    result, _ = on_cpu(np.repeat(values, size), name)
    for value, draws, (_, low, step) in zip(
        values, np.abs(result.astype(np.float64)).reshape(-1, size), signed, strict=True
    ):
        exact = (abs(float(value)) - low) / step
        assert set(np.unique(draws)) == {low, low + step}
        count = int((draws > low).sum())
        assert abs(count - size * exact) <= 5 * np.sqrt(size * exact * (1 - exact))


def test_chances_are_exact_over_all_words() -> None:
    """Of the 2^20 words that differ in the bits that E4M3 needs, exactly the fraction goes up."""
    random = np.arange(1 << 20, dtype=np.uint32) << np.uint32(12)
    for low_bits in (1, 2**19, 2**20 - 1, 777_777):
        x = np.full(1 << 20, np.uint32(0x3F800000 + low_bits)).view(np.float32)
        up = rounded(x, "f8E4M3FN", 0, random) > 1
        assert int(up.sum()) == low_bits


def test_the_mean_is_kept() -> None:
    x = np.random.default_rng(1).normal(size=1 << 20).astype(np.float32)
    for name, (_, _, mantissa, _) in FORMATS.items():
        error = on_cpu(x, name)[0].astype(np.float64) - x
        # An error is at most 2^-mantissa of the value: its mean over n within 5 sigma.
        bound = 5 * 2.0**-mantissa * np.sqrt(np.mean(np.square(x, dtype=np.float64)) / x.size)
        assert abs(error.mean()) < bound


def test_streams_steps_and_seeds_have_words_of_their_own() -> None:
    x = np.random.default_rng(2).normal(size=4096).astype(np.float32)
    results = [on_cpu(x, "f8E4M3FN")[0]]
    for stream in (STREAM - 1, STREAM + 1):
        results.append(on_cpu(x, "f8E4M3FN", stream=stream)[0])
    for key in (KEY + np.array([0, 1], np.uint32), KEY + np.array([1, 0], np.uint32)):
        results.append(on_cpu(x, "f8E4M3FN", key=key)[0])
    codes = np.stack([result.view(np.uint8) for result in results])
    for i in range(len(codes)):
        for j in range(i):
            differs = np.mean(codes[i] != codes[j])
            # Two independent draws differ by 2 p (1 - p), a third on average over p.
            assert 0.28 < differs < 0.39


def part_program(part: tuple[int, int], whole: tuple[int, int] | None) -> str:
    """Returns main(x, key, first): casts a part of an array, from the element `first` on."""
    of = f", whole = array<i64: {whole[0]}, {whole[1]}>" if whole else ""
    dims = f"{part[0]}x{part[1]}x"
    return f"""
      func.func public @main(%x: tensor<{dims}f32>, %key: tensor<2xui32>, %first: tensor<i32>)
          -> tensor<{dims}f16> {{
        %s = stablehlo.constant dense<1.0> : tensor<f32>
        %q = scalify.quantize %x, %s at %key from %first {{
            rounding = #scalify.rounding<stochastic>, stream = {STREAM} : i64{of}}}
            : tensor<{dims}f32> -> tensor<{dims}f16>
        return %q : tensor<{dims}f16>
      }}"""


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(3, 9), slice(0, 40)),  # a run of elements
        (slice(0, 12), slice(7, 26)),  # columns, no multiple of a vector
        (slice(5, 8), slice(16, 40)),
    ],
)
def test_a_part_rounds_as_in_the_whole(rows: slice, columns: slice) -> None:
    x = np.random.default_rng(8).normal(size=(12, 40)).astype(np.float32)
    part = np.ascontiguousarray(x[rows, columns])
    first = np.int32(rows.start * 40 + columns.start)
    whole = None if part.shape[1] == 40 else x.shape
    text = part_program(part.shape, whole)
    expected = reference(x, "f16", 0, words(x.shape))[rows, columns]
    (cpu,) = compile_text(text, compileFrom="precision").run([part, KEY, first])
    assert_same_bits(np.asarray(cpu), expected)
    (xla,) = run_stablehlo(scalify.opt(text, "scalify-to-stablehlo"), part, KEY, first)
    assert_same_bits(np.asarray(xla), expected)


def test_places_are_modulo_the_words() -> None:
    """Padding of a share, or elements before the first one, may have any word."""
    x = np.random.default_rng(9).normal(size=(2, 20)).astype(np.float32)
    text = part_program((2, 20), None)
    (result,) = compile_text(text, compileFrom="precision").run([x, KEY, np.int32(-9)])
    places = np.arange(-9, 31).astype(np.uint32)
    random = numpy_threefry(KEY, STREAM >> 1, places)[STREAM & 1].reshape(2, 20)
    assert_same_bits(np.asarray(result), reference(x, "f16", 0, random))


STATE = '#scalify.recipe<"fp16", linear = false, head = false, saved = given, state_rounding = {}>'


def sgd(master: Any, g: Any) -> Any:
    """One subtraction an element, so that every backend has the same bits before rounding."""
    grads = jax.grad(lambda w: sum(jnp.vdot(leaf, g) for leaf in w.values()))(master)
    return {name: master[name] - grads[name] for name in master}


def state_arguments(size: int = 4096) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns two equal leaves of weights from 1 to 2, and 2^-13 of them."""
    w = np.random.default_rng(3).uniform(1, 2, (4, size // 4)).astype(np.float16).astype(np.float32)
    return {"a": w, "b": w.copy()}, w * np.float32(-(2.0**-13))


def compiled(rounding: str) -> scalify.Jit:
    scales = scalify.measure(state_arguments())
    return scalify.jit(
        sgd, STATE.format(rounding), donate_argnums=0, numerics=scalify.Numerics(scales=scales)
    )


def train(fn: Any, steps: int, weights: Any = None) -> dict[str, np.ndarray]:
    start, g = state_arguments()
    weights = start if weights is None else weights
    for _ in range(steps):
        weights = fn(weights, g)
    return {name: np.array(leaf) for name, leaf in weights.items()}


def test_small_updates_move_a_master() -> None:
    """500 updates of 2^-13 of a weight: an eighth of an F16's last place or less, each."""
    start, g = state_arguments()
    nearest = train(compiled("nearest"), 500)
    np.testing.assert_array_equal(nearest["a"], start["a"])
    moved = train(compiled("stochastic"), 500)
    for name, leaf in moved.items():
        np.testing.assert_array_equal(leaf, leaf.astype(np.float16).astype(np.float32))
        # The variance of a step is p (1 - p) last places squared: above 2, where some weights
        # arrive, the last place is 2^-9 and p at most 1 / 8; below, 2^-10 and 1 / 4 give less.
        spread = 2.0**-9 * np.sqrt(500 * 7 / 64)
        error = leaf.astype(np.float64) - (start[name] - 500 * g.astype(np.float64))
        assert np.abs(error).max() < 6 * spread  # 4096 elements
        assert abs(error.mean()) < 5 * spread / np.sqrt(error.size)


def test_leaves_have_words_of_their_own() -> None:
    moved = train(compiled("stochastic"), 20)
    assert np.mean(moved["a"] == moved["b"]) < 0.5


def test_the_step_is_kept_beside_the_executable() -> None:
    fn = compiled("stochastic")
    straight = train(fn, 7)
    executable = fn.executable()
    np.testing.assert_array_equal(executable.kept["scalify.step"], [0, 7])
    assert [arg["name"] for arg in executable.args] == ["master['a']", "master['b']", "g"]

    resumed = compiled("stochastic")
    first = train(resumed, 3)
    step = resumed.executable().kept
    resumed.recompile()
    np.testing.assert_array_equal(train(resumed, 4, first)["a"], straight["a"])

    other = compiled("stochastic")
    other.executable(*state_arguments()).kept = step
    np.testing.assert_array_equal(train(other, 4, first)["a"], straight["a"])
    # Without the step, and with another seed, they are others: the test can fail.
    assert (train(compiled("stochastic"), 4, first)["a"] != straight["a"]).any()
    seeded = compiled("stochastic")
    seeded.executable(*state_arguments()).kept = {"scalify.step": np.array([1, 0], np.uint32)}
    assert (train(seeded, 7)["a"] != straight["a"]).any()


def test_threads_change_no_bit() -> None:
    results = []
    for threads in (1, 3):
        fn = compiled("stochastic")
        fn.executable(*state_arguments()).threads = threads
        results.append(train(fn, 3))
    np.testing.assert_array_equal(results[0]["b"], results[1]["b"])


def test_nothing_is_kept_where_nothing_is_stochastic() -> None:
    for recipe in (STATE.format("nearest"), '#scalify.recipe<"fp8", state_rounding = stochastic>'):
        fn = scalify.jit(sgd, recipe, donate_argnums=0)
        assert "scalify.step" not in fn.executable(*state_arguments()).kept


def test_transform_rounds_by_a_key() -> None:
    weights, g = state_arguments()
    scales = scalify.measure((weights, g))
    fn = scalify.transform(
        sgd, STATE.format("stochastic"), donate_argnums=0, numerics=scalify.Numerics(scales=scales)
    )
    own = compiled("stochastic")
    kept: Any = weights
    left: Any = weights
    for i in range(3):
        kept = own(kept, g)
        left = jax.jit(lambda w, g, key: fn(w, g, rounding_key=key))(
            left, g, np.array([0, i], np.uint32)
        )
    for name, leaf in kept.items():
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(left[name]))
    key = jax.random.fold_in(jax.random.key(5), 1)
    by_key = fn(weights, g, rounding_key=key)
    by_words = fn(weights, g, rounding_key=np.asarray(jax.random.key_data(key)))
    np.testing.assert_array_equal(by_key["a"], by_words["a"])
    assert (np.asarray(by_key["a"]) != weights["a"]).any()
    # Without a key it rounds to nearest.
    np.testing.assert_array_equal(fn(weights, g)["a"], weights["a"])
    with pytest.raises(ValueError, match="two words of uint32"):
        fn(weights, g, rounding_key=np.zeros(3, np.uint32))
    plain = scalify.transform(
        sgd, STATE.format("nearest"), donate_argnums=0, numerics=scalify.Numerics(scales=scales)
    )
    with pytest.raises(TypeError, match="rounds nothing stochastically"):
        plain(weights, g, rounding_key=(0, 1))
