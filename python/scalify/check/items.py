"""The tensors of a step that are compared, and the products that stay wide."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal

from scalify.check.flow import gradients, handed_over, read_by_forward
from scalify.check.program import Program, is_float
from scalify.check.results import WideShare

__all__ = ["Item", "items_of", "wide_shares"]

_NAMES = 4  # of weights, for a reason


@dataclasses.dataclass(frozen=True)
class Item:
    """A tensor that is compared.

    Attributes:
        name: of the parameter or result.
        tap: its index among the tapped gradients, or None.
        result: its index among the step's results, or None.
        leaf: the argument from which a result is the change, or None.
    """

    name: str
    tap: int | None = None
    result: int | None = None
    leaf: int | None = None


def items_of(
    program: Program,
) -> tuple[Literal["gradients", "updates", "results"], list[Item], list[Any]]:
    """Returns what is compared, the tensors, and the variables to tap."""
    jaxpr = program.first.jaxpr
    found = gradients(jaxpr, program.next_of)
    if found:
        counts: dict[str, int] = {}
        items = []
        for place, gradient in enumerate(found):
            name = program.result_names[gradient.result or 0]
            if gradient.leaf is not None:
                name = program.names[gradient.leaf]
            counts[name] = counts.get(name, 0) + 1
            shown = name if counts[name] == 1 else f"{name} ({counts[name]})"
            items.append(Item(shown, tap=place))
        return "gradients", items, [gradient.variable for gradient in found]
    read = read_by_forward(jaxpr)
    shapes = {jaxpr.invars[leaf].aval.shape for leaf in read if is_float(jaxpr.invars[leaf].aval)}
    state = {jaxpr.outvars[i] for i, leaf in enumerate(program.next_of) if leaf is not None}
    variables = [
        one
        for one in handed_over(jaxpr)
        if one.aval.shape in shapes and one.aval.shape and one not in state
    ]
    if variables:
        items = [
            Item(f"gradient {place} of shape {one.aval.shape}", tap=place)
            for place, one in enumerate(variables)
        ]
        return "gradients", items, variables
    outs = jaxpr.outvars
    updates = [
        Item(name, result=place, leaf=leaf)
        for place, (name, leaf) in enumerate(
            zip(program.result_names, program.next_of, strict=True)
        )
        if leaf is not None and is_float(outs[place].aval)
    ]
    if updates:
        return "updates", updates, []
    return (
        "results",
        [
            Item(name, result=place)
            for place, name in enumerate(program.result_names)
            if is_float(outs[place].aval)
        ],
        [],
    )


def wide_shares(dots: Sequence[Any], flops: float) -> tuple[WideShare, ...]:
    """Returns the rows of products that stay wide by their reasons, the largest share first."""
    groups: dict[str, list[Any]] = {}
    for row in dots:
        if row["wide"]:
            groups.setdefault(_decision(row["reason"]), []).append(row)
    shares = [
        WideShare(
            decision,
            len(rows),
            sum(row.get("flops") or 0 for row in rows) / flops if flops else 0.0,
            tuple(dict.fromkeys(row["weight"] or row["location"] for row in rows))[:_NAMES],
        )
        for decision, rows in groups.items()
    ]
    return tuple(sorted(shares, key=lambda share: -share.flops))


def _decision(reason: str) -> str:
    """Returns a reason without the figures of one product: `sensitive (recipe: ...)`."""
    text = reason.removeprefix("stays wide: ")
    match = re.match(r"(\w+): .*(?:\d|nan|INF).*(\(recipe: .*\))$", text)
    return text if match is None else f"{match[1]} {match[2]}"
