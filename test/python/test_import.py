"""The Import stage on real programs, against XLA, scipy and the names in JAX's trees."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
from collections import Counter

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from programs import PROGRAMS, lower
from scipy import special
from stablehlo_run import run_stablehlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin" / "scalify-opt"


@functools.cache  # several tests look at the same output
def opt(text: str, *passes: str) -> str:
    """Returns `text` after `passes`."""
    done = subprocess.run([OPT, "-", *passes], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def phases(text: str, op: str = "dot_general") -> list[str]:
    """Returns the phases of the ops of one kind, in order."""
    # An op with a region has its attributes behind the region: start at any op of the kind.
    pattern = rf"stablehlo\.{op}.*?#scalify\.phase<(\w+)>"
    return re.findall(pattern, text, re.DOTALL)


def arguments(text: str, attribute: str) -> list[str]:
    """Returns one attribute of each argument of main: a string, or the case of an enum."""
    signature = next(line for line in text.splitlines() if "func.func public @main" in line)
    inputs = signature.split(") -> ")[0]
    return re.findall(rf'scalify\.{attribute} = (?:"|#scalify\.\w+<)([^">]*)', inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_stay(name: str) -> None:
    """Imported text is StableHLO that XLA runs to the values of the original."""
    program = lower(name)
    imported = opt(program.plain_text, "--scalify-import")
    expected = run_stablehlo(program.plain_text, *program.arguments)
    actual = run_stablehlo(imported, *program.arguments)
    # Both run the same arithmetic, but XLA fuses, and so rounds, two graphs differently.
    tolerance = 2e-2 if "bfloat16" in program.plain_text or "bf16" in name else 1e-4
    for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
        a, b = a.astype(np.float64), b.astype(np.float64)
        bound = tolerance * max(np.abs(b).max(), 1e-6)
        assert np.abs(a - b).max() <= bound, f"result {index}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_locations_change_phases_only(name: str) -> None:
    program = lower(name)
    strip = re.compile(r'scalify\.(phase = #scalify\.phase<\w+>|name = "[^"]*")')
    texts = [
        strip.sub("", opt(text, "--scalify-import"))
        for text in (program.debug_text, program.plain_text)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("op", ["dot_general", "gather", "scatter"])
def test_both_ways_agree_on_products(name: str, op: str) -> None:
    program = lower(name)
    from_names = phases(opt(program.debug_text, "--scalify-import"), op)
    from_slices = phases(opt(program.plain_text, "--scalify-import"), op)
    assert from_names == from_slices
    assert ("optimizer" in from_names) == ("muon" in name and op == "dot_general")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("with_names", [True, False])
def test_number_of_forward_products(name: str, with_names: bool) -> None:
    """Forward products are those of the loss lowered alone, and its recomputed copies."""
    program = lower(name)
    text = program.debug_text if with_names else program.plain_text
    counts = Counter(phases(opt(text, "--scalify-import")))
    alone = opt(program.forward_text, "--scalify-inline-calls").count("stablehlo.dot_general")
    assert set(phases(opt(program.forward_text, "--scalify-import"))) == {"forward"}
    total = opt(text, "--scalify-inline-calls").count("stablehlo.dot_general")
    # Each product has two gradients; what is left was recomputed.
    assert counts["backward"] == 2 * alone
    assert counts["forward"] == total - 2 * alone - counts["optimizer"]
    assert (counts["forward"] > alone) == (name == "llama_remat")


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimizer_agrees_exactly(name: str) -> None:
    """Of all ops on tensors, both ways call the same ones optimizer (constants aside)."""
    program = lower(name)

    def optimizer_lines(text: str) -> list[int]:
        lines = opt(text, "--scalify-import").splitlines()
        return [
            number
            for number, line in enumerate(lines)
            if "#scalify.phase<optimizer>" in line
            and "stablehlo.constant" not in line
            # A scalar that feeds only an undonated result may be a metric as well.
            and not line.endswith(": tensor<f32>")
        ]

    assert optimizer_lines(program.debug_text) == optimizer_lines(program.plain_text)


def expected_role(path: str, has_optimizer: bool) -> str:
    if path.startswith("[0]"):
        return "param"
    if has_optimizer and path.startswith("[1]"):
        counters = (".count", ".ns_coeffs", "[1][1]")
        return "state" if path.endswith(counters) else "moment"
    return "batch"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("source", ["locations", "result_info", "use"])
def test_roles(name: str, source: str) -> None:
    program = lower(name)
    text = program.debug_text if source == "locations" else program.plain_text
    if source == "use":
        text = re.sub(r'jax\.result_info = "[^"]*"', 'test.nothing = ""', text)
    has_optimizer = PROGRAMS[name][2] is not None
    expected = [expected_role(path, has_optimizer) for path in program.paths]
    assert arguments(opt(text, "--scalify-import"), "role") == expected


def test_roles_of_a_deep_evaluation() -> None:
    """A weight stands on the left of what a product computed thousands of ops before."""
    depth = 5000
    dot = "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : ({}, {}) -> {}"
    wide, small, right = "tensor<8x4xf32>", "tensor<4x8xf32>", "tensor<4x4xf32>"
    lines = [
        f"func.func public @main(%x: {wide}, %w: {right}, %v: {small}) -> {right} {{",
        f"  %a0 = {dot.format('%x', '%w', wide, right, wide)}",
        *(f"  %a{i + 1} = stablehlo.tanh %a{i} : {wide}" for i in range(depth)),
        f"  %y = {dot.format('%v', f'%a{depth}', small, wide, right)}",
        f"  return %y : {right}",
        "}",
    ]
    assert arguments(opt("\n".join(lines), "--scalify-import"), "role") == [
        "batch",
        "param",
        "param",
    ]


def test_names() -> None:
    program = lower("llama_f32")
    roots = {"[0]": "params", "[1]": "opt_state", "[2]": "batch"}
    expected = [roots[path[:3]] + path[3:] for path in program.paths]
    assert arguments(opt(program.debug_text, "--scalify-import"), "name") == expected


def test_donors_are_paired() -> None:
    def step(a: jax.Array, b: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        return a + c, b * c

    x = np.zeros(3, np.float32)
    text = jax.jit(step, donate_argnums=(0, 1)).lower(x, x, x).as_text()
    donors = re.sub(r"tf\.aliasing_output = \d : i32", "jax.buffer_donor = true", text)
    assert donors != text
    pairs = [
        re.findall(r"tf\.aliasing_output = (\d)", opt(each, "--scalify-normalize-donation"))
        for each in (text, donors)
    ]
    assert pairs == [["0", "1"], ["0", "1"]]


def unary(op: str, dtype: str, count: int) -> str:
    tensor = f"tensor<{count}x{dtype}>"
    return (
        f"func.func public @main(%x: {tensor}) -> {tensor} {{\n"
        f"  %0 = chlo.{op} %x : {tensor} -> {tensor}\n  return %0 : {tensor}\n}}\n"
    )


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance of f32 `actual` from f64 `expected`, in units of expected's last place."""
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    return np.abs(actual.astype(np.float64) - expected) / unit


