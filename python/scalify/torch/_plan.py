"""The constants of a compiled step of a module, and the numbers that it takes in each call."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from scalify.torch._optimizers import Rule, rule_of, settings_of
from scalify.torch._trace import short
from scalify.torch._trees import Inputs

__all__ = ["Group", "Optimization", "Plan", "Update"]


@dataclasses.dataclass(frozen=True)
class Group:
    """Parameters that one update with the same numbers moves.

    Attributes:
        names: of the parameters.
        slots: the names of each one's state.
        flags: settings that select the computation.
        constants: settings that are constants of the step.
        numbers: the names of the step's arguments, in order.
    """

    names: tuple[str, ...]
    slots: tuple[str, ...]
    flags: tuple[tuple[str, bool], ...]
    constants: tuple[tuple[str, float], ...]
    numbers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The static part of a call; a step is compiled for each.

    Attributes:
        inputs: of the model and the loss.
        training: the `training` flag of each module.
        groups: the updates; empty for an evaluation.
        written: the buffers that the step overwrites.
        narrowed: the buffers that it writes and that are wider than its integers.
        has_key: whether it draws random numbers.
        returns_outputs: whether it returns the model's outputs.
        max_norm: the limit of the gradients' norm.
        max_value: the limit of each gradient's elements.
    """

    inputs: Inputs
    training: tuple[bool, ...]
    groups: tuple[Group, ...]
    written: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    has_key: bool = False
    returns_outputs: bool = False
    max_norm: float | None = None
    max_value: float | None = None

    @property
    def trained(self) -> list[str]:
        """The names of the parameters that the step moves."""
        return [name for group in self.groups for name in group.names]

    def without(self, names: Collection[str]) -> Plan:
        """Returns the plan without updates of these parameters."""
        groups = tuple(
            dataclasses.replace(
                group, names=tuple(name for name in group.names if name not in names)
            )
            for group in self.groups
        )
        return dataclasses.replace(self, groups=groups)

    def __repr__(self) -> str:
        # Checkpoints compare it: the same in each process, whatever the length of the model.
        fields = tuple(getattr(self, field.name) for field in dataclasses.fields(self))
        return f"Plan({hashlib.sha256(repr(fields).encode()).hexdigest()[:16]})"


@dataclasses.dataclass(frozen=True)
class Update:
    """The optimizer's part of one call.

    Attributes:
        groups: for the plan.
        numbers: the values of each group's numbers.
    """

    groups: tuple[Group, ...]
    numbers: list[list[Any]]


class Optimization:
    """A torch optimizer whose settings and state a step reads and updates."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
        """Reads the optimizer's kind.

        Args:
            optimizer: the caller's, which keeps settings and state.
            names: of the objective's parameters, by id.

        Raises:
            NotImplementedError: its update is not known.
            ValueError: it has a parameter that is not the model's.
        """
        self.optimizer = optimizer
        self.rule: Rule = rule_of(optimizer)
        self._names = names
        self._seen: dict[tuple[int, str], float] = {}
        self._moving: set[tuple[int, str]] = set()
        for index, group in enumerate(optimizer.param_groups):
            for place, param in enumerate(group["params"]):
                if id(param) not in names:
                    raise ValueError(
                        f"parameter {place} of the optimizer's group {index}, of shape "
                        f"{list(param.shape)}, is none of the model's"
                    )

    def prepare(self) -> Update:
        """Returns the groups and numbers of the next step."""
        groups, numbers = [], []
        for index, group in enumerate(self.optimizer.param_groups):
            flags, settings = settings_of(self.rule, group)
            constants = self._constants(index, settings)
            moving = {name: settings[name] for name in settings if name not in constants}
            slots = self.rule.slots(group)
            for (count, has_state), names in self._by_count(group["params"], slots).items():
                values = self.rule.factors(group, count + 1, has_state) | moving
                groups.append(
                    Group(
                        tuple(names),
                        slots,
                        tuple(sorted(flags.items())),
                        tuple(sorted(constants.items())),
                        tuple(values),
                    )
                )
                numbers.append([np.float32(value) for value in values.values()])
        return Update(tuple(groups), numbers)

    def _constants(self, index: int, settings: Mapping[str, float]) -> dict[str, float]:
        """Returns the settings of a group that have never changed."""
        for name, value in settings.items():
            if self._seen.setdefault((index, name), value) != value:
                self._moving.add((index, name))
        return {
            name: value for name, value in settings.items() if (index, name) not in self._moving
        }

    def _by_count(
        self, params: Sequence[torch.nn.Parameter], slots: Sequence[str]
    ) -> dict[tuple[int, bool], list[str]]:
        """Returns the names of trainable parameters by their steps so far, and if any has run."""
        found: dict[tuple[int, bool], list[str]] = {}
        for param in params:
            if not param.requires_grad:
                continue
            state = self.optimizer.state.get(param, {})
            has_state = any(state.get(slot) is not None for slot in slots)
            count = int(state["step"]) if "step" in state else 0
            found.setdefault((count, has_state), []).append(self._names[id(param)])
        return found

    def slots_of(self, param: torch.nn.Parameter, group: Group) -> dict[str, torch.Tensor]:
        """Returns the state of a parameter, by name; it starts as zeros."""
        if not group.slots:
            return {}
        state = self.optimizer.state[param]
        for slot in group.slots:
            if state.get(slot) is None:
                state[slot] = torch.zeros_like(param, memory_format=torch.contiguous_format)
        return {slot: state[slot] for slot in group.slots}

    def finish(self, params: Sequence[torch.nn.Parameter]) -> None:
        """Counts a step of these parameters, as the optimizer itself would."""
        if self.rule.counts:
            steps = []
            for param in params:
                state = self.optimizer.state[param]
                steps.append(state.setdefault("step", torch.zeros((), dtype=torch.float32)))
            if steps:
                torch._foreach_add_(steps, 1)
        # For the learning-rate scheduler, which warns if no step of the optimizer precedes its own.
        self.optimizer._opt_called = True


def names_of(objective: torch.nn.Module) -> dict[int, str]:
    """Returns the names of a module's parameters by id; of a tied one, the first."""
    return {id(param): short(name) for name, param in objective.named_parameters()}
