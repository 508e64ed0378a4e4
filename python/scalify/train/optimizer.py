"""AdamW, the schedules of its learning rate, and clipping."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from scalify.train.settings import OptimizerSection, ScheduleSection

__all__ = ["make_optimizer", "make_schedule"]


def make_schedule(peak: float, steps: int, section: ScheduleSection) -> optax.Schedule:
    """Returns the learning rate by the step, for a run of `steps`.

    "cosine" decays from the end of the warm-up to the last step, "wsd" linearly in the last `decay`
    steps (warm-up, stable, decay: Hu et al. 2024, MiniCPM, section 4).
    """
    final = peak * section.final
    stable = steps - section.warmup - section.decay
    if section.kind == "cosine":
        rest = optax.cosine_decay_schedule(peak, max(stable, 1), section.final)
        borders, parts = [section.warmup], [rest]
    elif section.kind == "wsd":
        decay = optax.linear_schedule(peak, final, section.decay)
        borders, parts = [section.warmup, steps - section.decay], [_constant(peak), decay]
    else:
        borders, parts = [section.warmup], [_constant(peak)]
    if section.warmup == 0:
        return parts[0] if len(parts) == 1 else optax.join_schedules(parts, borders[1:])
    # The first step has a rate above 0, the step `warmup` the peak.
    start = peak / section.warmup
    rise = optax.linear_schedule(start, peak, max(section.warmup - 1, 1))
    return optax.join_schedules([rise, *parts], borders)


def _constant(value: float) -> optax.Schedule:
    return optax.constant_schedule(value)


def make_optimizer(
    section: OptimizerSection, schedule: optax.Schedule, decays: Any
) -> optax.GradientTransformation:
    """Returns clipping by the global norm, then AdamW.

    Args:
        section: the coefficients.
        schedule: the learning rate by the step.
        decays: a tree of the parameters' structure: which of them decay.
    """
    adamw = optax.adamw(
        schedule,
        b1=section.beta1,
        b2=section.beta2,
        eps=section.eps,
        weight_decay=section.weight_decay,
        mask=decays,
    )
    return optax.chain(optax.clip_by_global_norm(section.clip), adamw) if section.clip else adamw


def is_matrix(params: Any) -> Any:
    """Returns which leaves are matrices, also stacked ones; gains of norms are not."""
    return jax.tree.map(lambda leaf: jnp.ndim(leaf) > 1, params)
