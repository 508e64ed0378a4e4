"""Roles given by the user: for state whose pytree does not show them, and invalid ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify


def step(w: jax.Array, slots: tuple[jax.Array, jax.Array], x: jax.Array) -> Any:
    """Momentum whose second slot keeps means of squares of four rows: no parameter's shape."""
    gradient = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    velocity = 0.9 * slots[0] + gradient
    rows = 0.9 * slots[1] + 0.1 * jnp.mean(gradient.reshape(4, 64) ** 2, axis=1)
    return w - 0.1 * velocity / (jnp.sqrt(rows).repeat(4)[:, None] + 1), (velocity, rows)


def arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    w, x = (rng.normal(0, 0.25, (16, 16)).astype(np.float32) for _ in range(2))
    return w, (np.full((16, 16), 0.5, np.float32), np.full(4, 0.25, np.float32)), x


RECIPE = scalify.Recipe.preset("fp8-lm-o2")


def stored(roles: dict[str, str] | None = None) -> dict[str, str]:
    """Returns the types that arguments have between steps, by name."""
    numerics = scalify.Numerics(roles=roles)
    run = scalify.jit(step, RECIPE, donate_argnums=(0, 1), numerics=numerics)
    run(*arguments())
    rows = run.executable().manifest["args"]
    return {row["name"]: row["dtype"] for row in rows if not row["name"].startswith("scalify.")}


def test_state_that_is_not_recognised_takes_the_role_it_is_given() -> None:
    unsaid = stored()
    assert unsaid["slots[1]"] == "f32"
    given = stored({r"^slots\[1\]$": "moment"})
    # A second moment: the step takes its root.
    assert given["slots[1]"] == "f16"
    assert {name: given[name] for name in unsaid if name != "slots[1]"} == {
        name: kind for name, kind in unsaid.items() if name != "slots[1]"
    }
    # The first pattern counts; what was recognised is left alone so.
    kept = stored({r"slots\[0\]": "state", "slots": "moment"})
    assert (kept["slots[0]"], kept["slots[1]"]) == ("f32", "f16")


def test_recipes_go_by_the_role_in_every_entry() -> None:
    w, slots, x = arguments()
    recipe = scalify.Recipe.preset("fp8-block").replace(head=True)
    roles = {"^w$": "batch"}
    text = jax.jit(step).lower(w, slots, x).as_text(debug_info=True)

    def block_of_w(roles: dict[str, str] | None = None) -> str:
        numerics = scalify.Numerics(roles=roles)
        report = scalify.transform(step, recipe, numerics=numerics).report(w, slots, x)
        return next(str(row["reason"]) for row in report.casts() if row["cast"].endswith(": w"))

    # A weight's blocks are square.
    assert block_of_w().endswith("blocks of 128x128")
    assert not block_of_w(roles).endswith("blocks of 128x128")
    both = [scalify.Numerics(scales=[-2, -1, -2, -2], roles=one) for one in (None, roles)]
    hashes = {scalify.compile(text, recipe, numerics=one).manifest["hash"] for one in both}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"slots": "momentum"}, r"the role 'momentum': expected one of param, master, moment"),
        ({"slot_": "moment"}, r"has no argument 'slot_' .*: they are w, slots\[0\], slots\[1\], x"),
        ({"(": "moment"}, r"arguments '\(', which is no regular expression"),
    ],
)
def test_what_is_no_role_or_argument_is_named_with_what_is(
    roles: dict[str, str], message: str
) -> None:
    with pytest.raises(scalify.CompileError, match=message):
        stored(roles)
