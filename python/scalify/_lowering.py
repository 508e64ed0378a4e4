"""Traces a JAX function to StableHLO text, with the names and trees of its arguments."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.sharding import PartitionSpec

from scalify import _runtime
from scalify._callback_ops import callbacks_of
from scalify._dtypes import misfit_of
from scalify._jax_api import UNBOUND_AXIS_ERRORS, trace_context, use_abstract_mesh
from scalify._modules import WatchedModules, advice_for, is_ref, ref_advice
from scalify._nested import inlined, refuse_closed, tracing
from scalify._whole import Whole

__all__ = [
    "Arguments",
    "BadLeafError",
    "Batch",
    "Lowered",
    "Signature",
    "UnhashableStaticError",
    "abstract",
    "describe_changed_type",
    "key_impl",
    "merge",
    "name_of",
    "scales_key",
    "to_logical",
    "to_physical",
    "type_of",
    "types_of",
]

# Locations must name the user's lines, not those of this package.
source_info_util.register_exclusion(os.path.dirname(__file__))


def _as_tuple(value: Any, kind: type) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, kind) else tuple(value)


# The kinds of parameters that take positional arguments.
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class BadLeafError(TypeError):
    """A leaf of the arguments is not an array of JAX.

    Attributes:
        leaf: the leaf.
        shown: the class of the error that callers see, as with `jax.jit`.
    """

    def __init__(self, leaf: Any, text: str, shown: type[Exception] = TypeError) -> None:
        super().__init__(text)
        self.leaf, self.shown = leaf, shown


class UnhashableStaticError(TypeError, ValueError):
    """A static argument has no hash. `jax.jit` raises a ValueError, Python a TypeError."""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """One call's arguments, split into arrays and static values.

    Attributes:
        leaves: the arrays, in main's order.
        tree: the structure of (positional, keyword) dynamic arguments.
        statics: position or name and value of each static argument.
        count: the number of positional arguments, including static ones.
        known_paths: the path of each leaf in `tree`, if leaves are types.
    """

    leaves: list[Any]
    tree: Any
    statics: tuple[tuple[int | str, Any], ...]
    count: int
    known_paths: tuple[Any, ...] | None = None

    def paths(self) -> tuple[Any, ...]:
        """Returns the path of each leaf in (positional, keyword) dynamic arguments."""
        if self.known_paths is not None:
            return self.known_paths
        tree = jax.tree.unflatten(self.tree, self.leaves)
        return tuple(path for path, _ in jax.tree_util.tree_leaves_with_path(tree))

    def typed(self, types: Iterable[Any]) -> Arguments:
        """Returns arguments of these types in place of arrays, which the caller can then free."""
        return dataclasses.replace(self, leaves=list(types), known_paths=self.paths())

    def key(self) -> tuple[Any, ...]:
        """Returns what a compilation depends on: structure, static values, types of both kinds.

        Includes the part of JAX's configuration that `jax.jit` keys on, such as `jax.enable_x64` or
        `jax.default_matmul_precision`.
        """
        types = tuple(abstract(leaf) for leaf in self.leaves)
        return (self.tree, self.statics, types, self.static_types(), trace_context())

    def static_types(self) -> tuple[type, ...]:
        """Returns the types of the static values, since 1, 1.0 and True compare equal."""
        return tuple(type(value) for _, value in self.statics)


@dataclasses.dataclass(frozen=True)
class Batch:
    """One `jax.vmap` around a function of flat arrays; its results batch at dimension 0.

    Attributes:
        size: the batch size.
        dims: each argument's batch dimension, or None.
    """

    size: int
    dims: tuple[int | None, ...]

    def of(self, struct: Any, dim: int | None) -> Any:
        """Returns the type of a batch of arrays of the type `struct`."""
        if dim is None:
            return struct
        shape = list(struct.shape)
        shape.insert(dim, self.size)
        return jax.ShapeDtypeStruct(tuple(shape), struct.dtype, weak_type=struct.weak_type)


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A function's StableHLO text, and the mapping of its arrays to trees.

    Attributes:
        name: of the function.
        text: the module; main takes all leaves and returns all leaves, in order.
        in_names: the name of each argument of main.
        in_avals: shape and dtype of each argument.
        donated: per argument, whether it is donated.
        out_avals: shape and dtype of each result of main.
        in_keys: per argument, the generator if it is random keys, else None.
        out_keys: the same per result.
        out_weak: per result, whether its type is weak, like a Python number's.
        out_tree: the structure of the results.
        mesh: the mesh that the function itself names, by `jax.shard_map` or a constraint.
        callbacks: Python functions that the text calls back, by their index in it.
        effects: the JAX effects of these callbacks.
    """

    name: str
    text: str
    in_names: tuple[str, ...]
    in_avals: tuple[Any, ...]
    donated: tuple[bool, ...]
    out_avals: tuple[Any, ...]
    in_keys: tuple[str | None, ...]
    out_keys: tuple[str | None, ...]
    out_weak: tuple[bool, ...]
    out_tree: Any
    mesh: jax.sharding.Mesh | None
    callbacks: tuple[Callable[..., Any], ...] = ()
    effects: frozenset[Any] = frozenset()


