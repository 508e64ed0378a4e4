"""Several optimizer steps in one function train like repeated calls of one step.

Values between two steps are state, whether the program names them or not: the recipe rounds
operands of dots, and no weight or moment between steps. Updates are small (3e-4 of weights of
unit size, below 2^-9, which BF16 loses), so that rounding one of them would show.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import optax
import pytest
from step_programs import FORMS, batches, cosine, init

import scalify

OPTIMIZERS = {
    "adam": (optax.adam(3e-4), 3),
    "momentum": (optax.sgd(0.03, momentum=0.9), 4),
    "lion": (optax.lion(3e-4, weight_decay=0.1), 2),
}


def arguments(name: str) -> tuple[Any, optax.GradientTransformation, int]:
    opt, steps = OPTIMIZERS[name]
    params = init()
    return (params, opt.init(params), *batches(steps)), opt, steps


def dots(report: scalify.Report) -> Counter[tuple[str, ...]]:
    """Counts the dots of each phase and format."""
    keys = ("phase", "format")
    return Counter(tuple(str(row.get(key)) for key in keys) for row in report.dots())


@pytest.mark.parametrize(("name", "recipe"), [*((n, "bf16") for n in OPTIMIZERS), ("adam", "fp8")])
def test_an_update_within_a_step_is_as_near_as_between_steps(name: str, recipe: str) -> None:
    args, opt, steps = arguments(name)
    params, state, x, y = args
    one = scalify.jit(FORMS["written out"](opt, 1), recipe, donate_argnums=(0, 1))
    called = jax.tree.map(np.array, (params, state))
    for i in range(steps):
        *called, _ = one(*called, x[i : i + 1], y[i : i + 1])
    reference = jax.jit(FORMS["written out"](opt, steps))(*args)
    wanted = cosine(called[0], reference[0], params)
    # Measured: 0.99 and more. Lion's signs turn on any rounding, in calls as in one.
    assert wanted > 0.95
    expected = dots(one.executable().report())
    for form, make in FORMS.items():
        run = scalify.jit(make(opt, steps), recipe, donate_argnums=(0, 1))
        got = run(*jax.tree.map(np.array, args))
        # Scales follow the first weights here and the newest there.
        assert cosine(got[0], reference[0], params) > wanted - 0.005, form
        np.testing.assert_allclose(np.ravel(got[2])[-1], reference[2], rtol=5e-3)
        found = dots(run.executable().report())
        times = steps if form == "written out" else 1
        assert found == Counter({key: times * count for key, count in expected.items()}), form


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_written_out_need_no_locations(name: str) -> None:
    args, opt, steps = arguments(name)
    fn = FORMS["written out"](opt, steps)
    text = jax.jit(fn, donate_argnums=(0, 1)).lower(*args).as_text()
    leaves = jax.tree.map(np.array, jax.tree.leaves(args))
    got = scalify.compile(text, "bf16")(*leaves)
    reference = jax.jit(fn)(*args)
    count = len(jax.tree.leaves(args[0]))
    # What the same steps hold where locations tell their phases (above).
    left, right = list(got[:count]), jax.tree.leaves(reference[0])
    assert cosine(left, right, jax.tree.leaves(args[0])) > 0.95
