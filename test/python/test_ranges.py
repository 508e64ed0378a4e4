"""The range analysis: no executed value leaves its bound, and the required proofs succeed."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import programs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ranges_run import observe, observe_text, violations, with_ranges

import scalify
from scalify import _compiler

ROWS, COLUMNS = 4, 8
SHAPE = (ROWS, COLUMNS)
CAUSAL = np.tril(np.ones((COLUMNS, COLUMNS), bool))
TOKENS = np.array([3, 0, 7, 2], np.int32)


def rms_norm(x: jax.Array, eps: float = 1e-5) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def layer_norm(x: jax.Array) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def rope(x: jax.Array) -> jax.Array:
    half = COLUMNS // 2
    angle = jnp.arange(ROWS, dtype=jnp.float32)[:, None] * 0.7 ** jnp.arange(half)[None]
    a, b = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention among the columns: q, k, v [ROWS, COLUMNS]."""
    scores = jnp.where(CAUSAL, q.T @ k, -jnp.inf)
    return (jax.nn.softmax(scores, -1) @ v.T).T


def cross_entropy_gradient(x: jax.Array) -> jax.Array:
    def loss(x: jax.Array) -> jax.Array:
        logp = jax.nn.log_softmax(x, -1)
        return -jnp.take_along_axis(logp, TOKENS[:, None], -1).mean()

    return jax.grad(loss)(x)


def scan_rows(x: jax.Array) -> jax.Array:
    def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = 0.5 * carry + row
        return carry, jnp.tanh(carry)

    return jax.lax.scan(body, jnp.zeros(COLUMNS), x)[1]


def growing_loop(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 5, lambda i, c: rms_norm(c * 3 + i), x)


def branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: jnp.minimum(y, 1.0), x)


def dropout(x: jax.Array) -> jax.Array:
    keep = jax.random.bernoulli(jax.random.key(0), 0.7, SHAPE)
    return jnp.where(keep, x / 0.7, 0.0)


def scatter_rows(x: jax.Array) -> jax.Array:
    return jnp.zeros(SHAPE).at[TOKENS % ROWS].add(x)


