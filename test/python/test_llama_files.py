"""Files of scalify.models.llama: config.json, safetensors in shards, errors, meshes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import scalify
from scalify.models import llama
from scalify.models.llama import LlamaConfig

SMALL = LlamaConfig(
    vocab_size=40,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    eos_token_id=(2, 3),
)


def parameters(config: LlamaConfig, dtype: Any = np.float32) -> Any:
    """Returns a tree of random numpy arrays, faster than `init`."""
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda shape: rng.normal(size=shape).astype(dtype),
        llama.shapes(config),
        is_leaf=lambda node: isinstance(node, tuple),
    )


def same(left: Any, right: Any) -> None:
    for ours, theirs in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("name", llama.names())
def test_named_configurations_survive_config_json(name: str, tmp_path: pathlib.Path) -> None:
    config = LlamaConfig.named(name)
    assert hash(config) == hash(LlamaConfig.named(name.upper()))
    (tmp_path / "config.json").write_text(config.to_json())
    assert LlamaConfig.from_json(tmp_path).windows == config.windows
    again = LlamaConfig.from_json(tmp_path / "config.json").replace(layer_types=None)
    assert again == config


def test_windows_of_some_layers_and_of_old_files(tmp_path: pathlib.Path) -> None:
    kinds = ("full_attention", "sliding_attention")
    config = SMALL.replace(model_type="qwen3", sliding_window=8, layer_types=kinds)
    (tmp_path / "config.json").write_text(config.to_json("bfloat16"))
    assert LlamaConfig.from_json(tmp_path) == config.replace(dtype="bfloat16")

    fields = json.loads(SMALL.to_json()) | {"model_type": "qwen2", "sliding_window": 8}
    cases: list[tuple[dict[str, Any], tuple[int | None, ...]]] = [
        ({"use_sliding_window": False}, (None, None)),
        ({"use_sliding_window": True, "max_window_layers": 1}, (None, 8)),
        ({"use_sliding_window": True, "max_window_layers": 0}, (8, 8)),
    ]
    for changes, windows in cases:
        fields.pop("attention_bias", None)
        (tmp_path / "config.json").write_text(json.dumps(fields | changes))
        assert LlamaConfig.from_json(tmp_path).windows == windows
    # What the first files of LLaMA leave out.
    small = {name: fields[name] for name in ("vocab_size", "hidden_size", "intermediate_size")}
    old = {**small, "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(old))
    assert LlamaConfig.from_json(tmp_path).num_key_value_heads == 4


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"new_field": 1, "other": 2}, "no support for new_field, other; remove from"),
    "missing": ({"vocab_size": None}, "vocab_size missing"),
    "type": ({"model_type": "gpt2"}, "model_type is 'gpt2': expected one of llama, mistral"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu': only 'silu' is supported"),
    "dropout": ({"attention_dropout": 0.1}, "attention_dropout is 0.1: only 0 is supported"),
    "rope": (
        {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}},
        "rope_type 'longrope' is not supported: expected one of dynamic, linear, llama3, yarn",
    ),
    "rope-key": (
        {"rope_scaling": {"type": "linear", "speed": 2}},
        "rope_scaling: no support for speed",
    ),
    "rope-needs": (
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        "rope_type 'llama3' needs high_freq_factor, low_freq_factor",
    ),
    "heads": ({"num_key_value_heads": 3}, "num_attention_heads 4 is no multiple of"),
    "width": ({"hidden_size": 18, "head_dim": None}, "hidden_size 18 is no multiple of"),
    "size": ({"num_hidden_layers": 0}, "num_hidden_layers is 0: expected a whole number above 0"),
    "dtype": ({"torch_dtype": "float8"}, "dtype is 'float8': expected one of float32"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_a_config_json_that_is_not_supported_says_why(kind: str, tmp_path: pathlib.Path) -> None:
    changes, message = ERRORS[kind]
    fields = json.loads(SMALL.to_json()) | changes
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="config.json': " + message):
        LlamaConfig.from_json(tmp_path)


def test_names_of_models() -> None:
    assert LlamaConfig.named("7B") == LlamaConfig.named("llama-7b")
    assert LlamaConfig.named("Llama2-7B", remat="full").remat == "full"
    with pytest.raises(ValueError, match="no model is named 'gpt-4': expected one of llama-7b"):
        LlamaConfig.named("gpt-4")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_weights_go_through_shards_bit_for_bit(
    kind: str, dtype: Any, tmp_path: pathlib.Path
) -> None:
    config = SMALL.replace(model_type=kind, dtype=np.dtype(dtype).name)
    params = parameters(config, dtype)
    llama.hf.save(tmp_path, config, params, max_shard_bytes=3000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = {file.name: file for file in tmp_path.glob("*.safetensors")}
    assert len(files) > 2 and set(index["weight_map"].values()) == set(files)
    total = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    assert index["metadata"]["total_size"] == total
    for name, file in files.items():
        held = load_file(file)
        assert sum(array.nbytes for array in held.values()) <= 3000 or len(held) == 1
        assert all(index["weight_map"][tensor] == name for tensor in held)
    tokens = json.loads((tmp_path / "generation_config.json").read_text())
    assert tokens == {"eos_token_id": [2, 3]}

    read, again = llama.hf.load(tmp_path)
    assert read.replace(layer_types=None) == config
    same(again, params)
    # Layers in one array, in and out.
    scanned, stacked = llama.hf.load(tmp_path, config.replace(scan_layers=True))
    same(llama.unstack(stacked["layers"]), params["layers"])
    llama.hf.save(tmp_path, scanned, stacked)
    assert [file.name for file in tmp_path.glob("model*")] == ["model.safetensors"]
    same(llama.hf.load(tmp_path)[1], params)
    # One file by its path, and in another format.
    _, wide = llama.hf.load(tmp_path / "model.safetensors", config, dtype="float32")
    same(wide, jax.tree.map(lambda leaf: leaf.astype(np.float32), params))


def test_every_tensor_that_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
    params = parameters(SMALL)
    llama.hf.save(tmp_path, SMALL, params)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.norm.weight"], tensors["model.layers.1.self_attn.q_proj.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = np.zeros((16, 24), np.float32)
    tensors["model.layers.0.lora.weight"] = np.zeros(3, np.float32)
    # Tables of old checkpoints are computed, not read.
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(2, np.float32)
    save_file(tensors, file)
    with pytest.raises(ValueError, match="does not match the configuration") as error:
        llama.hf.load(tmp_path)
    assert str(error.value).splitlines()[1:] == [
        "  missing: model.layers.1.self_attn.q_proj.weight [16, 16]",
        "  missing: model.norm.weight [16]",
        "  not expected: model.layers.0.lora.weight [3]",
        "  shape of model.layers.0.mlp.up_proj.weight: [16, 24], expected [24, 16]",
    ]
    with pytest.raises(ValueError, match=r"missing: lm_head.weight \[40, 16\]"):
        llama.hf.save(tmp_path, SMALL, {k: v for k, v in params.items() if k != "head"})


def test_files_that_cannot_be_loaded(tmp_path: pathlib.Path) -> None:
    llama.hf.save(tmp_path, SMALL, parameters(SMALL), max_shard_bytes=4000)
    second = sorted(tmp_path.glob("model-00002-of-*.safetensors"))[0]
    second.unlink()
    with pytest.raises(ValueError, match=f"names files that do not exist: {second.name}"):
        llama.hf.load(tmp_path)
    llama.hf.save(tmp_path, SMALL, parameters(SMALL))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.int8)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"not F32, BF16, F16: model.norm.weight \(I8\)"):
        llama.hf.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="is no safetensors file"):
        llama.hf.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ValueError, match=r"neither model.safetensors nor .* write them by"):
        llama.hf.load(tmp_path)


def test_a_tied_head_that_is_stored_is_not_read_twice(tmp_path: pathlib.Path) -> None:
    config = SMALL.replace(tie_word_embeddings=True)
    params = parameters(config)
    llama.hf.save(tmp_path, config, params)
    tensors = load_file(tmp_path / "model.safetensors")
    assert "lm_head.weight" not in tensors
    save_file(
        {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]},
        tmp_path / "model.safetensors",
    )
    same(llama.hf.load(tmp_path)[1], params)


def test_files_may_have_another_format_than_the_parameters(tmp_path: pathlib.Path) -> None:
    config = SMALL.replace(dtype="bfloat16")
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.bfloat16), parameters(config))
    llama.hf.save(tmp_path, config, params, dtype=np.float32)
    assert LlamaConfig.from_json(tmp_path).dtype == "float32"
    same(llama.hf.load(tmp_path)[1], jax.tree.map(lambda leaf: leaf.astype(np.float32), params))


def test_state_that_a_recipe_stores_narrow_is_saved_by_its_value(tmp_path: pathlib.Path) -> None:
    config = SMALL.replace(num_hidden_layers=1, scan_layers=True)
    tokens = np.arange(32, dtype=np.int32).reshape(2, 16)
    batch = {"tokens": tokens, "targets": tokens + 1}

    def step(params: Any, batch: Any) -> Any:
        grads = jax.grad(llama.loss)(params, batch, config)
        return jax.tree.map(lambda leaf, grad: leaf - 0.1 * grad, params, grads)

    fn = scalify.jit(step, "fp8-lm-o2", donate_argnums=0)
    params = fn(llama.init(config, jax.random.key(0)), batch)
    assert isinstance(params["layers"]["wq"], scalify.ScaledArray)
    llama.hf.save(tmp_path, config, params)
    same(llama.hf.load(tmp_path, config)[1], params)


# Devices are counted when JAX starts, so in a process of its own.
MESH = """
import sys
import jax, numpy as np
from jax.sharding import PartitionSpec as P
from scalify.models import llama
from scalify.models.llama.hf import reading

