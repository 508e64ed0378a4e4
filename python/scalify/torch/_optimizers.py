"""The updates of torch's optimizers as functions of JAX's arrays.

Factors that depend on the count of steps are computed on the host in F64, as torch does, and are
arguments of the step, so that neither they nor a learning-rate scheduler recompile it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch

__all__ = ["Lion", "Rule", "Values", "global_norm", "rule_of", "settings_of"]

# Settings and factors by name: numbers, or arrays of shape ().
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Rule:
    """An optimizer's update of one parameter.

    Attributes:
        slots: the names of a parameter's state in torch, given its group's settings.
        flags: settings that select the computation; a step is compiled for their values.
        numbers: settings that are constants of the step until one changes between steps.
        factors: numbers that depend on the learning rate or the count of steps (from 1), and are
            arguments; computed from the group's settings, the count, and whether the parameter has
            state already.
        update: returns the new parameter and slots from parameter, gradient, slots, and settings
            and factors.
        counts: whether the optimizer counts the steps of each parameter.
    """

    slots: Callable[[Values], tuple[str, ...]]
    flags: tuple[str, ...]
    numbers: tuple[str, ...]
    factors: Callable[[Values, int, bool], dict[str, float]]
    update: Callable[[Any, Any, dict[str, Any], Values], tuple[Any, dict[str, Any]]]
    counts: bool = False


def _adam_factors(group: Values, step: int, has_state: bool) -> dict[str, float]:
    del has_state
    beta1, beta2 = map(float, group["betas"])
    lr = float(group["lr"])
    return {
        "step_size": lr / (1 - beta1**step),
        "root": (1 - beta2**step) ** 0.5,
        "decay": lr * float(group["weight_decay"]),
        "coupled": float(group["weight_decay"]),
    }


def _adam_update(
    param: Any, grad: Any, slots: dict[str, Any], values: Values
) -> tuple[Any, dict[str, Any]]:
    """Adam (Kingma and Ba, ICLR 2015) and AdamW (Loshchilov and Hutter, ICLR 2019)."""
    if values["decays"] and values["decoupled_weight_decay"]:
        param = param * (1 - values["decay"])
    elif values["decays"]:
        grad = grad + values["coupled"] * param
    beta1, beta2 = values["beta1"], values["beta2"]
    mean = beta1 * slots["exp_avg"] + (1 - beta1) * grad
    square = beta2 * slots["exp_avg_sq"] + (1 - beta2) * grad * grad
    new, largest = {"exp_avg": mean, "exp_avg_sq": square}, square
    if values["amsgrad"]:
        largest = jnp.maximum(slots["max_exp_avg_sq"], square)
        new["max_exp_avg_sq"] = largest
    scale = jnp.sqrt(largest) / values["root"] + values["eps"]
    return param - values["step_size"] * mean / scale, new


def _sgd_factors(group: Values, step: int, has_state: bool) -> dict[str, float]:
    del step
    return {
        "lr": float(group["lr"]),
        "coupled": float(group["weight_decay"]),
        # torch starts the momentum with the first gradient, undampened.
        "share": 1 - float(group["dampening"]) if has_state else 1.0,
    }


def _sgd_update(
    param: Any, grad: Any, slots: dict[str, Any], values: Values
) -> tuple[Any, dict[str, Any]]:
    if values["decays"]:
        grad = grad + values["coupled"] * param
    if not slots:
        return param - values["lr"] * grad, {}
    momentum = values["momentum"]
    buffer = momentum * slots["momentum_buffer"] + values["share"] * grad
    step = grad + momentum * buffer if values["nesterov"] else buffer
    return param - values["lr"] * step, {"momentum_buffer": buffer}


def _lion_factors(group: Values, step: int, has_state: bool) -> dict[str, float]:
    del step, has_state
    lr = float(group["lr"])
    return {"lr": lr, "decay": lr * float(group["weight_decay"])}


def _lion_update(
    param: Any, grad: Any, slots: dict[str, Any], values: Values
) -> tuple[Any, dict[str, Any]]:
    """Lion (Chen et al., NeurIPS 2023, algorithm 2)."""
    beta1, beta2, mean = values["beta1"], values["beta2"], slots["exp_avg"]
    step = jnp.sign(beta1 * mean + (1 - beta1) * grad)
    if values["decays"]:
        param = param * (1 - values["decay"])
    return param - values["lr"] * step, {"exp_avg": beta2 * mean + (1 - beta2) * grad}


def _adam_slots(group: Values) -> tuple[str, ...]:
    largest = ("max_exp_avg_sq",) if group.get("amsgrad") else ()
    return ("exp_avg", "exp_avg_sq", *largest)


_ADAM = Rule(
    _adam_slots,
    ("amsgrad", "maximize", "decoupled_weight_decay"),
    ("beta1", "beta2", "eps"),
    _adam_factors,
    _adam_update,
    counts=True,
)
_SGD = Rule(
    lambda group: ("momentum_buffer",) if group["momentum"] else (),
    ("nesterov", "maximize"),
    ("momentum",),
    _sgd_factors,
    _sgd_update,
)
_LION = Rule(
    lambda group: ("exp_avg",),
    ("maximize",),
    ("beta1", "beta2"),
    _lion_factors,
    _lion_update,
)


class Lion(torch.optim.Optimizer):
    """Lion (Chen et al., NeurIPS 2023), which torch does not have.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate; about a tenth of AdamW's.
        betas: of the step's direction and of the momentum.
        weight_decay: decoupled, times the learning rate.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> Any:
        """Updates the parameters by their gradients; returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                mean = self.state[param].setdefault("exp_avg", torch.zeros_like(param))
                param.mul_(1 - group["lr"] * group["weight_decay"])
                param.add_(torch.lerp(param.grad, mean, beta1).sign_(), alpha=-group["lr"])
                mean.lerp_(param.grad, 1 - beta2)
        return loss


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """Returns the update of an optimizer.

    Subclasses may compute something else, so the type counts. A class of another library counts as
    Lion if that is its name.

    Raises:
        NotImplementedError: its update is not known.
    """
    if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        return _ADAM
    if type(optimizer) is torch.optim.SGD:
        return _SGD
    if type(optimizer).__name__ == "Lion":
        return _LION
    raise NotImplementedError(
        f"scalify.torch knows the updates of AdamW, Adam, SGD and Lion, not of "
        f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    )


def settings_of(rule: Rule, group: Values) -> tuple[dict[str, Any], dict[str, float]]:
    """Returns a group's flags and its numbers, by the names of the rule."""
    given = dict(group)
    if "betas" in given:
        given["beta1"], given["beta2"] = given["betas"]
    flags = {name: bool(given.get(name)) for name in rule.flags}
    flags["decays"] = bool(given["weight_decay"])
    return flags, {name: float(given[name]) for name in rule.numbers}


def global_norm(grads: Sequence[Any]) -> jax.Array:
    """Returns the 2-norm of all gradients together, F32."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(grad.astype(jnp.float32))) for grad in grads))
