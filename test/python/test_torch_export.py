"""scalify.torch.export beside the module's own forward, and its artefact without torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
pytest.importorskip("torchax", reason="torchax is not installed: make test-torch")

import numpy as np
from torch_models import ResNet, mlp

import scalify.torch


def test_forward_reads_the_program_s_weights(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = ResNet().eval()
    x = torch.randn(4, 3, 8, 8)
    program = torch.export.export(model, (x,))
    forward = scalify.torch.export(program, recipe="none")
    with torch.no_grad():
        # F32 sums in other orders.
        torch.testing.assert_close(forward(x), model(x), rtol=1e-4, atol=1e-5)
        model.head.weight.mul_(2)  # the exported program shares the module's parameters
        torch.testing.assert_close(forward(x), model(x), rtol=1e-4, atol=1e-5)
    forward.save(tmp_path / "forward.scalify", x)
    executable = scalify.load(tmp_path / "forward.scalify")
    state = {**program.state_dict, **program.constants}
    arrays = [
        state[arg["name"].removeprefix("weights['").removesuffix("']")].detach().numpy()
        for arg in executable.args[:-1]
    ]
    # The counts of batches have 64 bits in torch.
    arrays = [one.astype(np.int32) if one.dtype == np.int64 else one for one in arrays]
    (result,) = executable(*arrays, x.numpy())
    assert np.array_equal(result, forward(x).numpy())


def test_fp8_and_trees() -> None:
    torch.manual_seed(0)

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp()

        def forward(self, batch: Any, scale: Any) -> Any:
            out = self.layers(batch["x"]) * scale
            return {"out": out, "size": (out * out).sum()}

    model = Two().eval()
    batch = {"x": torch.randn(64, 8)}
    program = torch.export.export(model, (batch,), {"scale": torch.tensor(2.0)})
    with torch.no_grad():
        plain = scalify.torch.export(model, "none")(batch, torch.tensor(2.0))
        torch.testing.assert_close(plain, model(batch, torch.tensor(2.0)), rtol=1e-4, atol=1e-5)
    found = scalify.torch.export(program, "fp8")(batch, scale=torch.tensor(2.0))
    with torch.no_grad():
        theirs = model(batch, torch.tensor(2.0))
    # E4M3 operands: 2^-4 relative at most for each product, less for a sum.
    close = torch.nn.functional.cosine_similarity(
        found["out"].flatten(), theirs["out"].flatten(), 0
    )
    assert float(close) > 0.99
    assert found["size"].shape == ()


def test_refusals() -> None:
    x = torch.randn(4, 3, 8, 8)
    for training in (torch.export.export(ResNet(), (x,)), ResNet()):
        with pytest.raises(ValueError, match=r"updates its buffer '.*model.eval\(\)"):
            scalify.torch.export(training, "none")(x)
    with pytest.raises(ValueError, match=r"draws random numbers .*model.eval\(\)"):
        scalify.torch.export(mlp(dropout=0.5), "none")(torch.ones(2, 8))
    forward = scalify.torch.export(torch.export.export(ResNet().eval(), (x,)))
    with pytest.raises(ValueError, match="same number and type of args"):
        forward(x, x)


def test_text_of_torch_mlir() -> None:
    fx = pytest.importorskip("torch_mlir.fx", reason="torch-mlir is not installed: make test-torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.GELU(),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 10),
        torch.nn.LayerNorm(10),
    ).eval()
    x = torch.randn(4, 3, 8, 8)
    text = str(fx.export_and_import(model, x, output_type="stablehlo"))
    (found,) = scalify.compile(text)(x.numpy())
    torch.testing.assert_close(torch.from_numpy(np.asarray(found)), model(x).detach())
