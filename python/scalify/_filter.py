"""Steps of trees with leaves that are not arrays, such as Equinox's modules: `scalify.filter_jit`.

Arrays are traced; every other leaf (an activation, a flag) is a static value. Nothing here depends
on Equinox: any pytree works.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal

import jax
import numpy as np

from scalify._adapter import Adapter, Backend, compile_with_backend, split_keywords
from scalify._runtime import Array
from scalify._saved import Saved
from scalify._scaled_array import ScaledArray
from scalify.mesh import Shard
from scalify.recipe import RecipeLike

__all__ = ["Donate", "FilterJit", "filter_jit", "filter_transform"]

Donate = Literal["none", "all", "all-except-first"]

# jax.ShapeDtypeStruct stands for an array of which only the type is needed.
_ARRAYS = (
    jax.Array,
    np.ndarray,
    np.generic,
    Array,
    ScaledArray,
    Saved,
    Shard,
    jax.ShapeDtypeStruct,
)


@dataclasses.dataclass(frozen=True)
class _Statics:
    """The leaves of a tree that are not arrays, by position, and the tree.

    Comparisons include the types of leaves: 1, 1.0 and True are equal, but distinct static values.
    """

    tree: Any
    leaves: tuple[Hashable, ...]
    types: tuple[type, ...]


# Placeholder for an array.
_ARRAY_PLACEHOLDER = object()


def _partition(tree: Any) -> tuple[list[Any], _Statics]:
    """Returns the arrays of a tree, in order, and the rest."""
    leaves, structure = jax.tree.flatten(tree)
    are_arrays = [isinstance(leaf, _ARRAYS) for leaf in leaves]
    arrays = [leaf for leaf, is_array in zip(leaves, are_arrays, strict=True) if is_array]
    statics = tuple(
        _ARRAY_PLACEHOLDER if is_array else leaf
        for leaf, is_array in zip(leaves, are_arrays, strict=True)
    )
    return arrays, _Statics(structure, statics, tuple(map(type, statics)))


def _combine(arrays: list[Any], statics: _Statics) -> Any:
    rest = iter(arrays)
    leaves = [next(rest) if leaf is _ARRAY_PLACEHOLDER else leaf for leaf in statics.leaves]
    return jax.tree.unflatten(statics.tree, leaves)


class _Results:
    """Results of a traced step: arrays as leaves, the rest in the structure."""

    def __init__(self, arrays: list[Any], statics: _Statics) -> None:
        self.arrays, self.statics = arrays, statics


jax.tree_util.register_pytree_node(
    _Results,
    lambda results: (tuple(results.arrays), results.statics),
    lambda statics, arrays: _Results(list(arrays), statics),
)


def _hashable(tree: Any, name: str) -> _Statics:
    """Returns the static part of a tree of arguments.

    Raises:
        TypeError: a static leaf has no hash, which the lookup of a compilation needs.
    """
    _, statics = _partition(tree)
    try:
        hash(statics)
    except TypeError:
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if isinstance(leaf, _ARRAYS) or getattr(leaf, "__hash__", None) is not None:
                continue
            raise TypeError(
                f"'{name}': the leaf at {jax.tree_util.keystr(path)} is a "
                f"{type(leaf).__name__}, which is no array and has no hash: make it an array or "
                "a static field"
            ) from None
        raise
    return statics


class FilterJit(Adapter):
    """A step whose trees may have leaves that are not arrays; see `filter_jit`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        recipe: RecipeLike,
        donate: Donate,
        backend: Backend,
        options: dict[str, Any],
    ) -> None:
        self._backend = backend
        self._name = getattr(fn, "__name__", type(fn).__name__)
        options = {**_donated(fn, donate, self._name), **options}

        def traced(statics: _Statics, *args: Any, **kwargs: Any) -> _Results:
            arrays = jax.tree.leaves((args, kwargs))
            args, kwargs = _combine(arrays, statics)
            return _Results(*_partition(fn(*args, **kwargs)))

        _copy_names(traced, fn, self._name)
        step = compile_with_backend(backend, traced, recipe=recipe, static_argnums=0, **options)
        super().__init__(fn, step)

    def _to_step_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        tree = (args, kwargs)
        statics = _hashable(tree, self._name)
        args, kwargs = jax.tree.map(lambda leaf: leaf if isinstance(leaf, _ARRAYS) else None, tree)
        return (statics, *args), kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step; arguments and results are as those of the function itself."""
        kwargs, own = split_keywords(kwargs, self._backend)
        args, kwargs = self._to_step_arguments(args, kwargs)
        results, state = self._run(args, kwargs | own)
        tree = _combine(results.arrays, results.statics)
        return (tree, *state) if state else tree

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers the step for arguments of these types; see `Jit.lower`."""
        return _Lowered(self, super().lower(*args, **kwargs))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the results' arrays, in their tree."""
        results = self._forward("eval_shape", args, kwargs)
        return _combine(results.arrays, results.statics)


