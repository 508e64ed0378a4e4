"""The last call of a compiled function, by which the next one finds its executable quickly."""

from __future__ import annotations

import dataclasses
from typing import Any

from scalify._entry import Entry
from scalify._jax_api import trace_context
from scalify._lowering import Arguments, types_of

__all__ = ["LastCall"]


@dataclasses.dataclass(frozen=True)
class LastCall:
    """The last call, by which a call with the same types finds its entry quickly."""

    tree: Any
    statics: tuple[Any, ...]
    static_types: tuple[type, ...]
    kinds: set[type]
    types: list[Any]
    context: tuple[Any, ...]
    entry: Entry

    def finds(self, arguments: Arguments) -> Entry | None:
        """Returns the entry for arguments of the same structure and types, else None."""
        leaves = arguments.leaves
        if (
            arguments.static_types() != self.static_types
            or arguments.statics != self.statics
            or arguments.tree != self.tree
            or not self.kinds.issuperset(map(type, leaves))
            or types_of(leaves) != self.types
            or trace_context() != self.context
        ):
            return None
        return self.entry
