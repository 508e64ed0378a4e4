"""Weights that carry what trained LLMs carry, for a model of `scalify.models.llama`.

No trained checkpoint is at hand where these tables are made, so a seeded generator changes initial
weights until a forward pass shows the figures that papers report of trained models:

- Massive activations. A few channels of the residual stream at the starting token exceed 100, and
  the median of all magnitudes a thousand times (the definition of Sun et al. 2024, "Massive
  Activations in Large Language Models", arXiv 2402.17762, section 2). Two channels hold LLaMA2-7B's
  2,622 and 1,547 (their table 1), for all later layers. They are written by one SwiGLU neuron of an
  early layer through a single large weight of `w_down`, -1.9 in LLaMA-7B (Yu et al. 2024, "The
  Super Weight in Large Language Models", arXiv 2411.07191, table 2).
- Attention sinks. In layers after the first ones, heads give more than half of their attention to
  the starting token (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks",
  arXiv 2309.17453, section 3.1), whose values are small (Gu et al. 2024, "When Attention Sink
  Emerges in Language Models", arXiv 2410.10781). The keys of massive channels cause them (Sun et
  al., section 4).
- Aligned SwiGLU. Under weight decay, rows of gate and up that feed the same neuron converge to
  equal or opposite directions and grow, which makes its product a square (Fishman et al. 2025,
  "Scaling FP8 training to trillion-token LLMs", arXiv 2409.12517, section 4). The share of aligned
  neurons, 1 in 128, correlations of 0.9 to 1 and a threefold norm are ours.
- Common direction. Embeddings of different tokens have a mean cosine of 0.3: representations are
  anisotropic (Ethayarajh 2019, arXiv 1909.00512).
- Norm gains spread log-uniformly over three binades, 2^-2 to 2^1; embedding rows are heavy-tailed,
  Student's t with three degrees of freedom. Both are ours.
- The residual stream's writers (`wo`, `w_down`) have the deviation of the whole published depth,
  0.02 / sqrt(2 layers), though only the first layers are made.

`measure` returns these figures of any weights.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalify.models.llama import LlamaConfig, init
from scalify.models.llama import model as parts
from scalify.models.llama.rope import tables

__all__ = ["START", "Figures", "make", "measure", "text_like"]

# The starting token's number.
START = 1
# Sun et al., table 1; Yu et al., table 2.
MASSIVE, SUPER_WEIGHT = (2622.0, 1547.0), 1.9
ANISOTROPY, DEGREES = 0.3, 3
GAINS = (-2.0, 1.0)
ALIGNED, CORRELATION, GROWTH = 1 / 128, (0.9, 1.0), 3.0
# log-odds of a head's attention to the starting token: shares of 0.4 to 0.95.
SINK = (-0.5, 3.0)
# The factor of a sink's values.
SMALL = 0.1
# What the gate of the neuron that writes massive channels is at other tokens.
CLOSED = -6.0

Tree = Any


def text_like(config: LlamaConfig, tokens: int, seed: int) -> dict[str, np.ndarray]:
    """Returns a batch of one row that begins with the starting token.

    Tokens have Zipf's frequencies, 1 / rank, as words of texts.

    Args:
        config: the model.
        tokens: length of the row.
        seed: of the tokens.

    Returns:
        "tokens" and "targets", int32 [1, tokens].
    """
    rng = np.random.default_rng(seed)
    ranks = 1 / np.arange(1, config.vocab_size - START)
    drawn = rng.choice(len(ranks), tokens, p=ranks / ranks.sum()) + START + 1
    row = np.concatenate([[START], drawn]).astype(np.int32)
    return {"tokens": row[None, :-1], "targets": row[None, 1:]}


def make(config: LlamaConfig, tokens: int, depth: int, seed: int, dtype: Any) -> Tree:
    """Returns weights that carry what trained LLMs carry.

    Args:
        config: the model; its layers are the first of the published model. F32 activations, no
            `scan_layers`.
        tokens: length of the rows at which the shares of attention sinks hold.
        depth: layers of the published model.
        seed: of the weights.
        dtype: format of the weights.
    """
    rng = np.random.default_rng(seed)
    # Writable copies.
    params: Tree = jax.tree.map(np.array, init(config, jax.random.key(seed), dtype))
    _embed(params["embed"], config, rng)
    sample = text_like(config, min(tokens, 256), seed)["tokens"]
    stream = jnp.asarray(params["embed"])[sample].astype(jnp.float32)
    params["final_norm"][:] = _gains(params["final_norm"].shape, rng)
    channels = rng.choice(config.hidden_size, len(MASSIVE), replace=False)
    for index, layer in enumerate(params["layers"]):
        for name in ("attention_norm", "ffn_norm"):
            layer[name][:] = _gains(layer[name].shape, rng)
        for name in ("wo", "w_down"):
            layer[name] *= math.sqrt(config.num_hidden_layers / depth)
        if index:
            _sink(layer, stream, channels, config, tokens, rng)
        else:
            _quiet(layer, np.asarray(_normed(stream, layer, "attention_norm", config))[0, 0])
        stream = _attended(stream, layer, config)[0]
        _align(layer, rng)
        if not index:
            _massive(layer, np.asarray(_normed(stream, layer, "ffn_norm", config)), channels, rng)
        stream = _fed(stream, layer, config)
    return params


def _gains(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return 2 ** rng.uniform(*GAINS, shape)


def _embed(embed: np.ndarray, config: LlamaConfig, rng: np.random.Generator) -> None:
    """Adds the common direction, and scales rows to a multivariate t distribution."""
    common = rng.choice([-1.0, 1.0], config.hidden_size) * config.initializer_range
    common *= math.sqrt(ANISOTROPY / (1 - ANISOTROPY))
    rows = np.sqrt(DEGREES / rng.chisquare(DEGREES, len(embed)))
    rows[START] = 1
    for start in range(0, len(embed), 4096):
        part = slice(start, start + 4096)
        embed[part] = (embed[part].astype(np.float32) + common) * rows[part, None]


def _quiet(layer: Tree, start: np.ndarray) -> None:
    """Makes the starting token's values small, which the first other tokens attend to much."""
    values = start @ layer["wv"].astype(np.float32)
    layer["wv"] -= np.outer(start, (1 - SMALL) * values / (start @ start)).astype(layer["wv"].dtype)


