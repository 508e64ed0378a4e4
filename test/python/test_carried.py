"""Carried scales: each step moves the scales of its casts and hands them on to the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from narrowing import saturated

import scalify

HEAD = '#scalify.recipe<"fp8", head = true>'
# Of E4M3: the largest number, the smallest normal one, half of the smallest.
LARGEST, NORMAL, TIE = 448.0, 2.0**-6, 2.0**-10


def linear(x: Any, w: Any) -> Any:
    return x @ w


def quantized(x: np.ndarray, scale: float) -> np.ndarray:
    """Returns values after a cast to E4M3 at a scale: rounded to even; finite ones saturate."""
    clipped = saturated(x / scale, LARGEST)
    return clipped.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(scale)


def moved(state: float, value: np.ndarray, predicted: float = 1.0) -> float:
    """Returns the rule's next state of a forward cast to E4M3."""
    scale = state or predicted
    amax = float(np.abs(value).max())
    if not (np.isfinite(amax) and amax > 0):
        return state
    nonzero = np.count_nonzero(value)
    flushed = np.count_nonzero((np.abs(value) <= TIE * scale) & (value != 0))
    is_high = amax > LARGEST / 4 * scale
    is_low = amax < 2**4 * NORMAL * scale
    loses = flushed > nonzero / 64 and amax < LARGEST / 16 * scale
    if not (is_high or is_low or loses):
        return state
    fitting = 2.0 ** (np.ceil(np.log2(np.float32(amax) / np.float32(LARGEST))) + 2)
    return float(max(fitting, scale / 4))


# Of forward casts to F16 and of gradients' to E5M2: the largest number, where the window of an amax
# starts and ends, and the binades above it that a move leaves.
WINDOWS = {
    "fp16": (65504.0, 1.0, 65504 * 2.0**-11, 12),
    "fp8": (57344.0, 1.0, 57344 * 2.0**-6, 8),
}


@pytest.mark.parametrize("recipe", WINDOWS)
def test_an_amax_stays_within_its_window(recipe: str) -> None:
    """At the window's ends no scale moves; beyond them the scale follows the rule."""
    largest, low, high, room = WINDOWS[recipe]
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=(16, 16)).astype(np.float32) for _ in range(2))
    # Of nothing the cosine is one, so that what goes back is the third argument itself. All dots
    # are FP8, also sensitive ones: a cast to BF16 carries no scale.
    near, form = np.zeros_like(x), "f16" if recipe == "fp16" else "f8E5M2"
    fn = scalify.jit(
        linear if recipe == "fp16" else jax.grad(lambda x, w, g: jnp.sum(jnp.sin(x @ w) * g)),
        f'#scalify.recipe<"{recipe}", head = true, sensitive = true, gradient_exponent = 0>',
        numerics=scalify.Numerics(scales=[0, 0] if recipe == "fp16" else [0, 0, 0], health="off"),
    )
    state = 0.0
    for amax in (low * 1.01, high * 0.99, high * 1.01, high * 1.01, low * 0.99, low / 1024):
        value = np.clip(x, -1, 1) * np.float32(amax)
        fn(*((value, w) if recipe == "fp16" else (near, w, value)))
        row = next(i for i, one in enumerate(fn.report().casts()) if one["format"] == form)
        # Before the first move it is the predicted one.
        scale = state or 2.0 ** fn.report().casts()[row]["scale"]
        if not low <= np.abs(value).max() / scale <= high:
            fitting = 2.0 ** (np.ceil(np.log2(np.abs(value).max() / largest)) + room)
            state = max(fitting, scale * high / largest)
        assert carried(fn)[row] == state
    assert state


def carried(fn: scalify.Jit) -> np.ndarray:
    return fn.executable().kept["scalify.carried_scales"]


