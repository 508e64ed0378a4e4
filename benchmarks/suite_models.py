"""The models of `make bench`: training steps of the usual kinds, in plain JAX and optax.

A step is (state, batch) -> (state, loss), with the state donated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

__all__ = ["SUITE", "Case"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A training step with its first state and a batch.

    `narrow` is the step in BF16 as one writes it by hand: F32 masters, cast for the loss.
    """

    step: Callable[[Any, Any], tuple[Any, jax.Array]]
    narrow: Callable[[Any, Any], tuple[Any, jax.Array]]
    state: Any
    batch: Any


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A transformer: LLaMA's with `gated`, else GPT-2's; an encoder of patches without `causal`."""

    dim: int = 256
    layers: int = 4
    heads: int = 8
    hidden: int = 688
    vocab: int = 256
    rows: int = 8
    length: int = 256
    gated: bool = True
    causal: bool = True
    dropout: float = 0.0
    scanned: bool = False
    experts: int = 0
    routing: str = "einsum"
    dtype: Any = jnp.float32
    micro: int = 1
    classes: int = 0

    def init(self, key: jax.Array) -> Any:
        """Returns the weights, each layer's stacked along the first axis if they are scanned."""
        keys = iter(jax.random.split(key, 12 * self.layers + 4))

        def weight(*shape: int) -> jax.Array:
            return (shape[-2] ** -0.5 * jax.random.normal(next(keys), shape)).astype(self.dtype)

        def layer() -> dict[str, jax.Array]:
            wide = (
                (self.experts, self.dim, self.hidden) if self.experts else (self.dim, self.hidden)
            )
            back = (*wide[:-2], self.hidden, self.dim)
            found = {"qkv": weight(self.dim, 3 * self.dim), "out": weight(self.dim, self.dim)}
            found |= {"up": weight(*wide), "down": weight(*back)}
            found |= {"gate": weight(*wide)} if self.gated else {}
            found |= {"router": weight(self.dim, self.experts)} if self.experts else {}
            gains = {
                "norm1": jnp.ones(self.dim, self.dtype),
                "norm2": jnp.ones(self.dim, self.dtype),
            }
            return found | gains

        layers = [layer() for _ in range(self.layers)]
        embed = weight(16 * 16 * 3, self.dim) if self.classes else weight(self.vocab, self.dim)
        return {
            "embed": embed,
            "position": 0.02 * weight(self.length, self.dim),
            "layers": jax.tree.map(lambda *x: jnp.stack(x), *layers) if self.scanned else layers,
            "norm": jnp.ones(self.dim, self.dtype),
            "head": weight(self.dim, self.classes or self.vocab),
        }

    def normed(self, x: jax.Array, gain: jax.Array) -> jax.Array:
        """RMSNorm, or LayerNorm without a bias."""
        wide = x.astype(jnp.float32)
        if not self.gated:
            wide = wide - wide.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
        return (wide * scale).astype(self.dtype) * gain

    def attend(self, p: Any, x: jax.Array) -> jax.Array:
        """Multi-head self-attention."""
        rows, length, _ = x.shape
        split = (rows, length, 3, self.heads, self.dim // self.heads)
        q, k, v = jnp.moveaxis((x @ p["qkv"]).reshape(split), 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)
        scores = scores * split[-1] ** -0.5
        if self.causal:
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
        weights = jax.nn.softmax(scores).astype(self.dtype)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["out"]

    def mix(self, p: Any, x: jax.Array) -> jax.Array:
        """The feed-forward layer."""
        up = x @ p["up"]
        hidden = jax.nn.silu(x @ p["gate"]) * up if self.gated else jax.nn.gelu(up)
        return hidden @ p["down"]

    def route(self, p: Any, x: jax.Array) -> jax.Array:
        """Each token goes to its best expert, as long as that has room for it."""
        tokens = x.reshape(-1, self.dim)
        count, room = len(tokens), 2 * len(tokens) // self.experts
        chance = jax.nn.softmax((tokens @ p["router"]).astype(jnp.float32))
        best = chance.argmax(-1)
        share = jnp.take_along_axis(chance, best[:, None], -1).astype(self.dtype)
        taken = jax.nn.one_hot(best, self.experts, dtype=jnp.int32)
        place = (jnp.cumsum(taken, 0) * taken).sum(-1) - 1
        if self.routing == "einsum":
            slot = jax.nn.one_hot(place, room, dtype=self.dtype)
            send = taken.astype(self.dtype)[:, :, None] * slot[:, None]
            inside = jnp.einsum("tec,td->ecd", send, tokens)
            outside = jax.vmap(self.mix)({k: p[k] for k in ("up", "gate", "down")}, inside)
            return (jnp.einsum("tec,ecd->td", send, outside) * share).reshape(x.shape)
        order = jnp.argsort(best)
        queue = jnp.where(place < room, best * room + place, self.experts * room)[order]
        inside = jnp.zeros((self.experts * room + 1, self.dim), self.dtype)
        inside = inside.at[queue].set(tokens[order])[:-1].reshape(self.experts, room, self.dim)
        outside = jax.vmap(self.mix)({k: p[k] for k in ("up", "gate", "down")}, inside)
        outside = jnp.concatenate(
            [outside.reshape(-1, self.dim), jnp.zeros((1, self.dim), x.dtype)]
        )
        back = jnp.zeros((count, self.dim), self.dtype).at[order].set(outside[queue])
        return (back * share).reshape(x.shape)

    def drop(self, x: jax.Array, key: jax.Array) -> jax.Array:
        """Dropout."""
        if not self.dropout:
            return x
        kept = jax.random.bernoulli(key, 1 - self.dropout, x.shape)
        return jnp.where(kept, x / (1 - self.dropout), 0).astype(x.dtype)

    def block(self, x: jax.Array, layer: tuple[Any, jax.Array]) -> tuple[jax.Array, None]:
        """One layer."""
        p, key = layer
        one, two = jax.random.split(key)
        x = x + self.drop(self.attend(p, self.normed(x, p["norm1"])), one)
        feed = self.route if self.experts else self.mix
        return x + self.drop(feed(p, self.normed(x, p["norm2"])), two), None

    def loss(self, params: Any, inputs: jax.Array, targets: jax.Array, key: jax.Array) -> jax.Array:
        """Mean cross entropy."""
        x = inputs @ params["embed"] if self.classes else params["embed"][inputs]
        x = x + params["position"]
        keys = jax.random.split(key, self.layers)
        if self.scanned:
            x, _ = jax.lax.scan(jax.checkpoint(self.block), x, (params["layers"], keys))
        else:
            for pair in zip(params["layers"], keys, strict=True):
                x, _ = self.block(x, pair)
        x = self.normed(x, params["norm"])
        logits = (x.mean(1) if self.classes else x) @ params["head"]
        found = optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), targets)
        return found.mean()

    def case(self) -> Case:
        """Returns the training step, by AdamW with clipping."""
        random = np.random.default_rng(0)
        batch: tuple[np.ndarray, np.ndarray]
        if self.classes:
            patches = random.normal(size=(self.rows, self.length, 768)).astype(self.dtype)
            batch = patches, random.integers(0, self.classes, self.rows)
        else:
            tokens = random.integers(0, self.vocab, (self.rows, self.length + 1))
            batch = tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)

        narrow = dataclasses.replace(self, dtype=jnp.bfloat16)
        losses = self.loss, lambda p, *rest: narrow.loss(_cast(p), *rest)
        grads = [functools.partial(_sum_grads, loss, self.micro) for loss in losses]
        return _trained(self.init(jax.random.key(0)), batch, *grads)


