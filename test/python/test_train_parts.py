"""Parts of a run: schedules, the optimizer, the progress display, the length of samples."""

from __future__ import annotations

import math
import os
import pathlib
import pty
import select
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from scalify.models.llama import LlamaConfig
from scalify.train.config import read_text
from scalify.train.log import Log
from scalify.train.model import check_length
from scalify.train.optimizer import make_optimizer, make_schedule
from scalify.train.settings import OptimizerSection, ScheduleSection
from scalify.train.step import decaying


def test_schedules_rise_and_decay() -> None:
    def rates(**section: Any) -> list[float]:
        schedule = make_schedule(2.0, 100, ScheduleSection(warmup=10, final=0.1, **section))
        return [float(schedule(step)) for step in range(100)]

    cosine, wsd = rates(kind="cosine"), rates(kind="wsd", decay=20)
    rise = [2.0 * (step + 1) / 10 for step in range(10)]
    for found in (cosine, wsd, rates(kind="constant")):
        np.testing.assert_allclose(found[:10], rise, rtol=1e-6)
        assert found[10] == 2.0
    # Loshchilov and Hutter 2017, equation 5, from the peak to a tenth of it in 90 steps.
    wanted = [0.2 + 1.8 * (1 + math.cos(math.pi * step / 90)) / 2 for step in range(90)]
    np.testing.assert_allclose(cosine[10:], wanted, rtol=1e-5)
    assert set(wsd[10:81]) == {2.0}
    np.testing.assert_allclose(wsd[80:], 2.0 - 1.8 * np.arange(20) / 20, rtol=1e-5)


def test_gradients_are_clipped_and_matrices_decay() -> None:
    params = {"kernel": jnp.ones((2, 3)), "norm": jnp.ones(3), "bias": jnp.ones((2, 3))}
    gradient = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 2.0), params)
    norm = 2 * math.sqrt(15)
    section = OptimizerSection(clip=1.0, weight_decay=0.5)
    optimizer = make_optimizer(section, optax.constant_schedule(0.1), decaying(params))
    updates, state = optimizer.update(gradient, optimizer.init(params), params)
    (adam,) = (part for part in jax.tree.leaves(state, is_leaf=is_adam) if is_adam(part))
    # The first moment is (1 - beta1) times the gradient, whose norm is now 1.
    np.testing.assert_allclose(adam.mu["norm"], 0.1 * 2 / norm, rtol=1e-6)
    # The first step of Adam is the gradient's sign, but for eps; decay adds 0.5 of the weight.
    np.testing.assert_allclose(updates["kernel"], -0.1 * 1.5, rtol=1e-5)
    np.testing.assert_allclose(updates["norm"], -0.1, rtol=1e-5)
    np.testing.assert_allclose(updates["bias"], -0.1, rtol=1e-5)


def is_adam(part: Any) -> bool:
    return isinstance(part, optax.ScaleByAdamState)


def test_a_terminal_shows_progress(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="the progress display needs rich")
    config = read_text(
        f"model.name = 'llama'\ndata.train = 'a'\ntrain = {{steps = 4, batch = 1}}\n"
        f"log.folder = '{tmp_path}'"
    )
    terminal, other = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(other, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        log = Log(config, 0)
        for step in range(1, 4):
            values = {"loss": 2.0, "gradient_norm": 1.0, "tokens_per_second": 1234.0, "mfu": 0.25}
            log.record("step", step, **values)
        log.say("a line [of] text")
        log.close()
        stdout.flush()
        said = ""
        # A terminal passes on what it has, maybe a part of what was written.
        while "a line [of] text" not in said and select.select([terminal], [], [], 5)[0]:
            said += os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    for part in ("3/4", "loss 2.000", "1,234 tokens/s", "MFU 25.0 %", "a line [of] text"):
        assert part in said


def test_samples_longer_than_the_model_declares_are_a_warning() -> None:
    config = LlamaConfig(max_position_embeddings=64)
    with pytest.warns(UserWarning, match="model.override.max_position_embeddings = 128"):
        check_length(config, 128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_length(config, 64)