def test_the_scales_are_the_rule_s_in_numpy() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(8, 8)).astype(np.float32)
    fn = scalify.jit(linear, HEAD, numerics=scalify.Numerics(scales=[0, 0], health="off"))
    # Of two factors: rows of x are as far apart as a cast with one scale can hold, or further.
    sizes = [0, 3, 9, 9, 12, -3, -12, -12, 0, 0, 5, 5, 14, 14]
    spread = [0, 0, 0, 5, 5, 0, 0, 9, 9, 14, 14, 14, 0, 0]
    special = {4: 0.0, 6: np.inf, 8: np.nan}
    states = [0.0, 0.0]
    seen = set()
    for i, (size, below) in enumerate(zip(sizes, spread, strict=True)):
        x = (rng.normal(size=(16, 8)) * 2.0**size).astype(np.float32)
        x[2:] *= np.float32(2.0**-below)
        if i in special:
            x = np.zeros_like(x) if i == 4 else x
            x[0, 0] = special[i]
        given = np.asarray(fn(x, w))
        scales = [state or 1.0 for state in states]
        if i not in (6, 8):
            want = quantized(x, scales[0]).astype(np.float64) @ quantized(w, scales[1])
            np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
        states = [moved(state, value) for state, value in zip(states, (x, w), strict=True)]
        # Rows are in the order of the casts' readers.
        np.testing.assert_array_equal(carried(fn), np.float32(states))
        seen.add(states[0])
    # Up, down, for what became zero, and back: the case is not an empty one.
    assert len(seen) >= 5


@pytest.mark.parametrize("size", [0.0, 2.0**-12])
def test_a_blank_batch_lets_the_next_one_not_clip(size: float) -> None:
    """Biases keep the activations of a blank batch above zero, and far below those of others."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(32, 32)).astype(np.float32)
    bias = np.full(32, 2.0**-10, np.float32)
    x = rng.normal(size=(64, 32)).astype(np.float32)

    def layers(x: Any, w: Any, bias: Any) -> Any:
        return jnp.tanh(x @ w + bias) @ w

    numerics = scalify.Numerics(scales=[0, 0, -10], health="off")
    fn = scalify.jit(layers, f"{HEAD[:-1]}, sensitive = true>", numerics=numerics)
    for batch in (x, x, x * np.float32(size), x):
        fn(batch, w, bias)
    assert sum(row["saturated"] for row in fn.health()) == 0


@pytest.mark.parametrize("path", ["jit", "transform"])
def test_an_infinity_spoils_its_step_alone(path: str) -> None:
    rng = np.random.default_rng(0)
    ws = [rng.normal(size=(64, 64)).astype(np.float32) / 8 for _ in range(3)]
    x = rng.normal(size=(32, 64)).astype(np.float32)
    spoilt = x.copy()
    spoilt[0, 0] = np.inf

    def loss(ws: Any, x: Any) -> Any:
        for w in ws[:-1]:
            x = jax.nn.gelu(x @ w)
        return jnp.mean((x @ ws[-1] - 1) ** 2)

    numerics = scalify.Numerics(health="off")
    if path == "jit":
        fn = scalify.jit(jax.grad(loss), "fp8", numerics=numerics)
    else:
        fn = scalify.transform(jax.grad(loss), recipe="fp8")
    first = [np.array(g) for g in fn(ws, x)]
    for batch in (x, spoilt):
        fn(ws, batch)
    for got, want in zip(fn(ws, x), first, strict=True):
        # Scales that moved round other bits.
        assert cosine(np.asarray(got), want) > 0.999


def norm(x: Any) -> Any:
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


LAYERS, WIDTH, ROWS = 2, 32, 16


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = {"gate": (WIDTH, 2 * WIDTH), "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
    return {
        name: rng.normal(0, shape[0] ** -0.5, (LAYERS, *shape)).astype(np.float32)
        for name, shape in sizes.items()
    }


def batch(seed: int) -> np.ndarray:
    return np.random.default_rng(100 + seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def layer(x: Any, w: Any) -> tuple[Any, None]:
    h = norm(x)
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], None


def loss(w: Any, x: Any, unroll: bool = True) -> Any:
    out, _ = jax.lax.scan(layer, x, w, unroll=unroll)
    return jnp.mean((norm(out) - jnp.roll(x, 1, -1)) ** 2)


def gradients(w: Any, x: Any) -> Any:
    return jax.value_and_grad(loss)(w, x)


def growing(w: Any, x: Any, unroll: bool = True) -> Any:
    """A step whose gate and up grow by 1.3: their product, the input of down, by 1.7.

    That leaves E4M3, which has about seven binades above the product's size, in ten steps. The
    weights of down fall by as much, so that the gradient stays what it is.
    """
    value, grad = jax.value_and_grad(lambda w, x: loss(w, x, unroll))(w, x)
    factors = {"gate": 1.3, "up": 1.3, "down": 1 / 1.3**2}
    return {k: w[k] * factors[k] - 1e-3 * grad[k] for k in w}, value, grad


def cosine(a: Any, b: Any) -> float:
    x, y = (
        np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in jax.tree.leaves(t)])
        for t in (a, b)
    )
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


STEPS = 18
EXACT = jax.jit(gradients)


def train(run: Callable[..., Any], w: Any, steps: int = STEPS, first: int = 0) -> Any:
    """Returns the weights, the losses and the cosine to F32's gradient at the same weights."""
    losses, cosines = [], []
    for i in range(first, first + steps):
        before = jax.tree.map(np.array, w)
        w, value, grad = run(w, batch(i))
        losses.append(float(value))
        cosines.append(cosine(grad, EXACT(before, batch(i))[1]))
    return w, losses, cosines


