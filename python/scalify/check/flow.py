"""Gradients in a traced program: found by JAX's names, and followed to the state they update.

JAX names each operation of a backward pass `transpose(...)`. A value that such an operation makes
and that something else reads, the optimizer or the caller, is a gradient. Nothing here knows an
optimizer: from a new parameter the way leads back, through operations that keep its size, to its
own gradient, whatever the update does with it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax

__all__ = [
    "Gradient",
    "first_iteration",
    "gradients",
    "handed_over",
    "inline",
    "reached_inputs",
    "read_by_forward",
    "takes_gradients",
]

_BACKWARD = "transpose("
_FORWARD = "jvp("
# Parameters of an operation that hold a program of the same operands and results.
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclasses.dataclass(frozen=True)
class Gradient:
    """A gradient within a program.

    Attributes:
        variable: of the program.
        leaf: the index of the argument that it updates; None if that is not known.
        result: the index of the result that it is, if the program returns it.
    """

    variable: Any
    leaf: int | None
    result: int | None


def _stack(eqn: Any) -> str:
    return str(eqn.source_info.name_stack)


def _programs(eqn: Any) -> Iterator[Any]:
    """Yields the jaxprs within an operation."""
    for value in eqn.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(one, "eqns") or hasattr(one, "jaxpr"):
                yield one.jaxpr if hasattr(one, "jaxpr") else one


def takes_gradients(jaxpr: Any) -> bool:
    """Whether a jaxpr has a backward pass, at any depth."""
    return any(
        _BACKWARD in _stack(eqn) or any(map(takes_gradients, _programs(eqn))) for eqn in jaxpr.eqns
    )


def inline(closed: Any) -> Any:
    """Returns a closed jaxpr in which calls of `jax.jit` with a backward pass are inlined."""
    while any(_is_mixed_call(eqn) for eqn in closed.jaxpr.eqns):
        jaxpr, consts = closed.jaxpr, closed.consts

        def flat(*leaves: Any, jaxpr: Any = jaxpr, consts: Any = consts) -> Any:
            return _evaluate(jaxpr, consts, leaves)

        # Keyword arguments of a partial are not traced; shapes are those of the program.
        closed = jax.make_jaxpr(flat)(*map(_struct, jaxpr.invars))
    return closed


def _struct(variable: Any) -> Any:
    aval = variable.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


def _is_mixed_call(eqn: Any) -> bool:
    """Whether an operation is a call whose body has a backward pass that is not all of it."""
    inner = eqn.params.get("jaxpr")
    return (
        eqn.primitive.name in ("jit", "pjit")
        and _BACKWARD not in _stack(eqn)
        and takes_gradients(inner.jaxpr)
    )


def first_iteration(closed: Any) -> Any:
    """Returns a closed jaxpr in which loops (`jax.lax.scan`) that take gradients run only once.

    The stacks of such a loop repeat the first iteration.
    """
    jaxpr, consts = closed.jaxpr, closed.consts

    def flat(*leaves: Any) -> Any:
        return _evaluate(jaxpr, consts, leaves, unroll=True)

    return inline(jax.make_jaxpr(flat)(*map(_struct, jaxpr.invars)))


def _once(eqn: Any, operands: list[Any]) -> list[Any]:
    """Evaluates the first iteration of a scan."""
    params = eqn.params
    fixed = params["num_consts"] + params["num_carry"]
    place = -1 if params["reverse"] else 0
    inner = params["jaxpr"]
    inputs = [*operands[:fixed], *(operand[place] for operand in operands[fixed:])]
    results = jax.core.eval_jaxpr(inner.jaxpr, inner.consts, *inputs)
    carry, rows = results[: params["num_carry"]], results[params["num_carry"] :]
    stacks = [jax.numpy.broadcast_to(row, (params["length"], *row.shape)) for row in rows]
    return [*carry, *stacks]


def _evaluate(jaxpr: Any, consts: Any, leaves: Any, unroll: bool = False) -> list[Any]:
    """Evaluates a jaxpr with the mixed calls among its operations inlined, one level deep.

    With `unroll` it does so for nothing but scans that take gradients, which run once.
    """
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, leaves, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        if unroll and eqn.primitive.name == "scan" and _is_backward(eqn):
            results = _once(eqn, operands)
        elif _is_mixed_call(eqn):
            inner = eqn.params["jaxpr"]
            results = jax.core.eval_jaxpr(inner.jaxpr, inner.consts, *operands)
        else:
            single = jaxpr.replace(
                constvars=[],
                invars=[atom for atom in eqn.invars if not hasattr(atom, "val")],
                outvars=eqn.outvars,
                eqns=[eqn],
            )
            results = jax.core.eval_jaxpr(
                single,
                (),
                *[read(atom) for atom in eqn.invars if not hasattr(atom, "val")],
            )
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _size(atom: Any) -> int:
    size = 1
    for extent in getattr(atom.aval, "shape", ()):
        size *= extent
    return size


def _is_variable(atom: Any) -> bool:
    return not hasattr(atom, "val")


def _sources(eqn: Any, index: int) -> list[Any]:
    """Returns the operands from which a result is computed by operations that keep its size."""
    name, params = eqn.primitive.name, eqn.params
    inner = [one for one in _programs(eqn) if len(one.outvars) == len(eqn.outvars)]
    offset = 1 if name == "cond" else 0
    inner = [one for one in inner if len(one.invars) == len(eqn.invars) - offset]
    if not inner or name == "while":
        size = _size(eqn.outvars[index])
        return [atom for atom in eqn.invars if _is_variable(atom) and _size(atom) == size]
    consts, carries = params.get("num_consts", 0), params.get("num_carry", 0)
    reached: set[int] = set()
    results, pending = {index}, [index]
    while pending:
        result = pending.pop()
        for program in inner:
            for place in reached_inputs(program, result):
                reached.add(place)
                carry = place - consts
                # A carry comes from the iteration before, too.
                if name == "scan" and 0 <= carry < carries and carry not in results:
                    results.add(carry)
                    pending.append(carry)
    return [
        eqn.invars[place + offset]
        for place in sorted(reached)
        if _is_variable(eqn.invars[place + offset])
    ]


def _walk(jaxpr: Any, result: int, stops: set[Any]) -> tuple[dict[Any, int], set[int]]:
    """Follows a result back through operations that keep its size.

    Args:
        jaxpr: the program.
        result: the index of the result.
        stops: variables at which the way ends.

    Returns:
        The stops reached, with the number of operations on the way; and the inputs reached.
    """
    start = jaxpr.outvars[result]
    if not _is_variable(start):
        return {}, set()
    makers = {
        variable: (eqn, index) for eqn in jaxpr.eqns for index, variable in enumerate(eqn.outvars)
    }
    inputs = {variable: index for index, variable in enumerate(jaxpr.invars)}
    found: dict[Any, int] = {}
    reached: set[int] = set()
    seen, pending = {start}, collections.deque([(start, 0)])
    while pending:
        variable, distance = pending.popleft()
        if variable in inputs:
            reached.add(inputs[variable])
        if variable in stops:
            found[variable] = distance
            continue
        if variable not in makers:
            continue
        for source in _sources(*makers[variable]):
            if source not in seen:
                seen.add(source)
                pending.append((source, distance + 1))
    return found, reached


def reached_inputs(jaxpr: Any, result: int) -> set[int]:
    """Returns the inputs from which operations that keep the size lead to a result.

    A way through the backward does not count: what it computes from is not what it updates.
    """
    backward = {
        variable for eqn in jaxpr.eqns if _BACKWARD in _stack(eqn) for variable in eqn.outvars
    }
    return _walk(jaxpr, result, backward)[1]


def _is_backward(eqn: Any) -> bool:
    return _BACKWARD in _stack(eqn) or any(map(takes_gradients, _programs(eqn)))


def _makes_gradient(eqn: Any, index: int) -> bool:
    """Whether a result of an operation with a backward pass comes from it, not from the forward."""
    inner = [one for one in _programs(eqn) if len(one.outvars) == len(eqn.outvars)]
    if _BACKWARD in _stack(eqn) or not inner:
        return True
    return any(_walk(one, index, set(handed_over(one)))[0] for one in inner)


def handed_over(jaxpr: Any) -> list[Any]:
    """Returns the values that the backward makes and something else reads, in their order."""
    backward = [_is_backward(eqn) for eqn in jaxpr.eqns]
    made = [
        variable
        for eqn, is_backward in zip(jaxpr.eqns, backward, strict=True)
        if is_backward
        for index, variable in enumerate(eqn.outvars)
        if _makes_gradient(eqn, index)
        and jax.dtypes.issubdtype(getattr(variable.aval, "dtype", bool), jax.numpy.inexact)
    ]
    read = {atom for atom in jaxpr.outvars if _is_variable(atom)}
    for eqn, is_backward in zip(jaxpr.eqns, backward, strict=True):
        if not is_backward:
            read.update(atom for atom in eqn.invars if _is_variable(atom))
    return [variable for variable in made if variable in read]


def read_by_forward(jaxpr: Any) -> set[int]:
    """Returns the inputs that a differentiated forward or the backward reads, also as copies."""
    inputs = {variable: index for index, variable in enumerate(jaxpr.invars)}
    copies: dict[Any, int] = dict(inputs)
    found: set[int] = set()
    for eqn in jaxpr.eqns:
        known = [copies[atom] for atom in eqn.invars if _is_variable(atom) and atom in copies]
        stack = _stack(eqn)
        if _FORWARD in stack or _BACKWARD in stack or any(map(takes_gradients, _programs(eqn))):
            found.update(known)
        elif len(known) == 1 and len(eqn.outvars) == 1 and len(eqn.invars) == 1:
            copies[eqn.outvars[0]] = known[0]
    return found


def gradients(jaxpr: Any, next_of: tuple[int | None, ...]) -> list[Gradient]:
    """Returns the gradients of a program, each with the argument that it updates.

    Args:
        jaxpr: the program, with calls inlined.
        next_of: per result, the argument whose next value it is, or None.
    """
    stops = set(handed_over(jaxpr))
    read = read_by_forward(jaxpr)
    results = {
        variable: index for index, variable in enumerate(jaxpr.outvars) if _is_variable(variable)
    }
    # Moments and averages of parameters lead to the same gradients as the parameter does. It is
    # the one that the forward reads, and the nearest of those.
    owners: dict[Any, tuple[bool, int, int]] = {}
    for result, leaf in enumerate(next_of):
        if leaf is None:
            continue
        for variable, distance in _walk(jaxpr, result, stops)[0].items():
            owner = (leaf not in read, distance, leaf)
            owners[variable] = min(owners.get(variable, owner), owner)
    for variable, result in results.items():
        if variable in stops and variable not in owners and next_of[result] is None:
            owners[variable] = (True, 0, -1)
    order = {variable: index for index, variable in enumerate(owners)}
    return [
        Gradient(variable, leaf if leaf >= 0 else None, results.get(variable))
        for variable, (_, _, leaf) in sorted(
            owners.items(), key=lambda pair: (pair[1][2], order[pair[0]])
        )
        # The result of a loop that also updates is the new parameter, not its gradient.
        if variable not in results or next_of[results[variable]] is None
    ]
