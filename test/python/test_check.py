"""scalify check: the step that it finds, the gradients that it taps, and its verdict."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import scalify
from scalify.check import Look, Result, check
from scalify.check.capture import Capture
from scalify.check.command import main
from scalify.check.flow import gradients
from scalify.check.program import Program
from scalify.check.sources import calls_of_function
from scalify.check.verdict import judged, verdict
from scalify.numerics import cosine

ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def loss_of(params, batch):
    x, y = batch
    hidden = jax.nn.gelu(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] - y) ** 2)


def arguments(width=64):
    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    params = {
        "w1": normal(32, width) / 6,
        "b1": jnp.zeros(width),
        "w2": normal(width, 16) / 8,
    }
    return params, (normal(64, 32), normal(64, 16))


def by_optax(params, state, batch):
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    updates, state = ADAM.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def by_momentum(state, batch):
    grads = jax.grad(loss_of)(state["params"], batch)
    velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.1 * g, state["velocity"], grads)
    return {
        "params": jax.tree.map(jnp.add, state["params"], velocity),
        "velocity": velocity,
        "slow": jax.tree.map(lambda s, v: 0.99 * s + v, state["slow"], velocity),
    }


def by_micro_batches(params, batches):
    def one(total, batch):
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        return jax.tree.map(jnp.add, total, (grads, loss)), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    (grads, loss), _ = jax.lax.scan(one, (zeros, 0.0), batches)
    return jax.tree.map(lambda p, g: p - 0.1 * g / 2, params, grads), loss


def by_epochs(params, state, batches):
    def one(carry, batch):
        *carry, loss = by_optax(*carry, batch)
        return tuple(carry), loss

    (params, state), losses = jax.lax.scan(one, (params, state), batches)
    return params, state, losses.mean()


def twice(batch):
    return jax.tree.map(lambda one: jnp.stack([one, one[::-1]]), batch)


def case(name):
    """Returns a step, its arguments, and the gradients that it must show by name."""
    params, batch = arguments()
    grads = jax.grad(loss_of)(params, batch)
    named = lambda path: {path.format(key): value for key, value in grads.items()}  # noqa: E731
    if name == "optax":
        return by_optax, (params, ADAM.init(params), batch), named("params['{}']")
    if name == "momentum":
        zeros = jax.tree.map(jnp.zeros_like, params)
        state = {"params": params, "velocity": zeros, "slow": params}
        return by_momentum, (state, batch), named("state['params']['{}']")
    if name == "micro batches":
        batches = twice(batch)
        both = jax.tree.map(lambda one: one * 2, grads)  # the reversed batch has the same mean
        wanted = {f"params['{key}']": value for key, value in both.items()}
        return by_micro_batches, (params, batches), wanted
    if name == "epochs":
        return by_epochs, (params, ADAM.init(params), twice(batch)), named("params['{}']")
    if name == "gradient function":
        return jax.value_and_grad(loss_of), (params, batch), named("result[1]['{}']")
    assert name == "flat vector"
    unravel = ravel_pytree(params)[1]

    def by_flat_vector(params, batch):
        grads = jax.grad(loss_of)(params, batch)
        return unravel(ravel_pytree(params)[0] - 0.1 * ravel_pytree(grads)[0])

    shapes = {jnp.shape(value): value for value in grads.values()}
    return by_flat_vector, (params, batch), shapes


@pytest.mark.parametrize(
    "name", ["optax", "momentum", "micro batches", "epochs", "gradient function"]
)
def test_gradients_are_found(name):
    step, args, wanted = case(name)
    (call,) = calls_of_function(step, args, {})
    program = Program.of(call.signature, call.arguments)
    found = gradients(program.first.jaxpr, program.next_of)
    _, values = jax.jit(program.function([one.variable for one in found]))(*args)
    names = [
        program.result_names[one.result] if one.leaf is None else program.names[one.leaf]
        for one in found
    ]
    tapped = dict(zip(names, values, strict=True))
    # A gradient function's loss is a result, no gradient.
    assert tapped.keys() == wanted.keys()
    for key, value in wanted.items():
        # Sums in another order: F32's rounding of sums over 64 rows.
        np.testing.assert_allclose(tapped[key], value, rtol=1e-4, atol=1e-6)


def test_gradients_of_a_flat_vector_are_found_by_shape():
    step, args, wanted = case("flat vector")
    from scalify.check.bench import Bench

    (call,) = calls_of_function(step, args, {})
    bench = Bench(Program.of(call.signature, call.arguments))
    assert bench.compared == "gradients"
    tensors, _ = bench.reference(bench.program.leaves())
    assert {tensor.shape for tensor in tensors} == wanted.keys()
    for tensor in tensors:
        np.testing.assert_allclose(tensor, wanted[tensor.shape], rtol=1e-4, atol=1e-6)


def test_verdict_on_a_step_that_fp8_can_train(tmp_path):
    params, batch = arguments(256)
    before = jax.tree.map(np.array, params)
    found = check(jax.jit(by_optax), params, ADAM.init(params), batch, recipes=["fp8"], steps=1)
    jax.tree.map(np.testing.assert_array_equal, params, before)
    assert (found.verdict.outcome, found.compared, found.judged) == ("use", "gradients", 3)
    # The same gradients by a program of their own.
    grad = jax.grad(loss_of)
    narrow = jax.tree.leaves(scalify.jit(grad, recipe="fp8")(params, batch))
    whole = cosine(map(np.asarray, narrow), map(np.asarray, jax.tree.leaves(grad(params, batch))))
    (result,) = found.results
    # A step and a bare gradient leave other products wide: the errors agree to a factor of 4.
    assert (1 - whole) / 4 < 1 - result.looks[0].whole < 4 * (1 - whole)
    assert [look.step for look in result.looks] == [0, 1]
    found.save(tmp_path / "check.json")
    kept = json.loads((tmp_path / "check.json").read_text())
    assert kept["verdict"]["outcome"] == "use" and kept["results"][0]["seconds"] > 0
    pytest.importorskip("bokeh", reason="the page needs Bokeh")
    found.save(tmp_path / "check.html")
    assert "Use it" in (tmp_path / "check.html").read_text()


def test_drift_is_of_the_step_s_own_casts():
    """Formats that stay for all of training leave the forward wide, and casts have other names."""

    def train(params, x, y):
        def value(params):
            h = x
            for p in params:
                n = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6)
                q, k, v = jnp.split(n @ p["qkv"], 3, -1)
                h = h + jax.nn.softmax(q @ k.T / 8, -1) @ v @ p["out"]
                h = h + jax.nn.gelu(h @ p["up"]) @ p["down"]
            return jnp.mean((h - y) ** 2)

        loss, grads = jax.value_and_grad(value)(params)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads), loss

    rng = np.random.default_rng(0)
    shapes = {"qkv": (64, 192), "out": (64, 64), "up": (64, 256), "down": (256, 64)}
    params = [
        {name: rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)}
        for name, shape in shapes.items()
    ]
    params = [{key: one[key] for one in params for key in one} for _ in range(2)]
    x, y = (rng.normal(size=(128, 64)).astype(np.float32) for _ in range(2))
    casts = check(train, params, x, y).results[0].casts
    weights = [one for one in casts if "params[" in one.cast and one.format != "bf16"]
    assert len(weights) >= 4
    # Their scale is the power of two next to the root mean square.
    assert all(abs(one.drift) <= 0.5 for one in weights)
    # BF16 has the binades of F32.
    assert all(one.drift is None for one in casts if one.format == "bf16")


def test_verdict_on_a_recipe_that_fails():
    params, (x, y) = arguments(256)
    # Gradients far below what E5M2 holds without a scale.
    small = lambda params, batch: 1e-9 * loss_of(params, batch)  # noqa: E731

    def step(params, batch):
        grads = jax.grad(small)(params, batch)
        return jax.tree.map(lambda p, g: p - 1e6 * g, params, grads)

    plain = scalify.Recipe.preset("fp8-plain").replace(head=True, sensitive=True)
    found = check(step, params, (x, y), recipes=[str(plain), "bf16"])
    asked = found.results[0]
    assert not asked.holds and any("params['w1']" in fault for fault in asked.faults)
    assert found.verdict.outcome == "with settings"
    assert "params['w1']" in found.verdict.lines[0]


def test_verdict_where_no_recipe_holds():
    look = Look(0, 0.7, {"w": 0.6, "b": 0.99}, None, None)
    failed = [judged(Result(name, name, (look,), narrow=1.0), None) for name in ("fp8", "bf16")]
    found = verdict(failed, 0.01, None, "gradients")
    assert (found.outcome, found.recipe) == ("do not", "")
    assert found.lines[0] == "Do not use fp8 for this step: cosine 0.7000; below 0.95: w 0.600."
    assert found.lines[1].startswith("bf16 misses too")


def test_verdict_on_few_tensors_says_so():
    look = Look(0, 1.0, {"last": 1.0}, None, None)
    holds = judged(Result("fp8", "fp8", (look,), narrow=1.0), None)
    few = verdict([holds], 0.01, None, "gradients", left_out=74)
    assert "Only 1 of 75 tensors could be judged" in few.lines[1]
    assert "Only" not in verdict([holds], 0.01, None, "gradients", left_out=1).lines[1]


def test_tensors_that_f32_does_not_reproduce_are_not_judged():
    params, (x, y) = arguments()

    def loss(params, x):
        # A shift of all logits alike moves no softmax: its gradient is rounding noise.
        logits = (x @ params["w1"] + 7.3) @ params["w2"] + params["shift"]
        return -jnp.mean(jnp.sum(jax.nn.softmax(y) * jax.nn.log_softmax(logits), -1))

    def step(params, x):
        return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params, x))

    from scalify.check.bench import Bench

    params = {key: params[key] for key in ("w1", "w2")} | {"shift": jnp.ones(1)}
    (call,) = calls_of_function(step, (params, x), {})
    bench = Bench(Program.of(call.signature, call.arguments))
    bench.find_noise()
    assert list(bench.noise) == ["params['shift']"]

    def alone(shift):
        return shift - jax.grad(lambda one: loss(params | {"shift": one}, x))(shift)

    with pytest.raises(FloatingPointError, match="F32 itself does not reproduce any of the 1 grad"):
        check(alone, params["shift"], recipes=["fp8"])


SCRIPT = """
import functools, sys
import jax, jax.numpy as jnp, numpy as np

