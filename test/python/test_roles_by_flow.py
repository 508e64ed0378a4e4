"""Roles of dots follow the flow of data: equivalent forms of a step cast the same dots."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import step_programs
from jax.ad_checkpoint import checkpoint_name
from step_programs import batches, init, loss_fn

import scalify

Loss = Callable[..., jax.Array]

# Dots show their roles by their formats: these are wide.
ROLES = scalify.Recipe(head=False, embedding=False, convolution=False).replace(attention=False)
saveable = jax.checkpoint_policies.dots_saveable


def head_loss(p: Any, h: jax.Array, y: jax.Array) -> jax.Array:
    log_p = jax.nn.log_softmax(h @ p["head"])
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], -1))


def whole(policy: Any) -> Loss:
    return jax.checkpoint(loss_fn, policy=policy)


def parts(policy: Any) -> Loss:
    body = jax.checkpoint(step_programs.layers, policy=policy)
    end = jax.checkpoint(head_loss, policy=policy)
    return lambda p, x, y: end(p, body(p, x), y)


def chunks(policy: Any) -> Loss:
    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        h = jax.checkpoint(step_programs.layers, policy=policy)(p, x)
        h, y = h.reshape(4, -1, h.shape[-1]), y.reshape(4, -1)
        end = jax.checkpoint(head_loss, policy=policy)
        return jax.lax.scan(lambda s, c: (s + end(p, *c), None), 0.0, (h, y))[0] / 4

    return loss


def mixing(w: jax.Array, x: jax.Array) -> jax.Array:
    """A product of activations without a softmax."""
    return jnp.mean(jnp.einsum("bij,bjk->bik", jnp.tanh(w * x), jnp.sin(x)) ** 2)


def backward_dots(loss: Loss) -> Counter[tuple[str, str]]:
    """Counts the backward's dots by layer and format."""
    params = init()
    x, y = (batch[0] for batch in batches(1))
    step = scalify.transform(
        jax.value_and_grad(loss),
        ROLES,
        numerics=scalify.Numerics(scales=scalify.measure((params, x, y))),
    )
    rows = step.report(params, x, y).dots()
    assert all(row.get("weight") or "product" in row["reason"] for row in rows)
    return Counter(
        (row.get("weight", ""), row["format"]) for row in rows if row["phase"] == "backward"
    )


@pytest.mark.parametrize("policy", [None, saveable])
@pytest.mark.parametrize("form", [whole, parts, chunks])
def test_a_checkpoint_changes_no_format_of_a_gradient(
    form: Callable[[Any], Loss], policy: Any
) -> None:
    wide = {row for row in backward_dots(loss_fn) if row[1].startswith("f32")}
    assert {"p['head']", "p['router']"} <= {name for name, _ in wide}
    assert backward_dots(form(policy)) == backward_dots(loss_fn)


def test_gradients_of_each_example_are_those_of_their_layers() -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (32, 64), "b": (64, 64), "c": (64, 32)}
    params = {k: rng.normal(0, 0.15, shape).astype(np.float32) for k, shape in shapes.items()}
    x, y = (rng.normal(0, 1, (16, 32)).astype(np.float32) for _ in range(2))

    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"] - y) ** 2)

    def clipped(p: Any, x: jax.Array, y: jax.Array) -> Any:
        grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(p, x, y)
        squares = [jnp.sum(g.reshape(g.shape[0], -1) ** 2, -1) for g in jax.tree.leaves(grads)]
        factor = jnp.minimum(1, 0.1 / jnp.sqrt(sum(squares)))
        return jax.tree.map(lambda g: jnp.tensordot(factor, g, 1) / len(x), grads)

    step = scalify.transform(
        clipped, ROLES, numerics=scalify.Numerics(scales=scalify.measure((params, x, y)))
    )
    rows = step.report(params, x, y).dots()
    made = {row["weight"]: row["format"] for row in rows if row.get("kind") == "weight_grad"}
    assert made["p['a']"] == made["p['b']"] != made["p['c']"] == "f32 x f32 -> f32"
    assert "f8E5M2" in made["p['a']"]


