"""The compiled steps of a run: an update of the weights, and the loss of an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

import scalify
from scalify.mesh import Mesh
from scalify.train.data import FIELDS, Blend, Pick
from scalify.train.settings import RecipeSection, TrainSection

__all__ = ["Layout", "decaying", "make_step", "numerics_of", "recipe_of"]

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


@dataclasses.dataclass(frozen=True)
class Layout:
    """The ranks of a run, and the samples that each of them reads.

    Attributes:
        mesh: of the ranks; None for one.
        zero: level of ZeRO.
        micro_batches: parts of a batch.
    """

    mesh: Mesh | None
    zero: Literal[0, 1, 2, 3]
    micro_batches: int

    @staticmethod
    def of(section: TrainSection) -> Layout:
        """Returns the layout of a run; without a mesh it has all launched ranks.

        Raises:
            ValueError: another number of ranks was launched, or the batch is no multiple of it.
        """
        mesh: Mesh | None = scalify.make_mesh(**section.mesh)
        assert mesh is not None
        if mesh.size == 1:
            mesh = None
        elif section.batch % (section.micro_batches * mesh.size):
            raise ValueError(
                f"train.batch = {section.batch} is no multiple of {section.micro_batches} "
                f"micro-batches on {mesh.size} ranks"
            )
        if mesh is None and section.zero:
            raise ValueError("train.zero shards state over ranks: add train.mesh = {data = 2}")
        if mesh is not None:
            _ = mesh.comm  # Raises if another number of ranks was launched.
        return Layout(mesh, cast(Literal[0, 1, 2, 3], section.zero), section.micro_batches)

    @property
    def is_first(self) -> bool:
        """Whether this process writes about the run."""
        return self.mesh is None or self.mesh.rank == 0

    @property
    def spec(self) -> P:
        """The sharding of a batch's fields."""
        return P(None, "data") if self.micro_batches > 1 else P("data")

    def train(
        self, fn: Callable[..., Any], recipe: scalify.Recipe, numerics: scalify.Numerics, args: Any
    ) -> scalify.Jit:
        """Returns the train step compiled for the ranks; `args` are shapes of its arguments."""
        if self.mesh is None:
            return scalify.jit(fn, recipe, numerics=numerics, donate_argnums=(0, 1))
        trained, moments, frozen = (jax.tree.map(lambda leaf: P(), arg) for arg in args)
        batch = dict.fromkeys(FIELDS, self.spec)
        return scalify.jit(
            fn,
            recipe,
            numerics=numerics,
            distribution=scalify.Distribution(mesh=self.mesh, zero=self.zero),
            in_shardings=(trained, moments, frozen, batch),
            out_shardings=(trained, moments, {"loss": P(), "gradient_norm": P()}),
            donate_argnums=(0, 1),
        )

    def evaluate(self, loss: Loss, recipe: str, args: Any) -> scalify.Jit:
        """Returns the step of an evaluation, compiled for the ranks.

        It maps (trained, frozen, batch) to the mean loss and the number of targets.
        """

        def evaluate(trained: Any, frozen: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
            return loss(trained, frozen, batch), jnp.sum(batch["weights"])

        if self.mesh is None:
            return scalify.jit(evaluate, recipe)
        trained, frozen = (jax.tree.map(lambda leaf: P(), arg) for arg in args)
        specs = (trained, frozen, dict.fromkeys(FIELDS, P("data")))
        return scalify.jit(
            evaluate, recipe, distribution=self.mesh, in_shardings=specs, out_shardings=(P(), P())
        )

    def batch(self, blend: Blend, picks: Sequence[Pick], micro_batches: int) -> Mapping[str, Any]:
        """Returns the batch of these samples, of which a rank reads its own."""
        rows = len(picks) // micro_batches
        lead = (micro_batches, rows) if micro_batches > 1 else (rows,)
        shape = (*lead, blend.sequence)
        if self.mesh is None:
            return {name: part.reshape(shape) for name, part in blend.read(picks).items()}
        read: dict[tuple[int, int], dict[str, NDArray[Any]]] = {}

        def part(name: str, place: tuple[slice, ...]) -> NDArray[Any]:
            own = place[-2]
            key = (own.start, own.stop)
            if key not in read:
                mine = [
                    picks[micro * rows + row]
                    for micro in range(micro_batches)
                    for row in range(*key)
                ]
                read[key] = blend.read(mine)
            wanted = tuple(one.stop - one.start for one in place)
            return read[key][name].reshape(wanted)

        spec = P(None, "data") if micro_batches > 1 else P("data")
        mesh = self.mesh
        return {
            name: mesh.array(shape, spec, lambda place, name=name: part(name, place))  # type: ignore[misc]
            for name in FIELDS
        }

    def whole(self, tree: Any) -> Any:
        """Returns the tree with whole arrays; collective over the ranks."""
        return jax.tree.map(
            lambda leaf: leaf.gather() if isinstance(leaf, scalify.Shard) else leaf, tree
        )