def _cast(tree: Any) -> Any:
    """Returns the tree with its F32 leaves in BF16."""

    def narrow(x: jax.Array) -> jax.Array:
        return x.astype(jnp.bfloat16) if jnp.result_type(x) == jnp.float32 else x

    return jax.tree.map(narrow, tree)


def _sum_grads(loss: Any, micro: int, params: Any, batch: Any, key: jax.Array) -> Any:
    """Returns the mean loss and gradients over micro-batches."""
    if micro == 1:
        return jax.value_and_grad(loss)(params, *batch, key)
    parts = jax.tree.map(lambda x: x.reshape(micro, -1, *x.shape[1:]), batch)

    def add(total: Any, part: Any) -> Any:
        found = jax.value_and_grad(loss)(params, *part, key)
        return jax.tree.map(jnp.add, total, found), None

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zero, parts)
    return jax.tree.map(lambda x: x / micro, total)


Grads = Callable[[Any, Any, jax.Array], Any]


def _trained(params: Any, batch: Any, grads: Grads, narrow: Grads) -> Case:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95))

    def step(grads: Grads, state: Any, batch: Any) -> tuple[Any, jax.Array]:
        params, inner, count = state
        loss, found = grads(params, batch, jax.random.fold_in(jax.random.key(1), count))
        updates, inner = optimizer.update(found, inner, params)
        return (optax.apply_updates(params, updates), inner, count + 1), loss

    state = (params, optimizer.init(params), jnp.int32(0))
    return Case(functools.partial(step, grads), functools.partial(step, narrow), state, batch)