UNARY: dict[str, Callable[[jax.Array], jax.Array]] = {
    "abs": jnp.abs,
    "bf16": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    "branch": branch,
    "cast_bf16_norm": lambda x: rms_norm(x.astype(jnp.bfloat16).astype(jnp.float32)),
    "ceil": jnp.ceil,
    "clip": lambda x: jnp.clip(x, -2.0, 3.0),
    "cosine": jnp.cos,
    "cross_entropy_gradient": cross_entropy_gradient,
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "cumulative_max": lambda x: jax.lax.cummax(x, 1),
    "divide": lambda x: 3.0 / (1.0 + x * x),
    "dropout": dropout,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "f16": lambda x: x.astype(jnp.float16).astype(jnp.float32),
    "f8": lambda x: jnp.clip(x, -448, 448).astype(jnp.float8_e4m3fn).astype(jnp.float32),
    "gather": lambda x: x[TOKENS % ROWS],
    "gelu": jax.nn.gelu,
    "grad_norm": jax.grad(lambda x: (rms_norm(x) ** 3).sum()),
    "growing_loop": growing_loop,
    "integers": lambda x: jnp.clip(jnp.floor(x), -100, 100).astype(jnp.int32).astype(jnp.float32),
    "layer_norm": layer_norm,
    "log": lambda x: jnp.log(x * x + 1e-3),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "log_softmax": lambda x: jax.nn.log_softmax(x, -1),
    "logistic": jax.nn.sigmoid,
    "max_rows": lambda x: jnp.broadcast_to(x.max(0), SHAPE),
    "mean": lambda x: jnp.broadcast_to(x.mean(-1, keepdims=True), SHAPE),
    "min_columns": lambda x: jnp.broadcast_to(x.min(1, keepdims=True), SHAPE),
    "negate": lambda x: -x,
    "one_hot": lambda x: x * jax.nn.one_hot(TOKENS, COLUMNS),
    "pad_slice": lambda x: jnp.pad(x, ((1, 1), (0, 2)))[1:5, 2:],
    "power": lambda x: jnp.abs(x) ** 1.5,
    "relu": jax.nn.relu,
    "reshape": lambda x: x.reshape(2, 16).T.reshape(SHAPE),
    "reverse": lambda x: x[::-1, ::-1],
    "rms_norm": rms_norm,
    "rope": rope,
    "round": jnp.round,
    "rsqrt": lambda x: jax.lax.rsqrt(jnp.abs(x) + 0.01),
    "scan": scan_rows,
    "scatter": scatter_rows,
    "sign": jnp.sign,
    "silu": jax.nn.silu,
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "softmax_rows": lambda x: jax.nn.softmax(x, 0),
    "softmax_masked": lambda x: jax.nn.softmax(jnp.where(CAUSAL[:ROWS], x, -1e30), -1),
    "sort": lambda x: jnp.sort(x, -1),
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "square": jnp.square,
    "tanh": jnp.tanh,
    "update": lambda x: jax.lax.dynamic_update_slice(x, x[:2, :3] * 2, (1, 2)),
    "var": lambda x: (x - x.mean()) / jnp.sqrt(jnp.var(x) + 1e-3),
}
BINARY: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "add": jnp.add,
    "attention": lambda x, y: attention(x, x, y),
    "concatenate": lambda x, y: jnp.concatenate([x[:2], y[2:]], 0),
    "divide": lambda x, y: x / (jnp.abs(y) + 1e-3),
    "dot": lambda x, y: (x @ y.T) @ y,
    "dot_bf16": lambda x, y: (x.astype(jnp.bfloat16) @ y.T.astype(jnp.bfloat16) @ x).astype(
        jnp.float32
    ),
    "einsum": lambda x, y: jnp.einsum("ij,ik->jk", x, y)[:ROWS],
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "multiply": jnp.multiply,
    "remainder": lambda x, y: jnp.fmod(x, jnp.abs(y) + 1),
    "select": lambda x, y: jnp.where(x > y, x, 0.5 * y),
    "subtract": jnp.subtract,
}

# (op, first operand, second operand): operands count back from the newest value.
Step = tuple[str, int, int]
STEP = st.tuples(
    st.sampled_from([*UNARY, *(f"2:{name}" for name in BINARY)]),
    st.integers(0, 3),
    st.integers(0, 3),
)


def run_steps(steps: Sequence[Step], x: jax.Array, y: jax.Array) -> jax.Array:
    """Applies random ops to a growing list of values of SHAPE; all values count."""
    values = [x, y]
    for name, i, j in steps:
        a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
        if name.startswith("2:"):
            values.append(BINARY[name[2:]](a, b))
        else:
            values.append(UNARY[name](a))
    return sum(values)


def fill(kind: str, seed: int, largest: float) -> np.ndarray:
    """Returns an array of SHAPE within +-largest."""
    rng = np.random.default_rng(seed)
    values = {
        "uniform": rng.uniform(-1, 1, SHAPE),
        "corners": rng.choice([-1.0, 1.0], SHAPE),
        "positive": np.ones(SHAPE),
        "zero": np.zeros(SHAPE),
        "spike": np.where(np.arange(COLUMNS) == seed % COLUMNS, 1.0, 1e-7) * np.ones(SHAPE),
        "decades": rng.choice([-1, 1], SHAPE) * 10.0 ** rng.uniform(-20, 0, SHAPE),
    }[kind]
    return np.clip(np.float32(largest) * values.astype(np.float32), -largest, largest)


FILL = st.tuples(
    st.sampled_from(["uniform", "corners", "positive", "zero", "spike", "decades"]),
    st.integers(0, 1000),
)
LARGEST = st.sampled_from([1e-30, 1e-3, 1.0, 30.0, 1e4, 1e15, 1e30])


@settings(
    max_examples=16,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(STEP, min_size=1, max_size=6), FILL, FILL, LARGEST, LARGEST, st.booleans())
