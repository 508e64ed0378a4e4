"""The JAX primitive that calls a compiled module: its lowering, batching and refusal of grad."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jax_core
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import ad, batching
from jax.interpreters import mlir as jax_mlir
from jax.sharding import NamedSharding, PartitionSpec

from scalify._callback_ops import take_over
from scalify._dtypes import to_numpy
from scalify._jax_api import as_varying, vary_like, varying_axes

__all__ = ["FORMS", "Module", "added_arguments", "call", "out_avals"]

# The form of dots on FP8 data for each JAX platform; "wide" for any other.
FORMS = {"cuda": "xla-gpu", "rocm": "xla-gpu", "tpu": "plain"}

_MakeText = Callable[[str], str]
_MakeBatched = Callable[[int, tuple[int | None, ...]], "Module"]


class Module:
    """A StableHLO module that JAX calls; equal only to itself, so that JAX may cache by it.

    Attributes:
        name: the function's name in the user's program.
        out_avals: shape, dtype and weak type of each result of main.
        mesh: the mesh that the module itself names, if it has several devices.
        callbacks: Python functions that the module calls back, by their index in it.
        effects: the JAX effects of these callbacks.
    """

    def __init__(
        self,
        name: str,
        out_avals: Sequence[Any],
        text: _MakeText,
        batched: _MakeBatched | None,
        mesh: jax.sharding.Mesh | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
        effects: frozenset[Any] = frozenset(),
    ) -> None:
        self.callbacks = tuple(callbacks)
        self.effects = effects
        self.name = name
        self.mesh = mesh
        self.out_avals = tuple(map(_as_shaped, out_avals))
        self._make_text = text
        self._make_batched = batched
        self._texts: dict[str, str] = {}
        self._batched: dict[tuple[int, tuple[int | None, ...]], Module] = {}

    def text(self, form: str = "wide") -> str:
        """Returns the module's text with its FP8 dots in the given form (see `FORMS`)."""
        if form not in self._texts:
            self._texts[form] = self._make_text(form)
        return self._texts[form]

    def batched(self, size: int, dims: tuple[int | None, ...]) -> Module:
        """Returns the module of the function under `jax.vmap`; all results batch at 0.

        Args:
            size: the batch size.
            dims: each argument's batch dimension, or None.
        """
        if self._make_batched is None:
            raise NotImplementedError(f"'{self.name}' does not run under jax.vmap")
        key = (size, dims)
        if key not in self._batched:
            self._batched[key] = self._make_batched(size, dims)
        return self._batched[key]


def _as_shaped(aval: Any) -> Any:
    weak = bool(getattr(aval, "weak_type", False))
    return jax.core.ShapedArray(aval.shape, aval.dtype, weak_type=weak)


def out_avals(text: str) -> tuple[Any, ...]:
    """Returns shape and dtype of each result of a module's main."""
    with jax_mlir.make_ir_context() as context:
        # The module owns its operations: it must outlive `main`.
        module = ir.Module.parse(text, context)
        types = _find_main(module).type.results
        return tuple(_aval(type_) for type_ in types)


def added_arguments(text: str, count: int) -> list[Any]:
    """Returns shape and dtype of the arguments of a module's main after the first `count`."""
    with jax_mlir.make_ir_context() as context:
        module = ir.Module.parse(text, context)
        types = _find_main(module).type.inputs
        return [_aval(types[i]) for i in range(count, len(types))]


def _find_main(module: Any) -> Any:
    for operation in module.body.operations:
        if isinstance(operation, func.FuncOp) and operation.name.value == "main":
            return operation
    raise ValueError("the module has no function '@main'")


def _aval(type_: Any) -> Any:
    tensor = ir.RankedTensorType(type_)
    return jax.core.ShapedArray(tuple(tensor.shape), to_numpy(str(tensor.element_type)))


_call_p = jax_core.Primitive("scalify_call")
_call_p.multiple_results = True


def call(module: Module, *args: Any) -> Sequence[Any]:
    """Calls a module on flat arrays of the types its main takes."""
    return _call_p.bind(*_unify_varying_axes(_on_mesh(args, module.mesh)), module=module)


def _on_mesh(args: Sequence[Any], mesh: jax.sharding.Mesh | None) -> Sequence[Any]:
    """Tells JAX the devices, which it cannot read from the module; constrains no layout."""
    if mesh is None:
        return args
    free = PartitionSpec.UNCONSTRAINED
    return [
        jax.lax.with_sharding_constraint(
            arg, NamedSharding(mesh, PartitionSpec(*[free] * jax.numpy.ndim(arg)))
        )
        for arg in args
    ]


def _unify_varying_axes(args: Sequence[Any]) -> list[Any]:
    """Under `jax.shard_map`, marks all arguments as varying where one of them is."""
    axes = [varying_axes(jax.typeof(arg)) for arg in args]
    union = frozenset().union(*axes)
    return [
        as_varying(arg, sorted(union - own)) if union != own else arg
        for arg, own in zip(args, axes, strict=True)
    ]


def _abstract_eval(*args: Any, module: Module) -> tuple[tuple[Any, ...], frozenset[Any]]:
    if not args or not varying_axes(args[0]):
        return module.out_avals, module.effects
    return vary_like(module.out_avals, args[0]), module.effects


def _run_eagerly(*args: Any, module: Module) -> Any:
    return jax.jit(functools.partial(call, module))(*args)


def _lower(ctx: Any, *args: Any, module: Module, form: str) -> Any:
    """Moves the module's functions into the caller's module and calls its main."""
    target = ctx.module_context
    source = ir.Module.parse(module.text(form), target.context)
    main = _find_main(source)
    # Only the outermost function declares donation.
    for key in ("arg_attrs", "res_attrs"):
        if key in main.attributes:
            del main.attributes[key]
    results = main.type.results
    if module.callbacks:
        take_over(source, module.callbacks, target, target.platforms[0])
        # Ordered callbacks in the module are ordered by the tokens that they pass on.
        ctx.set_tokens_out(ctx.tokens_in)
    name = jax_mlir.merge_mlir_modules(
        target.module, f"scalify_{module.name}", source, dst_symtab=target.symbol_table
    )
    return func.CallOp(results, ir.FlatSymbolRefAttr.get(name), args).results


def _batch(args: Sequence[Any], dims: Sequence[Any], *, module: Module) -> tuple[Any, list[int]]:
    (size,) = {arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None}
    results = call(module.batched(size, tuple(dims)), *args)
    return results, [0] * len(results)


def _refuse_derivative(*_: Any, module: Module) -> Any:
    raise TypeError(
        f"'{module.name}' has no derivative once it is transformed: apply jax.grad before "
        f"scalify.transform, not after, as in scalify.transform(jax.grad({module.name})), or "
        "transform the whole training step"
    )


_call_p.def_effectful_abstract_eval(_abstract_eval)
_call_p.def_impl(_run_eagerly)
batching.primitive_batchers[_call_p] = _batch
ad.primitive_jvps[_call_p] = _refuse_derivative
jax_mlir.register_lowering(_call_p, functools.partial(_lower, form="wide"))
for _platform, _form in FORMS.items():
    jax_mlir.register_lowering(_call_p, functools.partial(_lower, form=_form), platform=_platform)
