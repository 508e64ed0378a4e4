"""Traces a JAX function to StableHLO text, with the names and trees of its arguments."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

__all__ = ["Arguments", "Lowered", "Signature", "abstract", "to_logical", "to_physical"]


def _as_tuple(value: Any, kind: type) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, kind) else tuple(value)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """One call's arguments, the static ones apart.

    Attributes:
        leaves: the arrays, in main's order.
        tree: the structure of (positional, keyword) dynamic arguments.
        statics: position or name and value of each static argument.
    """

    leaves: list[Any]
    tree: Any
    statics: tuple[tuple[int | str, Any], ...]
    count: int

    def key(self) -> Hashable:
        """Returns what a compilation depends on: structure, static values, types of arrays."""
        return (self.tree, self.statics, tuple(abstract(leaf) for leaf in self.leaves))


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A function's StableHLO text and how its arrays map to trees.

    Attributes:
        text: the module; main takes all leaves and returns all leaves, in order.
        in_avals: shape and dtype of each argument of main, as JAX sees them.
        donated: per argument, whether the caller gives it away.
        out_avals: shape and dtype of each result.
        out_tree: the structure of the results.
    """

    text: str
    in_avals: tuple[Any, ...]
    donated: tuple[bool, ...]
    out_avals: tuple[Any, ...]
    out_tree: Any


class Signature:
    """A function with its static and donated arguments, as `jax.jit` takes them."""

    def __init__(
        self,
        fn: Callable[..., Any],
        static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Iterable[str] | None = None,
        donate_argnums: int | Sequence[int] | None = None,
        donate_argnames: str | Iterable[str] | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"expected a function of arrays, not {type(fn).__name__}")
        self.fn = fn
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self._jitted = jax.jit(
            fn,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=True,
        )
        self._static_nums, self._static_names = _infer_statics(
            fn, _as_tuple(static_argnums, int), _as_tuple(static_argnames, str)
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Splits a call's arguments into arrays and static values."""
        nums = {num % len(args) if num < 0 else num for num in self._static_nums if args}
        dynamic = tuple(arg for num, arg in enumerate(args) if num not in nums)
        named = {name: arg for name, arg in kwargs.items() if name not in self._static_names}
        statics: list[tuple[int | str, Any]] = [
            (num, arg) for num, arg in enumerate(args) if num in nums
        ]
        statics += sorted((name, arg) for name, arg in kwargs.items() if name not in named)
        leaves, tree = jax.tree.flatten((dynamic, named))
        return Arguments(leaves, tree, tuple(statics), len(args))

    def lower(self, arguments: Arguments) -> Lowered:
        """Traces the function for one call's types.

        Raises:
            Whatever tracing raises.
        """
        structs = [_struct(leaf) for leaf in arguments.leaves]
        dynamic, named = jax.tree.unflatten(arguments.tree, structs)
        statics = dict(arguments.statics)
        rest = iter(dynamic)
        args = [statics[num] if num in statics else next(rest) for num in range(arguments.count)]
        names = {name: arg for name, arg in statics.items() if isinstance(name, str)}
        with warnings.catch_warnings():
            # What is donated and not used is the caller's matter at run time, not here.
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            lowered = self._jitted.lower(*args, **named, **names)
        infos = jax.tree.leaves(lowered.args_info, is_leaf=lambda info: hasattr(info, "donated"))
        return Lowered(
            text=lowered.as_text(debug_info=True),
            in_avals=tuple(structs),
            donated=tuple(info.donated for info in infos),
            out_avals=tuple(jax.tree.leaves(lowered.out_info)),
            out_tree=lowered.out_tree,
        )


def _infer_statics(
    fn: Callable[..., Any], nums: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes positions by names or the reverse, where only one of them is given."""
    if not nums and not names:
        return (), ()
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return nums, names
    by_position = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if nums and not names:
        names = tuple(
            by_position[num] for num in nums if -len(by_position) <= num < len(by_position)
        )
    elif names and not nums:
        nums = tuple(by_position.index(name) for name in names if name in by_position)
    return nums, names


def abstract(leaf: Any) -> tuple[tuple[int, ...], Any, bool]:
    """Returns shape, dtype and weakness of an array or Python number, as JAX sees them."""
    if isinstance(leaf, np.ndarray):
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), False
    if isinstance(leaf, (bool, int, float, complex)):
        aval: Any = jax.api_util.shaped_abstractify(leaf)
        return aval.shape, aval.dtype, aval.weak_type
    try:
        dtype = leaf.dtype
        if not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
            dtype = jax.dtypes.canonicalize_dtype(dtype)
        return tuple(leaf.shape), dtype, bool(getattr(leaf, "weak_type", False))
    except AttributeError:
        raise TypeError(
            f"a value of type {type(leaf).__name__} is no array: mark the argument as static"
        ) from None


def _struct(leaf: Any) -> jax.ShapeDtypeStruct:
    shape, dtype, weak = abstract(leaf)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)


def _is_key(dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def to_physical(leaf: Any) -> Any:
    """Returns what main takes for a leaf: a random key's data, else the leaf."""
    dtype = getattr(leaf, "dtype", None)
    return jax.random.key_data(leaf) if dtype is not None and _is_key(dtype) else leaf


def to_logical(array: Any, aval: Any) -> Any:
    """Returns what the caller gets for a result of main: a random key where one was meant."""
    if not _is_key(aval.dtype):
        return array
    return jax.random.wrap_key_data(np.asarray(array), impl=str(jax.random.key_impl(aval)))