@jax.custom_vjp
def fused_head(h: jax.Array, w: jax.Array, y: jax.Array) -> jax.Array:
    """A cross-entropy that computes its gradients in the forward."""
    log_p = jax.nn.log_softmax(h @ w)
    return -jnp.mean(jnp.take_along_axis(log_p, y[:, None], -1))


def _evaluate(h: jax.Array, w: jax.Array, y: jax.Array) -> tuple[jax.Array, Any]:
    logits = h @ w
    log_p = jax.nn.log_softmax(logits)
    loss = -jnp.mean(jnp.take_along_axis(log_p, y[:, None], -1))
    d = (jnp.exp(log_p) - jax.nn.one_hot(y, w.shape[1])) / len(y)
    return loss, (d @ w.T, h.T @ d)


fused_head.defvjp(_evaluate, lambda kept, g: (g * kept[0], g * kept[1], None))


def test_a_head_that_makes_its_gradients_in_the_forward_has_gradients() -> None:
    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return fused_head(step_programs.layers(p, x), p["head"], y)

    assert backward_dots(loss) == backward_dots(loss_fn)


@pytest.mark.parametrize("experts", [4, 16])
def test_gradients_alone_know_a_batch_of_a_weights_type(experts: int) -> None:
    rng = np.random.default_rng(0)
    widths = {"first": 16, "router": experts, "second": 16}
    params = {k: rng.normal(0, 0.25, (16, n)).astype(np.float32) for k, n in widths.items()}
    x = rng.normal(0, 1, (16, 16)).astype(np.float32)

    def loss(p: Any, x: jax.Array) -> jax.Array:
        gates, chosen = jax.lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
        mask = (jax.nn.one_hot(chosen, experts) * gates[..., None]).sum(1)
        h = jnp.tanh(x @ p["first"]) * jnp.repeat(mask, 16 // experts, axis=1)
        return jnp.mean((h @ p["second"]) ** 2)

    step = scalify.transform(
        jax.grad(loss), ROLES, numerics=scalify.Numerics(scales=scalify.measure((params, x)))
    )
    rows = [row for row in step.report(params, x).dots() if "router:" in row["reason"]]
    phases = [row["phase"] for row in rows]
    # Of two layers of one input and size what cannot be told apart stays wide.
    assert phases == ["forward", *["backward"] * (1 if experts == 4 else 2)]


@pytest.mark.parametrize("entry", ["transform", "jit", "compile"])
def test_a_step_that_stays_wide_says_so_once(entry: str) -> None:
    rng = np.random.default_rng(0)
    args = tuple(rng.normal(0, 0.5, (2, 16, 16)).astype(np.float32) for _ in range(2))
    step = jax.grad(mixing)

    def run(recipe: scalify.Recipe) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if entry == "transform":
                scalify.transform(step, recipe)(*args)
            elif entry == "jit":
                scalify.jit(step, recipe)(*args)
            else:
                text = jax.jit(step).lower(*args).as_text(debug_info=True)
                scalify.compile(
                    text, recipe, numerics=scalify.Numerics(scales=scalify.measure(args))
                )
        found = [entry for entry in caught if "FLOPs" in str(entry.message)]
        assert all(entry.filename == __file__ for entry in found)
        return [str(entry.message) for entry in found]

    recipe = scalify.Recipe.preset("fp8")
    (said,) = run(recipe)
    # The product, and its gradient by one factor.
    assert said == (
        "recipe 'fp8' leaves 2 of 2 products wide, 100 % of their FLOPs: "
        "2 by 'product' ('product = true' in the recipe casts them)"
    )
    # The way out is one; what casts nothing is for nothing.
    assert run(recipe.replace(product=True, sensitive=True)) == []
    assert run(scalify.Recipe.preset("none")) == []


def reconstruction(out: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(out) - x) ** 2)


