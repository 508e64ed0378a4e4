"""The ranks of a run, the parts that each has, and the steps compiled for them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

import scalify
from scalify.mesh import Mesh
from scalify.models import llama
from scalify.models.llama.sharding import specs as specs_of_model
from scalify.train.data import FIELDS, Blend, Pick
from scalify.train.settings import TrainSection
from scalify.train.step import Loss

__all__ = ["Layout", "Specs"]


@dataclasses.dataclass(frozen=True)
class Specs:
    """The shardings of a step's arguments, as trees of the same structures; None on one rank."""

    trained: Any
    moments: Any
    frozen: Any


def _check(params: Any, specs: Any, mesh: Mesh) -> None:
    """Checks that ranks divide the model's matrices.

    Raises:
        ValueError: names the matrix.
    """

    def one(path: Any, leaf: Any, spec: P) -> None:
        try:
            mesh.parts(leaf.shape, spec)
        except ValueError as error:
            name = jax.tree_util.keystr(path)
            raise ValueError(
                f"train.mesh does not divide {name}: {error}; a vocabulary is padded by "
                "model.override.vocab_size"
            ) from error

    jax.tree_util.tree_map_with_path(one, params, specs)


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
        elif section.batch % (section.micro_batches * mesh.axes.get("data", 1)):
            raise ValueError(
                f"train.batch = {section.batch} is no multiple of {section.micro_batches} "
                f"micro-batches on {mesh.axes['data']} ranks"
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

    def spec(self, micro_batches: int) -> P:
        """Returns the sharding of a batch's fields."""
        data = "data" if self.mesh is not None and "data" in self.mesh.axes else None
        return P(None, data) if micro_batches > 1 else P(data)

    def specs(
        self,
        config: llama.LlamaConfig,
        optimizer: optax.GradientTransformation,
        trained: Any,
        moments: Any,
        frozen: Any,
    ) -> Specs:
        """Returns the shardings: an axis "tensor" splits the model's matrices, not adapters.

        Raises:
            ValueError: the axis does not divide a matrix.
        """
        if self.mesh is None:
            return Specs(None, None, None)
        model = specs_of_model(config, tuple(self.mesh.axes))
        _check(frozen if jax.tree.leaves(frozen) else trained, model, self.mesh)
        if jax.tree.leaves(frozen):
            adapters = jax.tree.map(lambda _: P(), trained)
            return Specs(adapters, jax.tree.map(lambda _: P(), moments), model)
        placed = optax.tree_utils.tree_map_params(
            optimizer, lambda _, spec: spec, moments, model, transform_non_params=lambda _: P()
        )
        return Specs(model, placed, frozen)

    def train(
        self,
        fn: Callable[..., Any],
        recipe: scalify.Recipe,
        numerics: scalify.Numerics,
        specs: Specs,
    ) -> scalify.Jit:
        """Returns the train step compiled for the ranks."""
        if self.mesh is None:
            return scalify.jit(fn, recipe, numerics=numerics, donate_argnums=(0, 1))
        batch = dict.fromkeys(FIELDS, self.spec(self.micro_batches))
        state = (specs.trained, specs.moments)
        return scalify.jit(
            fn,
            recipe,
            numerics=numerics,
            distribution=scalify.Distribution(mesh=self.mesh, zero=self.zero),
            in_shardings=(*state, specs.frozen, batch),
            out_shardings=(*state, {"loss": P(), "gradient_norm": P()}),
            donate_argnums=(0, 1),
        )

    def evaluate(self, loss: Loss, recipe: str, specs: Specs) -> scalify.Jit:
        """Returns the step of an evaluation, compiled for the ranks.

        It maps (trained, frozen, batch), of whole arrays, to the mean loss and the number of
        targets.
        """

        def evaluate(trained: Any, frozen: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
            return loss(trained, frozen, batch), jnp.sum(batch["weights"])

        if self.mesh is None:
            return scalify.jit(evaluate, recipe)
        batch = dict.fromkeys(FIELDS, self.spec(1))
        return scalify.jit(
            evaluate,
            recipe,
            distribution=self.mesh,
            in_shardings=(specs.trained, specs.frozen, batch),
            out_shardings=(P(), P()),
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

        spec = self.spec(micro_batches)
        mesh = self.mesh
        return {name: mesh.array(shape, spec, functools.partial(part, name)) for name in FIELDS}

    def whole(self, tree: Any) -> Any:
        """Returns the tree with whole arrays; collective over the ranks."""
        return jax.tree.map(
            lambda leaf: leaf.gather() if isinstance(leaf, scalify.Shard) else leaf, tree
        )
