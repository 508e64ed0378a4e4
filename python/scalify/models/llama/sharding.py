"""Where parameters lie on a mesh of devices."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.parameters import shapes

__all__ = ["shardings", "specs"]

# Megatron-LM's split (Shoeybi et al., arXiv 1909.08053, section 3): columns of the first matrix of
# a pair, rows of the second, the vocabulary. "fsdp" splits the other dimension.
_COLUMNS = ("wq", "wk", "wv", "w_gate", "w_up", "head")
_ROWS = ("wo", "w_down", "embed")
_BIASES = ("bq", "bk", "bv")


def specs(config: LlamaConfig, axes: tuple[str, ...]) -> Any:
    """Returns the tree of parameters with a `PartitionSpec` for each.

    Args:
        config: the model.
        axes: a mesh's axes; "tensor" and "fsdp" split parameters, others replicate them.
    """
    tensor = "tensor" if "tensor" in axes else None
    fsdp = "fsdp" if "fsdp" in axes else None

    def spec(path: Any, shape: tuple[int, ...]) -> PartitionSpec:
        name = path[-1].key
        stacked = config.scan_layers and path[0].key == "layers"
        lead = (None,) if stacked else ()
        if name in _COLUMNS:
            return PartitionSpec(*lead, fsdp, tensor)
        if name in _ROWS:
            return PartitionSpec(*lead, tensor, fsdp)
        return PartitionSpec(*lead, tensor) if name in _BIASES else PartitionSpec()

    return jax.tree_util.tree_map_with_path(spec, shapes(config), is_leaf=_is_shape)


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple)


def shardings(config: LlamaConfig, mesh: jax.sharding.Mesh | None) -> Any:
    """Returns the tree of parameters with a sharding for each; the default device without a mesh.

    Raises:
        ValueError: an axis does not divide the dimension that it splits.
    """
    if mesh is None:
        one = SingleDeviceSharding(jax.devices()[0])
        return jax.tree.map(lambda _: one, shapes(config), is_leaf=_is_shape)
    tree = specs(config, mesh.axis_names)

    def place(path: Any, shape: tuple[int, ...], spec: PartitionSpec) -> NamedSharding:
        for size, axis in zip(shape, spec, strict=False):
            if axis is not None and size % mesh.shape[axis]:
                raise ValueError(
                    f"{jax.tree_util.keystr(path)} {list(shape)}: axis '{axis}' of "
                    f"{mesh.shape[axis]} devices does not divide {size}"
                )
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(place, shapes(config), tree, is_leaf=_is_shape)
