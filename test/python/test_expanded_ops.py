"""Ops without a command of the plan, against jax.jit: sorts, windows, convolutions, chlo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpu_run import check, compile_text, compiled
from jax import lax

import scalify


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ties(*shape: int) -> np.ndarray:
    """Values of which many are equal, with zeros of both signs, infinities and a NaN."""
    values = np.round(2 * normal(*shape))
    values.reshape(-1)[:5] = [-0.0, 0.0, np.inf, -np.inf, np.nan]
    return values


SORTS: dict[str, Callable[..., Any]] = {
    "sort": lambda x: jnp.sort(x, 0),
    "descending": lambda x: jnp.sort(x, descending=True),
    "argsort": lambda x: jnp.argsort(x, -1),
    "top_k": lambda x: lax.top_k(x, 3),
    "by_two_keys": lambda x: lax.sort(
        (x, x[::-1], jnp.arange(x.size).reshape(x.shape)), num_keys=2
    ),
    "integers": lambda x: jnp.argsort(jnp.nan_to_num(x).astype(jnp.int8), 1),
    "grad": lambda x: jax.grad(lambda y: (jnp.sort(y, 0)[::2] ** 2).sum())(jnp.nan_to_num(x)),
}


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("shape", [(6, 17), (70, 9), (5, 100)])
def test_sorts(name: str, shape: tuple[int, int]) -> None:
    """Rows of up to 64 elements are sorted differently than longer ones; 70 and 100 are padded."""
    check(SORTS[name], ties(*shape), exact=name != "grad")


def test_what_sorts_alike_stays_as_it_was_though_zeros_fill_up() -> None:
    """In a descending sort, padding by zeros would end up in the middle."""
    x = np.sign(ties(70))
    order = jnp.argsort(x, descending=True)
    check(lambda x: jnp.argsort(x, descending=True), x, exact=True)
    assert sorted(np.asarray(order)) == list(range(70))


EDGES = ((0, 0), (1, 1), (1, 0), (0, 0))
WINDOWS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "cumsum": (lambda x: jnp.cumsum(x, 0), (9, 4)),
    "cumsum_long": (lambda x: jnp.cumsum(x, 1), (3, 100)),
    "cumsum_reverse_long": (lambda x: lax.cumsum(x, 0, reverse=True), (70, 3)),
    "cummax": (lambda x: lax.cummax(x, 1), (3, 100)),
    "cumsum_grad": (jax.grad(lambda x: (jnp.cumsum(x, 1) ** 2).sum()), (2, 80)),
    "average": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
        (2, 7, 6, 3),
    ),
    "dilated": (
        lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (2, 3), (1, 2), ((1, 0), (2, 3)), (2, 1), (1, 2)
        ),
        (5, 9),
    ),
    "max_grad": (
        jax.grad(
            lambda x: jnp.sin(
                lax.reduce_window(
                    x,
                    -jnp.inf,
                    lax.max,
                    (1, 3, 3, 1),
                    (1, 2, 2, 1),
                    ((0, 0), (1, 1), (1, 0), (0, 0)),
                )
            ).sum()
        ),
        (2, 8, 7, 3),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    fn, shape = WINDOWS[name]
    # Sums of up to 100 elements in another order.
    check(fn, normal(*shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [(63, 0), (0, 63)])
def test_prefixes_start_from_any_bound(padding: tuple[int, int]) -> None:
    x = -np.abs(normal(64))
    check(
        lambda x: lax.reduce_window(x, np.float32(-0.01), lax.max, (64,), (1,), (padding,)),
        x,
        exact=True,
    )


def test_reducers_hold_constants() -> None:
    def fn(x: jax.Array) -> Any:
        decay = lambda a, b: a * 0.5 + b  # noqa: E731
        zero = jnp.float32(0)
        return lax.reduce(x, zero, decay, (1,)), lax.reduce_window(x, zero, decay, (1, 3))

    # The same sums in the same order.
    check(fn, normal(4, 9), rtol=1e-6)


@pytest.mark.parametrize("size", [6, 70])
def test_any_comparator_gives_a_permutation(size: int) -> None:
    """A NaN compares false both ways; `LE` compares equal elements true both ways."""
    text = """func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{
      %r = "stablehlo.sort"(%x) <{{dimension = -1 : i64}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare {by}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) : (tensor<{n}xf32>) -> tensor<{n}xf32>
      return %r : tensor<{n}xf32>
    }}"""
    x = np.round(normal(size))
    for by in ("LT", "LE", "GT", "GE"):
        got = np.asarray(compile_text(text.format(n=size, by=by)).run([x])[0])
        np.testing.assert_array_equal(got, np.sort(x) if by[0] == "L" else np.sort(x)[::-1])
        nans = np.where(np.arange(size) == 1, np.float32(np.nan), x)
        got = np.asarray(compile_text(text.format(n=size, by=by)).run([nans])[0])
        np.testing.assert_array_equal(np.sort(got), np.sort(nans))


def test_fp8_is_sorted_as_f32() -> None:
    x = jnp.arange(4.0).astype(jnp.float8_e4m3fn)
    with pytest.raises(scalify.CompileError, match="convert them to F32, which is exact"):
        scalify.jit(jnp.sort, recipe="none")(x)
    with pytest.raises(scalify.CompileError, match="convert them to F32, which is exact"):
        scalify.jit(jnp.max, recipe="none")(x)


def test_the_first_of_equal_elements_gets_a_pools_gradient() -> None:
    pool = jax.grad(
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
            * jnp.arange(12.0)[None]
        ).sum()
    )
    check(pool, np.round(normal(6, 24)), exact=True)


def test_a_window_outside_of_the_operand_selects_nothing() -> None:
    text = """func.func @main(%x: tensor<5xf32>, %s: tensor<4xf32>) -> tensor<5xf32> {
      %c = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %r = "stablehlo.select_and_scatter"(%x, %s, %c) <{padding = dense<[[1, 2]]> : tensor<1x2xi64>,
          window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }, {
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %p : tensor<f32>
      }) : (tensor<5xf32>, tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
      return %r : tensor<5xf32>
    }"""
    x, source = np.array([-3, -4, -2, -5, -1], np.float32), np.array([1, 2, 4, 8], np.float32)
    # Windows: (none, 0), (1, 2), (3, 4), (none, none); the sum starts from the initial 0.5.
    (got,) = compile_text(text).run([x, source])
    np.testing.assert_array_equal(np.asarray(got), np.array([1, 0, 2, 0, 4], np.float32) + 0.5)


def convolution(
    dims: tuple[str, str, str], strides: Any, padding: Any, **options: Any
) -> Callable[..., Any]:
    def both(x: jax.Array, k: jax.Array) -> Any:
        def run(x: jax.Array, k: jax.Array) -> jax.Array:
            return lax.conv_general_dilated(
                x, k, strides, padding, dimension_numbers=dims, **options
            )

        out, pull = jax.vjp(run, x, k)
        return out, pull(jnp.cos(out))

    return both


IMAGES = ("NHWC", "HWIO", "NHWC")
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "patches": (convolution(IMAGES, (4, 4), "VALID"), (2, 8, 12, 3), (4, 4, 3, 5)),
    "strided": (convolution(IMAGES, (2, 1), "SAME"), (2, 9, 8, 3), (3, 3, 3, 5)),
    "one_by_one": (convolution(IMAGES, (2, 2), "VALID"), (2, 6, 6, 4), (1, 1, 4, 5)),
    "torch_order": (
        convolution(("NCHW", "OIHW", "NCHW"), (1, 2), ((0, 1), (2, 0))),
        (2, 3, 6, 7),
        (4, 3, 2, 3),
    ),
    "depthwise": (
        convolution(("NWC", "WIO", "NWC"), (1,), ((3, 0),), feature_group_count=6),
        (2, 10, 6),
        (4, 1, 6),
    ),
    "groups": (
        convolution(IMAGES, (1, 1), "SAME", feature_group_count=2),
        (2, 5, 5, 6),
        (3, 3, 3, 4),
    ),
    "depthwise_with_more_features": (
        convolution(IMAGES, (1, 2), "SAME", feature_group_count=3),
        (2, 5, 6, 3),
        (2, 3, 1, 6),
    ),
    "groups_of_a_batch": (
        convolution(IMAGES, (1, 1), "SAME", batch_group_count=2),
        (4, 5, 5, 3),
        (3, 3, 3, 8),
    ),
    "volumes": (
        convolution(("NDHWC", "DHWIO", "NDHWC"), (1, 2, 1), "SAME"),
        (2, 5, 6, 4, 3),
        (2, 3, 2, 3, 4),
    ),
    "any_order": (
        convolution(("HNCW", "IHWO", "WNCH"), (1, 1), "SAME"),
        (9, 2, 6, 8),
        (6, 3, 2, 5),
    ),
    "dilated": (
        convolution(("NWC", "WIO", "NWC"), (1,), ((4, 0),), rhs_dilation=(2,)),
        (2, 9, 3),
        (3, 3, 4),
    ),
    "transposed": (
        convolution(IMAGES, (1, 1), ((1, 2), (2, 1)), lhs_dilation=(2, 2)),
        (2, 4, 5, 3),
        (4, 4, 3, 2),
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    """With both gradients, which are convolutions with dilations, reversals and groups."""
    fn, x, k = CONVOLUTIONS[name]
    # Sums of up to 150 products in another order.
    check(fn, normal(*x), normal(*k, seed=1), rtol=1e-4, atol=1e-4)


def test_a_window_may_leave_out_an_edge() -> None:
    """Against an explicit pad: XLA's CPU reads beyond the edge if padding is negative."""

    def fn(x: jax.Array, k: jax.Array, edges: Any) -> jax.Array:
        return lax.conv_general_dilated(x, k, (1, 1), edges, dimension_numbers=IMAGES)

    x, k = normal(2, 8, 8, 3), normal(3, 3, 3, 5, seed=1)
    got = scalify.jit(lambda x, k: fn(x, k, ((-1, 1), (0, -2))), recipe="none")(x, k)
    cut = np.pad(x[:, 1:, :-2], ((0, 0), (0, 1), (0, 0), (0, 0)))
    want = jax.jit(lambda x, k: fn(x, k, "VALID"))(cut, k)
    # Sums of 27 products in another order.
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def test_branches_that_depend_on_data() -> None:
    def fn(p: jax.Array, x: jax.Array) -> Any:
        inner = lambda y: lax.cond(y.sum() > 0, jnp.exp, jnp.log, y)  # noqa: E731
        loop = lambda y: lax.fori_loop(0, 3, lambda i, z: z * x, y)  # noqa: E731
        return lax.switch(p, [inner, loop, jnp.negative], x)

    for p in (-1, 0, 1, 2, 7):
        # NaNs of a logarithm that is not taken must go nowhere.
        check(fn, np.int32(p), normal(5), rtol=1e-5)


