"""scalify.models.llama beside transformers: logits, gradients and files, from random weights."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from scalify.models import llama

REASON = "PyTorch or transformers are not installed: make test-torch"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

LENGTH = 24
LOGITS = jax.jit(llama.apply, static_argnames="config")
SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
    # Larger than in training, so that logits and softmax rows are not nearly constant.
    "initializer_range": 0.15,
    "attn_implementation": "eager",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    # LENGTH is above max_position_embeddings, so the base grows.
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "mscale": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.7,
        "mscale_all_dim": 1.2,
    },
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True, "attention_bias": True}),
    "llama-heads": ("Llama", {"head_dim": 16, "num_key_value_heads": 6}),
    "mistral": ("Mistral", {"sliding_window": 7}),
    "mistral-full": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {}),
    "qwen2-windows": (
        "Qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 2,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": ("Qwen3", {"head_dim": 16, "attention_bias": True}),
    **{f"rope-{name}": ("Llama", {"rope_scaling": value}) for name, value in SCALINGS.items()},
}


def make(kind: str) -> Any:
    """Returns transformers' model with random weights, norms and biases included."""
    name, fields = KINDS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **fields})
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.train()


def rows() -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(0).integers(3, SMALL["vocab_size"], (2, LENGTH + 1))
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


def close(got: Any, want: Any, name: str) -> None:
    """Both sum in F32 in orders of their own, so elements differ by 1e-5 of the largest at most."""
    want = np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=name)


def same(model: Any, other: Any) -> None:
    left, right = model.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    assert all(
        a.dtype == b.dtype and torch.equal(a, b)
        for a, b in zip(left.values(), right.values(), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_logits_gradients_and_files_agree(kind: str, tmp_path: pathlib.Path) -> None:
    model = make(kind)
    # Shards of a few tensors each, with an index.
    model.save_pretrained(tmp_path / "theirs", max_shard_size="40KB")
    config, params = llama.hf.load(tmp_path / "theirs")
    assert (tmp_path / "theirs" / "model.safetensors.index.json").exists()
    assert llama.param_count(config) == model.num_parameters()

    tokens, targets = rows()
    out = model(input_ids=torch.tensor(tokens).long())
    close(LOGITS(params, tokens, config), out.logits.detach(), "logits")

    flat = out.logits.flatten(0, 1), torch.tensor(targets).long().flatten()
    torch.nn.functional.cross_entropy(*flat).backward()
    batch = {"tokens": tokens, "targets": targets}
    grads = jax.jit(jax.grad(llama.loss), static_argnums=2)(params, batch, config)
    # Gradients have names and shapes of weights.
    llama.hf.save(tmp_path / "gradients", config, grads)
    got = load_file(tmp_path / "gradients" / "model.safetensors")
    for name, parameter in model.named_parameters():
        close(got[name], parameter.grad, name)

    llama.hf.save(tmp_path / "ours", config, params, max_shard_bytes=40_000)
    again, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", dtype="auto", output_loading_info=True, attn_implementation="eager"
    )
    assert type(again) is type(model)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    same(model, again)
    close(again(torch.tensor(tokens).long()).logits.detach(), out.logits.detach(), "reloaded")


@pytest.mark.parametrize("scan_layers", [False, True], ids=["unrolled", "scan"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_weights_go_both_ways(dtype: str, scan_layers: bool, tmp_path: pathlib.Path) -> None:
    model = make("qwen2-windows").to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "theirs")
    config = llama.LlamaConfig.from_json(tmp_path / "theirs")
    assert config.dtype == dtype
    config = config.replace(scan_layers=scan_layers)
    _, params = llama.hf.load(tmp_path / "theirs", config)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {dtype}
    llama.hf.save(tmp_path / "ours", config, params)
    same(model, transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype="auto"))
    # As F32 masters they keep their values.
    wide, masters = llama.hf.load(tmp_path / "theirs", dtype="float32")
    assert wide.dtype == "float32"
    llama.hf.save(tmp_path / "narrowed", wide, masters, dtype=dtype)
    same(
        model,
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "narrowed", dtype="auto"),
    )


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2-windows"])
def test_greedy_generation_is_transformers(kind: str, tmp_path: pathlib.Path) -> None:
    model = make(kind).eval()
    model.save_pretrained(tmp_path)
    config, params = llama.hf.load(tmp_path)
    tokens, _ = rows()
    for prompt in (tokens[0, :3].tolist(), tokens[1, :20].tolist()):
        want = model.generate(
            torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None
        )
        assert (
            llama.generate(params, config, prompt, 12, stop=()) == want[0, len(prompt) :].tolist()
        )


def test_masks_of_documents_are_theirs(tmp_path: pathlib.Path) -> None:
    """Packed rows give each document the logits that it has alone."""
    model = make("llama").eval()
    model.save_pretrained(tmp_path)
    config, params = llama.hf.load(tmp_path)
    tokens, _ = rows()
    segments = np.array([[0] * 9 + [1] * 15] * 2, np.int32)
    positions = np.array([[*range(9), *range(15)]] * 2, np.int32)
    got = LOGITS(params, tokens, config, positions=positions, segments=segments)
    for part in (slice(0, 9), slice(9, LENGTH)):
        want = model(torch.tensor(tokens[:, part]).long()).logits.detach()
        close(got[:, part], want, str(part))