def _massive(
    layer: Tree, normed: np.ndarray, channels: np.ndarray, rng: np.random.Generator
) -> None:
    """Makes one neuron fire at the starting token, and write the massive channels."""
    rows = normed[0].astype(np.float64)
    neuron = rng.integers(layer["w_gate"].shape[1])
    size = math.sqrt(max(MASSIVE) / SUPER_WEIGHT)
    # Least squares with a ridge: directions that other tokens, also those not seen here, excite
    # little. The closed gate holds for what tokens have in common.
    gram = rows @ rows.T
    gram += np.eye(len(rows)) * 0.05 * np.mean(np.diag(gram))
    for name, elsewhere in (("w_gate", CLOSED), ("w_up", 0.0)):
        wanted = np.full(len(rows), elsewhere)
        wanted[0] = size
        row = rows.T @ np.linalg.solve(gram, wanted)
        layer[name][:, neuron] = row * (size / (rows[0] @ row))
    signs = rng.choice([-1.0, 1.0], len(MASSIVE))
    layer["w_down"][neuron] = 0
    layer["w_down"][neuron, channels] = signs * np.array(MASSIVE) / size**2


def _align(layer: Tree, rng: np.random.Generator) -> None:
    """Aligns the up rows of some neurons with their gate rows, or opposes them."""
    width = layer["w_gate"].shape[1]
    neurons = rng.choice(width, max(1, int(width * ALIGNED)), replace=False)
    share = rng.uniform(*CORRELATION, len(neurons)) * rng.choice([-1, 1], len(neurons))
    gate = layer["w_gate"][:, neurons].astype(np.float32)
    up = layer["w_up"][:, neurons].astype(np.float32)
    layer["w_up"][:, neurons] = GROWTH * (share * gate + np.sqrt(1 - share**2) * up)
    layer["w_gate"][:, neurons] = GROWTH * gate


