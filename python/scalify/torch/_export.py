"""scalify.torch.export: forward passes of modules and of torch.export's programs."""

from __future__ import annotations

import os
from typing import Any

import jax
import torch

from scalify._decorate import jit
from scalify.recipe import RecipeLike
from scalify.report import Report
from scalify.torch._memory import as_argument, to_tensor
from scalify.torch._trace import apply
from scalify.torch._trees import Inputs, Outputs

__all__ = ["Forward", "export"]


class Forward:
    """A compiled forward pass on tensors; see `export`."""

    def __init__(
        self, module: torch.nn.Module, recipe: RecipeLike, options: dict[str, Any]
    ) -> None:
        self._module = module
        self._outputs: dict[Inputs, Outputs] = {}

        def forward(inputs: Inputs, weights: Any, arrays: Any) -> Any:
            args, kwargs = inputs.filled(arrays)
            outputs, new, draws = apply(module, weights, jax.random.key(0), args, kwargs)
            written = [name for name in weights if new[name] is not weights[name]]
            if written or draws:
                what = f"updates its buffer '{written[0]}'" if written else "draws random numbers"
                raise ValueError(
                    f"the module {what} in forward: call model.eval() before, or train with "
                    "scalify.torch.compile"
                )
            self._outputs[inputs], found = Outputs.of(outputs)
            return found

        self._step = jit(forward, recipe, static_argnums=0, **options)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        inputs, arrays = Inputs.of(args, kwargs)
        named = [*self._module.named_parameters(), *self._module.named_buffers()]
        return inputs, {name: as_argument(one, f"'{name}'") for name, one in named}, arrays

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module; arguments and results are as its own.

        Weights are read from the module's own tensors in each call.

        Raises:
            NotImplementedError: at the first call, an operation has no lowering.
            ValueError: at the first call, the module updates buffers or draws random numbers.
        """
        inputs, weights, arrays = self._arguments(args, kwargs)
        results = self._step(inputs, weights, arrays)
        return self._outputs[inputs].filled([to_tensor(one) for one in results])

    def save(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Writes an artefact for arguments of these types, which runs without torch and JAX.

        Its arguments are the weights by name, and then the tensors among these arguments.
        """
        self._step.executable(*self._arguments(args, kwargs)).save(path)

    def report(self) -> Report:
        """Returns the scale and format of each value in the last call, and why."""
        return self._step.report()


def export(
    program: torch.export.ExportedProgram | torch.nn.Module,
    recipe: RecipeLike = "fp8",
    **options: Any,
) -> Forward:
    """Returns the forward pass of a module under a recipe, for inference and artefacts.

        forward = scalify.torch.export(torch.export.export(model.eval(), (x,)))
        logits = forward(x)

    It compiles at the first call, and again for other shapes, as far as the program allows them.

    Args:
        program: of `torch.export`, or a module, in evaluation mode.
        recipe: as for `scalify.jit`.
        **options: of `scalify.jit`.
    """
    if isinstance(program, torch.export.ExportedProgram):
        # torchax lowers the operations that compose others only where these call them.
        program = program.run_decompositions().module()
    return Forward(program, recipe, options)