@pytest.mark.parametrize(
    ("op", "oracle", "low", "high", "bound"),
    [
        ("erf", special.erf, -6.0, 6.0, 3.0),
        ("erfc", special.erfc, -4.0, 4.0, 12.0),
        ("erfc", special.erfc, 4.0, 9.0, 81.0),
        ("erf_inv", special.erfinv, -0.999999, 0.999999, 4.0),
        ("square", np.square, -100.0, 100.0, 0.5),
        ("asin", np.arcsin, -1.0, 1.0, 4.0),
        ("acos", np.arccos, -1.0, 1.0, 4.0),
        ("atan", np.arctan, -100.0, 100.0, 4.0),
        ("asinh", np.arcsinh, -1e3, 1e3, 6.0),
        ("asinh", np.arcsinh, 1e6, 1e38, 4.0),
        ("acosh", np.arccosh, 1.0, 1e3, 6.0),
        ("atanh", np.arctanh, -0.999, 0.999, 8.0),
        # e^x of a rounded x - log 2: half an ulp of x is x / 2 ulp of the result.
        ("sinh", np.sinh, -88.0, 88.0, 64.0),
        ("cosh", np.cosh, -88.0, 88.0, 64.0),
        ("sinh", np.sinh, -1.0, 1.0, 8.0),
        ("tan", np.tan, -1.5, 1.5, 4.0),
        ("bessel_i1e", special.i1e, -8.0, 8.0, 8.0),
        ("bessel_i1e", special.i1e, 8.0, 1e4, 4.0),
    ],
)
def test_chlo_accuracy(op: str, oracle: np.ufunc, low: float, high: float, bound: float) -> None:
    count = 1 << 18
    x = np.linspace(low, high, count).astype(np.float32)
    text = opt(unary(op, "f32", count), "--scalify-expand-chlo")
    assert "chlo" not in text
    (actual,) = run_stablehlo(text, x)
    assert ulps(actual, oracle(x.astype(np.float64))).max() <= bound


