"""Steps of Flax NNX modules: `scalify.nnx.jit`, which is `flax.nnx.jit` under a recipe.

A module is split into its structure, which is static, and its arrays, which the compiled function
takes and returns; the step's updates are then written into the caller's own modules. Modules that
several arguments share stay shared, random streams keep their counts, and variables that the step
adds are there afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from scalify._adapter import Adapter, Backend, compile_with_backend, split_keywords
from scalify._extras import require
from scalify.recipe import RecipeLike

require("scalify.nnx", "flax", "flax")

from flax import nnx  # noqa: E402

__all__ = ["NNXJit", "jit", "transform"]


class _Path:
    """A variable's path in its module, as reports print it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Path) and self._text == other._text


def _path_of(keys: Any) -> _Path:
    """Returns the path in Python's syntax: `.layers[0].kernel`."""

    def part(key: Any) -> str:
        name = getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))
        return f"[{name}]" if isinstance(name, int) else f".{name}"

    # The key of the variable's own array is not part of its name.
    parts = [part(key) for key in keys]
    return _Path("".join(parts[:-1] if parts and parts[-1] in (".value", ".raw_value") else parts))


class _Node:
    """A split module: its structure is static, its arrays are leaves."""

    def __init__(self, graphdef: Any, state: Any) -> None:
        self.graphdef, self.state = graphdef, state


def _flatten(node: _Node) -> tuple[tuple[Any, ...], Any]:
    leaves, tree = jax.tree.flatten(node.state)
    return tuple(leaves), (node.graphdef, tree)


def _flatten_with_keys(node: _Node) -> tuple[list[tuple[Any, Any]], Any]:
    with_paths, tree = jax.tree_util.tree_flatten_with_path(node.state)
    return [(_path_of(path), leaf) for path, leaf in with_paths], (node.graphdef, tree)


def _unflatten(static: Any, leaves: Any) -> _Node:
    graphdef, tree = static
    return _Node(graphdef, jax.tree.unflatten(tree, leaves))


jax.tree_util.register_pytree_with_keys(_Node, _flatten_with_keys, _unflatten, _flatten)


def _is_module(value: Any) -> bool:
    return nnx.graph.is_graph_node(value)


def _is_node(value: Any) -> bool:
    return isinstance(value, _Node)


class _Modules:
    """The modules of one call, split and merged under a tag by which NNX matches them."""

    def __init__(self, tag: Any) -> None:
        self._tag = tag

    def split(self, tree: Any) -> Any:
        """Returns a tree with a `_Node` for each module."""
        with nnx.split_context(self._tag) as context:
            return jax.tree.map(
                lambda leaf: _Node(*context.split(leaf)) if _is_module(leaf) else leaf,
                tree,
                is_leaf=_is_module,
            )

    def merge(self, tree: Any, inner: bool) -> Any:
        """Returns a tree with the modules; outside the step, the caller's own."""
        with nnx.merge_context(self._tag, inner=inner) as context:
            return jax.tree.map(
                lambda leaf: context.merge(leaf.graphdef, leaf.state) if _is_node(leaf) else leaf,
                tree,
                is_leaf=_is_node,
            )


class NNXJit(Adapter):
    """A step that reads and updates NNX modules; see `jit`."""

    def __init__(
        self, fn: Callable[..., Any], recipe: RecipeLike, backend: Backend, options: dict[str, Any]
    ) -> None:
        self._backend = backend
        modules = self._modules = _Modules(self)

        @functools.wraps(fn)
        def traced(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
            args, kwargs = modules.merge((args, kwargs), inner=True)
            out = fn(*args, **kwargs)
            taken = [
                leaf
                for leaf in jax.tree.leaves((args, kwargs), is_leaf=_is_module)
                if _is_module(leaf)
            ]
            return modules.split((taken, out))

        super().__init__(fn, compile_with_backend(backend, traced, recipe=recipe, **options))

    def _to_step_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        pure: tuple[tuple[Any, ...], dict[str, Any]] = self._modules.split((args, kwargs))
        return pure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step and writes its updates into the modules among the arguments."""
        kwargs, own = split_keywords(kwargs, self._backend)
        with nnx.update_context(self):
            args, kwargs = self._to_step_arguments(args, kwargs)
            results, state = self._run(args, kwargs | own)
            _, out = self._modules.merge(results, inner=False)
        return (out, *state) if state else out

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses: `flax.nnx.eval_shape` does this for functions of modules.

        Raises:
            NotImplementedError: always, with the alternative.
        """
        raise NotImplementedError(
            f"shapes of '{getattr(self, '__name__', 'step')}', a step of NNX modules: "
            "flax.nnx.eval_shape of the function itself gives them"
        )

    def _forward(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with nnx.update_context(self):
            return super()._forward(name, args, kwargs)


def jit(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    *,
    backend: Backend = "scalify",
    **options: Any,
) -> Any:
    """Returns a step of NNX modules compiled under a recipe, as `flax.nnx.jit` would compile it.

        @scalify.nnx.jit(recipe="fp8", donate_argnums=(0, 1))
        def train_step(model, optimizer, batch): ...

    Args:
        fn: a function of modules, optimizers, metrics, `nnx.Rngs` and pytrees of arrays, which it
            may update; None to decorate with options.
        recipe: as for `scalify.jit`.
        backend: "scalify" for its own runtime, as `scalify.jit`; "transform" lets JAX run it, as
            `scalify.transform`, which composes with `flax.nnx.jit` around it.
        **options: others of `scalify.jit` or `scalify.transform`. The arrays of a donated module
            are updated in place.
    """
    if fn is None:
        return functools.partial(jit, recipe=recipe, backend=backend, **options)
    return NNXJit(fn, recipe, backend, options)


def transform(
    fn: Callable[..., Any] | None = None, recipe: RecipeLike = "fp8", **options: Any
) -> Any:
    """Returns `fn` rewritten as by `scalify.transform`: `jit` with that backend."""
    return jit(fn, recipe, backend="transform", **options)
