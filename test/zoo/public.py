"""Steps out of Flax's and Optax's public modules, which nobody tuned for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from program import Program, program

__all__ = ["convolutional", "recurrent", "transformer", "transformer_nnx"]

VOCAB, DIM, LENGTH, CLASSES = 256, 64, 32, 10

OPTIMIZERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "adam": lambda: optax.adam(1e-3),
    "adamw": lambda: optax.adamw(1e-3, weight_decay=0.05),
    "lamb": lambda: optax.lamb(2e-3),
    "lion": lambda: optax.lion(1e-4),
    "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=32),
    "momentum": lambda: optax.sgd(0.05, momentum=0.9),
    "rmsprop": lambda: optax.rmsprop(1e-3, momentum=0.9),
    "adabelief": lambda: optax.adabelief(1e-3),
    "nadam": lambda: optax.nadam(1e-3),
    "agc": lambda: optax.chain(optax.adaptive_grad_clip(0.05), optax.adam(1e-3)),
}


class Block(nn.Module):
    """A pre-norm Transformer block of Flax's own parts."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Returns [B, T, D] of [B, T, D]."""
        y = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(x[..., 0])
        y = nn.MultiHeadDotProductAttention(
            num_heads=4, dropout_rate=self.rate, deterministic=not train
        )(y, y, mask=mask)
        x = x + nn.Dropout(self.rate, deterministic=not train)(y)
        y = nn.Dense(4 * DIM)(nn.LayerNorm()(x))
        y = nn.Dense(DIM)(nn.gelu(y))
        return x + nn.Dropout(self.rate, deterministic=not train)(y)


class Transformer(nn.Module):
    """A language model of embeddings, blocks and a tied head."""

    depth: int
    rate: float

    @nn.compact
    def __call__(self, tokens: jax.Array, train: bool) -> jax.Array:
        """Returns logits [B, T, V] of tokens [B, T]."""
        embed = nn.Embed(VOCAB, DIM)
        x = embed(tokens) + nn.Embed(LENGTH, DIM)(jnp.arange(tokens.shape[1]))
        for _ in range(self.depth):
            x = Block(self.rate)(x, train)
        return embed.attend(nn.LayerNorm()(x))


@program("flax_transformer_adam", "public", optimizer="adam", rate=0.1)
@program("flax_transformer_adafactor", "public", depth=4, optimizer="adafactor", rate=0.0)
@program("flax_transformer_lion", "public", depth=4, optimizer="lion", rate=0.0)
def transformer(depth: int, optimizer: str, rate: float) -> Program:
    """flax.linen: MultiHeadDotProductAttention, LayerNorm, Dense, Embed and Dropout."""
    model = Transformer(depth, rate)
    nth = batches.keyed(batches.text(8, LENGTH))
    params = model.init(jax.random.key(12), nth(0)[0][:, :-1], train=False)["params"]

    def loss(params: Any, batch: Any) -> jax.Array:
        tokens, key = batch
        logits = model.apply({"params": params}, tokens[:, :-1], train=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, nth, loss, OPTIMIZERS[optimizer]())


class Residual(nn.Module):
    """A residual block of convolutions and batch norms."""

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Returns [B, H, W, C] of [B, H, W, C]."""
        y = nn.Conv(x.shape[-1], (3, 3), use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=not train)(y))
        y = nn.Conv(x.shape[-1], (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=not train, scale_init=nn.initializers.zeros)(y)
        return nn.relu(x + y)


class Convolutional(nn.Module):
    """A small ResNet."""

    depth: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Returns logits [B, classes] of images [B, H, W, C]."""
        x = nn.Conv(16, (3, 3))(x)
        x = nn.relu(nn.GroupNorm(num_groups=4)(x))
        for _ in range(self.depth):
            x = Residual()(x, train)
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = nn.Conv(32, (3, 3), feature_group_count=4, strides=(2, 2))(x)
        x = nn.avg_pool(nn.silu(x), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1)))
        return nn.Dense(CLASSES)(x)


