"""Delayed scaling: equivalent forms of a step train with the same bits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_delayed import LAYERS, ROWS, WIDTH, WithHistory, compiled, norm, train

EVERYTHING = jax.checkpoint_policies.everything_saveable
DOTS = jax.checkpoint_policies.dots_saveable


def growing(x: Any, w: Any) -> tuple[Any, None]:
    """A stream without norms: its scale and the effect of rounding differ from layer to layer."""
    return x + jnp.tanh(x @ w) @ w.T, None


def attending(x: Any, w: Any) -> tuple[Any, None]:
    """Pre-norm attention: the last layer's gradient comes from the loss, others' from a sum."""
    h = norm(x).reshape(2, ROWS // 2, WIDTH)
    q, k, v = (jnp.roll(h @ part, i, -1) for i, part in enumerate((w, w.T, w)))
    scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) * WIDTH**-0.5)
    return x + (scores @ v).reshape(ROWS, WIDTH) @ w.T, None


def standardised(x: Any, w: Any) -> tuple[Any, None]:
    """A weight that is computed, and that a checkpoint recomputes."""
    return x + jnp.tanh(norm(x) @ (w - w.mean(0))), None


def narrow(x: Any, w: Any) -> tuple[Any, None]:
    """Activations in BF16, with converts between them and the products."""
    y = jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16))
    return x + y.astype(jnp.float32), None


def gated(x: Any, w: Any) -> tuple[Any, None]:
    """Values of one shape and different meanings that are saved together."""
    h = norm(x)
    y = (h @ w) * jax.nn.sigmoid(h @ w.T)
    return x + jnp.tanh(y @ w), None


def routed(x: Any, w: Any) -> tuple[Any, None]:
    """A choice between experts by a product, which stays wide, and so do its gradients."""
    h = norm(x)
    gates = jax.nn.softmax(h @ w[:, :8])
    best, index = jax.lax.top_k(gates, 1)
    experts = jnp.stack([h @ w, h @ w.T] * 4, 1)
    return x + best * jnp.take_along_axis(experts, index[..., None], 1)[:, 0], None


def chosen(x: Any, w: Any) -> tuple[Any, None]:
    """Branches, whose results for the backward share one type."""
    h = norm(x)
    y = jax.lax.cond(w[0, 0] > 0, lambda h: jnp.tanh(h @ w) @ w.T, lambda h: (h @ w) ** 2, h)
    return x + y, None


def with_head(x: Any, w: Any) -> tuple[Any, Any]:
    """A head in each layer, whose output enters the loss."""
    x = x + jnp.tanh(norm(x) @ w) @ w.T
    return x, jnp.mean(jnp.abs(norm(x) @ w[:, :16]) ** 3)


def scan(body: Callable[..., Any], x: Any, w: Any, unroll: int | bool = 1) -> tuple[Any, Any]:
    return jax.lax.scan(body, x, w, unroll=unroll)


def loop(body: Callable[..., Any], x: Any, w: Any) -> tuple[Any, Any]:
    more = []
    for i in range(len(w)):
        x, y = body(x, w[i])
        more.append(0 if y is None else y)
    return x, jnp.stack(more)


def twice(stack: Callable[..., Any], body: Callable[..., Any], x: Any, w: Any) -> Any:
    """Two stacks without ops in between: the second reads the first one's result."""
    x, _ = stack(body, x, w)
    return stack(body, x, w[::-1])


def in_groups(outer: bool, inner: bool, body: Callable[..., Any], x: Any, w: Any) -> Any:
    """Checkpoints around a group of layers and around each of its layers."""
    layer = jax.checkpoint(body) if inner else body

    def group(x: Any, w: Any) -> Any:
        return loop(layer, x, w)

    for _ in range(2):
        x, more = (jax.checkpoint(group) if outer else group)(x, w)
    return x, more


