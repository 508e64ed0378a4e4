"""jit(fallback="xla"): XLA runs ops that the CPU target lacks, inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental.ode import odeint
from train_alike import assert_trains_alike

import scalify

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(6, 6)).astype(np.float32)
SPD = (SQUARE @ SQUARE.T + 6 * np.eye(6)).astype(np.float32)
PRIME = 1031
X = RNG.normal(size=(4, 16)).astype(np.float32)
# F32 sums in another order, of some ten terms.
ROUNDING = 1e-5


def filtered(x: Any) -> Any:
    """A transform of a length that the target lacks: twice a large prime number."""
    spectrum = jnp.fft.rfft(x, n=2 * PRIME)
    return jnp.fft.irfft(spectrum * jnp.exp(-jnp.arange(PRIME + 1) / PRIME), n=2 * PRIME)[..., :16]


def counted(x: Any, limit: Any) -> Any:
    """A loop whose trip count depends on data."""
    return jax.lax.while_loop(lambda v: jnp.sum(v * v) < limit, lambda v: v * 1.5 + 0.1, x)


def in_scan(x: Any) -> Any:
    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = carry + filtered(row)
        return carry, jnp.tanh(carry)

    return jax.lax.scan(body, jnp.zeros(16), x)


def in_branch(x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, filtered, lambda x: x * 2, x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "complex fft": (
        lambda x: (jnp.fft.fft(jnp.tanh(x) + 1j * x, n=PRIME) * 1j).imag[..., :16],
        (X,),
    ),
    # The real routine is a command of the plan beside the program.
    "cholesky beside": (lambda a: filtered(jnp.linalg.cholesky(a + 0)[:4].ravel()[:16]), (SPD,)),
    "fft": (lambda x: filtered(jnp.sin(x)) + x, (X,)),
    "loop": (lambda x: counted(jnp.abs(filtered(x)), 1e4) + 1, (X,)),
    "in a loop": (
        lambda x: jax.lax.while_loop(
            lambda v: jnp.sum(v * v) < 1e4, lambda v: v * 1.5 + filtered(v), jnp.abs(x) + 1
        ),
        (X,),
    ),
    "scan": (in_scan, (X,)),
    "cond": (lambda x: in_branch(x[0]), (X,)),
    "gradient": (jax.grad(lambda x: jnp.sum(jnp.sin(filtered(x)))), (X,)),
    "two apart": (lambda x: filtered(jnp.tanh(filtered(x))), (X,)),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_jax(case: str) -> None:
    fn, args = CASES[case]
    step = scalify.jit(fn, recipe="none", fallback="xla")
    found, expected = step(*args), jax.jit(fn)(*args)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(
            np.asarray(mine), np.asarray(theirs), rtol=ROUNDING, atol=10 * ROUNDING
        )
    said = [d["message"] for d in step.executable().diagnostics if "runs by XLA" in d["message"]]
    assert said
    assert {call["by"] for call in step.report().calls()} == {"xla"}


def test_a_loop_of_the_other_branch_does_not_run() -> None:
    """With this branch's values it would never end."""

    def step(x: Any) -> Any:
        def grown(x: Any) -> Any:
            return jax.lax.while_loop(lambda v: v < 100, lambda v: v * 2, x)

        return jax.lax.cond(x > 0, grown, lambda x: x - 1, x)

    run = scalify.jit(step, recipe="none", fallback="xla")
    for x in (np.float32(3), np.float32(0)):
        np.testing.assert_array_equal(np.asarray(run(x)), jax.jit(step)(x))


@pytest.mark.parametrize("case", ["complex fft", "fft"])
def test_without_it_an_error_names_both_ways_out(case: str) -> None:
    fn, args = CASES[case]
    with pytest.raises(scalify.CompileError, match=r"scalify\.transform"):
        scalify.jit(fn, recipe="none")(*args)
    with pytest.raises(scalify.CompileError, match='fallback="xla"'):
        scalify.jit(fn, recipe="none")(*args)