class Signature:
    """A function with its static and donated arguments, as `jax.jit` takes them."""

    def __init__(
        self,
        fn: Callable[..., Any],
        static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Iterable[str] | None = None,
        donate_argnums: int | Sequence[int] | None = None,
        donate_argnames: str | Iterable[str] | None = None,
        shardings: Mapping[str, Any] | None = None,
        mesh: jax.sharding.AbstractMesh | None = None,
        recipe: str = "none",
    ) -> None:
        if not callable(fn):
            raise TypeError(f"expected a function of arrays, not {type(fn).__name__}")
        self.fn = fn
        self.name = name_of(fn)
        self._options: dict[str, Any] = {
            "static_argnums": static_argnums,
            "static_argnames": static_argnames,
            "donate_argnums": donate_argnums,
            "donate_argnames": donate_argnames,
            **_named(shardings or {}, mesh),
        }
        self._mesh = mesh
        self._recipe = recipe
        self._static_nums, self._static_names = _infer_statics(
            fn, _as_tuple(static_argnums, int), _as_tuple(static_argnames, str)
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Splits a call's arguments into arrays and static values."""
        if not self._static_nums and not self._static_names:
            leaves, tree = jax.tree.flatten((args, kwargs))
            return Arguments(leaves, tree, (), len(args))
        nums = {num % len(args) if num < 0 else num for num in self._static_nums if args}
        dynamic = tuple(arg for num, arg in enumerate(args) if num not in nums)
        named = {name: arg for name, arg in kwargs.items() if name not in self._static_names}
        statics: list[tuple[int | str, Any]] = [
            (num, arg) for num, arg in enumerate(args) if num in nums
        ]
        statics += sorted((name, arg) for name, arg in kwargs.items() if name not in named)
        leaves, tree = jax.tree.flatten((dynamic, named))
        return Arguments(leaves, tree, tuple(statics), len(args))

    def key(self, arguments: Arguments) -> tuple[Any, ...]:
        """Returns a hashable key of what a compilation depends on.

        Raises:
            TypeError: a leaf is not an array, or a static value has no hash; names it.
            OverflowError: a Python number does not fit its type; names it.
        """
        try:
            found = arguments.key()
        except BadLeafError as error:
            named = zip(self._names(arguments), arguments.leaves, strict=True)
            path = next((name for name, leaf in named if leaf is error.leaf), "?")
            raise error.shown(f"argument {path} of '{self.name}': {error}") from None
        for place, value in arguments.statics:
            try:
                hash(value)
            except TypeError:
                raise UnhashableStaticError(
                    f"the static argument {self._name_of(place)} of '{self.name}' is of type "
                    f"{type(value).__name__}, which is not hashable: a compilation is found by "
                    "its value; give a tuple for a list, or leave it out of static_argnums and "
                    "static_argnames if it holds arrays"
                ) from None
        return found

    def _name_of(self, place: int | str) -> str:
        """Returns the name of an argument, or its position if it has no name."""
        if isinstance(place, str):
            return f"'{place}'"
        with contextlib.suppress(TypeError, ValueError):
            parameters = list(inspect.signature(self.fn).parameters.values())
            if place < len(parameters) and parameters[place].kind in _POSITIONAL:
                return f"'{parameters[place].name}'"
        return f"{place}"

    def _names(self, arguments: Arguments) -> list[str]:
        """Returns the names of leaves by their paths, such as `state['step']`."""
        statics = {num for num, _ in arguments.statics}
        nums = [num for num in range(arguments.count) if num not in statics]
        names = []
        for kind, place, *rest in arguments.paths():
            first: int | str = nums[place.idx] if kind.idx == 0 else place.key
            names.append(self._name_of(first).strip("'") + jax.tree_util.keystr(tuple(rest)))
        return names

    def eval_shape(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns shapes and dtypes of the function's results, as a tree."""
        bound = self.bind(args, kwargs)
        self.key(bound)
        args, kwargs = merge(bound, list(map(_traceable, bound.leaves)))
        return self.jitted(self.fn).eval_shape(*args, **kwargs)

    def trace(self, arguments: Arguments) -> Any:
        """Returns JAX's trace of the function for one call's types."""
        args, kwargs = merge(arguments, list(map(_traceable, arguments.leaves)))
        with _within(self._mesh), tracing(self._recipe):
            return self.jitted(self.fn).trace(*args, **kwargs)

    def inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function within the trace of another function.

        Raises:
            TypeError: the function runs on several ranks.
        """
        if self._mesh is not None:
            raise TypeError(
                f"'{self.name}' runs on the ranks of a mesh, and is called while JAX traces: give "
                "the mesh to the step around it, and call the function itself there"
            )
        return inlined(self.plain, self.name, self._recipe, args, kwargs)

    @functools.cached_property
    def plain(self) -> Any:
        """The function under `jax.jit`, with the same options."""
        return self.jitted(self.fn)

    def jitted(self, fn: Callable[..., Any], **options: Any) -> Any:
        """Returns `fn`, which takes the same arguments, under `jax.jit` with these options."""
        return jax.jit(fn, **self._options, **options)

    def lower(self, arguments: Arguments, batches: Sequence[Batch] = ()) -> Lowered:
        """Traces the function for one call's types.

        Args:
            arguments: of the function itself.
            batches: the `jax.vmap`s around it, innermost first.

        Raises:
            NotImplementedError: a collective over an axis of the `jax.shard_map` around it.
            Any exception of tracing.
        """
        kinds = [key_impl(leaf) for leaf in arguments.leaves]
        structs = [type_of(to_physical_type(leaf)) for leaf in arguments.leaves]
        arguments = arguments.typed(structs)
        out_kinds: list[str | None] = []
        out_tree: list[Any] = []

        @functools.wraps(self.fn)
        def physical(*args: Any, **kwargs: Any) -> Any:
            bound = self.bind(args, kwargs)
            leaves = [
                leaf if impl is None else jax.random.wrap_key_data(leaf, impl=impl)
                for leaf, impl in zip(bound.leaves, kinds, strict=True)
            ]
            args, kwargs = merge(arguments, leaves)
            watched = WatchedModules((args, kwargs))
            outputs = self.fn(*args, **kwargs)
            watched.check(outputs, self.name)
            named, tree = jax.tree_util.tree_flatten_with_path(outputs)
            out_kinds[:], out_tree[:] = [key_impl(leaf) for _, leaf in named], [tree]
            leaves = [to_physical(leaf) for _, leaf in named]
            if self._mesh is not None:  # shardings are given by the tree
                return jax.tree.unflatten(tree, leaves)
            return Whole(tree, [path for path, _ in named], leaves)

        for batch in batches:
            structs = [
                batch.of(struct, dim) for struct, dim in zip(structs, batch.dims, strict=True)
            ]
        args, kwargs = self._wholes(arguments, structs)
        traced = self.jitted(self._batched(physical, arguments, batches), keep_unused=True)
        with warnings.catch_warnings():
            # Unused donations concern the caller at run time, not the lowering.
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            with _within(self._mesh), tracing(self._recipe):
                staged = traced.trace(*args, **kwargs)
            for constant in staged.jaxpr.consts:
                if is_ref(constant):
                    raise TypeError(f"'{self.name}' closes over {ref_advice(constant)}")
            refuse_closed(self.name, staged, len(structs))
            try:
                lowered = staged.lower(lowering_platforms=("cpu",) if self._mesh else None)
            except UNBOUND_AXIS_ERRORS:
                axes = jax.sharding.get_abstract_mesh().manual_axes
                if not axes:
                    raise
                raise NotImplementedError(
                    f"'{self.name}' has a collective over the axes {axes} of the jax.shard_map "
                    "around it: transform what one shard computes, and apply the collective to "
                    "its results"
                ) from None
        infos = jax.tree.leaves(lowered.args_info, is_leaf=lambda info: hasattr(info, "donated"))
        return Lowered(
            name=self.name,
            text=lowered.as_text(debug_info=True),
            in_names=tuple(self._names(arguments)),
            in_avals=tuple(structs),
            donated=tuple(info.donated for info in infos),
            out_avals=tuple(jax.tree.leaves(lowered.out_info)),
            in_keys=tuple(kinds),
            out_keys=tuple(out_kinds),
            out_weak=tuple(bool(aval.weak_type) for aval in staged.jaxpr.out_avals),
            out_tree=out_tree[0],
            mesh=_find_mesh(staged.jaxpr),
            callbacks=(callbacks := callbacks_of(lowered)),
            effects=frozenset(staged.jaxpr.effects) if callbacks else frozenset(),
        )

    def _wholes(
        self, arguments: Arguments, leaves: Sequence[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns arguments with these leaves, each without the classes of its tree."""
        if self._mesh is not None:
            return merge(arguments, leaves)
        rest, paths = iter(leaves), iter(arguments.paths())

        def whole(tree: Any) -> Whole:
            count = tree.num_leaves
            below = [path[2:] for path in itertools.islice(paths, count)]
            return Whole(tree, below, list(itertools.islice(rest, count)))

        positional, named = arguments.tree.children()
        trees = map(whole, (*positional.children(), *named.children()))
        wholes = dataclasses.replace(arguments, tree=_top_of(arguments.tree))
        return merge(wholes, list(trees))

    def _batched(
        self, physical: Callable[..., Any], arguments: Arguments, batches: Sequence[Batch]
    ) -> Callable[..., Any]:
        """Returns `physical` under `jax.vmap`s over its arguments as flat arrays."""
        if not batches:
            return physical
        trees: list[Any] = []

        def flat(*leaves: Any) -> Any:
            args, kwargs = self._wholes(arguments, leaves)
            outputs, tree = jax.tree.flatten(physical(*args, **kwargs))
            trees[:] = [tree]
            return outputs

        for batch in batches:
            flat = jax.vmap(flat, in_axes=batch.dims, axis_size=batch.size)

        @functools.wraps(self.fn)
        def batched(*args: Any, **kwargs: Any) -> Any:
            outputs = flat(*self.bind(args, kwargs).leaves)
            return jax.tree.unflatten(trees[0], outputs)

        return batched


def _named(shardings: Mapping[str, Any], mesh: Any) -> dict[str, Any]:
    """Returns `in_shardings` and `out_shardings` with NamedShardings in place of PartitionSpecs."""

    def named(spec: Any) -> Any:
        return jax.sharding.NamedSharding(mesh, spec) if isinstance(spec, PartitionSpec) else spec

    return {
        key: jax.tree.map(named, tree, is_leaf=lambda one: isinstance(one, PartitionSpec))
        for key, tree in shardings.items()
        if tree is not None
    }


def _within(mesh: Any) -> Any:
    """Returns a context in which a traced function may name axes of a mesh."""
    return contextlib.nullcontext() if mesh is None else use_abstract_mesh(mesh)


def _top_of(tree: Any) -> Any:
    """Returns the structure of (positional, keyword) arguments with a leaf for each argument."""
    positional, named = tree.children()
    names = named.node_data()[1]
    return jax.tree.structure(((0,) * len(positional.children()), dict.fromkeys(names, 0)))


def merge(arguments: Arguments, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns positional and keyword arguments with their leaves replaced."""
    dynamic, named = jax.tree.unflatten(arguments.tree, leaves)
    statics = dict(arguments.statics)
    rest = iter(dynamic)
    args = tuple(statics[num] if num in statics else next(rest) for num in range(arguments.count))
    return args, named | {name: arg for name, arg in statics.items() if isinstance(name, str)}


def _infer_statics(
    fn: Callable[..., Any], nums: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes positions by names or names by positions, if only one of them is given."""
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
    """Returns shape, dtype and weak type of an array or Python number, as in JAX."""
    if isinstance(leaf, _runtime.Array):
        return leaf.shape, leaf.dtype, False
    if isinstance(leaf, np.ndarray):
        if (misfit := misfit_of(leaf)) is not None:
            raise BadLeafError(leaf, *misfit)
        return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), False
    if isinstance(leaf, (bool, int, float, complex)):
        try:
            aval: Any = jax.api_util.shaped_abstractify(leaf)
        except OverflowError as error:
            raise BadLeafError(
                leaf, f"{error}: give a float, or enable jax_enable_x64", OverflowError
            ) from None
        return aval.shape, aval.dtype, aval.weak_type
    if is_ref(leaf):
        raise BadLeafError(leaf, f"no array, but {ref_advice(leaf)}")
    try:
        dtype = leaf.dtype
        if not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
            dtype = jax.dtypes.canonicalize_dtype(dtype)
        return tuple(leaf.shape), dtype, bool(getattr(leaf, "weak_type", False))
    except AttributeError:
        raise BadLeafError(
            leaf, f"a value of type {type(leaf).__name__} is not an array: {advice_for(leaf)}"
        ) from None


def scales_key(key: Any) -> tuple[Any, ...]:
    """Returns the part of a compilation's key that measured scales depend on.

    All shapes share the scales of the first, but an integer has none, and a number must have one.
    """
    tree, statics, types, *_ = key
    return tree, statics, tuple(jnp.issubdtype(dtype, jnp.floating) for _, dtype, _ in types)


def types_of(leaves: Sequence[Any]) -> list[Any]:
    """Returns the types of leaves, for comparison: JAX's own if they have one."""
    try:
        return list(map(operator.attrgetter("aval"), leaves))
    except AttributeError:
        return [leaf.aval if hasattr(leaf, "aval") else abstract(leaf) for leaf in leaves]


def name_of(fn: Any) -> str:
    """Returns the name of a function; of a partial, that of the function it wraps."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__name__", type(fn).__name__))


def describe_changed_type(before: Lowered, after: Lowered) -> str:
    """Returns a phrase on the first argument whose type differs between two lowerings."""

    def said(aval: Any) -> str:
        return f"{aval.dtype}{list(aval.shape)}{' (weak)' if aval.weak_type else ''}"

    for name, old, new in zip(after.in_names, before.in_avals, after.in_avals, strict=True):
        if said(old) != said(new):
            return f"{name} of type {said(new)} where it was {said(old)}"
    return "arguments of other types"


def _traceable(leaf: Any) -> Any:
    """Returns a leaf that JAX can trace: the leaf itself, or the type of one that is foreign."""
    is_known = isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex))
    return leaf if is_known else type_of(leaf)


def type_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of a leaf."""
    shape, dtype, weak = abstract(leaf)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)


def key_impl(leaf: Any) -> str | None:
    """Returns the generator of an array of random keys; None for any other array."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    impls: list[Any] = []
    # `leaf` may be only a type, whose generator a tracer has.
    jax.eval_shape(lambda key: impls.append(jax.random.key_impl(key)), leaf)
    return str(impls[0])


def to_physical(leaf: Any) -> Any:
    """Returns main's argument for a leaf: a random key's data, else the leaf."""
    return leaf if key_impl(leaf) is None else jax.random.key_data(leaf)


def to_physical_type(leaf: Any) -> Any:
    """Returns a value with the shape and dtype of main's argument for a leaf."""
    return leaf if key_impl(leaf) is None else jax.eval_shape(jax.random.key_data, leaf)


def to_logical(array: Any, impl: str | None) -> Any:
    """Returns the caller's result for a result of main: random keys if `impl` is given."""
    return array if impl is None else jax.random.wrap_key_data(jnp.asarray(array), impl=impl)


def _find_mesh(jaxpr: Any) -> jax.sharding.Mesh | None:
    """Returns the mesh of several devices that ops of a traced function name, if any does."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        mesh = eqn.params.get("mesh") or getattr(eqn.params.get("sharding"), "mesh", None)
        if isinstance(mesh, jax.sharding.Mesh) and mesh.size > 1:
            return mesh
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns") and (found := _find_mesh(inner)):
                    return found
    return None