def _sink(
    layer: Tree,
    stream: jax.Array,
    channels: np.ndarray,
    config: LlamaConfig,
    tokens: int,
    rng: np.random.Generator,
) -> None:
    """Makes queries attend to the key that the massive channels give the starting token."""
    size, groups = config.head_size, config.num_attention_heads // config.kv_heads
    normed = np.asarray(_normed(stream, layer, "attention_norm", config))[0]
    start, mean = normed[0, channels], normed[1:].mean(axis=0)
    # Channels that rotary embeddings hardly turn, so that the distance does not matter.
    slow = size // 2 - max(1, size // 16)
    direction = np.zeros(size, np.float32)
    direction[slow : size // 2] = direction[slow + size // 2 :] = 1
    direction /= np.linalg.norm(direction)
    # A score of `base` squared over the root of `size`: that of a sink among these tokens.
    base = math.sqrt(math.log(tokens) * math.sqrt(size))
    layer["wv"][channels] *= SMALL
    layer["wk"][channels] = 0
    for key in range(config.kv_heads):
        own = slice(key * size, (key + 1) * size)
        layer["wk"][channels, own] += np.outer(start / (start @ start), direction * base)
    wanted = rng.uniform(*SINK, config.num_attention_heads)
    for _ in range(3):
        # Each round adds what is missing: other keys answer to the new direction too.
        missing = wanted - _sink_odds(stream, layer, config, tokens)
        for head in range(groups * config.kv_heads):
            own = slice(head * size, (head + 1) * size)
            factor = missing[head] * math.sqrt(size) / base / float(mean @ mean)
            layer["wq"][:, own] += np.outer(mean, direction * factor)


def _sink_odds(stream: jax.Array, layer: Tree, config: LlamaConfig, tokens: int) -> np.ndarray:
    """Returns per head the mean log-odds of attention to the start, in rows of `tokens`."""
    weights = np.asarray(_attended(stream, layer, config)[1], np.float64)[0]
    late = weights[:, weights.shape[1] // 2 :, 0].clip(1e-12, 1 - 1e-6)
    odds = np.log(late / (1 - late)).mean(axis=1)
    # Longer rows have more other tokens.
    return np.asarray(odds - math.log(tokens / weights.shape[1]))


def _normed(stream: jax.Array, layer: Tree, name: str, config: LlamaConfig) -> jax.Array:
    return parts._norm(stream, jnp.asarray(layer[name]), config.rms_norm_eps)


def _attended(stream: jax.Array, layer: Tree, config: LlamaConfig) -> tuple[jax.Array, jax.Array]:
    """Returns the stream after the attention, and the attention's weights [B, N, T, T]."""
    places = jnp.arange(stream.shape[1])
    mask = parts._mask(None, places, places, None)
    table = tables(config, places[None])
    q, k, v = parts._heads(_normed(stream, layer, "attention_norm", config), layer, config, table)
    out = parts._product(parts._mix(q, k, v, mask), layer, "wo")
    k = jnp.repeat(k, q.shape[2] // k.shape[2], axis=2)
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * config.head_size**-0.5
    return stream + out, jax.nn.softmax(jnp.where(mask[:, None], scores, -jnp.inf), axis=-1)


def _fed(stream: jax.Array, layer: Tree, config: LlamaConfig) -> jax.Array:
    return stream + parts._swiglu(_normed(stream, layer, "ffn_norm", config), layer)


@dataclasses.dataclass(frozen=True)
class Figures:
    """What a forward pass over text-like tokens shows.

    Attributes:
        massive: per layer's output, the largest magnitudes at the starting token, descending.
        elsewhere: per layer's output, the largest magnitude at other tokens.
        median: per layer's output, the median magnitude.
        sink: per layer, the mean attention to the starting token, over heads and over the second
            half of the queries.
        gains: log2 of the largest over the smallest gain of a norm, the least of all norms.
        rows: norm of an embedding's largest row over the median row's.
        cosine: mean cosine of two embeddings.
        aligned: per layer, the share of neurons whose gate and up have a cosine of at least 0.85 or
            at most -0.85.
        peak: per layer, the largest magnitude of SwiGLU's product over its root mean square, at
            other tokens than the starting one.
    """

    massive: list[list[float]]
    elsewhere: list[float]
    median: list[float]
    sink: list[float]
    gains: float
    rows: float
    cosine: float
    aligned: list[float]
    peak: list[float]


def measure(params: Tree, config: LlamaConfig, tokens: int, seed: int) -> Figures:
    """Returns the figures of weights over a row of text-like tokens."""
    stream = jnp.asarray(params["embed"])[text_like(config, tokens, seed)["tokens"]]
    stream = stream.astype(jnp.float32)
    found: dict[str, list[Any]] = {
        name: [] for name in ("massive", "elsewhere", "median", "sink", "aligned", "peak")
    }
    for layer in params["layers"]:
        stream, weights = _attended(stream, layer, config)
        found["sink"].append(float(weights[0, :, tokens // 2 :, 0].mean()))
        normed = _normed(stream, layer, "ffn_norm", config)[0, 1:]
        gate, up = (np.asarray(layer[name], np.float32) for name in ("w_gate", "w_up"))
        inner = np.asarray(jax.nn.silu(normed @ gate) * (normed @ up))
        found["peak"].append(float(np.abs(inner).max() / np.sqrt(np.mean(inner**2))))
        norms = np.linalg.norm(gate, axis=0) * np.linalg.norm(up, axis=0)
        found["aligned"].append(float(np.mean(np.abs((gate * up).sum(axis=0)) >= 0.85 * norms)))
        stream = _fed(stream, layer, config)
        size = np.abs(np.asarray(stream[0]))
        found["massive"].append(np.sort(size[0])[::-1][:4].tolist())
        found["elsewhere"].append(float(size[1:].max()))
        found["median"].append(float(np.median(size)))
    gains = [layer[n] for layer in params["layers"] for n in ("attention_norm", "ffn_norm")]
    spread = [float(np.log2(np.max(g) / np.min(g))) for g in map(_wide, gains)]
    embed = _wide(params["embed"][START + 1 : START + 1025])
    rows = np.linalg.norm(embed, axis=1)
    unit = embed / rows[:, None]
    count = len(unit)
    mean = float((np.sum(unit.sum(axis=0) ** 2) - count) / (count * (count - 1)))
    largest = float(rows.max() / np.median(rows))
    return Figures(**found, gains=min(spread), rows=largest, cosine=mean)


def _wide(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)