def test_a_router_trains_under_every_preset() -> None:
    """Top-k, a cumulative sum and a branch in one step; gradients against F32's."""
    x = normal(32, 16)
    params = {"r": normal(16, 4, seed=1), "w": normal(4, 16, 16, seed=2) / 4}

    def loss(params: Any, x: jax.Array) -> jax.Array:
        weight, index = lax.top_k(jax.nn.softmax(x @ params["r"]), 2)
        hot = jax.nn.one_hot(index, 4).sum(1)
        kept = jnp.where(jnp.cumsum(hot, 0) <= 12, hot, 0)
        gate = (jax.nn.one_hot(index, 4) * weight[..., None]).sum(1) * kept
        y = jnp.einsum("ne,nd,edf->nf", gate, x, params["w"])
        return ((y - jnp.roll(x, 1, 1)) ** 2).mean()

    want = jax.grad(loss)(params, x)
    for recipe in ("none", "fp8", "fp8-current", "fp8-block"):
        got = scalify.jit(jax.grad(loss), recipe=recipe)(params, x)
        for name, reference in want.items():
            a, b = np.asarray(got[name]).ravel(), np.asarray(reference).ravel()
            # Two casts to E4M3 and one to E5M2 leave a cosine above 0.99.
            assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.99, (recipe, name)