sizes, read = [], reading._Files.read
def counted(self, *args):
    part = read(self, *args)
    sizes.append(part.size)
    return part
reading._Files.read = counted

mesh = jax.make_mesh((2, 2), ("fsdp", "tensor"))
for scan_layers in (False, True):
    config = llama.LlamaConfig.from_json(sys.argv[1]).replace(scan_layers=scan_layers)
    _, whole = llama.hf.load(sys.argv[1], config)
    sizes.clear()
    _, params = llama.hf.load(sys.argv[1], config, mesh)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), b), params, whole)
    layers = params["layers"] if scan_layers else params["layers"][1]
    spec = P(None, "fsdp", "tensor") if scan_layers else P("fsdp", "tensor")
    assert layers["wq"].sharding.spec == spec, layers["wq"].sharding
    assert params["embed"].sharding.spec == P("tensor", "fsdp")
    # No piece is more than a device's quarter of the largest matrix.
    assert max(sizes) == config.vocab_size * config.hidden_size // 4, max(sizes)
    llama.hf.save(sys.argv[1] + "/again", config, params)
    _, again = llama.hf.load(sys.argv[1] + "/again", config)
    jax.tree.map(np.testing.assert_array_equal, again, whole)
try:
    llama.hf.load(sys.argv[1], mesh=jax.make_mesh((4,), ("tensor",)))
except ValueError as error:
    print(error)
"""


def test_parameters_are_placed_on_a_mesh_part_by_part(tmp_path: pathlib.Path) -> None:
    # Of 42 tokens, four devices cannot have as many each.
    config = SMALL.replace(vocab_size=42)
    llama.hf.save(tmp_path, config, parameters(config))
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", MESH, str(tmp_path)],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "['embed'] [42, 16]: axis 'tensor' of 4 devices does not divide 42" in done.stdout
