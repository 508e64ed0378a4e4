"""Functions that close over values which JAX traces around them."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core as jax_core

from scalify._lowering import Arguments, Signature, merge, type_of
from scalify.scales import Scales, ScalesLike

__all__ = ["Opening", "opened"]

# The keyword argument of a function of `opened`, and so its name in reports.
_NAME = "closed_over"


class Opening(NamedTuple):
    """A call of a function that takes what it closes over as one more keyword argument.

    Attributes:
        signature: the function; valid within this trace, for arguments of these types.
        kwargs: keyword arguments of the call, with the values that it closes over.
        scales: of all its arguments.
    """

    signature: Signature
    kwargs: dict[str, Any]
    scales: ScalesLike


def opened(
    signature: Signature,
    arguments: Arguments,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scales: ScalesLike,
) -> Opening:
    """Returns the call of a function that closes over values which JAX traces, with them given.

    Args:
        signature: the function.
        arguments: of the call.
        args: the same, before they are bound.
        kwargs: the same.
        scales: of the arguments, as the user gave them.
    """
    fn, values = _open(signature, arguments)
    with_values = copy.copy(signature)
    with_values.fn = fn
    with_values.__dict__.pop("plain", None)
    kwargs = {**kwargs, _NAME: values}
    return Opening(with_values, kwargs, _padded(scales, with_values.bind(args, kwargs)))


def _open(signature: Signature, arguments: Arguments) -> tuple[Callable[..., Any], list[Any]]:
    trees: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = merge(arguments, leaves)
        outputs, tree = jax.tree.flatten(signature.fn(*args, **kwargs))
        trees[:] = [tree]
        return list(outputs)

    closed = jax.make_jaxpr(flat)(*map(type_of, arguments.leaves))
    consts, jaxpr, tree = list(closed.consts), closed.jaxpr, trees[0]
    places = [i for i, one in enumerate(consts) if isinstance(one, jax.core.Tracer)]

    @functools.wraps(signature.fn)
    def fn(*args: Any, **kwargs: Any) -> Any:
        values = list(consts)
        for place, value in zip(places, kwargs.pop(_NAME), strict=True):
            values[place] = value
        run = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(jaxpr, values))
        return jax.tree.unflatten(tree, run(*signature.bind(args, kwargs).leaves))

    return fn, [consts[place] for place in places]


def _padded(scales: ScalesLike, arguments: Arguments) -> ScalesLike:
    """Returns scales of arguments, none for those of the last keyword argument, `_NAME`."""
    if scales is None or isinstance(scales, str) or hasattr(scales, "keys"):
        return scales
    own = [not (path[0].idx == 1 and path[1].key == _NAME) for path in arguments.paths()]

    def spread(values: Sequence[Any], missing: Any = None) -> tuple[Any, ...]:
        if len(values) != sum(own):
            return tuple(values)  # of another function: the compiler's caller says so
        rest = iter(values)
        return tuple(next(rest) if is_own else missing for is_own in own)

    if not isinstance(scales, Scales):
        return list(spread(scales))
    return dataclasses.replace(
        scales,
        exponents=spread(scales.exponents),
        names=spread(scales.names, _NAME),
        ranges=None if scales.ranges is None else spread(scales.ranges),
        moments=None if scales.moments is None else spread(scales.moments),
    )
