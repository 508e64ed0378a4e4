"""A LLaMA of 12 layers with small weights, its F32 gradients, and comparisons with them."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 12, 64, 4, 160, 96
BATCH, LENGTH = 2, 48

Form = Literal["unrolled", "scan", "remat", "scan_remat"]
Tree = dict[str, Any]


def init(seed: int = 0, layers: int = LAYERS) -> Tree:
    """Stacked weights: 0.02, divided by sqrt(2 * layers) if they write to the residual stream."""
    rng = np.random.default_rng(seed)
    small = 0.02 / np.sqrt(2 * layers)

    def normal(size: float, *shape: int) -> np.ndarray:
        return rng.normal(0, size, shape).astype(np.float32)

    return {
        "embed": normal(0.02, VOCABULARY, WIDTH),
        "layers": {
            "norm1": np.ones((layers, WIDTH), np.float32),
            "qkv": normal(0.02, layers, WIDTH, 3 * WIDTH),
            "out": normal(small, layers, WIDTH, WIDTH),
            "norm2": np.ones((layers, WIDTH), np.float32),
            "gate": normal(0.02, layers, WIDTH, HIDDEN),
            "up": normal(0.02, layers, WIDTH, HIDDEN),
            "down": normal(small, layers, HIDDEN, WIDTH),
        },
        "norm": np.ones(WIDTH, np.float32),
        "head": normal(0.02, WIDTH, VOCABULARY),
    }


def tokens(seed: int = 1) -> np.ndarray:
    """Tokens by Zipf's law, as in text."""
    rng = np.random.default_rng(seed)
    drawn = rng.zipf(1.3, (BATCH, LENGTH + 1)) - 1
    return np.minimum(drawn, VOCABULARY - 1).astype(np.int32)


def _norm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def _layer(x: Any, layer: Tree) -> Any:
    batch, length, _ = x.shape
    qkv = (_norm(x, layer["norm1"]) @ layer["qkv"]).reshape(batch, length, 3, HEADS, -1)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(x.shape) @ layer["out"]
    h = _norm(x, layer["norm2"])
    return x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]


def loss(params: Tree, batch: Any, form: Form = "unrolled") -> Any:
    layer = jax.checkpoint(_layer) if "remat" in form else _layer
    x = params["embed"][batch[:, :-1]]
    if "scan" in form:
        x, _ = jax.lax.scan(lambda x, one: (layer(x, one), None), x, params["layers"])
    else:
        for i in range(len(params["layers"]["norm1"])):
            x = layer(x, {name: stack[i] for name, stack in params["layers"].items()})
    logits = _norm(x, params["norm"]) @ params["head"]
    terms = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(terms, batch[:, 1:, None], -1))


def gradients(form: Form = "unrolled") -> Any:
    def gradients(params: Tree, batch: Any) -> Any:
        return jax.grad(loss)(params, batch, form)

    return gradients


def cosine(a: Any, b: Any) -> float:
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))


def compare(grads: Any, exact: Any) -> tuple[float, float]:
    """Returns the cosine of all gradients together and that of the worst tensor, layer by layer."""
    pairs = [
        (np.asarray(a), np.asarray(b))
        for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(exact), strict=True)
    ]
    whole = cosine(
        np.concatenate([a.ravel() for a, _ in pairs]), np.concatenate([b.ravel() for _, b in pairs])
    )
    split = [(a, b) if len(a) == LAYERS else (a[None], b[None]) for a, b in pairs]
    return whole, min(cosine(x, y) for a, b in split for x, y in zip(a, b, strict=True))
