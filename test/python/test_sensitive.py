"""Dots that are not FP8 since their rounding would move gradients too far, and the benefit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify.numerics import cosine

WIDTH, ROWS, LAYERS = 96, 128, 4


def is_sensitive(reason: str) -> bool:
    """True for dots in BF16, by the recipe, and for those that BF16 rounds too much."""
    return reason.startswith(("not in FP8: sensitive: ", "stays wide: sensitive"))


def draw(seed: int) -> list[jax.Array]:
    keys = jax.random.split(jax.random.key(seed), LAYERS)
    return [jax.random.normal(key, (WIDTH, WIDTH)) * (2 / WIDTH) ** 0.5 for key in keys]


def relu(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for weight in weights[:-1]:
        x = jax.nn.relu(x @ weight)
    return x @ weights[-1]


def regression(weights: list[jax.Array], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    x, target = batch
    return jnp.mean((relu(weights, x) - target) ** 2)


def trained() -> tuple[list[jax.Array], tuple[jax.Array, jax.Array]]:
    """Weights at the end of a regression, with a residual of a hundredth of the target's power."""
    weights = draw(0)
    x = jax.random.normal(jax.random.key(1), (ROWS, WIDTH))
    out = relu(weights, x)
    noise = jax.random.normal(jax.random.key(2), out.shape)
    return weights, (x, out + 0.1 * jnp.std(out) * noise)


def compare(
    recipe: scalify.Recipe, loss: Callable[..., jax.Array] = regression, args: Any = None
) -> tuple[float, list[str]]:
    """Returns the cosine of the gradients to F32's, and the reasons of dots that stay wide."""
    args = trained() if args is None else args
    gradients = jax.grad(loss)
    step = scalify.transform(
        gradients, recipe=recipe, numerics=scalify.Numerics(scales=scalify.measure(args))
    )
    found, truth = jax.jit(step)(*args), jax.jit(gradients)(*args)
    wide = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(found)]
    exact = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(truth)]
    return cosine(wide, exact), [row["reason"] for row in step.report(*args).dots()]


def test_a_regression_on_relus_keeps_its_gradients() -> None:
    kept, reasons = compare(scalify.Recipe())
    assert sum(is_sensitive(reason) for reason in reasons) == LAYERS - 1
    lost, _ = compare(scalify.Recipe(sensitive=True))
    # The bar of the gradients, and that it is these dots that it takes.
    assert kept > 0.98 > lost


