"""The step that is checked: its program, its arguments, and which results are its next state."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from scalify._lowering import Arguments, Signature
from scalify._scaled_array import ScaledArray
from scalify.check.flow import (
    first_iteration,
    gradients,
    inline,
    reached_inputs,
    takes_gradients,
)
from scalify.check.names import grouped, names_of

__all__ = ["Program", "copied", "is_float", "wide"]


@dataclasses.dataclass(frozen=True)
class Program:
    """One traced step without static arguments, and the arguments of its first call.

    Attributes:
        name: of the function.
        jaxpr: its program, a closed jaxpr with calls inlined; takes and returns leaves.
        first: the program whose gradients are looked for: of a step that loops over steps, one
            that runs the first of them; else the same.
        args: positional arguments, trees of arrays.
        kwargs: arguments given by name.
        donated: per leaf of the arguments, whether it is donated.
        names: per leaf of the arguments, as `params['w']`.
        out_tree: the structure of the results.
        next_of: per result's leaf, the index of the argument's leaf whose next value it is, or
            None.
        options: of the compilation: the arguments that are donated.
    """

    name: str
    jaxpr: Any
    first: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    donated: tuple[bool, ...]
    names: tuple[str, ...]
    out_tree: Any
    next_of: tuple[int | None, ...]
    options: dict[str, Any]

    @staticmethod
    def of(signature: Signature, arguments: Arguments) -> Program:
        """Returns the program of a function for one call's arguments.

        Raises:
            ValueError: an argument lies on several devices.
            Any exception of tracing.
        """
        for name, leaf in zip(signature._names(arguments), arguments.leaves, strict=True):
            if isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1:
                raise ValueError(
                    f"argument {name} of '{signature.name}' lies on several devices: check the "
                    "step on one, with whole arrays"
                )
        traced = signature.trace(arguments)
        args, kwargs = jax.tree.unflatten(arguments.tree, arguments.leaves)
        infos = jax.tree.leaves(traced.args_info, is_leaf=lambda info: hasattr(info, "donated"))
        donated = tuple(bool(info.donated) for info in infos)
        out_tree = jax.tree.structure(traced.out_info)
        jaxpr = inline(traced.jaxpr)
        names = names_of(signature, arguments)
        state = _next_values(jaxpr, (args, kwargs), out_tree)
        parameters = _parameters(signature, arguments)
        if list(names) != signature._names(arguments):
            # A recipe's exceptions go by the names that the compiler sees.
            args, heads = grouped(names, arguments.leaves, donated)
            kwargs, parameters = {}, _positional(heads)
        counts = [len(jax.tree.leaves(argument)) for argument in args]
        starts = np.cumsum([0, *counts])
        positions = tuple(
            index
            for index, count in enumerate(counts)
            if count and all(donated[starts[index] : starts[index] + count])
        )
        options = {"donate_argnums": positions, "parameters": parameters}
        first = jaxpr
        if not gradients(jaxpr.jaxpr, state) and takes_gradients(jaxpr.jaxpr):
            once = first_iteration(jaxpr)
            if gradients(once.jaxpr, state):
                first = once
        return Program(
            signature.name, jaxpr, first, args, kwargs, donated, names, out_tree, state, options
        )

    def leaves(self) -> list[Any]:
        """Returns the arguments' leaves."""
        return jax.tree.leaves((self.args, self.kwargs))

    def function(self, taps: Sequence[Any] = ()) -> Callable[..., Any]:
        """Returns the step as a function of its arguments.

        Args:
            taps: variables of `first` whose values it also returns: the results are then
                (the step's own, list of values).
        """
        program = self.first if taps else self.jaxpr
        inner = program.jaxpr
        closed = inner.replace(outvars=[*inner.outvars, *taps])
        count = len(inner.outvars)

        def step(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree.leaves((args, kwargs))
            results = jax.core.eval_jaxpr(closed, program.consts, *leaves)
            own = jax.tree.unflatten(self.out_tree, results[:count])
            return (own, results[count:]) if taps else own

        step.__name__ = step.__qualname__ = self.name
        step.__signature__ = inspect.Signature(self.options["parameters"])  # type: ignore[attr-defined]
        return step

    def donate(self) -> dict[str, Any]:
        """Returns the options of `jax.jit` and `scalify.jit` for donated arguments."""
        return {"donate_argnums": self.options["donate_argnums"]}

    def following(self, arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Returns the leaves of the next call's arguments: new state, other arguments as before."""
        leaves = list(arguments)
        for result, place in zip(results, self.next_of, strict=True):
            if place is not None:
                leaves[place] = result
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns (args, kwargs) of leaves."""
        return jax.tree.unflatten(jax.tree.structure((self.args, self.kwargs)), leaves)

    @functools.cached_property
    def result_names(self) -> list[str]:
        """The path of each result's leaf: that of the state it is the next value of, else its own.

        A result is called `result[1]['loss']`.
        """
        paths = jax.tree_util.tree_leaves_with_path(
            jax.tree.unflatten(self.out_tree, range(self.out_tree.num_leaves))
        )
        return [
            f"result{jax.tree_util.keystr(path)}" if place is None else self.names[place]
            for (path, _), place in zip(paths, self.next_of, strict=True)
        ]


def _parameters(signature: Signature, arguments: Arguments) -> list[inspect.Parameter]:
    """Returns the function's parameters without the static ones, for the names of arguments."""
    statics = {place for place, _ in arguments.statics}
    kinds = inspect.Parameter
    names: list[str] = []
    try:
        known = list(inspect.signature(signature.fn).parameters.values())
    except (TypeError, ValueError):
        known = []
    by_position = [
        one.name
        for one in known
        if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    for place in range(arguments.count):
        if place not in statics:
            names.append(by_position[place] if place < len(by_position) else f"arg{place}")
    return _positional(names)


def _positional(names: Sequence[str]) -> list[inspect.Parameter]:
    """Returns positional parameters of these names, and one for all arguments given by name."""
    unique = [name if names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(names)]
    positional = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in unique]
    return [*positional, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]


def _subtrees(tree: Any) -> Iterator[tuple[int, Any]]:
    """Yields each subtree with the index of its first leaf, from the outside in."""
    stack = [(0, tree)]
    while stack:
        start, node = stack.pop(0)
        yield start, node
        if jax.tree.structure(node) == jax.tree.structure(0):
            continue
        children = jax.tree.leaves(node, is_leaf=lambda child, node=node: child is not node)
        for child in children:
            stack.append((start, child))
            start += len(jax.tree.leaves(child))


class _Leaf:
    """A leaf of a tree, by its index."""

    def __init__(self, index: int) -> None:
        self.index = index


def _next_values(jaxpr: Any, arguments: Any, out_tree: Any) -> tuple[int | None, ...]:
    """Returns for each result the argument's leaf that it replaces in the next call, or None.

    A subtree of the results is the next value of the first subtree of the arguments that has its
    structure and types, if one of its leaves is computed from that argument's by operations that
    keep its size.
    """
    inner = jaxpr.jaxpr

    def numbered(tree: Any) -> Any:
        count = jax.tree.structure(tree).num_leaves
        return jax.tree.unflatten(jax.tree.structure(tree), map(_Leaf, range(count)))

    given = numbered(arguments)
    out = jax.tree.unflatten(out_tree, map(_Leaf, range(out_tree.num_leaves)))
    sources = [
        (jax.tree.structure(node), [leaf.index for leaf in jax.tree.leaves(node)])
        for _, node in _subtrees(given)
        if jax.tree.leaves(node)
    ]
    found: list[int | None] = [None] * out_tree.num_leaves
    taken: set[int] = set()
    for _, node in _subtrees(out):
        places = [leaf.index for leaf in jax.tree.leaves(node)]
        if not places or any(found[place] is not None for place in places):
            continue
        structure = jax.tree.structure(node)
        for known, leaves in sources:
            if known != structure or taken.intersection(leaves):
                continue
            pairs = list(zip(places, leaves, strict=True))
            if not all(_alike(inner.outvars[i].aval, inner.invars[j].aval) for i, j in pairs):
                continue
            if any(j in reached_inputs(inner, i) for i, j in pairs):
                for i, j in pairs:
                    found[i] = j
                taken.update(leaves)
                break
    return tuple(found)


def _alike(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and one.dtype == other.dtype)


def is_float(leaf: Any) -> bool:
    """Whether a leaf is an array of real floating-point numbers."""
    return bool(jax.dtypes.issubdtype(leaf.dtype, np.floating))


def wide(leaf: Any) -> np.ndarray:
    """Returns a leaf's true values in F64."""
    return np.asarray(np.asarray(leaf), np.float64)


def copied(leaf: Any) -> Any:
    """Returns a copy of a leaf that may be donated; state that is stored narrow stays so."""
    if isinstance(leaf, ScaledArray):
        return leaf
    return leaf.copy() if hasattr(leaf, "copy") else leaf