def test_no_value_of_a_random_program_leaves_its_bound(
    steps: list[Step], first: Any, second: Any, most: float, other: float, has_norms: bool
) -> None:
    arrays = [fill(*first, np.float32(most)), fill(*second, np.float32(other))]
    ranges: Any = [{"max": float(np.float32(most))}, {"max": float(np.float32(other))}]
    if has_norms:
        # The tightest that is true; an array of zeros, of which nothing is assumed, is unknown.
        ranges = scalify.measure_ranges(arrays, headroom=1)
    fn = functools.partial(run_steps, steps)
    assert not violations(observe(fn, arrays, ranges))


def test_a_wrong_bound_is_seen() -> None:
    """Checks the check: an argument beyond its declared range makes values leave their bounds."""
    x = fill("corners", 0, 2.0)
    seen = violations(observe(lambda x: x + x, [x], [{"max": 1.0}]))
    assert len(seen) == 2
    assert not violations(observe(lambda x: x + x, [x], [{"max": 2.0}]))


MODEL = dataclasses.replace(programs.LLAMA, seq=8)


def llama_step(layers: int) -> tuple[Any, tuple[Any, Any, Any]]:
    """Returns a training step of the example and its first arguments."""
    cfg = dataclasses.replace(MODEL, layers=layers)
    params = programs.llama.init(jax.random.key(0), cfg)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.03, momentum=0.9))
    batch = np.random.default_rng(1).integers(0, cfg.vocab, (2, cfg.seq + 1), dtype=np.int32)

    def step(params: Any, state: Any, batch: Any) -> Any:
        loss, grads = jax.value_and_grad(programs.llama.loss)(params, batch, cfg)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step, (params, optimizer.init(params), batch)


def declared_text(layers: int) -> tuple[Any, tuple[Any, Any, Any], list[Any], str]:
    step, arguments = llama_step(layers)
    lowered = jax.jit(step, donate_argnums=(0, 1), keep_unused=True).lower(*arguments)
    ranges = scalify.measure_ranges(arguments)
    ranges[-1] = {"min": 0, "max": MODEL.vocab - 1}
    text = scalify.opt(lowered.as_text(debug_info=True), "scalify-import")
    return step, arguments, ranges, with_ranges(text, ranges)


@pytest.mark.parametrize("layers", [2, 12])
def test_inputs_of_the_linear_layers_are_proved(layers: int) -> None:
    """q, k, v, gate, up and the head, assuming nothing but the gain of the norm before them."""
    _, arguments, ranges, text = declared_text(layers)
    text = with_ranges(text, ranges, scalify.measure(arguments).exponents)
    passes = "scalify-propagate{remarks=0},scalify-analyse-ranges"
    proved = proved_inputs(scalify.opt(text, passes))
    for layer in range(layers):
        path = f"params['layers'][{layer}]"
        for weights, norm in (("wq wk wv", "attention_norm"), ("w_gate w_up", "ffn_norm")):
            for weight in weights.split():
                assert proved[f"{path}['{weight}']"] == [f"{path}['{norm}']"]
        # A product of two activations: nothing bounds its outliers.
        assert proved[f"{path}['w_down']"] is None
    assert proved["params['head']"] == ["params['final_norm']"]


def proved_inputs(text: str) -> dict[str, list[str] | None]:
    """Returns, by weight, what the proof for the other operand of its forward dot assumes."""
    signature = text[text.index("@main") :].split("\n", 1)[0]
    names = dict(re.findall(r'(%arg\d+): [^%]*?scalify\.name = "([^"]+)"', signature))
    hints, inputs = {}, {}
    for line in text.splitlines():
        if match := re.match(r" *(%\w+) = scalify\.scale_hint (%\w+),", line):
            assumed = re.search(r"scalify\.proved = \{assumed = \[([^=]*)\], bound", line)
            proof = re.findall(r'"([^"]+)"', assumed.group(1)) if assumed else None
            hints[match.group(1)] = (match.group(2), proof)
        if match := re.match(r" *%\w+ = stablehlo\.dot_general (%\w+), (%\w+),", line):
            (_, proof), (weight, _) = (hints[name] for name in match.groups())
            if "#scalify.phase<forward>" in line and weight in names:
                inputs[names[weight]] = proof
    return inputs


