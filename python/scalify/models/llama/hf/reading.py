"""Parameters from the files of a checkpoint, read piece by piece."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from numpy.typing import NDArray

from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.hf import names
from scalify.models.llama.parameters import Params, shapes
from scalify.models.llama.sharding import shardings as sharding_tree

__all__ = ["load"]

FORMATS = ("F32", "BF16", "F16")


class _Files:
    """The tensors of a checkpoint's files, which are mapped and read piece by piece."""

    def __init__(self, paths: list[pathlib.Path], stack: contextlib.ExitStack) -> None:
        self._files: dict[str, Any] = {}
        for path in paths:
            try:
                file = stack.enter_context(safetensors.safe_open(path, framework="numpy"))
            except (OSError, safetensors.SafetensorError) as error:
                raise ValueError(f"'{path}' is no safetensors file: {error}") from error
            self._files |= dict.fromkeys(file.keys(), file)

    def specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Returns each tensor's shape and format."""
        slices = {name: file.get_slice(name) for name, file in self._files.items()}
        return {n: (tuple(s.get_shape()), s.get_dtype()) for n, s in slices.items()}

    def read(self, name: str, index: tuple[slice, ...]) -> NDArray[Any]:
        """Returns a part of a tensor."""
        part: NDArray[Any] = self._files[name].get_slice(name)[index]
        return part


def _paths(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a checkpoint: of an index, of one file, or the one file itself.

    Raises:
        ValueError: there is none, or the index names files that do not exist.
    """
    if path.is_file():
        return [path]
    if (path / names.INDEX).exists():
        index = json.loads((path / names.INDEX).read_text(encoding="utf-8"))
        paths = [path / name for name in sorted(set(index["weight_map"].values()))]
        if absent := [file.name for file in paths if not file.exists()]:
            raise ValueError(
                f"'{path / names.INDEX}' names files that do not exist: {', '.join(absent)}"
            )
        return paths
    if (path / names.SINGLE).exists():
        return [path / names.SINGLE]
    hint = ""
    if list(path.glob("pytorch_model*.bin")):
        hint = "; load the .bin files in transformers and write them by save_pretrained"
    raise ValueError(f"'{path}' has neither {names.SINGLE} nor {names.INDEX}{hint}")


def _extra(name: str, config: LlamaConfig) -> bool:
    """Whether a stored tensor repeats what the configuration says: tied heads, RoPE's tables."""
    return name.endswith("rotary_emb.inv_freq") or (
        config.tie_word_embeddings and name == names.HEAD
    )


def load(
    path: str | os.PathLike[str],
    config: LlamaConfig | None = None,
    mesh: jax.sharding.Mesh | None = None,
    dtype: Any = None,
    shardings: Any = None,
) -> tuple[LlamaConfig, Params]:
    """Returns the configuration and parameters of a checkpoint.

    Files are mapped, and each device gets its part of one tensor after another, so that the host
    never holds a whole copy (on the CPU, the parameters are the copy).

    Args:
        path: the folder with config.json and model.safetensors, or with
            model.safetensors.index.json and its shards; or, with `config`, one safetensors file.
        config: the model; that of config.json if None, which then computes in `dtype`. Give
            `scan_layers` here: LlamaConfig.from_json(path).replace(scan_layers=True).
        mesh: places parameters by `sharding.shardings`: split over the axes "tensor" and "fsdp".
        dtype: format of the parameters; as stored if None.
        shardings: a tree of `jax.sharding.Sharding` like the parameters, instead of `mesh`.

    Raises:
        ValueError: tensors are missing, not expected, or of another shape, or there are no files.
    """
    folder = pathlib.Path(path)
    if config is None:
        config = LlamaConfig.from_json(folder if folder.is_dir() else folder.parent)
        config = config if dtype is None else config.replace(dtype=jnp.dtype(dtype).name)
    if shardings is None:
        shardings = sharding_tree(config, mesh)
    with contextlib.ExitStack() as stack:
        files = _Files(_paths(folder), stack)
        specs = {n: spec for n, spec in files.specs().items() if not _extra(n, config)}
        stored = {name: shape for name, (shape, _) in specs.items()}
        names.check(f"'{folder}'", names.stored_shapes(config), stored)
        if odd := [f"{name} ({kind})" for name, (_, kind) in specs.items() if kind not in FORMATS]:
            raise ValueError(
                f"'{folder}' has tensors that are not {', '.join(FORMATS)}: {', '.join(odd)}"
            )
        return config, _read(files, config, shardings, None if dtype is None else jnp.dtype(dtype))


def _read(files: _Files, config: LlamaConfig, shardings: Any, dtype: Any) -> Params:
    def one(tensor: str, name: str, index: tuple[slice, ...]) -> NDArray[Any]:
        turn = names.transposed(name)
        part = files.read(tensor, index[::-1] if turn else index)
        part = part if dtype is None else part.astype(dtype, copy=False)
        return names.turned(part) if turn else np.ascontiguousarray(part)

    def stacked(name: str, index: tuple[slice, ...]) -> NDArray[Any]:
        layers = range(config.num_hidden_layers)[index[0]]
        first = one(names.layer_tensor(layers[0], name), name, index[1:])
        whole = np.empty((len(layers), *first.shape), first.dtype)
        whole[0] = first
        for row, layer in enumerate(layers[1:], 1):
            whole[row] = one(names.layer_tensor(layer, name), name, index[1:])
        return whole

    def leaf(path: Any, shape: tuple[int, ...], sharding: Any) -> jax.Array:
        name: str = path[-1].key
        if path[0].key == "layers" and config.scan_layers:
            part = functools.partial(stacked, name)
        elif path[0].key == "layers":
            part = functools.partial(one, names.layer_tensor(path[1].idx, name), name)
        else:
            part = functools.partial(one, names.outer_tensor(name), name)
        return jax.make_array_from_callback(shape, sharding, part)

    return jax.tree_util.tree_map_with_path(
        leaf, shapes(config), shardings, is_leaf=lambda node: isinstance(node, tuple)
    )