@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5, 7), (3, 4, 6)])
def test_random_bits_are_those_of_xla(algorithm: str, shape: tuple[int, ...]) -> None:
    """Bits and the next state, also if the counter wraps within the step."""
    key = np.array([0x9FFFFFFE, 7, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
    which = getattr(lax.RandomAlgorithm, algorithm)
    with jax.enable_x64(True):
        check(
            lambda key: [
                lax.rng_bit_generator(key, shape, dtype=dtype, algorithm=which)
                for dtype in (np.uint8, np.uint32, np.uint64)
            ],
            key,
        )


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_keys_of_generators(implementation: str) -> None:
    def fn(seed: jax.Array) -> Any:
        key, other = jax.random.split(jax.random.key(seed, impl=implementation))
        return jax.random.uniform(key, (33,)), jax.random.key_data(jax.random.fold_in(other, 3))

    check(fn, np.uint32(7), exact=True)
    text = jax.jit(fn).lower(np.uint32(7)).as_text()
    scalify.compile(text, target="sm_90a")


def test_a_state_that_no_generator_has_is_named() -> None:
    text = """func.func @main(%s: tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>) {
      %n, %b = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY
          : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
      return %n, %b : tensor<3xui64>, tensor<4xui32>
    }"""
    with pytest.raises(scalify.CompileError, match=r"rng_bit_generator.* a state of ui64, 2 words"):
        compile_text(text)


def test_bitcasts_between_widths() -> None:
    """They crashed the compiler: an element had no offset of its own."""
    x = ties(3, 8)

    def fn(x: jax.Array) -> Any:
        halves = lax.bitcast_convert_type(x, jnp.uint16)
        octets = lax.bitcast_convert_type(x, jnp.int8)
        pairs = lax.bitcast_convert_type(octets, jnp.uint32)
        return halves, octets, pairs, lax.bitcast_convert_type(halves, jnp.float32)

    check(fn, x, exact=True)


def test_padding_may_take_all_away() -> None:
    window = ((1, 2), (1, 1), ((-5, 0), (0, 0)))
    check(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *window), normal(3, 5), exact=True)


def test_padding_may_take_all_away_by_the_specification() -> None:
    """JAX refuses these; the specification has no windows there, so the initial value remains."""
    text = """func.func @main(%x: tensor<1x1x3xf32>, %k: tensor<1x1x2xf32>, %s: tensor<1x1x0xf32>,
                              %i: tensor<f32>) -> (tensor<1x1x0xf32>, tensor<1x1x3xf32>) {
      %c = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
          window = {pad = [[-5, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x1x3xf32>, tensor<1x1x2xf32>) -> tensor<1x1x0xf32>
      %g = "stablehlo.select_and_scatter"(%x, %s, %i) <{
          window_dimensions = array<i64: 1, 1, 2>,
          padding = dense<[[0, 0], [0, 0], [-5, 0]]> : tensor<3x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %0 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %0 : tensor<i1>
      }, {
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %0 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %0 : tensor<f32>
      }) : (tensor<1x1x3xf32>, tensor<1x1x0xf32>, tensor<f32>) -> tensor<1x1x3xf32>
      return %c, %g : tensor<1x1x0xf32>, tensor<1x1x3xf32>
    }"""
    x, kernel, source = normal(1, 1, 3), normal(1, 1, 2), np.zeros((1, 1, 0), np.float32)
    empty, given = compile_text(text).run([x, kernel, source, np.float32(7)])
    assert np.asarray(empty).shape == (1, 1, 0)
    assert np.asarray(given).tolist() == [[[7, 7, 7]]]


def test_products_of_no_elements() -> None:
    """The results are zeros, on a GPU too, where an empty product could not be loaded."""

    def fn(x: jax.Array, w: jax.Array) -> Any:
        return jax.grad(lambda w: ((x @ w) ** 2).sum())(w)

    x, w = np.zeros((0, 4), np.float32), normal(4, 3)
    check(fn, x, w, exact=True)
    scalify.compile(jax.jit(fn).lower(x, w).as_text(), target="sm_90a")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
def test_next_numbers(dtype: type) -> None:
    """As in C. XLA's CPU agrees except from subnormal numbers, which it takes for zeros."""
    info = ml_dtypes.finfo(dtype)
    word = f"u{np.dtype(dtype).itemsize}"

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return lax.bitcast_convert_type(lax.nextafter(x, y), word)

    ends = [0.0, info.smallest_normal, 1.0, 1.5, 2.0, info.max, np.inf]
    values = np.array([*ends, *np.negative(ends), np.nan], dtype)
    with jax.enable_x64(dtype is np.float64):
        check(fn, *np.meshgrid(values, values))
        ends.append(info.smallest_subnormal)
        values = np.array([*ends, *np.negative(ends)], dtype)
        x, y = np.meshgrid(values, values)
        (got,) = compiled(fn, (x, y)).run([x, y])
    with np.errstate(over="ignore"):
        # NumPy's of F16 keeps the sign of the zero that it starts from.
        want = np.where(x == y, y, np.nextafter(x, y))
    np.testing.assert_array_equal(np.asarray(got), want.view(word))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_next_numbers_of_8_bits(dtype: type) -> None:
    every = np.arange(256, dtype=np.uint8).view(dtype)
    x, y = np.meshgrid(every, every)
    (got,) = compiled(lax.nextafter, (x, y)).run([x, y])
    want = np.nextafter(x, y).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float32), want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("recipe", ["none", "fp8"])