def test_no_value_of_the_llama_step_leaves_its_bound() -> None:
    """At initialisation and after 20 steps, and the forward is proved to be finite."""
    step, arguments, ranges, text = declared_text(1)
    observed = observe_text(text, leaves(arguments))
    assert not violations(observed)
    assumptions = [dict(entry, argument=str(i), index=i) for i, entry in enumerate(ranges) if entry]
    assert not scalify.check_assumptions(assumptions, arguments)
    run = jax.jit(step)
    params, state, batch = arguments
    for _ in range(20):
        params, state, _ = run(params, state, batch)
    assert not scalify.check_assumptions(assumptions, (params, state, batch))
    assert not violations(observe_text(text, leaves((params, state, batch))))
    forward = [e for e in observed if e.phase == "forward" and "constant" not in e.name]
    assert len(forward) > 50
    assert not [e.name for e in forward if e.bounds["nan"]]
    dots = [e for e in forward if "stablehlo.dot_general" in e.name]
    assert len(dots) == 10
    assert all(np.isfinite(e.bounds["hi"]) for e in dots)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def two_layers(w: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
    return (rms_norm(rms_norm(x) @ w) @ v).sum()


def test_the_report_has_proofs_and_the_artefact_their_assumptions(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    w, v = (rng.normal(0, 0.1, (COLUMNS, COLUMNS)).astype(np.float32) for _ in range(2))
    arguments = (w, v, fill("uniform", 1, 3.0))
    step = scalify.jit(two_layers, recipe='#scalify.recipe<"fp8", head = true>')
    step(*arguments)
    executable = step.executable(*arguments)
    ranges = {row["op"] + row["phase"]: row["range"] for row in executable.report().casts()}
    assert ranges
    assert all(text.startswith("proved: |x| <= ") for text in ranges.values())
    names = [entry["argument"] for entry in executable.assumptions]
    assert len(names) == 2
    assert not scalify.check_assumptions(executable.assumptions, arguments)
    grown = (9 * w, *arguments[1:])
    broken = scalify.check_assumptions(executable.assumptions, grown)
    assert broken
    assert all(line.startswith(names[0]) for line in broken)
    # What a checkpoint keeps gives the same proofs.
    executable.scales.save(tmp_path / "scales.json")
    scales = scalify.Scales.load(tmp_path / "scales.json")
    again = scalify.jit(
        two_layers,
        recipe='#scalify.recipe<"fp8", head = true>',
        numerics=scalify.Numerics(scales=scales),
    )
    assert again.executable(*arguments).assumptions == executable.assumptions


PROVED = '#scalify.recipe<"fp8", head = true>'


@pytest.mark.parametrize("make", [scalify.jit, scalify.transform], ids=["jit", "transform"])
@pytest.mark.parametrize("form", ["names", "list"])
def test_declared_ranges_are_a_keyword(make: Any, form: str) -> None:
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    x, w = np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)
    declared: Any = {"x": {"max": 3.0}} if form == "names" else [{"max": 3.0}, None]
    fn = make(product, PROVED, numerics=scalify.Numerics(ranges=declared, scales=[0, 0]))
    fn(x, w)
    ranges = {row["cast"].split(": ")[1]: row["range"] for row in fn.report().casts()}
    assert ranges["x"].startswith("proved: |x| <= 3")
    assert ranges["w"].startswith("unproved")
    # Beside what is measured with the scales, and before it.
    fn = make(product, PROVED, numerics=scalify.Numerics(ranges=declared))
    fn(x, w)
    ranges = {row["cast"].split(": ")[1]: row["range"] for row in fn.report().casts()}
    assert ranges["x"].startswith("proved: |x| <= 3") and ranges["w"].startswith("proved: |x| <= 4")
    if form == "list":
        with pytest.raises(ValueError, match="ranges of 1 arrays for a function of 2"):
            numerics = scalify.Numerics(ranges=[None], scales=[0, 0])
            make(product, PROVED, numerics=numerics)(x, w)
    else:
        with pytest.raises(scalify.CompileError, match="has no argument 'z' to give a range"):
            numerics = scalify.Numerics(ranges={"z": {"max": 1.0}}, scales=[0, 0])
            make(product, PROVED, numerics=numerics)(x, w)


def test_health_flags_a_broken_assumption_by_name_with_bound_and_value() -> None:
    def step(params: dict[str, jax.Array], x: jax.Array, rate: jax.Array) -> Any:
        return {"g": params["g"] * rate, "w": params["w"]}, rms_norm(x) * params["g"] @ params["w"]

    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 8)).astype(np.float32)
    params = {"g": np.ones(8, np.float32), "w": rng.normal(size=(8, 4)).astype(np.float32)}
    policy = scalify.HealthPolicy(assumptions=True)
    fn = scalify.jit(
        step,
        PROVED,
        donate_argnums=0,
        numerics=scalify.Numerics(health=policy, ranges={"params['g']": {"max": 4.0}}),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params, _ = fn(params, x, np.float32(2))
    assert not [row for row in fn.health(params, x, np.float32(2)) if "assumption" in row]
    with pytest.warns(UserWarning, match=r"params\['g'\]: largest value 6 exceeds the assumed 4;"):
        params, _ = fn(params, x, np.float32(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params, _ = fn(params, x, np.float32(1))  # Said once.
    rows = fn.health(params, x, np.float32(1))
    (row,) = (row for row in rows if "assumption" in row)
    assert row == {
        "assumption": "params['g']",
        "what": "largest value",
        "value": 6.0,
        "bound": 4.0,
    }
    assert rows[: len(fn.health())] == fn.health()
    with pytest.raises(ValueError, match="the step takes 4 arguments, not 1"):
        fn.health(x)


def test_assumptions_are_checked() -> None:
    tree = {"w": np.array([[3.0, 4.0], [0.0, 1.0]], np.float32), "n": np.int32(3)}
    (none, declared) = scalify.measure_ranges(tree, headroom=2)
    assert none is None
    assert declared is not None
    # The mean is more than half of the root mean square: half the headroom, and at least 1.
    assert declared["max"] == 4
    assert declared["norms"] == pytest.approx([17**0.5, 5])
    assumption = dict(declared, argument="w", index=1)
    assert scalify.check_assumptions([assumption], tree) == []
    zero_mean = {"w": np.array([[3.0, -4.0], [0.0, 1.0]], np.float32), "n": 0}
    assert scalify.measure_ranges(zero_mean, headroom=2)[1] == {
        "max": 8.0,
        "norms": pytest.approx([2 * 17**0.5, 10]),
        "frobenius": pytest.approx(2 * 26**0.5),
    }
    (line,) = scalify.check_assumptions([assumption], {"w": np.full((2, 2), 2.7), "n": 0})
    assert line.startswith("w: Frobenius norm 5.4 exceeds the assumed 5.09")
    broken = scalify.check_assumptions([assumption], {"w": np.array([[np.nan, 0]]), "n": 0})
    assert broken == ["w: is not finite"]
    with pytest.raises(ValueError, match="give the tuple of all arguments"):
        scalify.check_assumptions([dict(assumption, index=2)], tree)
    with pytest.raises(ValueError, match="headroom must be at least 1"):
        scalify.measure_ranges(tree, headroom=0.5)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"norms": 3}, "'norms' of a range must be a list"),
        ({"norms": [1.0, "two"]}, "an entry of 'norms' of a range must be a finite number"),
        ({"norms": [-1.0]}, "an entry of 'norms' of a range must be a finite number from 0"),
        ({"max": "1"}, "'max' of a range must be a finite number"),
        ({"max": -1.0}, "the range of argument '0' is empty"),
        ({"min": 2.0, "max": 1.0}, "the range of argument '0' is empty"),
        ({"frobenius": -1.0}, "the range of argument '0' is empty"),
    ],
)
def test_ranges_that_bound_nothing_are_refused(declared: dict[str, Any], message: str) -> None:
    text = jax.jit(jnp.sin).lower(np.ones((4, 4), np.float32)).as_text()
    with pytest.raises(ValueError, match=message):
        _compiler.transform(text, json.dumps({"ranges": [declared]}))
    _compiler.transform(text, json.dumps({"ranges": [{"norms": [None, 2.0]}]}))
