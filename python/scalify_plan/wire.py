"""The data of a compiled step's collective, its time, and the links that it uses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from scalify_plan import costs
from scalify_plan.devices import Device

__all__ = ["SUMS", "Wire", "read_wire"]

SUMS = ("all_reduce", "reduce_scatter")


@dataclasses.dataclass(frozen=True)
class Wire:
    """The data that a collective moves.

    Attributes:
        kind: as in the plan; a message is "send" on one rank and "receive" on the other.
        elements: of the whole data: an all-gather's result, a reduction's operand.
        dtype: of an element.
        ranks: of the group, and how many of them share a node.
        stride: between members, which distinguishes the groups of one mesh.
    """

    kind: str
    elements: int
    dtype: str
    ranks: costs.Group
    stride: int

    @property
    def size(self) -> float:
        """Bytes of the whole data."""
        return float(self.elements * costs.itemsize(self.dtype))

    @property
    def is_message(self) -> bool:
        """Whether it is between two ranks alone."""
        return self.kind in ("permute", "send", "receive")

    def seconds(self, device: Device) -> float:
        """Returns its seconds without concurrent work.

        A reduction in FP8 is an all-to-all of pieces and their sum in F32 in the order of ranks; an
        all-reduce adds an all-gather.
        """
        if self.is_message:
            return costs.collective(device, "send", self.size, self.ranks)
        if self.kind not in SUMS or "f8" not in self.dtype:
            return costs.collective(device, self.kind, self.size, self.ranks)
        own = self.elements / self.ranks.ranks * costs.BYTES["f32"]
        found = costs.collective(device, "all_to_all", self.size, self.ranks)
        found += costs.kernel(device, self.size + own)
        if self.kind == "all_reduce":
            found += costs.collective(device, "all_gather", self.size, self.ranks)
        return found

    def links(self) -> tuple[float, float]:
        """Returns the bytes that a rank sends over NVLink and over the network.

        In a ring across nodes one rank of each sends over the network, through all cards that the
        group has there: an equal share for each rank.
        """
        if self.kind == "receive":
            return 0.0, 0.0
        sent = costs.sent("send" if self.is_message else self.kind, self.size, self.ranks.ranks)
        far = 1.0 / self.ranks.inside if self.ranks.nodes > 1 else 0.0
        return sent * (1 - far), sent * far


def read_wire(command: Mapping[str, Any], manifest: Mapping[str, Any], node: int) -> Wire:
    """Returns the wire of a manifest's collective.

    Args:
        command: of the manifest.
        manifest: with its buffers; a pipeline's gives the number of its stage.
        node: ranks of a node.
    """
    source = manifest["buffers"][command["src"]]
    elements, kind, dtype = math.prod(source["shape"]), command["kind"], source["dtype"]
    if kind == "message":
        own = int((manifest.get("pipeline") or {}).get("stage", 0))
        peer = int(command["to"] if "to" in command else command["from"])
        pair = costs.Group(2, 2 if own // node == peer // node else 1)
        return Wire("send" if "to" in command else "receive", elements, dtype, pair, 0)
    if kind == "permute":
        far = any(a // node != b // node for a, b in command["groups"])
        return Wire(kind, elements, dtype, costs.Group(2, 1 if far else 2), 0)
    members = command["groups"][0]
    nodes = [member // node for member in members]
    inside = max(nodes.count(one) for one in set(nodes))
    if kind == "all_gather":
        elements *= len(members)
    stride = members[1] - members[0] if len(members) > 1 else 0
    return Wire(kind, elements, dtype, costs.Group(len(members), inside), stride)
