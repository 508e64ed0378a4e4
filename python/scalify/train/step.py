"""The step of a run as a function, and how it is compiled: recipe and health policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scalify
from scalify.train.settings import RecipeSection

__all__ = ["Loss", "decaying", "make_step", "numerics_of", "recipe_of"]

# loss(trained, frozen, batch): the weighted mean over the batch's targets.
Loss = Callable[[Any, Any, Any], jax.Array]


def make_step(
    loss: Loss, optimizer: optax.GradientTransformation, micro_batches: int
) -> Callable[..., Any]:
    """Returns train_step(trained, moments, frozen, batch) -> (trained, moments, metrics).

    With micro-batches the fields of the batch are [micro-batches, samples, sequence]. Gradients are
    those of the mean over all targets of the batch, also if micro-batches have different numbers of
    them.
    """

    def gradients(trained: Any, frozen: Any, batch: Any) -> tuple[jax.Array, Any]:
        if micro_batches == 1:
            return jax.value_and_grad(loss)(trained, frozen, batch)
        total = jnp.maximum(jnp.sum(batch["weights"]), 1)

        def part(trained: Any, batch: Any) -> jax.Array:
            return loss(trained, frozen, batch) * (jnp.sum(batch["weights"]) / total)

        def add(sums: Any, batch: Any) -> tuple[Any, None]:
            found = jax.value_and_grad(part)(trained, batch)
            return jax.tree.map(jnp.add, sums, found), None

        zeros = (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, trained))
        return jax.lax.scan(add, zeros, batch)[0]

    def train_step(trained: Any, moments: Any, frozen: Any, batch: Any) -> tuple[Any, Any, Any]:
        value, grads = gradients(trained, frozen, batch)
        with jax.named_scope("optimizer"):
            norm = optax.tree.norm(grads)
            updates, moments = optimizer.update(grads, moments, trained)
            trained = optax.apply_updates(trained, updates)
        return trained, moments, {"loss": value, "gradient_norm": norm}

    return train_step


def decaying(params: Any) -> Any:
    """Returns which leaves decay: matrices, also stacked ones, but no gains and no biases."""

    def decays(path: Any, leaf: Any) -> bool:
        name = jax.tree_util.keystr(path).lower()
        return np.ndim(leaf) > 1 and "norm" not in name and "bias" not in name

    return jax.tree_util.tree_map_with_path(decays, params)


def recipe_of(section: RecipeSection) -> scalify.Recipe:
    """Returns the recipe of a run.

    Raises:
        ValueError: there is no such recipe, or it has no such part.
    """
    recipe = scalify.Recipe.of(section.name)
    return recipe.replace(**section.replace) if section.replace else recipe


def numerics_of(section: RecipeSection) -> scalify.Numerics:
    """Returns the policy of a run for casts that clip."""
    if not section.health:
        return scalify.Numerics()
    if section.health == "off":
        return scalify.Numerics(health="off")
    action = cast(Literal["report", "rescale", "adapt", "widen"], section.health)
    return scalify.Numerics(health=scalify.HealthPolicy(action, every=section.health_every))