def train_step(params: Any, x: Any, y: Any) -> tuple[Any, Any]:
    def loss(params: Any) -> Any:
        hidden = jax.nn.gelu(x @ params["a"])
        mixed = jnp.fft.fft(hidden, n=PRIME).real[..., : hidden.shape[-1]]  # as FNet does
        return jnp.mean(((hidden + 0.1 * mixed) @ params["b"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), value


@pytest.mark.parametrize(("recipe", "bound"), [("none", 1e-5), ("fp8", 0.1)])
def test_a_model_trains_with_a_layer_of_xla(recipe: str, bound: float) -> None:
    """The bound for fp8 follows from its casts' errors, 0.026 each in the root mean square."""
    rng = np.random.default_rng(1)
    start = {
        "a": rng.normal(0, 0.2, (16, 32)).astype(np.float32),
        "b": rng.normal(0, 0.2, (32, 4)).astype(np.float32),
    }
    batches = [
        (rng.normal(size=(8, 16)).astype(np.float32), rng.normal(size=(8, 4)).astype(np.float32))
        for _ in range(6)
    ]
    assert_trains_alike(train_step, start, batches, bound, recipe=recipe, fallback="xla")


def test_lbfgs() -> None:
    tx = optax.lbfgs(memory_size=3)

    def loss(w: Any) -> Any:
        return jnp.sum((X @ w - 1) ** 2) + 0.1 * jnp.sum(w**4)

    def step(w: Any, state: Any) -> tuple[Any, Any, Any]:
        value, grad = jax.value_and_grad(loss)(w)
        updates, state = tx.update(grad, state, w, value=value, grad=grad, value_fn=loss)
        return optax.apply_updates(w, updates), state, value

    found = []
    for run in (jax.jit(step), scalify.jit(step, recipe="none", fallback="xla")):
        w = jnp.zeros(16)
        state, values = tx.init(w), []
        for _ in range(4):
            w, state, value = run(w, state)
            values.append(float(value))
        found.append(values)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_callbacks_in_a_loop_of_xla() -> None:
    log: list[float] = []

    def step(x: Any) -> Any:
        def body(v: Any) -> Any:
            jax.debug.callback(lambda v: log.append(float(v)), v, ordered=True)
            return v * 2

        return jax.lax.while_loop(lambda v: v < 10, body, x)

    result = scalify.jit(step, recipe="none", fallback="xla")(np.float32(1))
    assert float(result) == 16
    assert log == [1, 2, 4, 8]


@pytest.mark.parametrize("recipe", ["fp8", "fp16"])
def test_casts_in_a_loop_of_xla_do_not_clip(recipe: str) -> None:
    """Their casts would not be counted, so the loop's dots stay wide from the first call on."""

    def solved(s: Any) -> Any:
        return jax.scipy.sparse.linalg.cg(s, X[0, :6])[0]

    def decayed(y: Any) -> Any:
        return odeint(lambda y, t: -y, y, jnp.linspace(0, 1.0, 3))[-1].sum()

    for fn, x in ((solved, SPD), (jax.grad(decayed), X[0, :4])):
        run = scalify.jit(fn, recipe, fallback="xla")
        # A solver of a tolerance of 1e-5, or 1e-4 through its own adjoint.
        for _ in range(2):
            np.testing.assert_allclose(run(x), jax.jit(fn)(x), rtol=1e-4)
        assert "in a loop of unknown length" in str(run.report().dots())


def test_an_artefact_holds_its_programs(tmp_path: Any) -> None:
    fn, args = CASES["fft"]
    step = scalify.jit(fn, recipe="none", fallback="xla")
    expected = np.asarray(step(*args))
    step.executable().save(tmp_path / "step.scalify")
    (found,) = scalify.load(tmp_path / "step.scalify")(*args)
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_another_fallback_is_named() -> None:
    with pytest.raises(scalify.CompileError, match="unknown fallback 'cpu': expected one of xla"):
        scalify.jit(lambda x: x, recipe="none", fallback="cpu")(X)  # type: ignore[arg-type]
