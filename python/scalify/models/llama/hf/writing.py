"""Parameters to the files of a checkpoint, one shard in memory at a time."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from scalify.models.llama.config import DTYPES, LlamaConfig
from scalify.models.llama.hf import names
from scalify.models.llama.parameters import Params

__all__ = ["save"]

# The files of weights that `save` writes.
OWN = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")


def _flat(params: Params) -> dict[str, tuple[Any, int | None, str]]:
    """Returns each tensor's leaf, its row in the leaf if layers are stacked, and its parameter."""
    outer = {name: leaf for name, leaf in params.items() if name != "layers"}
    found: dict[str, tuple[Any, int | None, str]] = {
        names.outer_tensor(name): (leaf, None, name) for name, leaf in outer.items()
    }
    layers = params["layers"]
    if isinstance(layers, Mapping):
        for name, leaf in layers.items():
            for row in range(len(leaf)):
                found[names.layer_tensor(row, name)] = (leaf, row, name)
        return found
    for index, layer in enumerate(layers):
        for name, leaf in layer.items():
            found[names.layer_tensor(index, name)] = (leaf, None, name)
    return found


def _shards(sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """Yields names whose sizes sum to at most `limit`, or one name alone."""
    group: list[str] = []
    total = 0
    for name, size in sizes.items():
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    yield group


def save(
    path: str | os.PathLike[str],
    config: LlamaConfig,
    params: Params,
    max_shard_bytes: int = 5 * 10**9,
    dtype: Any = None,
) -> None:
    """Writes a folder that `load` and transformers' from_pretrained read.

    One shard is in the host's memory at a time. Files of an earlier save are replaced.

    Args:
        path: the folder, made if it does not exist.
        config: the model.
        params: the tree of `init`, layers stacked or not.
        max_shard_bytes: of one file; more tensors go to the next, and an index names them all.
        dtype: format of the files; that of each parameter if None.

    Raises:
        ValueError: parameters are missing, not expected, or of another shape.
        OSError: a file cannot be written.
    """
    folder = pathlib.Path(path)
    flat = _flat(params)

    def shape(leaf: Any, row: int | None, name: str) -> tuple[int, ...]:
        own = tuple(np.shape(leaf))[0 if row is None else 1 :]
        return own[::-1] if names.transposed(name) else own

    expected = names.stored_shapes(config)
    names.check("the tree of parameters", expected, {t: shape(*spec) for t, spec in flat.items()})
    formats = {t: jnp.dtype(dtype or spec[0].dtype) for t, spec in flat.items()}
    if odd := [f"{t} ({f.name})" for t, f in formats.items() if f.name not in DTYPES]:
        raise ValueError(f"parameters that are not {', '.join(DTYPES)}: {', '.join(odd)}")

    def array(tensor: str) -> NDArray[Any]:
        leaf, row, name = flat[tensor]
        found = np.asarray(leaf if row is None else leaf[row]).astype(formats[tensor], copy=False)
        return names.turned(found) if names.transposed(name) else np.ascontiguousarray(found)

    sizes = {t: int(np.prod(expected[t])) * formats[t].itemsize for t in names.tensor_names(config)}
    shards = list(_shards(sizes, max_shard_bytes))
    files = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    if len(shards) == 1:
        files = [names.SINGLE]
    folder.mkdir(parents=True, exist_ok=True)
    for file, group in zip(files, shards, strict=True):
        _write_tensors(folder / file, {tensor: array(tensor) for tensor in group})
    stale = [f for f in folder.glob("model*.safetensors") if OWN.fullmatch(f.name)]
    for old in stale:
        if old.name not in files:
            old.unlink()
    if len(shards) > 1:
        weight_map = {t: file for file, group in zip(files, shards, strict=True) for t in group}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
        _write_json(folder / names.INDEX, index)
    else:
        (folder / names.INDEX).unlink(missing_ok=True)
    _write_text(folder / "config.json", config.to_json(formats[next(iter(sizes))].name))
    tokens = {f"{n}_token_id": getattr(config, f"{n}_token_id") for n in ("bos", "eos", "pad")}
    given = {name: value for name, value in tokens.items() if value is not None}
    _write_json(folder / "generation_config.json", given)


def _write_tensors(path: pathlib.Path, arrays: dict[str, NDArray[Any]]) -> None:
    temporary = path.with_suffix(".part")
    # transformers refuses files that do not say for which framework they are.
    safetensors.numpy.save_file(arrays, temporary, metadata={"format": "pt"})
    temporary.chmod(path.parent.stat().st_mode & 0o666)
    os.replace(temporary, path)


def _write_text(path: pathlib.Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _write_json(path: pathlib.Path, value: Any) -> None:
    _write_text(path, json.dumps(value, indent=2) + "\n")
