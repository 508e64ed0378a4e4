"""scalify.lax: the identity under JAX's transformations, and what the compiler makes of it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from xla_casts import XLA_CASTS

import scalify
from scalify import lax

MARKS = {
    "set_scaling": lambda x: lax.set_scaling(x, 0.25),
    "set_scaling at run time": lambda x: lax.set_scaling(x, jnp.max(jnp.abs(x))),
    "rescale": lax.rescale,
    "rescale_grad": lambda x: lax.rescale_grad(x, "max"),
    "rescale of rows": lambda x: lax.rescale(x, axis=-1),
    "rescale_grad of rows": lambda x: lax.rescale_grad(x, "l1", axis=-1),
    "get_data_scale": lambda x: jnp.multiply(*lax.get_data_scale(x)),
}


def layer(mark: Any, x: Any, w: Any) -> Any:
    return mark(jnp.tanh(mark(x) @ mark(w)))


def under_jit(mark: Any) -> Any:
    return jax.jit(lambda x, w: layer(mark, x, w).sum())


def under_grad(mark: Any) -> Any:
    return jax.grad(lambda x, w: layer(mark, x, w).sum(), (0, 1))


def under_jvp(mark: Any) -> Any:
    return lambda x, w: jax.jvp(lambda y: layer(mark, y, w), (x,), (jnp.cos(x),))


def under_second_derivative(mark: Any) -> Any:
    return lambda x, w: jax.jvp(jax.grad(lambda y: layer(mark, y, w).sum()), (x,), (jnp.cos(x),))


def under_vmap(mark: Any) -> Any:
    grad = jax.grad(lambda x, w: layer(mark, x, w).sum())
    return lambda x, w: jax.vmap(grad, (0, None))(x[:, None, :], w)


def under_scan(mark: Any) -> Any:
    def run(x: Any, w: Any) -> Any:
        carry, _ = jax.lax.scan(lambda c, _: (layer(mark, c, w), None), x, None, length=3)
        return carry.sum()

    return jax.value_and_grad(run, (0, 1))


def under_remat(mark: Any) -> Any:
    block = jax.checkpoint(lambda x, w: layer(mark, x, w))
    return jax.jit(jax.value_and_grad(lambda x, w: block(block(x, w), w).sum(), (0, 1)))


TRANSFORMATIONS = [
    under_jit,
    under_grad,
    under_jvp,
    under_second_derivative,
    under_vmap,
    under_scan,
    under_remat,
]


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(4, 8)).astype(np.float32),
        rng.normal(0, 0.3, (8, 8)).astype(np.float32),
    )


def assert_equal(got: Any, want: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        # Equal programs but for the marks: XLA may fuse them differently.
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("transformation", TRANSFORMATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", MARKS)
def test_in_plain_jax_a_mark_is_the_identity(name: str, transformation: Any) -> None:
    args = inputs()
    assert_equal(transformation(MARKS[name])(*args), transformation(lambda x: x)(*args))


@pytest.mark.parametrize("transformation", TRANSFORMATIONS, ids=lambda f: f.__name__)
def test_in_transform_marks_change_no_true_value(transformation: Any) -> None:
    args = inputs()

    def mark(x: Any) -> Any:
        for one in MARKS.values():
            x = one(x)
        return x

    want = transformation(lambda x: x)(*args)
    assert_equal(scalify.transform(transformation(mark), recipe="none")(*args), want)
    # Two of the transformed functions end in their only linear layer, which `fp8` leaves wide.
    rewritten = scalify.transform(
        transformation(mark), recipe='#scalify.recipe<"fp8", head = true>'
    )
    fp8 = jax.tree.leaves(rewritten(*args))
    assert rewritten.report(*args).casts()
    for a, b in zip(fp8, jax.tree.leaves(want), strict=True):
        # E4M3 has three bits, E5M2 two; tanh and sums over 8 pass the errors on.
        assert np.linalg.norm(a - b) <= 0.25 * np.linalg.norm(b)


def test_trees_and_what_has_no_scale() -> None:
    tree = {"a": jnp.ones(3), "b": (jnp.arange(2), None), "c": jnp.bfloat16(2), "d": True}
    for mark in (lax.rescale, lax.rescale_grad, lambda x: lax.set_scaling(x, 2.0)):
        out = mark(tree)
        assert jax.tree.structure(out) == jax.tree.structure(tree)
        assert out["c"].dtype == jnp.bfloat16 and out["b"][0].dtype == jnp.int32
    data, scale = lax.get_data_scale(tree)
    assert jax.tree.structure(data) == jax.tree.structure(tree) == jax.tree.structure(scale)
    assert float(scale["a"]) == 1.0 and data["d"] is True


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="unknown statistic 'rms'"):
        lax.rescale(jnp.ones(2), "rms")  # type: ignore[arg-type]
    for scale in (0.0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="not positive and finite"):
            lax.set_scaling(jnp.ones(2), scale)
    with pytest.raises(ValueError, match=r"of shape \(2,\)"):
        lax.set_scaling(jnp.ones(2), jnp.ones(2))


def two_layers(mark: Any, grad_mark: Any) -> Any:
    """Returns a function of x, w, v and g; g is the cotangent of the second product."""

    def run(x: Any, w: Any, v: Any, g: Any) -> Any:
        def forward(w: Any) -> Any:
            return grad_mark(mark(x) @ w) @ v

        return jax.vjp(forward, w)[1](g)[0]

    return run


def casts(mark: Any = lambda x: x, grad_mark: Any = lambda x: x, **arrays: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    given = {
        "x": rng.normal(size=(16, 32)),
        "w": rng.normal(0, 0.1, (32, 8)),
        "v": rng.normal(0, 0.1, (8, 24)),
        "g": rng.normal(0, 1e-3, (16, 24)),
    } | arrays
    args = [np.asarray(array, np.float32) for array in given.values()]
    recipe = '#scalify.recipe<"fp8", head = true>'
    # As the rules predict for units, whatever the arrays hold.
    rows = scalify.probe(two_layers(mark, grad_mark), recipe, scales=[0, -3, -3, -10])(*args)
    return {row["name"].split(": ")[1]: row for row in rows}


def floor_to_power_of_two(value: float) -> float:
    return float(2.0 ** np.floor(np.log2(value)))


STATISTICS = {
    "max": lambda x: np.max(np.abs(x)),
    "l1": lambda x: np.mean(np.abs(x)),
    "l2": lambda x: np.sqrt(np.mean(x.astype(np.float64) ** 2)),
}


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("magnitude", [3.0, 100.0, 2.0**-9])
def test_rescale_gives_casts_the_statistic(statistic: str, magnitude: float) -> None:
    x = magnitude * np.random.default_rng(2).normal(size=(16, 32))
    row = casts(mark=lambda x: lax.rescale(x, statistic), x=x)["x"]  # type: ignore[arg-type]
    assert row["scale"] == floor_to_power_of_two(STATISTICS[statistic](row["value"]))
    assert casts(x=x)["x"]["scale"] == 1.0


def test_rescale_keeps_the_scale_of_zeros_and_of_what_is_not_finite() -> None:
    keep = np.ones((16, 32))
    for bad in (0 * keep, np.where(np.eye(16, 32), np.inf, keep), keep * np.nan):
        assert casts(mark=lax.rescale, x=bad)["x"]["scale"] == 1.0
    # The floor is relative to the prediction.
    assert casts(mark=lax.rescale, x=2.0**-30 * keep)["x"]["scale"] == 2.0**-14


@pytest.mark.parametrize("power", [-9, 7])
def test_rescale_grad_measures_the_cotangent_and_nothing_else(power: int) -> None:
    g = 2.0**power * np.random.default_rng(3).normal(0, 1e-3, (16, 24))
    plain = casts(g=g)
    marked = casts(grad_mark=lax.rescale_grad, g=g)
    assert plain.keys() == marked.keys()
    (name,) = (name for name in plain if plain[name]["scale"] != marked[name]["scale"])
    row = marked[name]
    assert row["phase"] == "backward" and row["value"].shape == (16, 8)
    assert row["scale"] == floor_to_power_of_two(STATISTICS["l2"](row["value"]))


def test_a_measured_scale_flows_through_products_sums_and_moves() -> None:
    def fn(x: Any, y: Any, w: Any) -> Any:
        a = lax.rescale(x)
        b = jnp.concatenate([3.0 * a.T, -a.T]).T  # Pass and Product
        c = b + jnp.concatenate([y, y], axis=1)  # Align: the larger of both
        return b @ w, c @ w

    rng = np.random.default_rng(4)
    x = rng.normal(size=(16, 16)).astype(np.float32)
    y = rng.normal(size=(16, 16)).astype(np.float32)
    w = rng.normal(size=(32, 8)).astype(np.float32)
    recipe = '#scalify.recipe<"fp8", head = true>'
    probe = scalify.probe(fn, recipe, scales=[0, 0, 0])
    before = {row["name"]: row["scale"] for row in probe(x, y, w)}
    grown = {row["name"]: row for row in probe(2.0**12 * x, y, w)}
    shrunk = {row["name"]: row for row in probe(2.0**-12 * x, y, w)}
    moves = {name: np.log2(grown[name]["scale"] / before[name]) for name in before}
    assert sorted(moves.values()) == [0, 11, 12] or sorted(moves.values()) == [0, 12, 12]
    for rows in (grown, shrunk):
        for row in rows.values():
            drift = np.log2(STATISTICS["l2"](row["value"]) / row["scale"])
            assert -3 < drift < 3, row["name"]


def test_set_scaling_pins_the_scale_downstream() -> None:
    for pinned in (lambda x: lax.set_scaling(x, 100.0), lambda x: lax.set_scaling(x, x[0, 0])):
        x = np.ones((16, 32))
        x[0, 0] = 100.0
        rows = casts(mark=pinned, x=x)
        assert rows["x"]["scale"] == 64.0
    report = scalify.transform(
        lambda x, w: lax.set_scaling(x, 8.0) * 2 @ w, numerics=scalify.Numerics(scales=[0, 0])
    ).report(np.ones((4, 8), np.float32), np.ones((8, 4), np.float32))
    assert [row["scale"] for row in report if row["op"] == "multiply"] == [4]


def test_get_data_scale_gives_the_propagated_scale() -> None:
    def fn(x: Any, w: Any) -> Any:
        y = lax.set_scaling(x, 32.0)
        return (*lax.get_data_scale(y), *lax.get_data_scale(lax.rescale(x, "max")), y @ w)

    x, w = (np.full(shape, 9, np.float32) for shape in ((4, 8), (8, 4)))
    data, scale, measured, unit, _ = scalify.transform(
        fn, numerics=scalify.Numerics(scales=[0, 0])
    )(x, w)
    assert float(scale) == 32.0 and np.array_equal(np.asarray(data), x / 32)
    assert float(unit) == 8.0 and np.array_equal(np.asarray(measured), x / 8)


def test_the_text_of_plain_jax_compiles_in_other_compilers() -> None:
    def fn(x: Any) -> Any:
        return lax.rescale(lax.set_scaling(x, 2.0))

    lowered = jax.jit(fn).lower(np.ones(4, np.float32))
    assert lowered.as_text().count('stablehlo.composite "scalify.') == 2
    assert "composite" not in lowered.compile().as_text()


def test_other_composites_are_their_decompositions() -> None:
    @jax.jit
    def fn(x: Any) -> Any:
        square = jax.lax.composite(lambda x: jnp.sin(x) * x, name="my.op")
        return square(square(x))

    x = np.linspace(0, 3, 5, dtype=np.float32)
    text = scalify.opt(fn.lower(x).as_text(), "scalify-import")
    assert "composite" not in text and text.count("stablehlo.sine") == 2
    assert_equal(scalify.jit(fn, recipe="none")(x), fn(x))


@XLA_CASTS
def test_own_runtime_measures_the_same_scales() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((16, 32), (32, 8)))

    def fn(x: Any, w: Any) -> Any:
        return lax.rescale(2.0**9 * x) @ w

    recipe = '#scalify.recipe<"fp8", head = true>'
    got = np.asarray(
        scalify.jit(fn, recipe=recipe, numerics=scalify.Numerics(scales=[0, 0]))(2.0**8 * x, w)
    )
    want = np.asarray(
        scalify.transform(fn, recipe=recipe, numerics=scalify.Numerics(scales=[0, 0]))(
            2.0**8 * x, w
        )
    )
    # Sums of products of FP8 data, in another order.
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


ROWS = '#scalify.recipe<"fp8", head = true>'


def rows_of_many_sizes(rows: int = 24, columns: int = 32) -> np.ndarray:
    """Returns an array whose rows span 2^23, more than E4M3 has."""
    rng = np.random.default_rng(8)
    sizes = 2.0 ** np.arange(rows)[:, None]
    return (sizes * rng.normal(size=(rows, columns))).astype(np.float32)


def row_errors(got: Any, want: np.ndarray) -> np.ndarray:
    """Returns the relative error of each row along the last axis."""
    got = np.asarray(got, np.float64)
    return np.linalg.norm(got - want, axis=-1) / np.linalg.norm(want, axis=-1)


@pytest.mark.parametrize("make", [scalify.jit, scalify.transform], ids=["jit", "transform"])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_rows_have_scales_of_their_own(statistic: Any, make: Any) -> None:
    x = rows_of_many_sizes()
    w = np.random.default_rng(9).normal(size=(32, 8)).astype(np.float32)
    want = x.astype(np.float64) @ w

    def product(axis: Any) -> Any:
        scaled = scalify.Numerics(scales=[0, 0])
        return make(lambda x, w: lax.rescale(x, statistic, axis=axis) @ w, ROWS, numerics=scaled)

    assert row_errors(product(-1)(x, w), want).max() < 0.1
    # One scale for all of them flushes the small rows to zero: the test can fail.
    assert row_errors(product(None)(x, w), want).max() > 0.9
    assert row_errors(product((0, 1))(x, w), want).max() > 0.9


def test_scales_of_rows_pass_moves_and_products() -> None:
    x = rows_of_many_sizes()
    w = np.random.default_rng(9).normal(size=(32, 8)).astype(np.float32)

    def fn(x: Any, w: Any) -> Any:
        y = -lax.rescale(x, axis=1) * jnp.float32(3)
        heads = y.reshape(4, 6, 8, 4).reshape(4, 6, 32)
        moved = jnp.transpose(y)  # the rows are columns now
        return jnp.einsum("abk,kn->abn", heads, w), jnp.einsum("kn,km->mn", w, moved)

    first, second = scalify.transform(fn, ROWS, numerics=scalify.Numerics(scales=[0, 0]))(x, w)
    want = -3 * x.astype(np.float64) @ w
    assert row_errors(np.reshape(first, (24, 8)), want).max() < 0.1
    assert row_errors(second, want).max() < 0.1


def test_both_operands_of_a_batched_dot_may_have_rows() -> None:
    x = rows_of_many_sizes(24, 16).reshape(2, 12, 16)
    y = rows_of_many_sizes(20, 16)[::-1].reshape(2, 10, 16)

    def fn(x: Any, y: Any) -> Any:
        return jnp.einsum("bik,bjk->bij", lax.rescale(x, axis=2), lax.rescale(y, axis=2))

    recipe = '#scalify.recipe<"fp8", head = true, attention = true>'
    got = scalify.jit(fn, recipe, numerics=scalify.Numerics(scales=[0, 0]))(x, y)
    want = np.einsum("bik,bjk->bij", x.astype(np.float64), y)
    norms = np.linalg.norm(x, axis=2)[:, :, None] * np.linalg.norm(y, axis=2)[:, None, :]
    assert np.all(np.abs(np.asarray(got) - want) < 0.05 * norms)
    # Under one scale for each of the two what the small rows give is lost.
    plain = scalify.jit(
        lambda x, y: jnp.einsum("bik,bjk->bij", x, y),
        recipe,
        numerics=scalify.Numerics(scales=[5, 5]),
    )
    assert np.any(np.abs(np.asarray(plain(x, y)) - want) > 0.5 * norms)
    np.testing.assert_allclose(
        np.asarray(scalify.transform(fn, recipe, numerics=scalify.Numerics(scales=[0, 0]))(x, y)),
        np.asarray(got),
        rtol=1e-4,
    )


def test_gradients_of_rows_and_the_dot_that_contracts_them() -> None:
    """The gradient of x keeps its rows; that of w sums over them and takes one scale."""
    rng = np.random.default_rng(10)
    x = rng.normal(size=(24, 32)).astype(np.float32)
    w = rng.normal(size=(32, 8)).astype(np.float32)
    g = rows_of_many_sizes(24, 8)

    def gradients(mark: Any) -> Any:
        return lambda x, w, g: jax.vjp(lambda x, w: mark(x @ w), x, w)[1](g)

    mark = functools.partial(lax.rescale_grad, axis=-1)
    fn = scalify.jit(gradients(mark), ROWS, numerics=scalify.Numerics(scales=[0, 0, 0]))
    of_x, of_w = (np.asarray(a, np.float64) for a in fn(x, w, g))
    want_x, want_w = (np.asarray(a, np.float64) for a in gradients(lambda y: y)(x, w, g))
    assert row_errors(of_x, want_x).max() < 0.2
    assert np.linalg.norm(of_w - want_w) < 0.1 * np.linalg.norm(want_w)
    remarks = [entry["message"] for entry in fn.executable().diagnostics]
    (remark,) = (text for text in remarks if "the largest scale of all rows is taken" in text)
    assert "along which scales differ, is contracted" in remark
    strict = scalify.jit(
        gradients(mark), ROWS, numerics=scalify.Numerics(scales=[0, 0, 0]), strict=True
    )
    with pytest.raises(scalify.CompileError, match="cannot take the scales of rows: dimension 0"):
        strict(x, w, g)


def test_rows_under_vmap_scan_and_remat() -> None:
    x = rows_of_many_sizes()
    w = np.random.default_rng(9).normal(size=(32, 32)).astype(np.float32) / 8
    want = x.astype(np.float64) @ w
    mark = functools.partial(lax.rescale, axis=-1)
    forms = {
        # Of a vector, axis -1 is all of it: under vmap each has its scale.
        "vmap": lambda x, w: jax.vmap(lambda row: mark(row) @ w)(x),
        "vmap of columns": lambda x, w: jax.vmap(lambda row: mark(row) @ w, 1)(x.T),
        "scan": lambda x, w: jax.lax.scan(lambda c, _: (mark(x) @ w, None), x, None, length=2)[0],
        "remat": lambda x, w: jax.checkpoint(lambda x: mark(x) @ w)(x),
    }
    for name, fn in forms.items():
        got = scalify.transform(fn, ROWS, numerics=scalify.Numerics(scales=[0, 0]))(x, w)
        assert row_errors(got, want).max() < 0.1, name


def test_rows_of_zeros_and_of_what_is_not_finite() -> None:
    x = rows_of_many_sizes()
    x[3] = 0
    x[5, 2] = np.inf
    w = np.abs(np.random.default_rng(9).normal(size=(32, 8))).astype(np.float32)
    got = np.asarray(
        scalify.jit(
            lambda x, w: lax.rescale(x, axis=1) @ w, ROWS, numerics=scalify.Numerics(scales=[0, 0])
        )(x, w)
    )
    good = [i for i in range(24) if i not in (3, 5)]
    want = x[good].astype(np.float64) @ w
    assert row_errors(got[good], want).max() < 0.3 and not got[3].any()
    for axis in (2, -3, (0, 5)):
        with pytest.raises(ValueError, match="for an array of rank 2"):
            lax.rescale(x, axis=axis)


def test_marks_survive_the_transformations_and_reach_the_compiler() -> None:
    """The marks are not just identities: under each transformation they are in the text."""
    args = inputs()
    count = {}
    for transformation in TRANSFORMATIONS:
        for name, mark in MARKS.items():
            text = jax.jit(transformation(mark)).lower(*args).as_text()
            assert "composite" not in jax.jit(transformation(lambda x: x)).lower(*args).as_text()
            ops = scalify.opt(text, "scalify-import")
            kinds = "override_scale", "rescale_point", "data_scale"
            count[transformation.__name__, name] = sum(ops.count(f"scalify.{k} ") for k in kinds)
    backward = "under_grad", "under_second_derivative", "under_vmap", "under_scan", "under_remat"
    for (transformation, name), marks in count.items():
        if "grad" in name and transformation not in backward:
            assert marks == 0, (transformation, name)
        elif (transformation, name) != ("under_second_derivative", "get_data_scale"):
            assert marks > 0, (transformation, name)


def test_what_crosses_a_border_in_fp8_is_rounded_by_its_scale() -> None:
    values = np.linspace(-3, 3, 64, dtype=np.float32).reshape(4, 16)

    def cross(x: jax.Array) -> jax.Array:
        small = x * 2.0**-20
        return scalify.lax.stage_border(small, wire="fp8") * 2.0**20

    def rounded(x: Any, dtype: Any) -> Any:
        return np.asarray(x, np.float32).astype(dtype).astype(np.float32)

    # In plain JAX the scale is 1: E4M3 has nothing as small; the cotangent is 2^20, beyond E5M2.
    wanted = rounded(values * 2.0**-20, ml_dtypes.float8_e4m3fn) * 2.0**20
    np.testing.assert_array_equal(cross(values), wanted)
    assert not wanted.any()
    _, back = jax.vjp(lambda x: scalify.lax.stage_border(x, wire="fp8"), values)
    (gradient,) = back(values)
    np.testing.assert_array_equal(gradient, rounded(values, ml_dtypes.float8_e5m2))
    (gradient,) = back(np.full_like(values, 2.0**20))
    np.testing.assert_array_equal(gradient, np.full_like(values, 57344))
    # A recipe that casts knows the scale, a power of two: half a unit of three bits is lost.
    found = np.asarray(scalify.jit(cross, "fp8")(values))
    np.testing.assert_allclose(found, values, rtol=2.0**-4, atol=2.0**-9)
    assert len(np.unique(found)) > 20
