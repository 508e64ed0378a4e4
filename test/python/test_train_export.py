"""FP8 weights with scales, in the layout of compressed-tensors."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from scalify._tensor_file import map_tensors
from scalify.train.export import export_fp8, main, quantize

NAME = "model.layers.0.self_attn.q_proj.weight"


def checkpoint(folder: pathlib.Path, dtype: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (20, 8), NAME: (6, 8), "model.norm.weight": (8,)}
    arrays = {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    arrays[NAME][2] *= 1000
    arrays[NAME][3] = 0
    folder.mkdir()
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text("{}")
    return arrays


@pytest.mark.parametrize("strategy", ["channel", "tensor"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_weights_and_scales_give_the_matrix(
    tmp_path: pathlib.Path, dtype: Any, strategy: Literal["channel", "tensor"]
) -> None:
    arrays = checkpoint(tmp_path / "wide", dtype)
    assert main([f"{tmp_path}/wide", f"{tmp_path}/narrow", "--strategy", strategy]) == 0
    made, metadata = map_tensors(tmp_path / "narrow" / "model.safetensors")
    assert metadata == {"format": "pt"}
    assert made.keys() == {*arrays, f"{NAME}_scale"}
    for name in arrays.keys() - {NAME}:
        np.testing.assert_array_equal(made[name], arrays[name])
    scale = made[f"{NAME}_scale"].astype(np.float32)
    assert made[NAME].dtype == ml_dtypes.float8_e4m3fn
    assert scale.shape == ((6, 1) if strategy == "channel" else (1,))
    assert np.all(scale == scale.astype(ml_dtypes.bfloat16).astype(np.float32))
    found, want = made[NAME].astype(np.float32) * scale, arrays[NAME].astype(np.float32)
    # Half of the last of E4M3's three bits; below 2^-6, half of its step 2^-9.
    bound = np.maximum(2.0**-4 * np.abs(want), 2.0**-10 * scale)
    assert np.all(np.abs(found - want) <= bound * (1 + 1e-6))
    config = json.loads((tmp_path / "narrow" / "config.json").read_text())
    weights = config["quantization_config"]["config_groups"]["group_0"]["weights"]
    assert weights["strategy"] == strategy and weights["num_bits"] == 8
    assert (tmp_path / "narrow" / "tokenizer.json").exists()
    with pytest.raises(ValueError, match="quantized already"):
        export_fp8(tmp_path / "narrow", tmp_path / "again")


def test_nothing_saturates() -> None:
    weight = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    narrow, scale = quantize(weight, "channel")
    # A scale is rounded up to BF16, by less than 2^-7 of it.
    ratio = np.max(np.abs(weight), axis=1, keepdims=True) / (448 * scale)
    assert np.all(ratio <= 1) and np.all(ratio > 1 - 2.0**-7)
    assert np.all(np.isfinite(narrow.astype(np.float32)))


def test_transformers_reads_the_layout(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="torch and transformers are options")
    transformers = pytest.importorskip("transformers", reason="transformers is an option")
    pytest.importorskip("compressed_tensors", reason="transformers reads FP8 weights by it")
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    model.save_pretrained(tmp_path / "wide")
    export_fp8(tmp_path / "wide", tmp_path / "narrow")
    narrow = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "narrow")
    assert narrow.model.layers[0].self_attn.q_proj.weight.dtype == torch.float8_e4m3fn
    tokens = torch.arange(40).reshape(2, 20)
    want, found = (one(tokens).logits.detach().numpy() for one in (model, narrow))
    # A cast to E4M3 errs by 0.42 * 2^-4 of an element, 14 of them add up by their squares.
    assert np.linalg.norm(found - want) < 0.42 * 2**-4 * 14**0.5 * np.linalg.norm(want)
    assert np.any(found != want)