@functools.partial(jax.jit, static_argnames="power")
def predict(w, x, power):
    return (x @ w) ** power

@functools.partial(jax.jit, donate_argnums=0, static_argnums=2)
def train_step(w, x, power):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((predict(w, x, power=power) - 1) ** 2))(w)
    return w - 0.1 * grad, loss

rng = np.random.default_rng(int(sys.argv[1]))
w = jnp.asarray(rng.normal(size=(64, 64)) / 8, jnp.float32)
x = jnp.asarray(rng.normal(size=(128, 64)), jnp.float32)
predict(w, x, power=1)
for _ in range(LAST):
    w, loss = train_step(w, x, 1)
print("the end")
"""


def test_a_script_is_stopped_at_its_step(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("LAST", "100"))
    assert main([str(path), "--json", "--recipe", "bf16", "--", "3"]) == 0
    printed = capsys.readouterr().out
    assert "the end" not in printed
    found = json.loads(printed)
    assert found["name"] == "train_step" and found["judged"] == 1
    assert list(found["results"][0]["looks"][0]["tensors"]) == ["w"]
    path.write_text(SCRIPT.replace("LAST", "0"))
    assert main([str(path), "--", "3"]) == 2
    out = capsys.readouterr()
    assert "the end" in out.out
    assert "called no compiled step that takes gradients (it called predict)" in out.err


@pytest.mark.parametrize("line", ["{}['batch']", "x = (", "1 + 'a'"])
def test_a_script_that_fails_is_no_verdict(tmp_path, capsys, line):
    path = tmp_path / "train.py"
    path.write_text(line)
    assert main([str(path)]) == 2
    assert "train.py" in capsys.readouterr().err


def test_a_target_needs_its_arguments(tmp_path, capsys):
    path = tmp_path / "alone.py"
    path.write_text("def step(x):\n    return x\n")
    assert main([f"{path}:step"]) == 2
    assert "add 'def example_args():'" in capsys.readouterr().err
    assert main([f"{path}:other"]) == 2
    assert "has no 'other'; it has step" in capsys.readouterr().err
    assert main([f"{tmp_path}/none.py:step"]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_watching_leaves_jax_as_it_was():
    real, capture = jax.jit, Capture()
    with pytest.raises(RuntimeError), capture.watching():
        step = functools.partial(jax.jit, static_argnums=1)(lambda x, power: x**power)
        assert jax.jit is not real and step(jnp.ones(2), 2).shape == (2,)
        raise RuntimeError
    assert jax.jit is real
    assert step(jnp.ones(3), 2).shape == (3,)  # what was compiled meanwhile still runs
