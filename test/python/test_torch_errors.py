"""Errors and warnings of scalify.torch name the module, the operation and the way out."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")

import jax.numpy as jnp
from torch import nn
from torch_models import CROSS_ENTROPY, Twins, mlp, vectors

import scalify.torch


class Layer(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x * self.weight)


class Net(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), Layer(function)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def run(function: Any) -> Any:
    model = Net(function)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = scalify.torch.compile(model, lambda out, _: out.sum(), optimizer, recipe="none")
    x = torch.randn(2, 4)
    return step(x, x)


def test_an_operation_without_a_lowering() -> None:
    with pytest.raises(NotImplementedError) as raised:
        run(lambda x: torch.special.airy_ai(x))
    message = str(raised.value)
    assert "module 'layers.1' (Layer) calls aten::special_airy_ai" in message
    assert "register_lowering" in message


def test_a_lowering_of_the_user() -> None:
    scalify.torch.register_lowering(torch.ops.aten.special_spherical_bessel_j0, lambda x: 3.0 * x)
    torch.manual_seed(0)
    found = run(lambda x: torch.special.spherical_bessel_j0(x))
    torch.manual_seed(0)
    assert float(found) == pytest.approx(3 * float(run(lambda x: x)), rel=1e-6)
    assert jnp.size(found.numpy()) == 1


@pytest.mark.parametrize(
    "reads",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * x.sum().item(),
        lambda x: x * torch.tensor(x[0].tolist()),
    ],
)
def test_a_value_that_is_read(reads: Any) -> None:
    with pytest.raises(
        TypeError, match=r"module 'layers.1' \(Layer\) reads the value .*: use torch.where"
    ):
        run(reads)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_a_backward_of_the_user() -> None:
    with pytest.raises(NotImplementedError, match=r"'layers.1' .*Rounded, an autograd.Function"):
        run(Rounded.apply)
    model = Net(lambda x: x + (torch.round(x) - x).detach())
    eager = Net(Rounded.apply)
    eager.load_state_dict(model.state_dict())
    step = scalify.torch.compile(
        model, lambda out, _: out.sum(), torch.optim.SGD(model.parameters(), lr=1.0), "none"
    )
    x = torch.randn(2, 4)
    eager(x).sum().backward()
    before = model.layers[1].weight.detach().clone()
    step(x, x)
    torch.testing.assert_close(before - model.layers[1].weight, eager.layers[1].weight.grad)
    assert Rounded.apply(torch.ones(1)) == 1  # it is torch's again


def test_other_errors_say_where() -> None:
    with pytest.raises(Exception) as raised:
        run(lambda x: x.view(3, 3))
    assert "module 'layers.1' (Layer)" in "\n".join(raised.value.__notes__)


def test_losses() -> None:
    model = mlp()
    (batch,) = vectors(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"loss of shape \(8, 4\): reduce it"):
        scalify.torch.compile(model, None, optimizer)(batch[0])
    with pytest.raises(ValueError, match=r"loss of shape \(8,\)"):
        scalify.torch.compile(model, nn.CrossEntropyLoss(reduction="none"), optimizer)(*batch)
    with pytest.raises(TypeError, match="and then the target"):
        scalify.torch.compile(model, CROSS_ENTROPY, optimizer)()


def test_tensors_that_a_step_cannot_take() -> None:
    twins = Twins(mlp(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    (batch,) = vectors(1)
    with pytest.raises(ValueError, match=r"tensor 0 .* is torch.float64.*\.float\(\)"):
        twins.step(batch[0].double(), batch[1])
    with pytest.raises(ValueError, match=r"integers beyond torch\.int32"):
        twins.step(batch[0], batch[1] + 2**40)
    with pytest.raises(ValueError, match=r"tensor 0 .* is on meta.*\.cpu\(\)"):
        twins.step(batch[0].to("meta"), batch[1])
    model = mlp().double()
    step = scalify.torch.compile(model, CROSS_ENTROPY, torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match=r"'0.weight' is torch.float64"):
        step(*batch)


@pytest.mark.parametrize("frozen", [False, True])
def test_parameters_that_share_memory(frozen: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = nn.Parameter(model[0].weight.data, requires_grad=not frozen)
    step = scalify.torch.compile(
        model, CROSS_ENTROPY, torch.optim.SGD(model.parameters(), lr=0.1), recipe="none"
    )
    x, y = torch.randn(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"'params\['0.weight'\]' overlaps") as raised:
        step(x, y)
    assert "one Parameter in two places" in raised.value.__notes__[0]
    # Parts of one storage are apart.
    flat = torch.randn(64)
    model[0].weight = nn.Parameter(flat[:16].view(4, 4))
    model[1].weight = nn.Parameter(flat[16:32].view(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scalify.torch.compile(model, CROSS_ENTROPY, optimizer, recipe="none")(x, y)
    assert torch.equal(flat[16:32].view(4, 4), model[1].weight)


def test_an_input_in_a_parameter_s_memory() -> None:
    model = nn.Linear(8, 8, bias=False)
    step = scalify.torch.compile(
        model, CROSS_ENTROPY, torch.optim.SGD(model.parameters(), lr=0.1), recipe="none"
    )
    before = model.weight.detach().clone()
    with pytest.raises(ValueError, match=r"overlaps argument 'inputs\[0\]'"):
        step(model.weight.detach(), torch.arange(8))
    assert torch.equal(model.weight, before)
    step(before, torch.arange(8))


def test_optimizers_and_options() -> None:
    model = mlp()
    with pytest.raises(NotImplementedError, match=r"AdamW, Adam, SGD and Lion, not .*RMSprop"):
        scalify.torch.compile(model, CROSS_ENTROPY, torch.optim.RMSprop(model.parameters()))
    other = torch.optim.SGD(mlp().parameters())
    with pytest.raises(ValueError, match=r"group 0, of shape \[16, 8\], is none of the model's"):
        scalify.torch.compile(model, CROSS_ENTROPY, other)
    with pytest.raises(TypeError, match="no option 'donate_argnums'"):
        scalify.torch.compile(model, CROSS_ENTROPY, donate_argnums=0)
    with pytest.raises(ValueError, match="target 'sm_90a'"):
        scalify.torch.compile(model, CROSS_ENTROPY, target="sm_90a")
    with pytest.raises(RuntimeError, match=r"without an optimizer .* evaluate"):
        scalify.torch.compile(model, CROSS_ENTROPY)(*next(iter(vectors(1))))


def test_old_graphs_notice_the_update() -> None:
    twins = Twins(mlp(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    (batch,) = vectors(1)
    loss = CROSS_ENTROPY(twins.model(batch[0]), batch[1])
    twins.step(*batch)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_model_that_returns_its_loss_among_others() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
            out = self.layer(x)
            return out, CROSS_ENTROPY(out, y)

    class Loss(nn.Module):
        def __init__(self, pair: nn.Module) -> None:
            super().__init__()
            self.pair = pair

        def forward(self, x: Any, y: Any) -> Any:
            return self.pair(x, y)[1]

    pair = Pair()
    optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
    (batch,) = vectors(1)
    with pytest.raises(TypeError, match=r"the loss is a tuple.*forward returns it alone"):
        scalify.torch.compile(pair, None, optimizer)(*batch)
    wanted = float(pair(*batch)[1].detach())
    found = float(scalify.torch.compile(Loss(pair), None, optimizer, recipe="none")(*batch))
    assert found == pytest.approx(wanted, rel=1e-6)
