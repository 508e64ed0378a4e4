"""Delayed scaling: scales from the amaxes of earlier steps, and the state that holds them."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from narrowing import saturated

import scalify

LARGEST = {"E4M3": 448.0, "E5M2": 57344.0}
LAYERS, WIDTH, ROWS = 3, 32, 16


def arguments(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = rng.normal(0, WIDTH**-0.5, (LAYERS, WIDTH, WIDTH)).astype(np.float32)
    return w, rng.normal(size=(2, ROWS, WIDTH)).astype(np.float32)


def norm(x: Any) -> Any:
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer(x: Any, w: Any) -> tuple[Any, None]:
    return x + jnp.tanh(norm(x) @ w), None


def loss(w: Any, x: Any, unroll: bool = True, remat: bool = False) -> Any:
    body = jax.checkpoint(layer) if remat else layer
    x, _ = jax.lax.scan(body, x, w, unroll=unroll)
    return jnp.mean(jnp.abs(x) ** 3)


def make_step(**options: Any) -> Callable[..., Any]:
    def step(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(functools.partial(loss, **options))(w, x[0])
        return w - 0.5 * grad, value

    return step


def micro_batches(unroll: bool) -> Callable[..., Any]:
    def step(w: Any, x: Any) -> Any:
        def add(total: Any, part: Any) -> tuple[Any, Any]:
            value, grad = jax.value_and_grad(functools.partial(loss, unroll=unroll))(w, part)
            return total + grad, value

        total, values = jax.lax.scan(add, jnp.zeros_like(w), x, unroll=unroll)
        return w - 0.5 * total, jnp.mean(values)

    return step


# All dots are FP8, also those whose rounding counts: these tests are about scales.
DELAYED = '#scalify.recipe<"fp8-delayed", sensitive = true>'


def compiled(step: Callable[..., Any], recipe: str = DELAYED) -> scalify.Jit:
    w, x = arguments()
    scales = scalify.measure((w, x))
    return scalify.jit(step, recipe, donate_argnums=0, numerics=scalify.Numerics(scales=scales))


class WithHistory:
    """A step run by JAX, which has loops, with its history kept beside it."""

    def __init__(self, step: Callable[..., Any]) -> None:
        w, x = arguments()
        self.fn = scalify.transform(
            step, DELAYED, numerics=scalify.Numerics(scales=scalify.measure((w, x)))
        )
        self.history: Any = None

        def run(w: Any, x: Any, history: Any) -> Any:
            return self.fn(w, x, amax_history=history)

        # Optimized, XLA sums in another order where it unrolls a loop, also in F32.
        self.run = jax.jit(run, compiler_options={"xla_backend_optimization_level": 0})

    def __call__(self, w: Any, x: Any) -> Any:
        if self.history is None:
            self.history = self.fn.init_state(w, x)
        result, self.history = self.run(w, x, self.history)
        return result


def train(
    fn: Callable[..., Any], steps: int, w: Any = None, first: int = 0
) -> tuple[Any, list[float]]:
    """Trains on data whose size grows, so that scales must follow it."""
    w = arguments()[0] if w is None else w
    losses = []
    for i in range(first, first + steps):
        x = arguments(i)[1] * np.float32(1 + i)
        w, value = fn(w, x)
        losses.append(float(value))
    return w, losses


def linear(x: Any, w: Any) -> Any:
    return x @ w


def quantized(x: np.ndarray, scale: float) -> np.ndarray:
    """Returns values after a cast to E4M3 at a scale: rounded to even; finite ones saturate."""
    import ml_dtypes

    clipped = saturated(x / scale, 448)
    return clipped.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(scale)


def reference_scale(row: list[float], predicted: float, use: str, margin: int) -> float:
    if not row:
        return predicted
    amax = max(row) if use == "max" else row[-1]
    return float(2.0 ** (np.ceil(np.log2(np.float32(amax) / np.float32(448))) + margin))


@pytest.mark.parametrize(
    ("parts", "window", "use", "margin"),
    [
        ("", 16, "max", 0),
        (", history = 3", 3, "max", 0),
        (", history = 2, history_use = most_recent, margin = 1", 2, "most_recent", 1),
        (", history = 1", 1, "max", 0),
    ],
)
def test_the_history_is_the_rule_s_in_numpy(parts: str, window: int, use: str, margin: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(8, 8)).astype(np.float32)
    fn = scalify.jit(
        linear, f'#scalify.recipe<"fp8-delayed"{parts}>', numerics=scalify.Numerics(scales=[0, 0])
    )
    rows: list[list[float]] = [[], []]
    special = {4: 0.0, 6: np.inf, 7: np.nan}
    for i in range(12):
        x = (rng.normal(size=(16, 8)) * 2.0 ** rng.integers(-12, 12)).astype(np.float32)
        if i in special:
            x = np.zeros_like(x) if i == 4 else x
            x[0, 0] = special[i]
        given = np.asarray(fn(x, w))
        scales = [reference_scale(row, 1.0, use, margin) for row in rows]
        with np.errstate(all="ignore"):
            want = quantized(x, scales[0]).astype(np.float64) @ quantized(w, scales[1])
        if i not in (6, 7):
            np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
        for row, value in zip(rows, (x, w), strict=True):
            amax = float(np.abs(value).max())
            if np.isfinite(amax) and amax > 0:
                row.append(amax)
                del row[:-window]
        # Rows are in the order of the casts' readers: x, then w.
        history = fn.executable().amax_history
        padded = [[0.0] * (window - len(row)) + row for row in rows]
        np.testing.assert_array_equal(history, np.float32(padded))


def test_delayed_scales_move_and_the_first_step_is_the_prediction_s() -> None:
    fn, plain = compiled(make_step()), compiled(make_step(), "fp8")
    (_, delayed), (_, predicted) = train(fn, 6), train(plain, 6)
    assert np.isfinite(delayed).all()
    np.testing.assert_allclose(delayed, predicted, rtol=0.1)
    executable = fn.executable()
    assert executable.amax_history is not None
    assert executable.amax_history[0].nbytes == 64
    assert (executable.amax_history[:, -6:] > 0).all()
    assert (executable.amax_history[:, :-6] == 0).all()
    assert "amax" in fn.report().casts()[0]["reason"]
    assert [arg["name"] for arg in executable.args] == ["w", "x"]
    assert len(executable.results) == 2


def history_of(fn: Any) -> np.ndarray:
    """Returns the history that JAX's caller or our executable holds."""
    found = fn.history if isinstance(fn, WithHistory) else fn.executable().amax_history
    return np.asarray(found)