def _cnn() -> Case:
    """Returns a residual CNN of 9 convolutions with BatchNorm on 64 images of 32 x 32."""
    widths, keys = (32, 64, 128), iter(jax.random.split(jax.random.key(0), 32))

    def kernel(size: int, inside: int, outside: int) -> jax.Array:
        deviation = (2 / (size * size * inside)) ** 0.5
        return deviation * jax.random.normal(next(keys), (size, size, inside, outside))

    def norm(width: int) -> Any:
        return {"gain": jnp.ones(width), "bias": jnp.zeros(width)}

    params: dict[str, Any] = {"stem": kernel(3, 3, 32), "norm": norm(32), "stages": []}
    inside = 32
    for width in widths:
        stage = {"one": kernel(3, inside, width), "two": kernel(3, width, width)}
        stage |= {"skip": kernel(1, inside, width), "norm1": norm(width), "norm2": norm(width)}
        params["stages"].append(stage)
        inside = width
    params["head"] = inside**-0.5 * jax.random.normal(next(keys), (inside, 10))

    def convolve(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
        steps, forms = (stride, stride), ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, steps, "SAME", dimension_numbers=forms)

    def normed(x: jax.Array, p: Any) -> jax.Array:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["gain"] + p["bias"]

    def loss(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        x = jax.nn.relu(normed(convolve(images, params["stem"]), params["norm"]))
        for i, p in enumerate(params["stages"]):
            y = jax.nn.relu(normed(convolve(x, p["one"], 1 + (i > 0)), p["norm1"]))
            y = normed(convolve(y, p["two"]), p["norm2"])
            x = jax.nn.relu(y + convolve(x, p["skip"], 1 + (i > 0)))
        logits = x.mean((1, 2)) @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    random = np.random.default_rng(0)
    images = random.normal(size=(64, 32, 32, 3)).astype(np.float32)
    batch = images, random.integers(0, 10, 64)

    def narrow(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return loss(_cast(params), _cast(images), labels).astype(jnp.float32)

    return _trained(
        params,
        batch,
        lambda p, b, _: jax.value_and_grad(loss)(p, *b),
        lambda p, b, _: jax.value_and_grad(narrow)(p, *b),
    )


_WIDE = Decoder(dim=768, layers=3, heads=12, hidden=2048, vocab=8192, rows=4)
_GPT = Decoder(hidden=1024, gated=False, dropout=0.1)

SUITE: dict[str, Callable[[], Case]] = {
    "llama-256": Decoder().case,
    "llama-768": _WIDE.case,
    "llama-256-bf16": Decoder(dtype=jnp.bfloat16).case,
    "llama-768-bf16": dataclasses.replace(_WIDE, dtype=jnp.bfloat16).case,
    "llama-256-scan": Decoder(layers=8, scanned=True).case,
    "llama-256-micro": Decoder(micro=4).case,
    "gpt2-dropout": _GPT.case,
    "vit": dataclasses.replace(
        _GPT, classes=10, causal=False, dropout=0.0, length=64, rows=32
    ).case,
    "cnn-batchnorm": _cnn,
    "moe-einsum": Decoder(layers=2, experts=8, hidden=512, rows=4).case,
    "moe-sort": Decoder(layers=2, experts=8, hidden=512, rows=4, routing="sort").case,
    "gpt2-small": dataclasses.replace(
        _GPT, dim=768, layers=12, heads=12, hidden=3072, vocab=50304, rows=1, length=1024
    ).case,
}