@program("flax_cnn_momentum", "public", depth=4, optimizer="momentum")
@program("flax_cnn_rmsprop", "public", depth=4, optimizer="rmsprop")
@program("flax_cnn_agc", "public", depth=4, optimizer="agc")
def convolutional(depth: int, optimizer: str) -> Program:
    """flax.linen: Conv, BatchNorm with running statistics, GroupNorm, pools."""
    model = Convolutional(depth)
    nth = batches.images(16)
    variables = model.init(jax.random.key(13), nth(0)[0], train=False)
    chosen = OPTIMIZERS[optimizer]()

    def loss(params: Any, running: Any, batch: Any) -> tuple[jax.Array, Any]:
        logits, after = model.apply(
            {"params": params, "batch_stats": running},
            batch[0],
            train=True,
            mutable=["batch_stats"],
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch[1])
        return losses.mean(), after["batch_stats"]

    found = jax.value_and_grad(loss, has_aux=True)
    initial = variables["batch_stats"]

    def grads(params: Any, batch: Any) -> tuple[jax.Array, Any]:
        (value, _), gradients = found(params, initial, batch)
        return value, gradients

    def step(params: Any, state: Any, batch: Any) -> tuple[Any, Any, jax.Array]:
        (value, running), gradients = found(params, state[1], batch)
        updates, inner = chosen.update(gradients, state[0], params)
        return optax.apply_updates(params, updates), (inner, running), value

    params = variables["params"]
    return Program(params, nth, grads, step, (chosen.init(params), initial))


class Recurrent(nn.Module):
    """Embeddings and a stack of recurrent layers, each an nn.RNN over its cell."""

    depth: int
    cell: str

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Returns logits [B, T, V] of tokens [B, T]."""
        x = nn.Embed(VOCAB, DIM)(tokens)
        for _ in range(self.depth):
            x = nn.RNN(getattr(nn, self.cell)(DIM))(x)
        return nn.Dense(VOCAB)(x)


@program("flax_lstm_adamw", "public", depth=2, cell="OptimizedLSTMCell", optimizer="adamw")
@program("flax_gru_nadam", "public", depth=2, cell="GRUCell", optimizer="nadam")
def recurrent(depth: int, cell: str, optimizer: str) -> Program:
    """flax.linen: LSTM and GRU cells under nn.RNN, which scans over the sequence."""
    model = Recurrent(depth, cell)
    nth = batches.text(8, 16)
    params = model.init(jax.random.key(14), nth(0)[:, :-1])["params"]

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        logits = model.apply({"params": params}, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, nth, loss, OPTIMIZERS[optimizer]())


class BlockNnx(nnx.Module):
    """A pre-norm block of flax.nnx parts, with RMSNorm and SwiGLU."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(DIM, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, DIM, decode=False, rngs=rngs)
        self.norm2 = nnx.RMSNorm(DIM, rngs=rngs)
        self.gate = nnx.Linear(DIM, 2 * DIM, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(DIM, 2 * DIM, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(2 * DIM, DIM, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns [B, T, D] of [B, T, D]."""
        x = x + self.attention(self.norm1(x), mask=nnx.make_causal_mask(x[..., 0]))
        inner = self.norm2(x)
        return x + self.down(nnx.swish(self.gate(inner)) * self.up(inner))


class TransformerNnx(nnx.Module):
    """A language model of flax.nnx parts."""

    def __init__(self, depth: int, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(VOCAB, DIM, rngs=rngs)
        self.blocks = nnx.List([BlockNnx(rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(DIM, rngs=rngs)
        self.head = nnx.Linear(DIM, VOCAB, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Returns logits [B, T, V] of tokens [B, T]."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@program("nnx_transformer_lamb", "public", optimizer="lamb")
@program("nnx_transformer_adabelief", "public", depth=4, optimizer="adabelief")
def transformer_nnx(depth: int, optimizer: str) -> Program:
    """flax.nnx: MultiHeadAttention, LayerNorm, RMSNorm, Linear and Embed."""
    graph, params = nnx.split(TransformerNnx(depth, nnx.Rngs(15)), nnx.Param)

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        logits = nnx.merge(graph, params)(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return Program.of_loss(params, batches.text(8, LENGTH), loss, OPTIMIZERS[optimizer]())