@pytest.mark.parametrize(
    ("op", "oracle"), [("lgamma", special.gammaln), ("digamma", special.digamma)]
)
@pytest.mark.parametrize(("low", "high"), [(-9.9, 0.4), (0.01, 4.0), (4.0, 1e4)])
def test_chlo_gamma_functions(op: str, oracle: np.ufunc, low: float, high: float) -> None:
    """They have zeros and poles: the error is relative to 1 and to the slope at the input."""
    x = np.linspace(low, high, 1 << 16).astype(np.float32)
    near = np.abs(x - np.round(x))
    x = x[(x > 0.5) | (near > 1e-2)]
    (actual,) = run_stablehlo(opt(unary(op, "f32", len(x)), "--scalify-expand-chlo"), x)
    expected = oracle(x.astype(np.float64))
    slope = np.abs(special.polygamma(0 if op == "lgamma" else 1, np.abs(x)))
    scale = np.maximum(np.abs(expected), 1) + np.abs(x) * slope
    # A pole's reflection has the angle's rounding, 2^-24 of it, over the distance of 1e-2.
    bound = 1e-4 if low < 0 else 2e-6
    assert np.max(np.abs(actual - expected) / scale) <= bound


def binary(op: str, count: int) -> str:
    tensor = f"tensor<{count}xf32>"
    return (
        f"func.func public @main(%x: {tensor}, %y: {tensor}) -> {tensor} {{\n"
        f"  %0 = chlo.{op} %x, %y : {tensor}, {tensor} -> {tensor}\n  return %0 : {tensor}\n}}\n"
    )


@pytest.mark.parametrize(("low", "high"), [(-6.0, 0.0), (0.01, 4.0), (4.0, 1e3)])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 5])
def test_chlo_polygamma(order: int, low: float, high: float) -> None:
    x = np.linspace(low, high, 1 << 14).astype(np.float32)
    x = x[(x > 0) | (np.abs(x - np.round(x)) > 1e-2)]
    n = np.full_like(x, order)
    (actual,) = run_stablehlo(opt(binary("polygamma", len(x)), "--scalify-expand-chlo"), n, x)
    # By reflection, as SciPy's is not for x < 0: psi_n(x) is psi_n(x + m) and m terms.
    wide = x.astype(np.float64)
    steps = wide[None] + np.arange(9)[:, None]
    terms = (-1) ** (order + 1) * special.factorial(order) * steps ** -(order + 1.0)
    expected = special.polygamma(order, wide + 9) + terms.sum(0)
    size = np.abs(special.polygamma(order, np.abs(wide) + 9)) + np.abs(terms).sum(0)
    # n! by f32's lgamma, and powers of n + 1: each some 20 ulp; digamma has a bound of its own.
    assert np.max(np.abs(actual - expected) / np.maximum(size, 1e-30)) <= (
        2e-4 if order == 0 else 1e-5
    )


def test_chlo_zeta() -> None:
    s, q = np.meshgrid(np.linspace(1.01, 30, 99), np.geomspace(0.05, 1e3, 99))
    s, q = s.ravel().astype(np.float32), q.ravel().astype(np.float32)
    expected = special.zeta(s.astype(np.float64), q.astype(np.float64))
    # Terms below 1e-38 are flushed to zero: less than an ulp of these.
    normal = (expected < 1e38) & (expected > 1e-30)
    s, q, expected = s[normal], q[normal], expected[normal]
    (actual,) = run_stablehlo(opt(binary("zeta", len(s)), "--scalify-expand-chlo"), s, q)
    # A power's exponent, up to 87, has the error of the logarithm and of the product: 1.5 ulp.
    assert ulps(actual, expected).max() <= 130


def test_chlo_zeta_at_the_ends() -> None:
    s = np.array([1, 0.5, 2, 2, np.nan, 2, np.inf, np.inf, np.inf], np.float32)
    q = np.array([3, 3, 0, -20.5, 1, np.nan, 0.5, 1, 2], np.float32)
    (actual,) = run_stablehlo(opt(binary("zeta", len(s)), "--scalify-expand-chlo"), s, q)
    wanted = [np.inf, np.nan, np.inf, np.nan, np.nan, np.nan, np.inf, 1, 0]
    np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("op", ["erf", "erfc", "erf_inv"])
