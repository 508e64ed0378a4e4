"""Training steps of PyTorch's modules: `scalify.torch.compile`.

A module with its loss and optimizer is traced through torchax as one JAX function, compiled by
`scalify.jit`, and runs in the memory of the module's own tensors.
"""

from __future__ import annotations

from scalify._extras import require

require("scalify.torch", "torch", "torch", "torchax")

from scalify.torch._environment import register_lowering  # noqa: E402
from scalify.torch._export import Forward, export  # noqa: E402
from scalify.torch._optimizers import Lion  # noqa: E402
from scalify.torch._step import Step, compile  # noqa: E402

__all__ = ["Forward", "Lion", "Step", "compile", "export", "register_lowering"]
