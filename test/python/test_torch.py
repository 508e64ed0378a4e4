"""scalify.torch.compile beside PyTorch's own training, in F32: optimizers, modes, state."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")

from torch import nn
from torch_models import CROSS_ENTROPY, ResNet, Twins, images, mlp, vectors

import scalify.torch

# Both sum in F32 in orders of their own: a relative difference of some 2^-24 per sum, that five
# steps of these small models carry on.
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def check(twins: Twins, batches: Any, **tolerance: Any) -> None:
    for batch in batches:
        loss, theirs = twins.train(*batch)
        assert loss == pytest.approx(theirs, rel=1e-5)
    for name, own, other in twins.weights():
        torch.testing.assert_close(own, other, **(tolerance or CLOSE), msg=name)
    states = (twins.optimizer.state_dict(), twins.eager_optimizer.state_dict())
    assert states[0]["state"].keys() == states[1]["state"].keys()
    for own, other in zip(*(state["state"].values() for state in states), strict=True):
        assert own.keys() == other.keys()
        for slot in own:
            torch.testing.assert_close(own[slot], other[slot], **CLOSE)


OPTIMIZERS = {
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1),
    "adam": lambda params: torch.optim.Adam(params, lr=1e-2, weight_decay=0.1, amsgrad=True),
    "maximize": lambda params: torch.optim.AdamW(params, lr=1e-3, maximize=True),
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "dampening": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.5),
    "lion": lambda params: scalify.torch.Lion(params, lr=1e-3, weight_decay=0.1),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers(kind: str) -> None:
    torch.manual_seed(0)
    twins = Twins(mlp(), lambda model: OPTIMIZERS[kind](model.parameters()))
    check(twins, vectors(5))


def test_resnet_updates_running_statistics_and_clips() -> None:
    torch.manual_seed(0)
    twins = Twins(
        ResNet(),
        lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        clip=0.5,
    )
    check(twins, images(5))
    assert int(twins.model.state_dict()["stem.1.num_batches_tracked"]) == 5
    assert float(twins.step.grad_norm) > 0.5


def test_instance_norm_updates_running_statistics() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.Flatten(),
        nn.Linear(144, 4),
    )
    check(Twins(model, lambda model: torch.optim.SGD(model.parameters(), lr=0.05)), images(3))


def test_parameters_are_updated_in_their_own_memory() -> None:
    model = mlp()
    weight = model[0].weight
    address, alias = weight.data_ptr(), weight.detach()
    step = scalify.torch.compile(
        model, CROSS_ENTROPY, torch.optim.AdamW(model.parameters()), recipe="none"
    )
    before = weight.detach().clone()
    (batch,) = vectors(1)
    step(*batch)
    assert model[0].weight is weight and weight.data_ptr() == address
    assert not torch.equal(before, weight)
    assert torch.equal(alias, weight)  # one memory, read without a copy


def test_writes_between_steps_count() -> None:
    torch.manual_seed(0)
    twins = Twins(mlp(), lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2))
    saved = copy.deepcopy((twins.model.state_dict(), twins.optimizer.state_dict()))
    check(twins, vectors(2))
    later = copy.deepcopy((twins.model.state_dict(), twins.optimizer.state_dict()))
    for model, optimizer in (
        (twins.model, twins.optimizer),
        (twins.eager, twins.eager_optimizer),
    ):
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
    check(twins, vectors(2))
    for own, other in zip(twins.model.state_dict().values(), later[0].values(), strict=True):
        assert torch.equal(own, other)  # the same steps from the same state, bit for bit
    with torch.no_grad():
        for model in (twins.model, twins.eager):
            model[0].weight.zero_()
            model[3].bias.data = torch.ones(4)  # other memory
    check(twins, vectors(1))


def test_resumes_in_a_new_process_bit_for_bit() -> None:
    def made() -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        model = mlp(dropout=0.2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        return model, optimizer, scalify.torch.compile(model, CROSS_ENTROPY, optimizer)

    model, optimizer, step = made()
    batches = list(vectors(4))
    for batch in batches[:2]:
        step(*batch)
    file = io.BytesIO()
    parts = (model.state_dict(), optimizer.state_dict(), step.state_dict(), torch.get_rng_state())
    torch.save(parts, file)
    losses = [float(step(*batch)) for batch in batches[2:]]
    other, other_optimizer, again = made()
    file.seek(0)
    weights, state, kept, random = torch.load(file, weights_only=True)
    other.load_state_dict(weights)
    other_optimizer.load_state_dict(state)
    again.load_state_dict(kept)
    torch.set_rng_state(random)
    assert [float(again(*batch)) for batch in batches[2:]] == losses
    for own, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(own, theirs)


def test_groups_frozen_parameters_and_schedulers() -> None:
    torch.manual_seed(0)

    def groups(model: Any) -> torch.optim.Optimizer:
        model[0].bias.requires_grad_(False)
        return torch.optim.AdamW(
            [
                {"params": model[0].parameters(), "weight_decay": 0.1, "lr": 1e-3},
                {"params": model[3].parameters(), "betas": (0.8, 0.9)},
            ],
            lr=1e-2,
            weight_decay=0.0,
        )

    twins = Twins(mlp(), groups)
    schedulers = [
        torch.optim.lr_scheduler.StepLR(one, 1, 0.5)
        for one in (twins.optimizer, twins.eager_optimizer)
    ]
    first = twins.model[0].bias.detach().clone()
    executables = set()
    for batch in vectors(4):
        check(twins, [batch])
        executables.add(twins.step.jit.executable())
        for scheduler in schedulers:
            scheduler.step()
    assert len(executables) == 1
    assert torch.equal(twins.model[0].bias, first)


def test_a_scheduler_of_momentum_recompiles_once() -> None:
    torch.manual_seed(0)
    twins = Twins(mlp(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    schedulers = [
        torch.optim.lr_scheduler.OneCycleLR(one, max_lr=0.1, total_steps=8)
        for one in (twins.optimizer, twins.eager_optimizer)
    ]
    executables = set()
    for batch in vectors(6):
        check(twins, [batch])
        executables.add(twins.step.jit.executable())
        for scheduler in schedulers:
            scheduler.step()
    assert len(executables) == 2


def test_unfreezing_between_steps() -> None:
    torch.manual_seed(0)
    twins = Twins(mlp(), lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2))
    for model in (twins.model, twins.eager):
        model[0].requires_grad_(False)
    check(twins, vectors(2))
    for model in (twins.model, twins.eager):
        model[0].requires_grad_(True)
    check(twins, vectors(2))  # its steps are counted from here


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(torch.tanh(self.mix(self.embed(tokens)))).transpose(1, 2)


def test_tied_weights_stay_tied() -> None:
    torch.manual_seed(0)
    twins = Twins(Tied(), lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2))
    tokens = torch.randint(0, 12, (4, 6))
    check(twins, [(tokens, tokens)] * 3)
    assert twins.model.head.weight is twins.model.embed.weight


class Masked(nn.Module):
    """Torch's own encoder and decoder, whose masks are buffers."""

    def __init__(self) -> None:
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.embed = nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, **options), 1)
        self.head = nn.Linear(16, 12)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(6))
        # Each token sees itself and its neighbours.
        near = torch.arange(6)[:, None] - torch.arange(6)
        self.register_buffer("near", torch.where(near.abs() > 1, float("-inf"), 0.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        memory = self.encoder(x, mask=self.near)
        return self.head(self.decoder(x, memory, tgt_mask=self.causal)).transpose(1, 2)


def test_masks_of_torch_s_transformers_are_applied() -> None:
    torch.manual_seed(0)
    twins = Twins(Masked(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    tokens = torch.randint(0, 12, (4, 6))
    check(twins, [(tokens, tokens.roll(-1, 1))] * 3)


def test_dropout_moves_and_can_be_repeated() -> None:
    def losses(seed: int) -> list[float]:
        torch.manual_seed(0)
        model = mlp(dropout=0.5)
        step = scalify.torch.compile(
            model, CROSS_ENTROPY, torch.optim.SGD(model.parameters(), lr=0.0), recipe="none"
        )
        (batch,) = vectors(1)
        torch.manual_seed(seed)
        return [float(step(*batch)) for _ in range(3)]

    first = losses(1)
    assert len(set(first)) == 3  # the weights do not move, the masks do
    assert losses(1) == first
    assert losses(2) != first


def test_dropout_keeps_its_share_and_its_mean() -> None:
    model = nn.Sequential(nn.Dropout(0.25), nn.Flatten())
    step = scalify.torch.compile(
        model, lambda out, _: out.mean(), recipe="none", return_outputs=True
    )
    ones = torch.ones(4096, 4)
    loss, out = step.evaluate(ones, ones)
    kept = float((out != 0).float().mean())
    # Standard deviation of the share: sqrt(0.25 * 0.75 / 16384) = 0.0034; five of them.
    assert abs(kept - 0.75) < 0.017
    assert torch.equal(out[out != 0], torch.full_like(out[out != 0], 1 / 0.75))
    # A sum of 16,384 numbers in order, each rounded to 2^-24 of the sum so far.
    assert float(loss) == pytest.approx(float(out.mean()), rel=1e-4)


def test_eval_mode_and_evaluate() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 4)
    )
    twins = Twins(model, lambda model: torch.optim.SGD(model.parameters(), lr=0.05))
    for batch in images(2):
        twins.step(*batch)
    before = copy.deepcopy(model.state_dict())
    model.eval()
    (batch,) = images(1)
    with torch.no_grad():
        theirs = CROSS_ENTROPY(model(batch[0]), batch[1])
    assert float(twins.step.evaluate(*batch)) == pytest.approx(float(theirs), rel=1e-5)
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name]), name
    twins.eager.load_state_dict(before)
    twins.eager.eval()
    check(twins, [batch])  # training with fixed statistics
    assert torch.equal(model[1].running_mean, before["1.running_mean"])