@pytest.mark.parametrize("name", ["lecun_normal", "he_normal", "truncated_normal"])
def test_truncated_initializers(name: str, recipe: str) -> None:
    def fn(seed: jax.Array) -> jax.Array:
        return getattr(jax.nn.initializers, name)()(jax.random.key(seed), (12, 33))

    got = scalify.jit(fn, recipe=recipe)(np.uint32(3))
    # The inverse of erf has its own polynomial, with an error of 4 ulp of what is within 3.
    np.testing.assert_allclose(np.asarray(got), jax.jit(fn)(np.uint32(3)), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_upper_halves_of_products(dtype: type) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1, 7, info.max // 3, info.min // 2 + 1], dtype)
    check(lax.mulhi, *np.meshgrid(values, values))


SPECIAL: dict[str, Callable[..., Any]] = {
    "bessel_i1e": lax.bessel_i1e,
    "digamma_grad": jax.grad(lambda x: lax.digamma(abs(x) + 0.5).sum()),
    "polygamma_grad": jax.grad(lambda x: lax.polygamma(jnp.full_like(x, 2), abs(x) + 0.5).sum()),
    "zeta": lambda x: lax.zeta(abs(x) + 1.1, abs(x[::-1]) + 0.5),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str) -> None:
    """Powers with exponent 4 have 4 times the logarithm's error; 3 of them are summed."""
    check(SPECIAL[name], 3 * normal(999), rtol=1e-5)


@pytest.mark.parametrize("pick", [lax.approx_max_k, lax.approx_min_k])
def test_approximate_extrema_are_exact(pick: Callable[..., Any]) -> None:
    x = np.random.default_rng(0).permutation(3 * 40 * 5).reshape(3, 40, 5).astype(np.float32)

    def fn(x: jax.Array) -> Any:
        value = lambda x: (pick(x, 4, reduction_dimension=1)[0] ** 2).sum()  # noqa: E731
        return pick(x, 4, reduction_dimension=1), pick(x[0], 2), jax.grad(value)(x)

    check(fn, x, exact=True)
    scalify.compile(jax.jit(fn).lower(x).as_text(), target="sm_90a")


def test_candidates_of_approximate_extrema() -> None:
    """As many candidates as XLA's, of which the first are the largest."""
    x = normal(3, 500)
    fn = lambda x: lax.approx_max_k(x, 2, aggregate_to_topk=False)  # noqa: E731
    values, places = (np.asarray(y) for y in compiled(fn, (x,)).run([x]))
    assert values.shape == jax.eval_shape(fn, x)[0].shape
    np.testing.assert_array_equal(values[:, :2], -np.sort(-x)[:, :2])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))