def tanh(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for weight in weights[:-1]:
        x = jnp.tanh(x @ weight / 2)
    return x @ weights[-1]


@pytest.mark.parametrize(
    "error",
    [
        lambda out, target: jnp.mean(jnp.square(out - target)),
        lambda out, target: jnp.mean(jnp.square(out + target)),
        lambda out, target: jnp.mean(jnp.abs(out + target)),
        lambda out, target: jnp.vdot(out + target, out + target) / out.size,
        lambda out, target: jnp.einsum("bi,bi->", out - target, out - target) / out.size,
        lambda out, target: jnp.einsum("bi,bi->b", out - target, out - target).mean(),
    ],
)
def test_a_regression_is_known_in_any_form(error: Callable[..., jax.Array]) -> None:
    """The sign of the target is no matter, nor is how the square is written."""
    weights, (x, target) = trained()

    def loss(weights: list[jax.Array], x: jax.Array, target: jax.Array) -> jax.Array:
        return error(tanh(weights, x), target)

    step = scalify.transform(
        jax.value_and_grad(loss),
        numerics=scalify.Numerics(scales=scalify.measure((weights, x, target))),
    )
    layers = [row for row in step.report(weights, x, target).dots() if row["weight"]]
    wide = [is_sensitive(row["reason"]) for row in layers]
    # The last layer is the head, or is one of these.
    assert sum(wide) >= LAYERS - 1


def test_sensitive_dots_may_be_of_16_bits_and_the_user_has_the_last_word() -> None:
    kept, reasons = compare(scalify.Recipe(sensitive="bf16"))
    assert kept > 0.98
    assert sum(is_sensitive(reason) for reason in reasons) == LAYERS - 1
    _, named = compare(scalify.Recipe(where={"forward_dot:.*": True}))
    assert not any("sensitive" in reason for reason in named)


def norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def classifier(weights: list[Any], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Gates behind norms on a residual stream, as in a transformer, and a cross entropy."""
    x, labels = batch
    for weight in weights[:-1]:
        h = norm(x) @ weight
        x = x + jax.nn.silu(h) @ weight.T
    logits = norm(x) @ weights[-1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


@pytest.mark.parametrize("recipe", ["fp8", "fp8-current", "fp8-block", "fp8-lm-o2"])
def test_a_classifier_with_norms_has_no_sensitive_dots(recipe: str) -> None:
    x = jax.random.normal(jax.random.key(1), (ROWS, WIDTH))
    labels = jax.random.randint(jax.random.key(3), (ROWS,), 0, WIDTH)
    args = (draw(0), (x, labels))
    gradients: Callable[..., Any] = jax.grad(classifier)
    step = scalify.transform(
        gradients, recipe=recipe, numerics=scalify.Numerics(scales=scalify.measure(args))
    )
    rows = step.report(*args).dots()
    assert rows and not any("sensitive" in row["reason"] for row in rows)


def test_large_logits_leave_the_judgement_whole() -> None:
    """The exponential of a logit of hundreds, as from raw features, has a square beyond F64."""
    weights, (x, _) = trained()
    labels = jax.random.bernoulli(jax.random.key(3), 0.5, (ROWS, WIDTH)).astype(jnp.float32)

    def loss(weights: list[jax.Array], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, labels = batch
        logits = relu(weights, x)
        return jnp.mean(jax.nn.softplus(logits) - labels * logits)

    kept, reasons = compare(scalify.Recipe(), loss, (weights, (300 * x, labels)))
    # The head too, which BF16 rounds.
    assert sum(is_sensitive(reason) for reason in reasons) == LAYERS
    assert kept > 0.98


DEEP = 40


def deep(weights: list[jax.Array], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Layers of ReLUs without a norm or a residual: errors grow from layer to layer."""
    x, labels = batch
    logits = relu(weights, x)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def draw_deep() -> tuple[list[jax.Array], tuple[jax.Array, jax.Array]]:
    keys = jax.random.split(jax.random.key(0), DEEP)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) * (2 / WIDTH) ** 0.5 for key in keys]
    x = jax.random.normal(jax.random.key(1), (ROWS, WIDTH))
    return weights, (x, jax.random.randint(jax.random.key(3), (ROWS,), 0, WIDTH))


@pytest.mark.parametrize("preset", ["bf16", "fp8", "fp8-current"])
def test_many_relus_keep_their_gradients(preset: str) -> None:
    """In BF16 flips alone cause it; under FP8 the backward has too many dots to round them all."""
    recipe = scalify.Recipe.preset(preset)
    kept, reasons = compare(recipe, deep, draw_deep())
    lost, _ = compare(recipe.replace(sensitive=True), deep, draw_deep())
    assert kept > 0.98 > lost
    wide = sum(is_sensitive(reason) for reason in reasons)
    assert wide < DEEP if preset == "bf16" else wide > DEEP


def test_the_result_of_weights_without_a_gradient_is_a_target() -> None:
    """As a Q network's, whose target a copy of the network computes."""
    weights, (x, _) = trained()
    copy = jax.tree.map(lambda weight: weight[::-1], weights)

    def loss(weights: list[jax.Array], copy: list[jax.Array], x: jax.Array) -> jax.Array:
        target = jax.lax.stop_gradient(tanh(copy, 2 * x))
        return jnp.mean((tanh(weights, x) - target) ** 2)

    def update(weights: list[jax.Array], copy: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        gradients = jax.grad(loss)(weights, copy, x)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, gradients)

    step = scalify.jit(update, donate_argnums=0).lower(weights, copy, x).compile()
    layers = [row for row in step.report().dots() if row["weight"].startswith("weights")]
    wide = [is_sensitive(row["reason"]) for row in layers]
    assert sum(wide) >= LAYERS - 1