# By XLA, which runs loops, and by our executable, which writes them out.
RUNNERS = pytest.mark.parametrize("run", [WithHistory, compiled], ids=["xla", "executable"])


@RUNNERS
def test_a_scan_and_what_it_is_unrolled_have_the_same_bits(run: Callable[..., Any]) -> None:
    scan, unrolled = run(make_step(unroll=False)), run(make_step())
    (_, one), (_, two) = train(scan, 6), train(unrolled, 6)
    assert one == two
    # Weights, what the norm gives and its gradient: the last layer's is the loss's.
    rows = [np.sort(history_of(fn), axis=0) for fn in (scan, unrolled)]
    assert len(rows[0]) == 3
    # XLA sums in another order in a loop, also in F32: some last digits of an amax.
    np.testing.assert_allclose(*rows, rtol=0 if run is compiled else 2.0**-20)


def test_a_checkpoint_in_the_step_changes_no_bit() -> None:
    plain, remat = compiled(make_step()), compiled(make_step(remat=True))
    (_, one), (_, two) = train(plain, 6), train(remat, 6)
    assert one == two
    # Weights, what the norm gives and its gradient: what is made again adds no row.
    assert len(remat.executable().amax_history) == 3
    rows = [np.unique(fn.executable().amax_history, axis=0) for fn in (plain, remat)]
    np.testing.assert_array_equal(*rows)


@RUNNERS
def test_micro_batches_keep_the_largest_amax(run: Callable[..., Any]) -> None:
    scan, unrolled = run(micro_batches(False)), run(micro_batches(True))
    (_, one), (_, two) = train(scan, 5), train(unrolled, 5)
    assert one == two
    history = {}
    for name, pick in (("both", slice(None)), ("first", slice(1)), ("last", slice(1, None))):
        fn = run(micro_batches(False))
        w, x = arguments()
        x[0] *= 64
        fn(w, x[pick])
        history[name] = np.sort(history_of(fn)[:, -1])
    # Of the forward's input, the first micro-batch has the largest.
    assert history["both"].max() == history["first"].max() != history["last"].max()


def whole_batch(w: Any, x: Any) -> Any:
    """The step of `micro_batches`, with all rows in one batch."""
    value, grad = jax.value_and_grad(loss)(w, x.reshape(-1, WIDTH))
    return w - grad, value  # 0.5 of a sum of two means