class Stopped(nn.Module):
    """Values without gradients, by each way that torch has."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(8, 4) for _ in range(4))
        self.register_buffer("mean", torch.zeros(4))
        self.scale = torch.full((4,), 2.0)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * self.a(x).mean(0))
            part = self.b(x)[:, :2]
        half = torch.arange(4) < 2
        wide = torch.cat([part, self.c(x).detach()[:, 2:]], dim=1)
        return torch.where(half, wide, 0.5 * wide) * self.scale + self.mean + self.d(x)


def test_values_without_gradients() -> None:
    torch.manual_seed(0)
    twins = Twins(Stopped(), lambda model: torch.optim.AdamW(model.parameters(), weight_decay=1))
    with pytest.warns(UserWarning, match=r"1 tensors that are neither .* \[4\], become constants"):
        check(twins, vectors(3))
    # Torch leaves parameters without a gradient alone, and so does the step.
    moved = {id(twins.model.d.weight), id(twins.model.d.bias)}
    assert {id(one) for one in twins.optimizer.state} == moved


def test_trees_of_inputs_and_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, batch: dict[str, Any], scale: float = 1.0) -> Any:
            logits = self.layer(batch["x"]) * scale
            return {"loss": CROSS_ENTROPY(logits, batch["y"]), "logits": logits, "note": "text"}

    torch.manual_seed(0)
    model = Two()
    eager = copy.deepcopy(model)
    step = scalify.torch.compile(
        model, None, torch.optim.SGD(model.parameters(), lr=0.1), "none", return_outputs=True
    )
    (batch,) = vectors(1)
    tree = {"x": batch[0].t().contiguous().t(), "y": batch[1].to(torch.int64)}
    theirs = eager(tree, scale=2.0)
    loss, outputs = step(tree, scale=2.0)
    assert float(loss) == pytest.approx(float(theirs["loss"]), rel=1e-6)
    torch.testing.assert_close(outputs["logits"], theirs["logits"].detach(), **CLOSE)
    assert outputs["note"] == "text"


def test_bfloat16_models() -> None:
    torch.manual_seed(0)
    model = mlp().to(torch.bfloat16)
    twins = Twins(model, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2))
    for x, y in vectors(3):
        loss, theirs = twins.train(x.to(torch.bfloat16), y)
        # Eight bits of mantissa, and some sums that torch rounds in between.
        assert loss == pytest.approx(theirs, rel=2e-2)
    assert all(one.dtype == torch.bfloat16 for one in model.parameters())
    assert twins.optimizer.state[model[0].weight]["exp_avg"].dtype == torch.bfloat16


def test_fp8_trains_and_reports() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
    step = scalify.torch.compile(
        model, CROSS_ENTROPY, torch.optim.AdamW(model.parameters(), lr=1e-2), recipe="fp8"
    )
    x, y = torch.randn(64, 64), torch.randint(0, 64, (64,))
    losses = [float(step(x, y)) for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
    formats = {row["format"] for row in step.report().casts()}
    assert any(one.startswith("f8") for one in formats), formats
    assert step.health()
