"""Traces a module of PyTorch's with its loss as a function of JAX's arrays, by torchax."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import torch
from torch.nn.modules import module as hooks
from torchax.tensor import OperatorNotFound

from scalify._diagnostics import warn
from scalify.torch._environment import environment, to_jax, to_torch

__all__ = ["Objective", "apply", "full", "short"]

_VALUE_ERRORS = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


class Objective(torch.nn.Module):
    """A model and its loss as one module, which returns the loss and the model's outputs."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any] | None) -> None:
        """Keeps both.

        Args:
            model: the model.
            loss: of the model's outputs and the last positional argument; None if the model
                returns it.
        """
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Returns the loss and the outputs for the model's inputs, followed by the target.

        Raises:
            TypeError: without a loss, the model returns none either; or there is no target.
            ValueError: the loss is not a scalar.
        """
        if self.loss is None:
            outputs = self.model(*args, **kwargs)
            loss = _loss_of(outputs)
        elif not args:
            raise TypeError("the step takes the model's inputs and then the target of the loss")
        else:
            outputs = self.model(*args[:-1], **kwargs)
            loss = self.loss(outputs, args[-1])
        if not isinstance(loss, torch.Tensor):
            raise TypeError(
                f"the loss is a {type(loss).__name__}, not a tensor: without loss=, the model "
                "returns it, alone or as outputs.loss (labels= of a transformers model); of one "
                "that returns it among others, compile a module whose forward returns it alone"
            )
        if loss.dim():
            raise ValueError(f"a loss of shape {tuple(loss.shape)}: reduce it to a scalar")
        return loss, outputs


def _loss_of(outputs: Any) -> Any:
    if isinstance(outputs, Mapping):
        return outputs.get("loss")
    return getattr(outputs, "loss", outputs)


def short(name: str) -> str:
    """Returns the name in the caller's model of a parameter or module of the objective."""
    return name.removeprefix("model.")


def full(name: str) -> str:
    """Returns the name in the objective of what `short` names."""
    return name if name.startswith("loss.") else f"model.{name}"


class _Path:
    """The modules that the trace is in, which also name the scopes of JAX's operations."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._names = {module: short(name) for name, module in root.named_modules()}
        self._inside: list[tuple[torch.nn.Module, Any]] = []

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            for _, scope in reversed(self._inside):
                scope.__exit__(None, None, None)

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        del inputs
        name = self._names.get(module, "").rpartition(".")[2]
        scope = jax.named_scope(name) if name else contextlib.nullcontext()
        scope.__enter__()
        self._inside.append((module, scope))

    def _leave(self, module: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        del module, inputs, outputs
        _, scope = self._inside.pop()
        scope.__exit__(None, None, None)

    def __str__(self) -> str:
        if not self._inside:
            return "the loss"
        module = self._inside[-1][0]
        name = self._names.get(module, "")
        if isinstance(module, Objective):
            return "the loss"
        named = f"module '{name}'" if name and name != "model" else "the model"
        return f"{named} ({type(module).__name__})"


@contextlib.contextmanager
def _explained(path: _Path) -> Iterator[None]:
    """Adds to the errors of a trace where they come from, and the way out."""
    try:
        yield
    except OperatorNotFound as error:
        op = str(error).removeprefix("Operator with name ").removesuffix(" has no lowering")
        version = importlib.metadata.version("torchax")
        raise NotImplementedError(
            f"{path} calls {op}, which torchax {version} cannot lower: write it with other "
            "operations, or give it a form in JAX with scalify.torch.register_lowering"
        ) from error
    except Exception as error:
        # torch itself refuses tolist() of a subclass, with a RuntimeError.
        if isinstance(error, _VALUE_ERRORS) or str(error).startswith(".tolist() is not supported"):
            raise TypeError(
                f"{path} reads the value of a tensor (if, int(), .item(), .numpy(), .tolist()), "
                "which a compiled step has only when it runs: use torch.where, or pass a Python "
                "value"
            ) from error
        error.add_note(f"while scalify.torch traced {path}")
        raise


@contextlib.contextmanager
def _without_backwards(path: _Path) -> Iterator[None]:
    """Refuses `autograd.Function`s: JAX differentiates, and would drop their backward.

    torch.utils.checkpoint has some of its own, for memory: its function is called directly.
    """
    module: Any = torch.autograd.function
    base = module.Function
    before, is_defined = base.__dict__["apply"], module._is_setup_context_defined

    def check(cls: Any) -> None:
        if cls.__module__ != "torch.utils.checkpoint":
            raise NotImplementedError(
                f"{path} calls {cls.__module__}.{cls.__qualname__}, an autograd.Function, whose "
                "backward is not traced: write it with operations and detach(), as "
                "x + (y - x).detach()"
            )

    @classmethod  # type: ignore[misc]
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__ == "CheckpointFunction":
            function, _, *inputs = args
            return function(*inputs, **kwargs)
        return before.__get__(None, cls)(*args, **kwargs)

    def checked(setup_context: Any) -> Any:
        # Torch's apply calls this: also one that a module has bound before.
        check(sys._getframe(1).f_locals["cls"])
        return is_defined(setup_context)

    base.apply, module._is_setup_context_defined = apply, checked
    try:
        yield
    finally:
        base.apply, module._is_setup_context_defined = before, is_defined


@contextlib.contextmanager
def _without_mask_values() -> Iterator[None]:
    """Stops torch.nn's transformers from reading whether their mask is causal.

    It is a hint for speed alone: without `is_causal=True` of the caller the mask is applied.
    """
    module: Any = torch.nn.modules.transformer
    before = module._detect_is_causal_mask

    def declared(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    module._detect_is_causal_mask = declared
    try:
        yield
    finally:
        module._detect_is_causal_mask = before


def apply(
    objective: torch.nn.Module,
    tensors: Mapping[str, Any],
    key: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[Any, dict[str, Any], bool]:
    """Runs a module on JAX's arrays.

    Args:
        objective: the module.
        tensors: its parameters and buffers by name, arrays.
        key: of random numbers, as `jax.random.key` makes it.
        args: arrays, and other values.
        kwargs: the same by name.

    Returns:
        The outputs as a tree of arrays, the tensors' new values, and whether random numbers were
        drawn.

    Raises:
        NotImplementedError: an operation has no lowering, or a backward of its own.
        TypeError: the module reads a value.
    """
    env = environment()
    path = _Path(objective)
    held = dict(to_torch(dict(tensors)))
    env.constants.clear()
    with (
        env,
        env.override_property(prng=key),
        torch.enable_grad(),
        path.followed(),
        _without_backwards(path),
        _without_mask_values(),
        _explained(path),
    ):
        outputs = torch.func.functional_call(
            objective, held, to_torch(tuple(args)), to_torch(dict(kwargs))
        )
        has_drawn = env.prng_key is not key
        _warn_of_constants(objective, list(env.constants.values()))
        return to_jax(outputs), {name: to_jax(one) for name, one in held.items()}, has_drawn


def _warn_of_constants(objective: torch.nn.Module, constants: Sequence[torch.Tensor]) -> None:
    wide = [one for one in constants if one.dim()]
    if not wide:
        return
    shapes = ", ".join(str(list(one.shape)) for one in wide[:3])
    warn(
        f"{len(wide)} tensors that are neither parameters nor buffers of the model, of shapes "
        f"{shapes}, become constants of the step, which does not see later changes: "
        "register_buffer makes them arguments"
    )
