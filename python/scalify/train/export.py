"""Weights in FP8 with their scales, as inference engines read them (compressed-tensors).

    python -m scalify.train.export run/model run/model-fp8

A projection's `weight` is float8_e4m3fn [out, in], and its `weight_scale` the scales of its rows,
[out, 1], or of the whole, [1]: true value = weight * weight_scale. `quantization_config` in
config.json says so (the library compressed-tensors, format "float-quantized").
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import sys
from collections.abc import Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from scalify._tensor_file import map_tensors
from scalify.train.settings import Config

__all__ = ["copy_beside", "export_fp8", "main", "quantize", "tokenizer_of"]

E4M3 = ml_dtypes.float8_e4m3fn
LARGEST = 448.0  # of E4M3
# Engines keep these wide: the embedding is a table, and the head decides every token.
KEPT = ("lm_head", "embed_tokens")
# Beside a tokenizer.json.
TOKENIZER_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
Strategy = Literal["channel", "tensor"]


def quantize(weight: NDArray[Any], strategy: Strategy) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Returns a matrix [out, in] in E4M3, and the scale of each row [out, 1] or of all [1].

    Scales are BF16 numbers, since engines may keep them in the model's format, and large enough
    that nothing saturates. A row of zeros has scale 1.
    """
    wide = weight.astype(np.float32)
    axis = 1 if strategy == "channel" else None
    most = np.max(np.abs(wide), axis=axis, keepdims=strategy == "channel")
    exact = np.where(most > 0, most / LARGEST, 1).astype(np.float32)
    # Rounds up to BF16, the upper half of an F32.
    bits = (exact.view(np.uint32) + 0xFFFF) & np.uint32(0xFFFF0000)
    scale = bits.view(np.float32)
    scale = scale if strategy == "channel" else scale.reshape(1)
    return (wide / scale).astype(E4M3), scale


def export_fp8(
    source: pathlib.Path, out: pathlib.Path, strategy: Strategy = "channel", replace: bool = False
) -> tuple[int, int]:
    """Writes a Hugging Face checkpoint with the weights of its linear layers in FP8.

    Args:
        source: a folder with config.json and safetensors, also sharded.
        out: a new or empty folder.
        strategy: scales of rows ("channel") or of whole matrices ("tensor").
        replace: overwrite the files of an earlier export.

    Returns:
        The bytes of all tensors before and after.

    Raises:
        OSError: files cannot be read or written.
        ValueError: there are no weights, they are quantized already, or `out` has files.
    """
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    if "quantization_config" in config:
        raise ValueError(f"'{source}' is quantized already: export the unquantized weights")
    files = sorted(source.glob("*.safetensors"))
    if not files:
        raise ValueError(f"'{source}' has no safetensors")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not replace:
        raise ValueError(f"'{out}' has files: name a new folder")
    before = after = 0
    places: dict[str, str] = {}
    for path in files:
        made: dict[str, NDArray[Any]] = {}
        for name, array in map_tensors(path)[0].items():
            before += array.nbytes
            if _is_linear(name, array):
                made[name], scale = quantize(array, strategy)
                kept = array.dtype if array.dtype == ml_dtypes.bfloat16 else np.float32
                made[name + "_scale"] = scale.astype(kept)
            else:
                made[name] = np.asarray(array)
        places |= dict.fromkeys(made, path.name)
        after += sum(array.nbytes for array in made.values())
        safetensors.numpy.save_file(made, out / path.name, metadata={"format": "pt"})
    if len(files) > 1:
        index = {"metadata": {"total_size": after}, "weight_map": places}
        (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    config["quantization_config"] = _description(strategy)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for path in (*source.glob("*.json"), *source.glob("*.jinja")):
        if path.name not in ("config.json", "model.safetensors.index.json"):
            shutil.copy(path, out / path.name)
    return before, after


def tokenizer_of(config: Config) -> pathlib.Path | None:
    """Returns the tokenizer.json of a run, by default that beside its weights; None without one."""
    given = config.data.tokenizer or config.model.weights
    if given is None:
        return None
    path = pathlib.Path(given)
    path = path / "tokenizer.json" if path.is_dir() else path
    return path if config.data.tokenizer or path.exists() else None


def copy_beside(config: Config, tokenizer: pathlib.Path | None, folder: pathlib.Path) -> None:
    """Copies to exported weights what transformers reads beside them, where it is there.

    That is the tokenizer with its settings and template, and how the original weights generate.
    """
    if tokenizer is not None:
        shutil.copy(tokenizer, folder / "tokenizer.json")
        for name in TOKENIZER_FILES:
            if (tokenizer.parent / name).exists():
                shutil.copy(tokenizer.parent / name, folder / name)
    if config.model.weights is not None:
        generation = pathlib.Path(config.model.weights) / "generation_config.json"
        if generation.exists():
            shutil.copy(generation, folder / generation.name)


def _is_linear(name: str, array: NDArray[Any]) -> bool:
    return array.ndim == 2 and name.endswith(".weight") and not any(one in name for one in KEPT)


def _description(strategy: Strategy) -> dict[str, Any]:
    """Returns quantization_config: static weights, activations quantized by token as they come."""
    common = {"num_bits": 8, "type": "float", "symmetric": True}
    weights = common | {"strategy": strategy, "dynamic": False}
    activations = common | {"strategy": "token", "dynamic": True}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group | {"output_activations": None}},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scalify.train.export",
        description="Writes FP8 weights with scales from a Hugging Face checkpoint.",
    )
    parser.add_argument("source", type=pathlib.Path, help="a folder of Hugging Face's layout")
    parser.add_argument("out", type=pathlib.Path, help="a new folder")
    parser.add_argument(
        "--strategy", choices=("channel", "tensor"), default="channel", help="of scales (channel)"
    )
    options = parser.parse_args(argv)
    try:
        before, after = export_fp8(options.source, options.out, options.strategy)
    except (OSError, ValueError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {before:,} bytes of weights became {after:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