def by_jit(unroll: bool = True, **numerics: Any) -> Callable[..., Any]:
    return scalify.jit(
        lambda w, x: growing(w, x, unroll),
        HEAD,
        donate_argnums=0,
        numerics=scalify.Numerics(health="off", **numerics),
    )


def flat(outputs: Any) -> Any:
    names = sorted(weights())
    return dict(zip(names, outputs[:3], strict=True)), outputs[3], outputs[4:]


def exported() -> str:
    return jax.jit(growing, donate_argnums=0).lower(weights(), batch(0)).as_text(debug_info=True)


def measured(**numerics: Any) -> scalify.Numerics:
    return scalify.Numerics(scales=scalify.measure((weights(), batch(0))), **numerics)


def by_artefact(**numerics: Any) -> Callable[..., Any]:
    run = scalify.compile(exported(), HEAD, numerics=measured(**numerics))
    return lambda w, x: flat(run(*jax.tree.leaves(w), x))


def by_transform(**numerics: Any) -> Callable[..., Any]:
    return scalify.transform(growing, HEAD, numerics=scalify.Numerics(**numerics))


def by_jitted_transform(**numerics: Any) -> Callable[..., Any]:
    return jax.jit(scalify.transform(growing, HEAD, numerics=measured(**numerics)))


def by_state(**numerics: Any) -> Callable[..., Any]:
    fn = scalify.transform(growing, HEAD, numerics=measured(**numerics))
    step = jax.jit(lambda w, x, state: fn(w, x, state=state))
    state = [fn.init_state(weights(), batch(0))]

    def run(w: Any, x: Any) -> Any:
        results, state[0] = step(w, x, state[0])
        return results

    return run


PATHS = {
    "jit": by_jit,
    "scan": lambda **numerics: by_jit(False, **numerics),
    "compile": by_artefact,
    "transform": by_transform,
    "state": by_state,
}
# What E4M3 and E5M2 make of gradients of two layers; static scales fall below 0.9.
BAR = 0.98


