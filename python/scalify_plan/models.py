"""Transformers by their sizes."""

from __future__ import annotations

import dataclasses

__all__ = ["MODELS", "Model", "gpt", "llama"]


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder-only transformer.

    Attributes:
        layers: their number.
        hidden: channels of the residual.
        ffn: channels of the feed-forward.
        heads: of queries.
        kv_heads: of keys and values.
        vocab: rows of the embedding, padding included.
        seq: tokens of a sequence.
        gated: whether it has SwiGLU, with three matrices, instead of GELU with two.
        biases: whether dense layers have them.
        tied: whether the embedding is also the head.
        dropout: whether residuals and attention have dropout.
        fused_attention: whether attention is one kernel, without scores in memory.
        fused_loss: whether the loss is one or two kernels, not one for each operation of a cross
            entropy.
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    seq: int
    gated: bool = False
    biases: bool = True
    tied: bool = True
    dropout: bool = False
    fused_attention: bool = True
    fused_loss: bool = True

    @property
    def head(self) -> int:
        """Channels of a head."""
        return self.hidden // self.heads

    @property
    def kv(self) -> int:
        """Channels of all keys."""
        return self.kv_heads * self.head

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        mats = self.hidden * (2 * self.hidden + 2 * self.kv)
        mats += self.hidden * self.ffn * (3 if self.gated else 2)
        vectors = 2 * self.hidden * (2 if self.biases else 1)
        if self.biases:
            vectors += 2 * self.hidden + 2 * self.kv + self.ffn + self.hidden
        return mats + vectors

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one matrix over the vocabulary, without learnt positions."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """Parameters of the whole model."""
        ends = self.embedding_parameters * (1 if self.tied else 2)
        return self.layers * self.layer_parameters + ends + self.hidden

    def flops(self, causal: bool = False) -> float:
        """Returns the FLOPs of a token in forward and backward, without recomputation.

        As Megatron counts: 6 for each parameter of a matrix, head included, and attention's
        products over whole rows, or over the half that a causal mask leaves.
        """
        mats = self.hidden * (2 * self.hidden + 2 * self.kv)
        mats += self.hidden * self.ffn * (3 if self.gated else 2)
        scores = 12.0 * self.hidden * self.seq * (0.5 if causal else 1)
        return self.layers * (6.0 * mats + scores) + 6.0 * self.embedding_parameters


def gpt(
    name: str, layers: int, hidden: int, heads: int, seq: int, vocab: int, **more: bool
) -> Model:
    """Returns a GPT: GELU of four times the channels, biases, tied embedding."""
    return Model(name, layers, hidden, 4 * hidden, heads, heads, vocab, seq, **more)


def llama(
    name: str, layers: int, hidden: int, ffn: int, heads: int, kv: int, seq: int, vocab: int = 32000
) -> Model:
    """Returns a LLaMA: SwiGLU, no biases, a head of its own."""
    return Model(
        name, layers, hidden, ffn, heads, kv, vocab, seq, gated=True, biases=False, tied=False
    )


MODELS = {
    model.name: model
    for model in (
        llama("llama-7b", 32, 4096, 11008, 32, 32, 4096),
        llama("llama-8b", 32, 4096, 14336, 32, 8, 8192, 128256),
        llama("llama-13b", 40, 5120, 13824, 40, 40, 4096),
        llama("llama-70b", 80, 8192, 28672, 64, 8, 4096),
        gpt("gpt-7b", 32, 4096, 32, 2048, 50304),
        gpt("gpt-13b", 40, 5120, 40, 2048, 50304),
        gpt("gpt-22b", 48, 6144, 64, 2048, 51200),
        gpt("gpt-175b", 96, 12288, 96, 2048, 51200),
        gpt("gpt-530b", 105, 20480, 128, 2048, 51200),
        gpt("gpt-1t", 128, 25600, 160, 2048, 51200),
    )
}