@pytest.mark.parametrize("threshold", [0.5, 0.0])
def test_a_threshold_flips_by_what_it_cuts_off(threshold: float) -> None:
    """Gates that open above 1/2, as of a router, jump by 1/2; those that open above 0 do not."""
    keys = jax.random.split(jax.random.key(7), 2 * LAYERS + 2)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) * WIDTH**-0.5 for key in keys[:-2]]
    x = jax.random.normal(keys[-2], (ROWS, WIDTH))
    labels = jax.random.randint(keys[-1], (ROWS,), 0, WIDTH)

    def loss(weights: list[Any], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, labels = batch
        for gate, weight in zip(weights[::2], weights[1::2], strict=True):
            opened = jax.nn.sigmoid(norm(x) @ gate)
            x = x + jnp.where(opened > threshold, opened, 0.0) * (norm(x) @ weight)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1))

    kept, reasons = compare(scalify.Recipe(), loss, (weights, (x, labels)))
    assert kept > 0.98
    assert any(is_sensitive(reason) for reason in reasons) == (threshold > 0)
    if threshold > 0:
        lost, _ = compare(scalify.Recipe(sensitive=True), loss, (weights, (x, labels)))
        assert lost < kept


def retention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The product of scores with decays and values, [batch, time, head, channel]."""
    steps = q.shape[1]
    decay = jnp.arange(steps)[:, None] - jnp.arange(steps)
    decay = jnp.where(decay >= 0, 0.9 ** jnp.maximum(decay, 0), 0)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * decay
    return jnp.einsum("bhts,bshd->bthd", scores, v)


def scanned(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The same by a scan over chunks, which adds rows of a chunk and of the state before it."""
    batch, _, heads, width = q.shape
    chunk = 4
    place = jnp.arange(chunk)
    decay = jnp.tril(0.9 ** jnp.maximum(place[:, None] - place, 0))

    def step(state: jax.Array, parts: Any) -> tuple[jax.Array, jax.Array]:
        q, k, v = parts
        rows = (q @ k.swapaxes(-1, -2) * decay) @ v
        rows = rows + 0.9 ** (place[:, None] + 1) * (q @ state)
        later = 0.9 ** (chunk - 1 - place[:, None])
        return 0.9**chunk * state + (k * later).swapaxes(-1, -2) @ v, rows

    parts = tuple(
        part.reshape(batch, -1, chunk, heads, width).transpose(1, 0, 3, 2, 4) for part in (q, k, v)
    )
    _, rows = jax.lax.scan(step, jnp.zeros((batch, heads, width, width)), parts)
    return rows.transpose(1, 0, 3, 2, 4).reshape(q.shape)


def attend(
    mix: Callable[..., jax.Array], params: dict[str, jax.Array], batch: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """Products of activations with decays, and a norm of rows: the first has a single term."""
    x, labels = batch
    q, k, v = ((norm(x) @ params[name]).reshape(*x.shape[:2], 4, -1) for name in "qkv")
    y = norm(mix(q, k, v / q.shape[-1] ** 0.5)).reshape(x.shape)
    logits = norm(x + y @ params["o"]) @ params["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.mean(chosen)


def test_the_scan_is_the_retention() -> None:
    q, k, v = jax.random.normal(jax.random.key(6), (3, 2, 16, 4, 8))
    # Sums of 16 terms in another order.
    np.testing.assert_allclose(scanned(q, k, v), retention(q, k, v), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("preset", "mix"),
    [
        ("fp8", retention),
        ("fp8-current", retention),
        ("bf16", retention),
        ("fp8", scanned),
        ("bf16", scanned),
    ],
)
def test_rows_that_may_vanish_before_a_norm_stay_wide(
    preset: str, mix: Callable[..., jax.Array]
) -> None:
    """16 bits harm gradients here as FP8 does elsewhere: nothing limits 1 / |row|."""
    keys = jax.random.split(jax.random.key(5), 8)
    params = {
        name: jax.random.normal(key, (64, 64)) / 8 for name, key in zip("qkvo", keys, strict=False)
    }
    params["head"] = jax.random.normal(keys[4], (64, 64)) / 8
    x = jax.random.normal(keys[5], (32, 16, 64))
    labels = jax.random.randint(keys[6], (32, 16), 0, 64)
    args = (params, (x, labels))
    loss = functools.partial(attend, mix)
    recipe = scalify.Recipe.preset(preset)
    kept, reasons = compare(recipe, loss, args)
    lost, _ = compare(recipe.replace(sensitive=True, product=True), loss, args)
    # The bars of gradients under FP8 and under BF16 (docs/numerics.md).
    assert kept > (0.999 if preset == "bf16" else 0.98) > lost
    assert sum(is_sensitive(reason) for reason in reasons) >= 3
