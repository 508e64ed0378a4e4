"""torchax's environment, with what tracing a module of PyTorch's as it runs on the CPU needs.

- Constructors without a device (`torch.arange(n)`) make traced tensors, as they would make tensors
  on the module's device.
- `torch.no_grad()` and `detach()` stop JAX's gradients.
- Tensors that are neither arguments nor made in the trace become constants, and are remembered.
- Batch norm updates its running statistics.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import torch
import torchax.tensor
from torch.utils import _pytree as torch_pytree
from torchax.ops.ops_registry import Operator
from torchax.tensor import Tensor
from torchax.view import View

__all__ = ["Environment", "environment", "register_lowering", "to_jax", "to_torch"]

_DETACHES = frozenset(
    {
        *(torch.detach, torch.Tensor.detach, torch.Tensor.detach_),
        *(torch.ops.aten.detach.default, torch.ops.aten.detach_.default),
    }
)


class Environment(torchax.tensor.Environment):
    """An environment of torchax in which one module is traced at a time.

    Attributes:
        constants: tensors that the trace has read besides its arguments, by id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.constants: dict[int, torch.Tensor] = {}
        self.override_op_definition(torch.ops.aten.native_batch_norm, _batch_norm)
        self.override_op_definition(torch.ops.aten._native_batch_norm_legit.default, _batch_norm)
        self.override_op_definition(torch.nn.functional.instance_norm, _instance_norm)

    def _should_use_torchax_tensor(self, device: Any) -> bool:
        del device
        return True

    def dispatch(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().dispatch(func, types, args, kwargs)
        if func in _DETACHES or not torch.is_grad_enabled():
            return torch_pytree.tree_map_only(torch.Tensor, _stopped, result)
        if isinstance(result, View) and getattr(args[0], "is_stopped", False):
            result.is_stopped = True
        return result

    def t2j_iso(self, torchtensors: Any) -> Any:
        return torch_pytree.tree_map_only(torch.Tensor, self._value_of, torchtensors)

    def v2t_iso(self, views: Any) -> Any:
        return torch_pytree.tree_map_only(
            View, lambda view: Tensor(self._value_of(view), self), views
        )

    def _value_of(self, tensor: Any) -> jax.Array:
        if isinstance(tensor, View) and getattr(tensor, "is_stopped", False):
            return jax.lax.stop_gradient(tensor.jax())
        if isinstance(tensor, (Tensor, View)):
            return tensor.jax()
        self.constants[id(tensor)] = tensor
        with torch.no_grad(), _without_modes():
            return self.t2j_copy(tensor.detach())


def _without_modes() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(torch.utils._mode_utils.no_dispatch())
    stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def _stopped(tensor: Any) -> Any:
    """Returns a tensor without a gradient; a view stays one, so that it can be written."""
    if isinstance(tensor, View):
        tensor.is_stopped = True
    elif isinstance(tensor, Tensor) and tensor.dtype.is_floating_point:
        return Tensor(jax.lax.stop_gradient(tensor._elem), tensor._env)
    return tensor


def _batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Normalises x [N, C, ...] by channel, and moves the running statistics in training.

    torchax 0.0.13 computes the new statistics and drops them. As PyTorch does, the result is
    normalised by the biased variance, and the running variance takes the unbiased one.
    """
    channels = [1, -1] + [1] * (x.dim() - 2)
    mean, var = running_mean, running_var
    if training:
        axes = [axis for axis in range(x.dim()) if axis != 1]
        wide = x.float()
        mean = wide.mean(axes)
        centred = wide - mean.view(channels)
        var = (centred * centred).mean(axes)
        count = x.numel() // x.size(1)
        for running, new in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
            if running is not None:
                moved = running * (1 - momentum) + new.detach().to(running.dtype) * momentum
                running.copy_(moved)
    factor = torch.rsqrt(var + eps)
    result = (x - mean.view(channels)) * factor.view(channels)
    if weight is not None:
        result = result * weight.view(channels)
    if bias is not None:
        result = result + bias.view(channels)
    return result.to(x.dtype), mean, factor


def _instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises x [N, C, ...] by sample and channel: batch norm of [1, N * C, ...]."""
    count, channels = x.shape[:2]

    def repeated(one: Any) -> Any:
        return None if one is None else one.repeat(count)

    mean, var = repeated(running_mean), repeated(running_var)
    result, *_ = _batch_norm(
        x.reshape(1, count * channels, *x.shape[2:]),
        *(repeated(weight), repeated(bias), mean, var),
        *(use_input_stats, momentum, eps),
    )
    if use_input_stats and running_mean is not None:
        running_mean.copy_(mean.view(count, channels).mean(0))
        running_var.copy_(var.view(count, channels).mean(0))
    return result.reshape(x.shape)


@functools.cache
def environment() -> Environment:
    """Returns the process's environment for traces."""
    return Environment()


def register_lowering(op: Callable[..., Any], fn: Callable[..., Any] | None = None) -> Any:
    """Gives an operation of torch a form in JAX, for steps compiled afterwards.

        @scalify.torch.register_lowering(torch.ops.aten.frexp)
        def frexp(x): return jnp.frexp(x)

    Args:
        op: as `scalify.torch.compile` names it: `torch.ops.aten.name`, or a function of torch's.
        fn: the same operation on JAX's arrays; None to decorate it.
    """
    if fn is None:
        return functools.partial(register_lowering, op)
    environment()._ops[op] = Operator(
        op, fn, is_jax_function=True, is_user_defined=True, needs_env=False, is_view_op=False
    )
    return fn


def to_torch(tree: Any) -> Any:
    """Returns a tree with torchax's tensors in place of JAX's arrays."""
    return environment().j2t_iso(tree)


def to_jax(tree: Any) -> Any:
    """Returns a tree with JAX's arrays in place of torchax's tensors."""
    return environment().t2j_iso(tree)
