"""The names and shapes of transformers' tensors, and which parameter each is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify.models.llama.config import LlamaConfig
from scalify.models.llama.parameters import layer_shapes, shapes

__all__ = [
    "HEAD",
    "INDEX",
    "SINGLE",
    "check",
    "layer_tensor",
    "outer_tensor",
    "stored_shapes",
    "tensor_names",
    "transposed",
    "turned",
]

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_LAYER = {
    "attention_norm": "input_layernorm.weight",
    "wq": "self_attn.q_proj.weight",
    "wk": "self_attn.k_proj.weight",
    "wv": "self_attn.v_proj.weight",
    "wo": "self_attn.o_proj.weight",
    "bq": "self_attn.q_proj.bias",
    "bk": "self_attn.k_proj.bias",
    "bv": "self_attn.v_proj.bias",
    "bo": "self_attn.o_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "w_gate": "mlp.gate_proj.weight",
    "w_up": "mlp.up_proj.weight",
    "w_down": "mlp.down_proj.weight",
}
HEAD = "lm_head.weight"
_OUTER = {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "head": HEAD}


def outer_tensor(name: str) -> str:
    """Returns the tensor of a parameter outside of layers; an unknown one's is its own name."""
    return _OUTER.get(name, name)


def layer_tensor(index: int, name: str) -> str:
    """Returns the tensor of a layer's parameter; an unknown one's has its own name."""
    return f"model.layers.{index}.{_LAYER.get(name, name)}"


def transposed(name: str) -> bool:
    """Whether our parameter is the transpose of the stored tensor."""
    return name.startswith("w") or name == "head"


def turned(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the transpose of a matrix as dense memory.

    Some rows at a time, so that both sides stay in the cache: for BF16 a tenth of numpy's time.
    """
    result = np.empty(array.shape[::-1], array.dtype)
    for row in range(0, len(array), 16):
        result[:, row : row + 16] = array[row : row + 16].T
    return result


def tensor_names(config: LlamaConfig) -> dict[str, tuple[str, int | None]]:
    """Returns each stored tensor's parameter and layer, in the order of transformers' state_dict.

    The layer is None for parameters outside of layers.
    """
    found: dict[str, tuple[str, int | None]] = {_OUTER["embed"]: ("embed", None)}
    for index in range(config.num_hidden_layers):
        found |= {layer_tensor(index, name): (name, index) for name in layer_shapes(config)}
    found[_OUTER["final_norm"]] = ("final_norm", None)
    if not config.tie_word_embeddings:
        found[HEAD] = ("head", None)
    return found


def stored_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the stored tensors."""
    tree = shapes(config.replace(scan_layers=False))
    found = {}
    for tensor, (name, layer) in tensor_names(config).items():
        shape = tree[name] if layer is None else tree["layers"][layer][name]
        found[tensor] = shape[::-1] if transposed(name) else shape
    return found


def check(where: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Compares shapes by name; `where` is the subject of the error.

    Raises:
        ValueError: names every tensor that is missing, not expected, or of another shape.
    """
    lines = [f"missing: {name} {list(expected[name])}" for name in expected if name not in found]
    lines += [f"not expected: {name} {list(found[name])}" for name in found if name not in expected]
    lines += [
        f"shape of {name}: {list(found[name])}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and tuple(found[name]) != tuple(shape)
    ]
    if lines:
        raise ValueError(f"{where} does not match the configuration:\n  " + "\n  ".join(lines))