@pytest.mark.filterwarnings("ignore:.*has no place to keep scales")
@pytest.mark.parametrize("path", [*PATHS, "jitted"])
def test_gradients_hold_while_a_product_grows(path: str) -> None:
    run = by_jitted_transform() if path == "jitted" else PATHS[path]()
    _, _, cosines = train(run, weights())
    assert min(cosines) > BAR, cosines


@pytest.mark.parametrize("path", ["jit", "compile", "transform"])
def test_static_scales_lose_them(path: str) -> None:
    """The bar of the test above can be missed: static scales miss it."""
    _, _, cosines = train(PATHS[path](cast_scales="static"), weights())
    assert min(cosines) < 0.9, cosines


@pytest.mark.parametrize("path", ["jit", "scan", "transform"])
def test_healthy_steps_have_the_bits_of_constants(path: str) -> None:
    """In the first steps no value exceeds its format, so no scale moves."""
    carried_run, static = PATHS[path](), PATHS[path](cast_scales="static")
    w, one, _ = train(carried_run, weights(), steps=3)
    v, two, _ = train(static, weights(), steps=3)
    assert one == two
    for a, b in zip(jax.tree.leaves(w), jax.tree.leaves(v), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_traced_steps_have_the_bits_of_constants_while_these_fit() -> None:
    one, two = by_jitted_transform(), by_jitted_transform(cast_scales="static")
    w, losses, _ = train(one, weights(), steps=3)
    v, others, _ = train(two, weights(), steps=3)
    assert losses == others
    for a, b in zip(jax.tree.leaves(w), jax.tree.leaves(v), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_training_resumes_to_the_bit() -> None:
    run = by_jit()
    w, _, _ = train(run, weights(), steps=11)
    w = jax.tree.map(np.array, w)
    kept = run.executable().kept
    assert (kept["scalify.carried_scales"] != 0).any()
    _, straight, _ = train(run, w, steps=4, first=11)
    resumed, forgot = by_jit(), by_jit()
    # Scales of arguments are those of the first step.
    executable, _ = (each.executable(weights(), batch(0)) for each in (resumed, forgot))
    executable.kept = kept
    assert train(resumed, w, steps=4, first=11)[1] == straight
    assert train(forgot, w, steps=4, first=11)[1] != straight


def test_a_state_can_be_saved_set_and_handed_in() -> None:
    fn, other = by_transform(), by_transform()
    w, _, _ = train(fn, weights(), steps=11)
    w = jax.tree.map(np.array, w)
    saved = fn.state
    assert saved is not None and (saved != 0).any()
    _, straight, _ = train(fn, w, steps=3, first=11)
    other.init_state(weights(), batch(0))  # measures the scales of arguments
    other.state = saved
    _, resumed, _ = train(other, w, steps=3, first=11)
    assert resumed == straight
    (_, value, _), state = other(w, batch(11), state=saved)
    assert float(value) == straight[0]
    assert np.asarray(state).shape == saved.shape
    with pytest.raises(ValueError, match="of another program or another recipe"):
        other(w, batch(11), state=saved[1:])
    with pytest.raises(ValueError, match="positive power of two"):
        other(w, batch(11), state=saved + 3)
    with pytest.raises(TypeError, match="takes one state of scales, not 2"):
        other(w, batch(11), state=saved, scale_state=saved)


def test_a_look_at_the_function_leaves_its_state() -> None:
    fn = by_transform()
    w, _, _ = train(fn, weights(), steps=11)
    w, x = jax.tree.map(np.array, w), batch(11)
    saved = fn.state
    assert saved is not None and (saved != 0).any()
    jax.jit(fn)(w, x)
    fn.text(w, x)
    fn.report(w, x)
    fn.trace(w, x)
    np.testing.assert_array_equal(fn.state, saved)
    # And so it is the same state that is set.
    fn.state = np.zeros_like(saved)
    np.testing.assert_array_equal(fn.state, np.zeros_like(saved))


def test_an_argument_named_state_is_the_function_s_own() -> None:
    fn = scalify.transform(
        lambda x, state: (x @ state, state), HEAD, numerics=scalify.Numerics(scales=[0, 0])
    )
    x = batch(0)
    scales = fn.init_state(x, state=x.T)
    (_, own), moved_scales = fn(x, state=x.T, scale_state=scales)
    np.testing.assert_array_equal(own, x.T)
    assert moved_scales.shape == scales.shape


def plain(w: Any, x: Any) -> Any:
    """The step without growth, whose first product reads the batch itself."""

    def value(w: Any, x: Any) -> Any:
        return loss(w, x @ w["gate"][0][:, :WIDTH])

    out, grad = jax.value_and_grad(value)(w, x)
    return {k: w[k] - 1e-3 * grad[k] for k in w}, out, grad


@pytest.mark.parametrize(("factor", "one"), [(1e5, True), (1000.0, False)])
def test_a_first_batch_that_is_larger_is_forgotten(factor: float, one: bool) -> None:
    """The scale of the batch, measured on the first one, flushes most of each later one."""
    exact = jax.jit(lambda w, x: plain(w, x)[2])
    x = batch(0)
    x = np.where(np.arange(x.size).reshape(x.shape) == 0, factor, x) if one else x * factor
    x = x.astype(np.float32)
    found = {}
    for word in ("carried", "static"):
        fn = scalify.jit(
            plain, HEAD, donate_argnums=0, numerics=scalify.Numerics(health="off", cast_scales=word)
        )
        w, _, _ = fn(weights(), x)
        for i in range(1, 5):
            before = jax.tree.map(np.array, w)
            w, _, grad = fn(w, batch(i))
        found[word] = cosine(grad, exact(before, batch(4)))
    assert found["carried"] > BAR, found
    # Of nothing the cosine is no number.
    assert not found["static"] > found["carried"] - 0.02, found


def test_static_scales_are_said_and_looked_at_at_once() -> None:
    fn = scalify.jit(
        linear,
        HEAD,
        numerics=scalify.Numerics(scales=[0, 0], cast_scales="static", adaptive_scales=False),
    )
    x = np.ones((64, 64), np.float32)
    fn(x, x)
    messages = [remark["message"] for remark in fn.executable().diagnostics]
    assert any("2 casts keep the constant scales of the first step" in text for text in messages)
    x[0, :8] = 1e3  # 8 of 4,096 values: 0.2 %
    with pytest.warns(UserWarning, match=r"cast 'c\d: x'.* 8 saturated"):
        fn(x, x[::-1] * 0 + 1)


def test_what_a_first_batch_flushes_is_said_at_once() -> None:
    fn = scalify.jit(
        linear,
        HEAD,
        numerics=scalify.Numerics(scales=[8, 0], cast_scales="static", adaptive_scales=False),
    )
    with pytest.warns(UserWarning, match=r"cast 'c\d: x'.* became zero"):
        fn(batch(0) * np.float32(0.1), weights()["up"][0])


def test_the_report_says_which_scales_are_proved_static_and_carried() -> None:
    def count(scales: Any = None) -> dict[str, int]:
        fn = scalify.jit(growing, HEAD, donate_argnums=0, numerics=scalify.Numerics(scales=scales))
        # BF16 has as many binades as F32: its scales need not move.
        rows = [r for r in fn.report(weights(), batch(0)).casts() if r["format"].startswith("f8")]
        return {word: sum(row["scaling"] == word for row in rows) for word in ("carried", "static")}

    own, constant = count(), count("static")
    assert own["carried"] > 0 and own["static"] == 0
    assert constant["carried"] == 0 and constant["static"] == own["carried"]


@pytest.mark.parametrize("word", [{"cast_scales": "moved"}, {"scales": "dynamic"}])
def test_an_unknown_word_is_an_error(word: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected '(carried|static)'"):
        scalify.jit(linear, HEAD, numerics=scalify.Numerics(**word))
