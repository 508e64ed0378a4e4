"""scalify.torch.compile: a training step on a module's own memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from scalify._decorate import jit
from scalify._jit import Jit
from scalify._jit_state import JitState
from scalify.options import Numerics
from scalify.recipe import RecipeLike
from scalify.report import Report
from scalify.torch._memory import adopt, as_argument, to_tensor, view
from scalify.torch._optimizers import global_norm
from scalify.torch._plan import Group, Optimization, Plan, Update, names_of
from scalify.torch._trace import Objective, apply, full, short
from scalify.torch._trees import Inputs, Outputs

__all__ = ["Step", "compile"]

# JAX has 64-bit integers as 32.
_WIDE = (torch.int64, torch.uint64)


@dataclasses.dataclass(frozen=True)
class _Traced:
    """The results of tracing a plan, for arguments of one type."""

    plan: Plan
    outputs: Outputs


class Step:
    """A compiled training step of a module; see `compile`.

    Attributes:
        grad_norm: the gradients' norm before clipping in the last step, a tensor of shape (); None
            without `clip_grad_norm`.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer | None,
        clip: tuple[float | None, float | None],
        return_outputs: bool,
        generator: torch.Generator | None,
        options: dict[str, Any],
    ) -> None:
        self._objective = objective
        self._names = names_of(objective)
        self._optimization = None if optimizer is None else Optimization(optimizer, self._names)
        self._clip, self._return_outputs, self._generator = clip, return_outputs, generator
        self._traced: dict[Any, _Traced] = {}
        self._addresses: tuple[int, ...] = ()
        self._views: list[Any] = []
        self.grad_norm: torch.Tensor | None = None
        self._train = self._jit("train_step", (1, 2, 3), options)
        self._evaluate = self._jit("evaluate", (3,), options)

    def _jit(self, name: str, donated: tuple[int, ...], options: dict[str, Any]) -> Jit:
        def step(
            plan: Plan,
            params: Any,
            state: Any,
            buffers: Any,
            constants: Any,
            numbers: Any,
            key: Any,
            inputs: Any,
        ) -> Any:
            return self._compute(plan, params, state, buffers, constants, numbers, key, inputs)

        step.__name__ = step.__qualname__ = name
        return jit(step, static_argnums=0, donate_argnums=donated, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one training step, which updates parameters, buffers and the optimizer's state.

        Args:
            *args: the model's inputs, and the loss's target as the last; without a loss of its own,
                the model's inputs. Tensors, or trees of tensors and plain values.
            **kwargs: more of the model's inputs.

        Returns:
            The loss, F32 of shape (); with `return_outputs`, the loss and the model's outputs.

        Raises:
            NotImplementedError: at the first call, an operation has no lowering.
            TypeError: at the first call, the model reads the value of a tensor.
            ValueError: a tensor is not on the CPU, or of a type that steps do not have.
            RuntimeError: there is no optimizer.
        """
        if self._optimization is None:
            raise RuntimeError("a step without an optimizer trains nothing: call evaluate()")
        return self._run(self._train, self._optimization.prepare(), args, kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the loss without gradients; arguments and results are as those of a step.

        Module modes are the caller's: call `model.eval()` before. In training mode, buffers are
        updated, as they are under `torch.no_grad()`.
        """
        return self._run(self._evaluate, Update((), []), args, kwargs)

    def _run(self, step: Jit, update: Update, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, inputs = Inputs.of(args, kwargs)
        plan = Plan(
            given,
            tuple(module.training for module in self._objective.modules()),
            update.groups,
            returns_outputs=self._return_outputs,
            max_norm=self._clip[0],
            max_value=self._clip[1],
        )
        tensors = self._tensors()
        traced = self._trace(plan, tensors, inputs)
        plan = traced.plan
        held = self._held(plan, tensors)
        try:
            results = step.update(plan, *held, update.numbers, self._key(plan), inputs)
        except ValueError as error:
            if "overlaps argument" in str(error):
                error.add_note(
                    "A tied weight is one Parameter in two places (head.weight = embed.weight); "
                    "an input that is a parameter's memory needs a copy."
                )
            raise
        return self._finish(traced, tensors, results)

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Returns parameters and buffers by name; tied ones once."""
        found = {short(name): one for name, one in self._objective.named_parameters()}
        return found | {short(name): one for name, one in self._objective.named_buffers()}

    def _held(self, plan: Plan, tensors: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
        """Returns the step's arguments over the memory of the model and the optimizer."""
        own = {name: tensors[name] for name in plan.trained}
        written = {name: tensors[name] for name in plan.written}
        slots = {
            name: self._optimization.slots_of(tensors[name], group)
            for group in plan.groups
            for name in group.names
            if self._optimization is not None
        }
        rest = {
            name: as_argument(one, f"'{name}'")
            for name, one in tensors.items()
            if name not in own and name not in written
        }
        return (*self._over_memory((own, slots, written)), rest)

    def _over_memory(self, trees: Any) -> Any:
        """Returns the same trees with arrays over the tensors' memory, which a step overwrites."""
        leaves, tree = jax.tree.flatten(trees)
        addresses = tuple(leaf.data_ptr() for leaf in leaves)
        if addresses != self._addresses:
            for path, leaf in jax.tree.leaves_with_path(trees):
                adopt(leaf, jax.tree_util.keystr(path))
            # The arrays keep the memory, so that equal addresses are the same memory.
            self._views = [view(leaf) for leaf in leaves]
            self._addresses = tuple(leaf.data_ptr() for leaf in leaves)
        return jax.tree.unflatten(tree, self._views)

    def _key(self, plan: Plan) -> Any:
        """Returns two words from torch's generator for the step's random numbers."""
        if not plan.has_key:
            return ()
        words = torch.randint(0, 2**32, (2,), generator=self._generator, dtype=torch.int64)
        return words.numpy().astype(np.uint32)

    def _trace(
        self, plan: Plan, tensors: Mapping[str, torch.Tensor], inputs: Sequence[Any]
    ) -> _Traced:
        """Returns the plan with what its trace tells; traces once for arguments of one type."""
        types = tuple((one.shape, one.dtype) for one in inputs)
        key = (plan, types)
        if key not in self._traced:
            self._traced[key] = self._look(plan, tensors, inputs)
        return self._traced[key]

    def _look(
        self, plan: Plan, tensors: Mapping[str, torch.Tensor], inputs: Sequence[Any]
    ) -> _Traced:
        found: dict[str, Any] = {}

        def forward(params: Any, held: Any, key: Any, inputs: Any) -> Any:
            held = held | {name: _noted(one, name, used) for name, one in params.items()}
            (loss, outputs), new, found["draws"] = self._apply(plan, held, key, inputs)
            found["written"] = [name for name in held if new[name] is not held[name]]
            found["outputs"], _ = Outputs.of(outputs)
            return loss

        used: set[str] = set()
        held = {name: as_argument(one, f"'{name}'") for name, one in tensors.items()}
        params = {name: held.pop(name) for name in plan.trained}
        run = jax.grad(forward) if params else forward
        jax.eval_shape(run, params, held, jax.random.key(0), list(inputs))
        if moved := params.keys() & set(found["written"]):
            raise NotImplementedError(
                f"the model overwrites its parameter '{min(moved)}' in forward: register a buffer"
            )
        # As torch leaves parameters without a gradient alone, whatever their weight decay.
        plan = plan.without(params.keys() - used)
        wide = [name for name in found["written"] if tensors[name].dtype in _WIDE]
        plan = dataclasses.replace(
            plan,
            written=tuple(name for name in found["written"] if name not in wide),
            narrowed=tuple(wide),
            has_key=found["draws"],
        )
        return _Traced(plan, found["outputs"])

    def _apply(self, plan: Plan, held: Mapping[str, Any], key: Any, inputs: Any) -> Any:
        args, kwargs = plan.inputs.filled(inputs)
        named = {full(name): one for name, one in held.items()}
        outputs, new, draws = apply(self._objective, named, key, args, kwargs)
        return outputs, {short(name): one for name, one in new.items()}, draws

    def _compute(
        self,
        plan: Plan,
        params: Any,
        state: Any,
        buffers: Any,
        constants: Any,
        numbers: Any,
        key: Any,
        inputs: Any,
    ) -> Any:
        """The step itself, as a function of JAX's arrays."""
        random = jax.random.wrap_key_data(key) if plan.has_key else jax.random.key(0)

        def loss_of(params: Any) -> Any:
            held = {**params, **buffers, **constants}
            (loss, outputs), new, _ = self._apply(plan, held, random, inputs)
            arrays = Outputs.of(outputs)[1] if plan.returns_outputs else []
            return loss.astype(jnp.float32), (new, arrays)

        if not plan.trained:
            loss, (new, outputs) = loss_of(params)
            norm = None
        else:
            compute = jax.value_and_grad(loss_of, has_aux=True)
            (loss, (new, outputs)), grads = compute(params)
            grads, norm = _clipped(plan, grads)
            params, state = self._updated(plan, params, grads, state, numbers)
        written = {name: new[name].astype(buffers[name].dtype) for name in plan.written}
        narrowed = {name: new[name] for name in plan.narrowed}
        return params, state, written, (loss, norm, outputs, narrowed)

    def _updated(
        self, plan: Plan, params: Any, grads: Any, state: Any, numbers: Any
    ) -> tuple[Any, Any]:
        assert self._optimization is not None
        new_params, new_state = {}, {}
        for group, given in zip(plan.groups, numbers, strict=True):
            values = _values(group, given)
            for name in group.names:
                grad = -grads[name] if values["maximize"] else grads[name]
                param, slots = self._optimization.rule.update(
                    params[name], grad, state[name], values
                )
                new_params[name] = param.astype(params[name].dtype)
                new_state[name] = {
                    slot: array.astype(state[name][slot].dtype) for slot, array in slots.items()
                }
        return new_params, new_state

    def _finish(self, traced: _Traced, tensors: Mapping[str, torch.Tensor], results: Any) -> Any:
        plan = traced.plan
        _, _, _, (loss, norm, outputs, narrowed) = results
        for name, array in narrowed.items():
            tensors[name].copy_(to_tensor(array))
        trained = [tensors[name] for name in plan.trained]
        if self._optimization is not None and plan.groups:
            self._optimization.finish(trained)
        # A graph of torch's that holds the old values then says so in its backward.
        torch.autograd.graph.increment_version(trained + [tensors[name] for name in plan.written])
        if plan.groups:
            self.grad_norm = None if norm is None else to_tensor(norm)
        loss = to_tensor(loss)
        if not plan.returns_outputs:
            return loss
        return loss, traced.outputs.filled([to_tensor(one) for one in outputs])

    @property
    def recipe(self) -> str:
        """The recipe under which the step is compiled."""
        return self._train.recipe

    def report(self) -> Report:
        """Returns the scale and format of each value in the last step, and why."""
        return self._last.report()

    def health(self) -> list[dict[str, Any]]:
        """Returns the counts of each cast in the last step; see `scalify.Jit.health`."""
        return self._last.health()

    @property
    def _last(self) -> Jit:
        return self._evaluate if self._optimization is None else self._train

    @property
    def jit(self) -> Jit:
        """The compiled function of arrays, for `executable`, `memory` and `scales`."""
        return self._last

    def state_dict(self) -> dict[str, Any]:
        """Returns what the recipe keeps beside the model and the optimizer: scales and amaxes.

        Save it with their state_dicts; `torch.load(weights_only=True)` reads it. Empty before the
        first step.
        """
        state = self._train.state()
        if state is None:
            return {}
        arrays = {name: torch.from_numpy(np.array(one)) for name, one in state.arrays.items()}
        return {"describe": json.dumps(state.describe()), "arrays": arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next step continue from a `state_dict`: it compiles with the same scales."""
        if not state:
            return self._train.restore(None)
        arrays = {name: one.numpy() for name, one in state["arrays"].items()}
        return self._train.restore(JitState.of(json.loads(state["describe"]), arrays))


def _noted(param: Any, name: str, used: set[str]) -> Any:
    """Returns a parameter; adds its name to `used` when JAX computes a gradient of it."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def identity(x: Any) -> Any:
        return x

    def forward(x: Any) -> Any:
        return x.value, None

    def backward(residual: Any, cotangent: Any) -> Any:
        del residual
        if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
            return (None,)
        used.add(name)
        return (cotangent,)

    identity.defvjp(forward, backward, symbolic_zeros=True)
    return identity(param)


def _values(group: Group, numbers: Sequence[Any]) -> dict[str, Any]:
    """Returns the settings of a group by name: constants and arguments of the step."""
    return {
        **dict(group.flags),
        **dict(group.constants),
        **dict(zip(group.numbers, numbers, strict=True)),
    }


def _clipped(plan: Plan, grads: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Returns clipped gradients, and their norm before; as torch.nn.utils clips them."""
    found, norm = dict(grads), None
    if plan.max_norm is not None:
        norm = global_norm(list(grads.values()))
        factor = jnp.minimum(plan.max_norm / (norm + 1e-6), 1.0)
        found = {name: (grad * factor).astype(grad.dtype) for name, grad in found.items()}
    if plan.max_value is not None:
        limit = plan.max_value
        found = {name: jnp.clip(grad, -limit, limit) for name, grad in found.items()}
    return found, norm


def compile(
    model: torch.nn.Module,
    loss: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    recipe: RecipeLike = "fp8",
    *,
    clip_grad_norm: float | None = None,
    clip_grad_value: float | None = None,
    return_outputs: bool = False,
    generator: torch.Generator | None = None,
    numerics: Numerics | None = None,
    **options: Any,
) -> Step:
    """Returns a training step of a module, compiled under a recipe.

        step = scalify.torch.compile(model, torch.nn.functional.cross_entropy, optimizer)
        for x, y in loader:
            loss = step(x, y)       # no backward(), no optimizer.step()

    The step computes in the memory of the module's parameters and buffers and of the optimizer's
    state: `model.state_dict()` and `optimizer.state_dict()` are current after each step, and what
    is written to them (`load_state_dict`, an initialisation) counts in the next one. Gradients are
    not kept: `param.grad` stays as it is.

    It compiles at the first call, and again for other shapes, module modes (`train()`, `eval()`),
    `requires_grad` flags and groups of parameters; not for another learning rate, weight decay or
    count of steps, and at most once for each other setting that changes (a scheduler's momentum).

    Args:
        model: on the CPU.
        loss: a function or module of the model's outputs and the step's last argument; None if the
            model returns the loss, alone or as `outputs.loss`.
        optimizer: `torch.optim.AdamW`, `Adam` or `SGD`, or a Lion, with the settings and the state
            of each group; None to evaluate only. Parameters that it does not have, or that do not
            require gradients, are constants.
        recipe: as for `scalify.jit`.
        clip_grad_norm: the limit of the norm of all gradients together, as
            `torch.nn.utils.clip_grad_norm_` has it.
        clip_grad_value: the limit of the magnitude of each gradient's elements.
        return_outputs: return the loss and the model's outputs; objects among these that are
            neither trees of torch's nor plain values, as caches, become None.
        generator: of the numbers that seed each step's dropout; None for torch's default, which
            `torch.manual_seed` seeds. The numbers differ from eager PyTorch's.
        numerics: as for `scalify.jit`; `pack_state` is False here: state has torch's types.
        **options: others of `scalify.jit`: strict, threads, mcpu, report, fallback.

    Raises:
        NotImplementedError: the optimizer's update is not known.
        TypeError: an option is unknown.
        ValueError: the optimizer has a parameter that is not the model's, or the target is no CPU.
    """
    target = options.pop("target", "cpu")
    if target != "cpu":
        raise ValueError(
            f"target '{target}': a step of scalify.torch runs on the CPU, in the module's memory"
        )
    known = {"strict", "threads", "mcpu", "report", "fallback"}
    if unknown := sorted(options.keys() - known):
        raise TypeError(f"scalify.torch.compile has no option '{unknown[0]}'")
    options["recipe"] = recipe
    options["numerics"] = dataclasses.replace(numerics or Numerics(), pack_state=False)
    clip = (clip_grad_norm, clip_grad_value)
    return Step(Objective(model, loss), optimizer, clip, return_outputs, generator, options)