def make(stack: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    def loss(w: Any, x: Any) -> Any:
        x, more = stack(body, x, w)
        value = jnp.mean(jnp.abs(x) ** 3)
        return value if more is None else value + jnp.sum(more)

    def step(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(loss)(w, x[0])
        return w - 0.05 * grad, value

    return step


def check(
    stacks: Mapping[str, Callable[..., Any]], bodies: Mapping[str, Any], run: Any = compiled
) -> None:
    """Trains all combinations, and compares all losses with those of the first."""
    losses = {
        (how, what): train(run(make(stack, body)), 6)[1]
        for how, stack in stacks.items()
        for what, body in bodies.items()
    }
    first = next(iter(losses.values()))
    assert np.isfinite(first).all() and len(set(first)) == 6
    assert all(found == first for found in losses.values()), losses


STACKS = {"scan": scan, "unrolled": functools.partial(scan, unroll=True), "loop": loop}


@pytest.mark.parametrize(
    ("run", "body"),
    [
        *((compiled, body) for body in (growing, attending, standardised, narrow)),
        # XLA gives forms other last digits, in F32 too; of these two casts leave nothing of it.
        *((WithHistory, body) for body in (growing, attending)),
    ],
)
def test_loops_and_checkpoints(run: Any, body: Callable[..., Any]) -> None:
    check(STACKS, {"plain": body, "checkpoint": jax.checkpoint(body)}, run)


@pytest.mark.parametrize("body", [gated, routed, chosen])
def test_what_is_saved_or_made_again(body: Callable[..., Any]) -> None:
    policies = {"all": EVERYTHING, "dots": DOTS}
    saved = {name: jax.checkpoint(body, policy=policy) for name, policy in policies.items()}
    check({"scan": scan, "loop": loop}, {"plain": body, **saved})


def test_results_of_each_layer() -> None:
    bodies = {"plain": with_head, "dots": jax.checkpoint(with_head, policy=DOTS)}
    check(STACKS, {**bodies, "checkpoint": jax.checkpoint(with_head)})


@pytest.mark.parametrize("body", [growing, with_head, gated])
def test_a_scan_that_is_unrolled_in_part(body: Callable[..., Any]) -> None:
    # Two iterations of a loop together, and the third behind it.
    assert LAYERS == 3
    check({"scan": scan, "twos": functools.partial(scan, unroll=2)}, {"plain": body})


def test_two_stacks_with_nothing_between() -> None:
    stacks = {name: functools.partial(twice, stack) for name, stack in STACKS.items()}
    check(stacks, {"plain": growing})


def test_checkpoints_in_checkpoints() -> None:
    groups = {
        f"{outer} {inner}": functools.partial(in_groups, outer, inner)
        for outer in (False, True)
        for inner in (False, True)
    }
    check(groups, {"plain": growing})


def test_a_recurrence_in_each_layer() -> None:
    """The initial state is a zero that the loop over layers carries unchanged."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        def cell(h: Any, row: Any) -> tuple[Any, Any]:
            h = jnp.tanh(row @ w + h)
            return h, h

        rows = norm(x).reshape(4, ROWS // 4, WIDTH)
        _, states = jax.lax.scan(cell, jnp.zeros((ROWS // 4, WIDTH)), rows)
        return x + states.reshape(x.shape), None

    saved = jax.checkpoint(layer, policy=EVERYTHING)
    check(STACKS, {"plain": layer, "checkpoint": jax.checkpoint(layer), "all": saved})


def test_micro_batches_of_layers_that_are_loops() -> None:
    """Without transformation names inside, a micro-batch's forward is still its forward."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return scan(growing, x, jnp.stack([w, w.T]))

    def step_of(unroll: bool, body: Callable[..., Any]) -> Callable[..., Any]:
        def loss(w: Any, x: Any) -> Any:
            return jnp.mean(jnp.abs(loop(body, x, w)[0]) ** 3)

        def step(w: Any, x: Any) -> Any:
            def add(total: Any, part: Any) -> tuple[Any, Any]:
                value, grad = jax.value_and_grad(loss)(w, part)
                return total + grad, value

            total, values = jax.lax.scan(add, jnp.zeros_like(w), x, unroll=unroll)
            return w - 0.02 * total, jnp.mean(values)

        return step

    found = {}
    for unroll in (False, True):
        for name, body in {"plain": layer, "checkpoint": jax.checkpoint(layer)}.items():
            fn = compiled(step_of(unroll, body))
            found[unroll, name] = train(fn, 5)[1]
            formats = {row["phase"]: row["format"] for row in fn.report().casts()}
            assert formats == {"forward": "f8E4M3FN", "backward": "f8E5M2"}
    assert len({tuple(losses) for losses in found.values()}) == 1, found
