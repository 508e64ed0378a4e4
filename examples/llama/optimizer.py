"""The training step: gradients of the model's loss, then AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

import model
from config import ModelConfig, TrainConfig

__all__ = ["make_optimizer", "make_step"]

Step = Callable[[Any, Any, jax.Array], tuple[Any, Any, jax.Array]]


def make_optimizer(
    train: TrainConfig,
    schedule: optax.Schedule | None = None,
    decays: Callable[[Any], Any] | None = None,
) -> optax.GradientTransformation:
    """Returns clipping by global norm, then AdamW; only matrices decay.

    Args:
        train: the coefficients, and the learning rate of the default schedule.
        schedule: the learning rate by the step.
        decays: which leaves decay, if some leaves of two dimensions are no matrices.
    """
    schedule = schedule or optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=train.learning_rate,
        warmup_steps=train.warmup,
        decay_steps=max(train.steps, train.warmup + 1),
        end_value=train.learning_rate * train.final_fraction,
    )

    def is_matrix(params: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.ndim(leaf) > 1, params)

    return optax.chain(
        optax.clip_by_global_norm(train.clip),
        optax.adamw(
            schedule,
            b1=train.beta1,
            b2=train.beta2,
            eps=train.eps,
            weight_decay=train.weight_decay,
            mask=decays or is_matrix,
        ),
    )


def make_step(cfg: ModelConfig, optimizer: optax.GradientTransformation) -> Step:
    """Returns train_step(params, opt_state, batch) -> (params, opt_state, loss)."""

    def train_step(params: Any, opt_state: Any, batch: jax.Array) -> tuple[Any, Any, jax.Array]:
        loss, grads = jax.value_and_grad(model.loss)(params, batch, cfg)
        with jax.named_scope("optimizer"):
            updates, opt_state = optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    return train_step