def rows_of_weights(p: Any, x: Any, h: Any) -> Any:
    """Each example has the weights of its expert."""
    gate, expert = jax.lax.top_k(jax.nn.softmax(h), 1)
    return gate * jnp.einsum("bi,bio->bo", x, p["experts"][expert[:, 0]])


def dispatch(p: Any, x: Any, h: Any) -> Any:
    mask = jax.nn.one_hot(jnp.argmax(h, -1), 8) * jnp.max(jax.nn.softmax(h), -1, keepdims=True)
    outs = jnp.einsum("bi,eio->ebo", x, p["experts"])
    return jnp.einsum("be,ebo->bo", mask, outs)


def threshold(p: Any, x: Any, h: Any) -> Any:
    last = jax.lax.top_k(h, 2)[0][:, -1:]
    gates = jnp.where(h >= last, jax.nn.softmax(h), 0)
    return (jnp.tanh(x @ p["wide"]).reshape(32, 8, 8) * gates[..., None]).reshape(32, 64)


def codes(p: Any, x: Any, h: Any) -> Any:
    """Of a VQ autoencoder, of which `h` is the encoder."""
    distance = jnp.sum(h * h, -1, keepdims=True) - 2 * h @ p["codes"].T
    row = p["codes"][jnp.argmin(distance + jnp.sum(p["codes"] ** 2, -1), -1)]
    return h + jax.lax.stop_gradient(row - h)


def largest(p: Any, x: Any, h: Any) -> Any:
    """A sparse autoencoder."""
    return jnp.where(h >= jax.lax.top_k(h, 2)[0][:, -1:], h, 0)


def in_order(p: Any, x: Any, h: Any) -> Any:
    return jnp.sort(h, -1)


def metric(p: Any, x: Any, h: Any) -> Any:
    return h + 0 * jnp.mean(jnp.argmax(h, -1) == 3)


@pytest.mark.parametrize(
    ("middle", "is_router"),
    [
        *((form, True) for form in (rows_of_weights, dispatch, threshold)),
        *((form, False) for form in (codes, largest, in_order, metric)),
    ],
)
def test_a_router_chooses_among_what_others_made(
    middle: Callable[..., Any], is_router: bool
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (32, 16)).astype(np.float32)
    width = jax.eval_shape(middle, shapes := some_weights(rng), x, np.empty((32, 8), "f4")).shape[1]
    params = {**shapes, "out": rng.normal(0, 0.1, (width, 16)).astype(np.float32)}

    def loss(p: Any, x: Any) -> Any:
        out = middle(p, x, x @ p["first"])
        return reconstruction(jnp.tanh(out @ p["out"]) @ p["last"], x)

    step = scalify.transform(
        jax.grad(loss), ROLES, numerics=scalify.Numerics(scales=scalify.measure((params, x)))
    )
    rows = step.report(params, x).dots()
    routers = {row["weight"] for row in rows if "router:" in row["reason"]}
    assert ("p['first']" in routers) == is_router
    assert routers <= {"p['first']", "p['codes']"}


def some_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"first": (16, 8), "experts": (8, 16, 16), "wide": (16, 64), "codes": (12, 8)}
    shapes["last"] = (16, 16)
    return {key: rng.normal(0, 0.2, shape).astype(np.float32) for key, shape in shapes.items()}


def test_a_step_whose_work_is_wide_by_role_says_so() -> None:
    rng = np.random.default_rng(0)
    w, x = (rng.normal(0, 0.5, (2, 16, 16)).astype(np.float32) for _ in range(2))

    def said(fn: Callable[..., Any], recipe: scalify.Recipe) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scalify.jit(fn, recipe)(w, x)
        return [str(entry.message) for entry in caught]

    recipe = scalify.Recipe.preset("fp8")
    assert said(jax.grad(mixing), recipe) == [
        "recipe 'fp8' leaves 2 of 2 products wide, 100 % of their FLOPs: "
        "2 by 'product' ('product = true' in the recipe casts them)"
    ]
    # Nobody trains here; nor is who asked for it told.
    assert said(mixing, recipe) == []
    assert said(jax.grad(mixing), recipe.replace(where={".*": "wide"})) == []
    assert said(jax.grad(mixing), recipe.replace(product=True)) == []
    plain = recipe.replace(product=True, linear="wide")
    assert said(jax.grad(mixing), plain) == []