def test_a_reduction_in_wider_elements_than_it_reads() -> None:
    """A region may promote what the reduction reads; JAX writes none of these."""
    text = """
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>, %a: tensor<4xi8>, %n: tensor<i32>)
    -> (tensor<4xf64>, tensor<4x7xf64>, tensor<i32>) {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.add %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf64>
  %1 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.maximum %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x7xf64>
  %2 = "stablehlo.reduce"(%a, %n) <{dimensions = array<i64: 0>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4xi8>, tensor<i32>) -> tensor<i32>
  return %0, %1, %2 : tensor<4xf64>, tensor<4x7xf64>, tensor<i32>
}
"""
    x, a = normal(4, 8), np.array([100, 100, 100, 7], np.int8)
    sums, maxima, total = scalify.compile(text)(x, np.float32(0.5), a, np.int32(1000))
    np.testing.assert_allclose(sums, x.astype(np.float64).sum(1) + 0.5, rtol=1e-14)
    pairs = np.maximum(x[:, :-1], x[:, 1:])
    np.testing.assert_array_equal(maxima, np.maximum(pairs, np.float32(0.5)))
    assert int(total) == 1307


def test_a_scatter_in_wider_elements_than_it_reads() -> None:
    """The window's element is selected among those of the operand; sums are of wider ones."""
    text = """
func.func @main(%e: tensor<4x2xi8>, %i: tensor<3x1xi32>, %u: tensor<3x2xi8>, %x: tensor<6xbf16>,
    %s: tensor<5xbf16>, %z: tensor<bf16>) -> (tensor<4x2xi32>, tensor<6xf32>) {
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s1 = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s1 : tensor<i32>
  }) : (tensor<4x2xi8>, tensor<3x1xi32>, tensor<3x2xi8>) -> tensor<4x2xi32>
  %1 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
    %c = stablehlo.compare GE, %l, %r : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %a = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }) : (tensor<6xbf16>, tensor<5xbf16>, tensor<bf16>) -> tensor<6xf32>
  return %0, %1 : tensor<4x2xi32>, tensor<6xf32>
}
"""
    bf16 = ml_dtypes.bfloat16
    e = np.full((4, 2), 100, np.int8)
    x = np.array([1, 5, 2, 2, 7, 3], bf16)
    # Sums that neither i8 nor bf16 holds.
    s = np.array([256, 1, 2, 512, 1], bf16)
    scattered, selected = scalify.compile(text)(
        e, np.array([[1], [1], [3]], np.int32), e[:3], x, s, bf16(0)
    )
    np.testing.assert_array_equal(scattered, [[100] * 2, [300] * 2, [100] * 2, [200] * 2])
    np.testing.assert_array_equal(selected, [0, 257, 2, 0, 513, 0])
