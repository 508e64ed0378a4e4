"""Adapters of low rank on a model's projections, whose weights stay frozen.

Hu et al. 2021, "LoRA", section 4.1: a frozen W [in, out] acts as W + (alpha / rank) A B, with A
[in, rank] and B [rank, out]. A is random and B zero, so training starts from the frozen model.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from scalify.train.settings import LoraSection

__all__ = ["PROJECTIONS", "Adapted", "adapt", "initial_adapters", "merge"]

# Names of the parameters of `scalify.models.llama`, by those of Hugging Face's layout.
PROJECTIONS = {
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "gate_proj": "w_gate",
    "up_proj": "w_up",
    "down_proj": "w_down",
}


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["weight", "a", "b"], meta_fields=["factor"]
)
@dataclasses.dataclass(frozen=True)
class Adapted:
    """A frozen weight and its adapter, for `x @ adapted` in place of `x @ weight`.

    The adapter multiplies what comes in, so that the backward makes no gradient of the weight's
    size. Stacked weights, [layers, in, out], are adapted layer by layer, as a scan slices them.
    """

    weight: Any
    a: Any
    b: Any
    factor: float

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return tuple(self.weight.shape)

    @property
    def ndim(self) -> int:
        """The dimensions of the weight."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the weight."""
        return self.weight.dtype

    def astype(self, dtype: Any) -> Adapted:
        """Returns the same with all matrices in another format."""
        weight, a, b = (part.astype(dtype) for part in (self.weight, self.a, self.b))
        return dataclasses.replace(self, weight=weight, a=a, b=b)

    def __rmatmul__(self, x: jax.Array) -> jax.Array:
        with jax.named_scope("lora"):
            added = (x @ self.a) @ self.b
        return x @ self.weight + self.factor * added

    def merged(self) -> jax.Array:
        """Returns the weight that acts alike, in the weight's format, summed in F32."""
        wide = [part.astype(jnp.float32) for part in (self.weight, self.a, self.b)]
        return (wide[0] + self.factor * (wide[1] @ wide[2])).astype(self.weight.dtype)


def _is_adapted(path: Sequence[Any], names: set[str]) -> bool:
    return bool(path) and getattr(path[-1], "key", None) in names


def _names(section: LoraSection) -> set[str]:
    unknown = [name for name in section.targets if name not in PROJECTIONS]
    if unknown or not section.targets:
        raise ValueError(
            f"lora.targets has {', '.join(unknown) or 'nothing'}: expected some of "
            f"{', '.join(PROJECTIONS)}"
        )
    return {PROJECTIONS[name] for name in section.targets}


def initial_adapters(params: Any, section: LoraSection, seed: int) -> dict[str, Any]:
    """Returns the adapters of a model's projections, by the paths of these.

    Each is {"a": [..., in, rank], "b": [..., rank, out]} in F32: A uniform within 1 / sqrt(in), B
    zero, as in the authors' code (loralib's `Linear.reset_parameters`).

    Raises:
        ValueError: a target is unknown, or the model has no such projection.
    """
    names = _names(section)
    adapters: dict[str, Any] = {}
    key = jax.random.key(seed)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not _is_adapted(path, names):
            continue
        *lead, inputs, outputs = leaf.shape
        own = jax.random.fold_in(key, len(adapters))
        limit = 1 / math.sqrt(inputs)
        shape = (*lead, inputs, section.rank)
        adapters[jax.tree_util.keystr(path)] = {
            "a": jax.random.uniform(own, shape, jnp.float32, -limit, limit),
            "b": jnp.zeros((*lead, section.rank, outputs), jnp.float32),
        }
    if not adapters:
        raise ValueError(f"the model has none of {', '.join(section.targets)}")
    return adapters


def _mapped(
    params: Any, adapters: dict[str, Any], section: LoraSection, make: Callable[[Adapted], Any]
) -> Any:
    factor = section.alpha / section.rank

    def one(path: Any, leaf: Any) -> Any:
        found = adapters.get(jax.tree_util.keystr(path))
        return leaf if found is None else make(Adapted(leaf, found["a"], found["b"], factor))

    return jax.tree_util.tree_map_with_path(one, params)


def adapt(params: Any, adapters: dict[str, Any], section: LoraSection) -> Any:
    """Returns the parameters with adapted projections; no gradient flows into the frozen ones."""
    frozen = jax.lax.stop_gradient(params)
    return _mapped(frozen, adapters, section, lambda adapted: adapted)


def merge(params: Any, adapters: dict[str, Any], section: LoraSection) -> Any:
    """Returns parameters without adapters that act alike."""
    return _mapped(params, adapters, section, Adapted.merged)