def test_what_a_checkpoint_keeps_by_name_is_no_head() -> None:
    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        for a, b in (("a", "b"), ("c", "d")):
            x = x + checkpoint_name(jnp.tanh(x @ p[a]), "kept") @ p[b]
        return head_loss(p, x, y)

    rng = np.random.default_rng(0)
    params = {k: rng.normal(0, 0.2, (32, 32)).astype(np.float32) for k in ("a", "b", "c", "d")}
    params["head"] = rng.normal(0, 0.2, (32, 32)).astype(np.float32)
    x, y = rng.normal(0, 1, (64, 32)).astype(np.float32), rng.integers(0, 32, 64)
    policy = jax.checkpoint_policies.save_only_these_names("kept")
    step = jax.grad(jax.checkpoint(loss, policy=policy))
    rows = scalify.transform(
        step, ROLES, numerics=scalify.Numerics(scales=scalify.measure((params, x, y)))
    )
    heads = {row["weight"] for row in rows.report(params, x, y).dots() if "head:" in row["reason"]}
    assert heads == {"p['head']"}


def test_flops_of_dots_are_those_of_all_trips() -> None:
    w, x = np.ones((3, 16, 16), np.float32), np.ones((8, 16), np.float32)

    def run(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    (row,) = scalify.transform(run, ROLES).report(w, x).dots()
    assert row["flops"] == 3 * 2 * 8 * 16 * 16


def test_a_penalty_by_vdot_keeps_its_gradient() -> None:
    """Its backward is a product with a small constant, which no 8-bit format can represent."""
    rng = np.random.default_rng(0)
    w, x = (rng.normal(0, 0.25, shape).astype(np.float32) for shape in ((16, 16), (32, 16)))

    def loss(w: Any, x: Any, share: float) -> Any:
        y = jnp.tanh(jnp.tanh(x @ w) @ w)
        return jnp.mean(y * y) + share * jnp.vdot(w, w)

    def penalty(share: float) -> np.ndarray:
        return np.asarray(scalify.jit(jax.grad(loss), "fp8", static_argnums=2)(w, x, share))

    # What both have in common is the same sum of products: some roundings of F32 are left.
    np.testing.assert_allclose(penalty(5e-5) - penalty(0.0), 1e-4 * w, atol=1e-8)


@pytest.mark.parametrize("activation", [jax.nn.relu, jnp.abs, jnp.tanh])
def test_the_report_tells_what_was_decided_of_the_head(activation: Callable[..., Any]) -> None:
    """Rematerialised, the head's input is an op of the backward, as a gradient is."""
    rng = np.random.default_rng(0)
    params = {k: rng.normal(0, 0.2, (32, 32)).astype(np.float32) for k in "abc"}
    x, y = (rng.normal(0, 1, (48, 32)).astype(np.float32) for _ in range(2))

    def loss(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        h = activation(activation(x @ p["a"]) @ p["b"])
        return jnp.mean((activation(h @ p["c"]) - y) ** 2)

    rows = scalify.jit(jax.grad(loss), ROLES).report(params, x, y).dots()
    kinds = Counter((row["kind"], row["weight"]) for row in rows)
    layers = [f"p['{key}']" for key in "abc"]
    assert kinds == Counter(
        [("forward_dot", name) for name in layers]
        + [("weight_grad", name) for name in layers]
        + [("input_grad", name) for name in layers[1:]]
    )