class _Lowered:
    """A lowered step of trees with leaves that are not arrays; the rest is `LoweredStep`'s."""

    def __init__(self, step: FilterJit, lowered: Any) -> None:
        self._step, self._lowered = step, lowered

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> _Compiled:
        """Compiles the step; see `LoweredStep.compile`."""
        return _Compiled(self._step, self._lowered.compile(compiler_options))

    def __getattr__(self, name: str) -> Any:
        if name in ("_step", "_lowered"):
            raise AttributeError(name)
        return getattr(self._lowered, name)


class _Compiled:
    """A compiled step of such trees; the rest is `CompiledStep`'s."""

    def __init__(self, step: FilterJit, compiled: Any) -> None:
        self._step, self._compiled = step, compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step; arguments and results are as those of the function itself."""
        (_, *pure), kwargs = self._step._to_step_arguments(args, kwargs)
        results = self._compiled(*pure, **kwargs)
        return _combine(results.arrays, results.statics)

    def __getattr__(self, name: str) -> Any:
        if name in ("_step", "_compiled"):
            raise AttributeError(name)
        return getattr(self._compiled, name)


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None


def _copy_names(traced: Any, fn: Callable[..., Any], name: str) -> None:
    """Gives the traced function the name and the argument names of `fn`, for reports."""
    parameters = _parameters(fn)
    functools.update_wrapper(traced, fn, updated=())
    traced.__name__ = name
    del traced.__wrapped__
    if parameters is not None:
        first = inspect.Parameter("_statics", inspect.Parameter.POSITIONAL_ONLY)
        traced.__signature__ = inspect.Signature(
            [first, *(one.replace(default=inspect.Parameter.empty) for one in parameters)]
        )


def _donated(fn: Callable[..., Any], donate: Donate, name: str) -> dict[str, Any]:
    """Returns the donated arguments of the traced function, whose first one is `_statics`."""
    if donate == "none":
        return {}
    if donate not in ("all", "all-except-first"):
        raise ValueError(f"unknown donate '{donate}': expected none, all or all-except-first")
    parameters = _parameters(fn)
    kinds = inspect.Parameter
    if parameters is None or any(one.kind == kinds.VAR_POSITIONAL for one in parameters):
        raise ValueError(
            f"donate='{donate}' of '{name}', whose signature does not say how many arguments it "
            "takes: name them as parameters"
        )
    by_place = [
        one
        for one in parameters
        if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    first = 1 if donate == "all-except-first" else 0
    return {
        "donate_argnums": tuple(range(1 + first, 1 + len(by_place))),
        "donate_argnames": tuple(
            one.name
            for one in (*by_place[first:], *parameters)
            if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
            and one not in by_place[:first]
        ),
    }


def filter_jit(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    *,
    donate: Donate = "none",
    backend: Backend = "scalify",
    **options: Any,
) -> Any:
    """Returns `fn` compiled under a recipe; its trees may have leaves that are not arrays.

    As `equinox.filter_jit` does, it traces arrays of JAX and numpy; all other leaves of arguments
    and results are static values, which must have a hash. A new static value compiles anew.

        @scalify.filter_jit(recipe="fp8", donate="all-except-first")
        def step(batch, model, opt_state): ...

    Args:
        fn: a function of pytrees; None to decorate with options.
        recipe: as for `scalify.jit`.
        donate: the arguments whose arrays are donated: "none", "all", or "all-except-first".
        backend: "scalify" for its own runtime, as `scalify.jit`; "transform" lets JAX run it, as
            `scalify.transform`, which composes with `equinox.filter_jit` around it.
        **options: others of `scalify.jit` or `scalify.transform`, except static arguments.

    Raises:
        TypeError: at a call, a leaf is not an array and has no hash.
    """
    if fn is None:
        return functools.partial(
            filter_jit, recipe=recipe, donate=donate, backend=backend, **options
        )
    return FilterJit(fn, recipe, donate, backend, options)


def filter_transform(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    *,
    donate: Donate = "none",
    **options: Any,
) -> Any:
    """Returns `fn` rewritten as by `scalify.transform`: `filter_jit` with that backend."""
    return filter_jit(fn, recipe, donate=donate, backend="transform", **options)