def bound_of_sums(w: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Returns a gradient, what another order of sums over rows may do to weights and loss, a flip.

    Sums of n terms in F32 differ by n 2^-24 of the sum of the terms' magnitudes. An operand so
    moved across a tie flips by an ulp of E5M2, 2^-2 of itself at most, which moves the loss by as
    much of gradient times operand: of a weight here, whose share is that of what it meets.
    """
    each = jax.vmap(jax.grad(loss), (None, 0))(w, x.reshape(-1, 1, WIDTH)) / (2 * ROWS)
    sums = (2 * ROWS + 2) * 2.0**-24
    flip = 0.25 * jnp.abs(each * w).max()
    own = sums * loss(w, x.reshape(-1, WIDTH))
    return each.sum(0), sums * jnp.abs(each).sum(0), own, flip


def test_two_micro_batches_are_one_of_twice_the_size_but_for_sums() -> None:
    """Gradients of half the rows are twice as large, and so are their scales: the same data."""
    parts, whole = compiled(micro_batches(False)), compiled(whole_batch)
    bounds = jax.jit(bound_of_sums)
    v = w = arguments()[0]
    moved, flips = np.zeros_like(w), 0
    for i in range(6):
        x = arguments(i)[1] * np.float32(1 + i)
        gradient, step, own, flip = map(np.asarray, bounds(np.asarray(w), x))
        (w, one), (v, two) = parts(w, x), whole(v, x)
        # Weights that sums of earlier steps have moved, sums of this one, and of some 10^4 casts
        # a step, whose operands differ by 2^-20 and whose ties are 2^-3 apart, a flip at most.
        bound = np.sum(np.abs(gradient) * moved) + own + flips * flip
        assert abs(float(one) - float(two)) <= bound
        moved, flips = moved + step, flips + 1
    # Gradients, weights, what the norm gives.
    rows = [np.unique(history_of(fn), axis=0) for fn in (parts, whole)]
    np.testing.assert_allclose(rows[0], rows[1] * np.array([[2.0], [1.0], [1.0]]), rtol=2.0**-10)


def branches(w: Any, x: Any, is_first: Any) -> Any:
    """A product with one of two weights; the branch computes its operand."""
    return jax.lax.cond(is_first, lambda x: abs(x) @ w[0], lambda x: (x * abs(x)) @ w[1], x)


def test_the_squares_of_a_matrix_power_are_no_layers() -> None:
    """All products of `matrix_power` are at one place, and their sizes 2^24 apart."""
    matrix = np.random.default_rng(2).normal(0, 30, (64, 64)).astype(np.float32)

    def power(x: Any) -> Any:
        return jnp.linalg.matrix_power(x, 5)

    exact = np.asarray(jax.jit(power)(matrix))
    step = scalify.jit(power, recipe="fp8-delayed")
    for _ in range(3):
        error = np.linalg.norm(np.asarray(step(matrix)) - exact) / np.linalg.norm(exact)
        # Three chained products of E4M3 data, each of a relative error of 0.026 sqrt(2).
        assert error < 0.1


def test_a_branch_that_did_not_run_has_no_amax() -> None:
    """Against numpy: casts of a branch see only the steps in which it ran; slices of w see all."""
    w = arguments()[0]
    # A product of weights that makes a result is a head.
    fn = scalify.jit(
        branches,
        scalify.Recipe.preset("fp8-delayed").replace(head=True),
        numerics=scalify.Numerics(scales=scalify.measure((w, arguments()[1][0], True))),
    )
    rows: dict[str, list[float]] = {"first": [], "second": [], "w": []}
    for i, is_first in enumerate([True, False, False, True, True, False, True]):
        x = arguments(i)[1][0] * np.float32(2.0**i)
        given = np.asarray(fn(w, x, np.bool_(is_first)))
        name, value = ("first", abs(x)) if is_first else ("second", x * abs(x))
        weight = w[0 if is_first else 1]
        # What was not seen yet has the scale of the rules.
        if rows[name]:
            scales = [reference_scale(rows[row], 1.0, "max", 0) for row in (name, "w")]
            want = quantized(value, scales[0]) @ quantized(weight, scales[1])
            np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-5 * abs(want).max())
        rows[name].append(float(abs(value).max()))
        rows["w"].append(float(abs(weight).max()))
        padded = [[0.0] * (16 - len(row)) + row for row in rows.values()]
        want_rows = np.sort(np.array(padded, np.float32), axis=0)
        np.testing.assert_array_equal(np.sort(history_of(fn), axis=0), want_rows)


@pytest.mark.parametrize("step", [make_step(), micro_batches(False)], ids=["layers", "loops"])
def test_training_resumes_to_the_bit(step: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    fn = compiled(step)
    w, first = train(fn, 3)
    file = tmp_path / "checkpoint.npz"
    np.savez(file, w=np.asarray(w), amax_history=fn.executable().amax_history)
    _, straight = train(fn, 4, w, first=3)

    resumed = compiled(step)
    with np.load(file) as saved:
        w, history = saved["w"], saved["amax_history"]
    resumed.executable(*arguments()).amax_history = history
    _, rest = train(resumed, 4, w, first=3)
    assert rest == straight
    # Without the history they are others: the test can fail.
    forgot = compiled(step)
    assert train(forgot, 4, w, first=3)[1] != straight
    assert len(first) == 3


def test_recompiling_keeps_the_history() -> None:
    fn, straight = compiled(make_step()), compiled(make_step())
    w, _ = train(fn, 3)
    fn.recompile()
    v, _ = train(straight, 3)
    assert train(fn, 3, w, first=3)[1] == train(straight, 3, v, first=3)[1]


def test_what_an_executable_keeps_goes_by_name() -> None:
    fn, resumed = compiled(make_step()), compiled(make_step())
    w = np.array(train(fn, 3)[0])
    kept = fn.executable().kept
    assert list(kept) == ["scalify.amax_history"]
    _, straight = train(fn, 3, w, first=3)
    # A copy: the steps since then have not changed it.
    executable = resumed.executable(*arguments())
    executable.kept = kept
    np.testing.assert_array_equal(executable.amax_history, kept["scalify.amax_history"])
    assert train(resumed, 3, w, first=3)[1] == straight
    with pytest.raises(ValueError, match=r"'scalify.scales' is not kept.*'scalify.amax_history'"):
        executable.kept = {"scalify.scales": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match="of another program or another recipe"):
        executable.kept = {name: array[:1] for name, array in kept.items()}
    with pytest.raises(ValueError, match="the step takes 2 arguments, not 3"):
        executable(*arguments(), kept["scalify.amax_history"])
    plain = compiled(make_step(), "fp8-current").executable(*arguments())
    assert plain.kept == {}
    with pytest.raises(ValueError, match="keeps nothing"):
        plain.kept = kept


def test_a_history_of_another_step_is_an_error() -> None:
    executable = compiled(make_step()).executable(*arguments())
    with pytest.raises(ValueError, match="of another program or another recipe"):
        executable.amax_history = np.zeros((1, 16))
    with pytest.raises(ValueError, match="negative or not finite"):
        executable.amax_history = executable.amax_history - 1
    plain = compiled(make_step(), "fp8").executable(*arguments())
    assert plain.amax_history is None
    with pytest.raises(ValueError, match="not delayed"):
        plain.amax_history = np.zeros((1, 16))
    with pytest.raises(ValueError, match="moves scales by the amaxes"):
        scalify.jit(linear, "fp8-delayed", numerics=scalify.Numerics(health="rescale"))


def test_transform_takes_and_returns_the_history() -> None:
    w, x = arguments()
    fn = scalify.transform(
        make_step(), DELAYED, numerics=scalify.Numerics(scales=scalify.measure((w, x)))
    )
    with pytest.raises(TypeError, match="needs the amaxes of earlier steps"):
        fn(w, x)
    state = fn.init_state(w, x)
    step = jax.jit(lambda w, x, state: fn(w, x, amax_history=state))
    own = compiled(make_step())
    v = w
    for i in range(3):
        (w, value), state = step(w, x * np.float32(1 + i), state)
        v, expected = own(v, x * np.float32(1 + i))
        np.testing.assert_allclose(float(value), float(expected), rtol=1e-4)
    np.testing.assert_allclose(state, own.executable().amax_history, rtol=1e-3)
    with pytest.raises(ValueError, match="of another program or another recipe"):
        fn(w, x, amax_history=np.zeros((1, 16), np.float32))
    plain = scalify.transform(
        make_step(), "fp8-current", numerics=scalify.Numerics(scales=scalify.measure((w, x)))
    )
    with pytest.raises(TypeError, match="keeps no state"):
        plain(w, x, amax_history=state)
    with pytest.raises(ValueError, match="keeps no state"):
        plain.init_state(w, x)
    with pytest.raises(NotImplementedError, match=r"jax\.vmap"):
        jax.vmap(lambda x: fn(w, x, amax_history=state))(np.stack([x, x]))


def test_probe_and_statistics_run_from_an_empty_history() -> None:
    w, x = arguments()
    rows = scalify.probe(make_step(), DELAYED)(w, x)
    assert {row["format"] for row in rows} == {"float8_e4m3fn", "float8_e5m2"}
    fn = scalify.transform(make_step(), DELAYED, statistics=True)
    (_, value), state = fn(w, x, amax_history=fn.init_state(w, x))
    assert np.isfinite(value) and (np.asarray(state)[:, -1] > 0).all()
    assert len(fn.statistics().casts) == len(rows)
    assert scalify.collect(make_step(), w, x, steps=2, recipe=DELAYED).casts
