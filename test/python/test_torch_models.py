"""scalify.torch.compile of transformers' models, beside their eager training and under FP8."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: make test-torch"
)

from torch_models import CROSS_ENTROPY, ResNet, Twins, cosine, gradients, images

import scalify.torch

SMALL = {"vocab_size": 128, "bos_token_id": 0, "eos_token_id": 1}


def llama(attention: str = "sdpa", **fields: Any) -> Any:
    config = transformers.LlamaConfig(
        **SMALL,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation=attention,
        **fields,
    )
    return transformers.LlamaForCausalLM(config)


def gpt2(attention: str = "sdpa", dropout: float = 0.0) -> Any:
    config = transformers.GPT2Config(
        **SMALL,
        n_positions=64,
        n_embd=64,
        n_layer=2,
        n_head=4,
        attn_implementation=attention,
        loss_type="ForCausalLM",
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout),
    )
    return transformers.GPT2LMHeadModel(config)


def tokens(count: int) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 128, (4, 32), generator=generator) for _ in range(count)]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("made", [llama, gpt2])
def test_transformers_train_as_eagerly(made: Any, attention: str) -> None:
    torch.manual_seed(0)
    twins = Twins(
        made(attention),
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1),
        loss=None,
    )
    for ids in tokens(4):
        loss, theirs = twins.train(input_ids=ids, labels=ids)
        assert loss == pytest.approx(theirs, rel=1e-5)
    for name, own, other in twins.weights():
        # Adam divides by the gradient's size. Where that is rounding noise (the keys' biases have
        # no gradient, for one) an element moves by any part of 4 steps of 1e-3.
        difference = (own - other).abs()
        assert float(difference.max()) <= 4e-3, name
        assert float((difference > 2e-5).float().mean()) < 0.05, name


def test_padding_and_ignored_labels() -> None:
    torch.manual_seed(0)
    twins = Twins(llama(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1), loss=None)
    for ids in tokens(3):
        mask = torch.ones_like(ids)
        mask[0, 20:] = 0
        labels = ids.masked_fill(mask == 0, -100)
        loss, theirs = twins.train(input_ids=ids, attention_mask=mask, labels=labels)
        assert loss == pytest.approx(theirs, rel=1e-5)
    for name, own, other in twins.weights():
        # F32 sums in other orders: SGD's step is linear in the gradient.
        torch.testing.assert_close(own, other, rtol=2e-5, atol=2e-6, msg=name)


def test_checkpointing_and_dropout_of_gpt2() -> None:
    torch.manual_seed(0)
    model = gpt2(dropout=0.1)
    model.gradient_checkpointing_enable()
    step = scalify.torch.compile(
        model, None, torch.optim.AdamW(model.parameters(), lr=1e-3), recipe="bf16"
    )
    (ids,) = tokens(1)
    losses = [float(step(input_ids=ids, labels=ids)) for _ in range(20)]
    assert losses[-1] < losses[0] - 0.5


def test_weights_go_back_to_transformers(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = llama(tie_word_embeddings=True)
    step = scalify.torch.compile(
        model, None, torch.optim.AdamW(model.parameters(), lr=1e-2), recipe="fp8"
    )
    (ids,) = tokens(1)
    for _ in range(5):
        step(input_ids=ids, labels=ids)
    model.save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    model.eval()
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    loss = float(step.evaluate(input_ids=ids, labels=ids))
    with torch.no_grad():
        theirs = float(model(ids, labels=ids).loss)
    assert loss == pytest.approx(theirs, rel=1e-2)  # FP8 beside F32


@pytest.mark.parametrize("made", [llama, gpt2, ResNet])
def test_gradients_under_fp8(made: Any) -> None:
    torch.manual_seed(0)
    twins = Twins(
        made(),
        lambda model: torch.optim.SGD(model.parameters(), lr=1.0),
        loss=CROSS_ENTROPY if made is ResNet else None,
        recipe="fp8",
    )
    batch, kwargs = next(iter(images(1))), {}
    if made is not ResNet:
        batch, kwargs = (), dict.fromkeys(("input_ids", "labels"), tokens(1)[0])
    own = gradients(twins.model, lambda: twins.step(*batch, **kwargs))
    theirs = gradients(twins.eager, lambda: twins.train_eager(*batch, **kwargs))
    # E4M3 has a relative error of up to 2^-4, E5M2 of up to 2^-3: one dot's noise leaves about
    # .999, and the backward passes through some fifteen.
    assert cosine(list(own.values()), list(theirs.values())) > 0.99