def test_chlo_at_the_ends(op: str) -> None:
    ends = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 1e30, -1e30, 1e-30]
    x = np.array(ends, np.float32)
    (actual,) = run_stablehlo(opt(unary(op, "f32", len(x)), "--scalify-expand-chlo"), x)
    oracle = {"erf": special.erf, "erfc": special.erfc, "erf_inv": special.erfinv}[op]
    np.testing.assert_allclose(actual, oracle(x.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("op", ["erf", "erfc"])
@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_chlo_narrow_types(op: str, name: str, dtype: type) -> None:
    """Every 16-bit input comes within one unit of the last place of its true value."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    magnitude = np.abs(x.astype(np.float32))
    x = x[(magnitude >= 1e-30) & (magnitude < 6)]  # XLA:CPU flushes subnormal numbers
    (actual,) = run_stablehlo(opt(unary(op, name, len(x)), "--scalify-expand-chlo"), x)
    expected = getattr(special, op)(x.astype(np.float64))
    rounded = expected.astype(np.float32).astype(dtype).astype(np.float64)
    error = np.abs(actual.astype(np.float64) - rounded)
    eps = float(ml_dtypes.finfo(dtype).eps)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    assert (error <= np.maximum(np.abs(expected) * eps, 2 * tiny)).all()


BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
SPECIALS = [0.0, -0.0, 1.0, -1.0, 1.5, -3.25, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.1, 7.0]


def literal(values: np.ndarray, element: str) -> str:
    data = "".join(value.tobytes()[::-1].hex() for value in values)
    size = values.itemsize * 2
    parts = [f"0x{data[i : i + size].upper()}" for i in range(0, len(data), size)]
    return f"dense<[{', '.join(parts)}]> : tensor<{len(values)}x{element}>"


@pytest.mark.parametrize("op", [*BINARY, "compare"])
@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("bf16", ml_dtypes.bfloat16)])
def test_constants_fold_to_what_xla_computes(op: str, element: str, dtype: type) -> None:
    # Larger tensors of predicates are left alone: see getMaxElements.
    specials = SPECIALS[4:] if op == "compare" else SPECIALS
    grid = np.array(specials, np.float32).astype(dtype)
    a, b = (axis.ravel() for axis in np.meshgrid(grid, grid))
    tensor = f"tensor<{len(a)}x{element}>"
    for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] if op == "compare" else [""]:
        result = tensor if op != "compare" else f"tensor<{len(a)}xi1>"
        head = f"stablehlo.{op} " + (f"{direction}, " if direction else "")
        tail = f", FLOAT : ({tensor}, {tensor}) -> {result}" if direction else f" : {tensor}"
        body = f"  %0 = {head}%a, %b{tail}\n  return %0 : {result}\n}}\n"
        variable = f"func.func public @main(%a: {tensor}, %b: {tensor}) -> {result} {{\n{body}"
        constant = (
            f"func.func public @main() -> {result} {{\n"
            f"  %a = stablehlo.constant {literal(a, element)}\n"
            f"  %b = stablehlo.constant {literal(b, element)}\n{body}"
        )
        folded = opt(constant, "--scalify-canonicalize-stablehlo")
        assert f"stablehlo.{op}" not in folded
        (actual,), (expected,) = run_stablehlo(folded), run_stablehlo(variable, a, b)
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
        signed = ~np.isnan(expected.astype(np.float32))
        if op not in ("maximum", "minimum"):  # whose choice between the zeros is free
            np.testing.assert_array_equal(
                np.signbit(actual.astype(np.float32))[signed],
                np.signbit(expected.astype(np.float32))[signed],
            )


def test_sum_of_slices_becomes_concatenation() -> None:
    """Gradients of slices, contiguous and strided, need no pad; values are those of JAX."""

    def loss(x: jax.Array) -> jax.Array:
        parts = jnp.split(x, 3, axis=1)
        even, odd = x[:, ::2], x[:, 1::2]
        return sum((i + 1) * jnp.sum(jnp.sin(p)) for i, p in enumerate(parts)) + jnp.sum(even * odd)

    x = np.random.default_rng(3).normal(size=(4, 12)).astype(np.float32)
    text = jax.jit(jax.grad(loss)).lower(x).as_text()
    imported = opt(text, "--scalify-import")
    assert "stablehlo.pad" in text and "stablehlo.pad" not in imported
    (actual,) = run_stablehlo(imported, x)
    np.testing.assert_allclose(actual, jax.grad(loss)(x), rtol=1e-6)


def test_masks_stay_computed() -> None:
    """A causal mask of 512 x 512 is not written out as a literal."""

    def masked(x: jax.Array) -> jax.Array:
        return jnp.where(jnp.tril(jnp.ones(x.shape, bool)), x, -jnp.inf)

    x = np.ones((512, 512), np.float32)
    imported = opt(jax.jit(masked).lower(x).as_text(), "--scalify-import")
    assert "stablehlo.iota" in imported
    assert len(imported) < 4000


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_top_k_is_that_of_jax(dtype: type) -> None:
    """Values and places, also among equal values and NaN."""
    x = np.random.default_rng(0).integers(0, 20, (5, 33)).astype(dtype)
    if dtype is np.float32:
        x -= 10
        x[1, 4], x[2, 7], x[3, 9], x[4, :] = np.nan, np.inf, -np.inf, -0.0
    text = jax.jit(lambda x: jax.lax.top_k(x, 6)).lower(x).as_text()
    assert "chlo.top_k" in text
    expanded = opt(text, "--scalify-expand-chlo")
    assert "chlo" not in expanded
    for actual, expected in zip(run_stablehlo(expanded, x), jax.lax.top_k(x, 6), strict=True):
        np.testing.assert_array_equal(actual, expected)
