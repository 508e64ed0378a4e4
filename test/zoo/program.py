"""What a program of the zoo is: a training step with its parameters, batches and gradients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

__all__ = ["REGISTRY", "Entry", "Program", "adamw", "make", "program"]

Loss = Callable[[Any, Any], jax.Array]
Grads = Callable[[Any, Any], tuple[jax.Array, Any]]
Step = Callable[[Any, Any, Any], tuple[Any, Any, jax.Array]]


def adamw(rate: float = 2e-3) -> optax.GradientTransformation:
    """Returns what most programs train with: clipping, AdamW, warm-up and cosine decay."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, rate, 20, 400)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.95))


@dataclasses.dataclass(frozen=True)
class Program:
    """One training program.

    Attributes:
        params: the initial parameters.
        batch: the i-th batch, a pytree; batches of equal index are equal.
        grads: (params, batch) -> (loss, gradients of the parameters).
        step: (params, state, batch) -> (params, state, loss).
        state: what `step` takes for `state` first.
        platform: what the text is lowered for; "cuda" lowers without a GPU, and cannot run here.
        devices: how many devices the program is for; above one it is judged by structure.
    """

    params: Any
    batch: Callable[[int], Any]
    grads: Grads
    step: Step
    state: Any
    platform: str = "cpu"
    devices: int = 1

    @staticmethod
    def of_loss(
        params: Any,
        batch: Callable[[int], Any],
        loss: Loss,
        optimizer: optax.GradientTransformation | None = None,
        **options: Any,
    ) -> Program:
        """Returns the program of a loss and an optimizer (AdamW, if none is given)."""
        return Program.of_grads(params, batch, jax.value_and_grad(loss), optimizer, **options)

    @staticmethod
    def of_grads(
        params: Any,
        batch: Callable[[int], Any],
        grads: Grads,
        optimizer: optax.GradientTransformation | None = None,
        **options: Any,
    ) -> Program:
        """Returns the program of gradients and an optimizer (AdamW, if none is given)."""
        chosen = adamw() if optimizer is None else optimizer

        def train_step(params: Any, state: Any, batch: Any) -> tuple[Any, Any, jax.Array]:
            loss, found = grads(params, batch)
            updates, state = chosen.update(found, state, params)
            return optax.apply_updates(params, updates), state, loss

        return Program(params, batch, grads, train_step, chosen.init(params), **options)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A program's name, its maker by depth, and the depth at which the bars judge it."""

    name: str
    make: Callable[[int], Program]
    depth: int
    group: str


REGISTRY: dict[str, Entry] = {}


def program(
    name: str, group: str, depth: int = 12, **options: Any
) -> Callable[[Callable[..., Program]], Callable[..., Program]]:
    """Enters a maker under a name; `options` are given to it beside the depth."""

    def enter(maker: Callable[..., Program]) -> Callable[..., Program]:
        REGISTRY[name] = Entry(name, functools.partial(maker, **options), depth, group)
        return maker

    return enter


def make(name: str, depth: int | None = None) -> Program:
    """Returns a program of the zoo; without a depth, as deep as the bars judge it.

    Raises:
        ValueError: there is no such program.
    """
    import catalogue  # noqa: F401  (fills the registry)

    if name not in REGISTRY:
        raise ValueError(f"no program '{name}': expected one of {', '.join(sorted(REGISTRY))}")
    entry = REGISTRY[name]
    return entry.make(entry.depth if depth is None else depth)


def cast(tree: Any, dtype: Any) -> Any:
    """Returns the tree with its floating-point arrays in another type."""
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree
    )
