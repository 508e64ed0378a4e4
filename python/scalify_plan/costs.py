"""Seconds of one product, kernel, attention or collective."""

from __future__ import annotations

import dataclasses
import functools
import math
import re

from scalify_plan.devices import Device

__all__ = [
    "BYTES",
    "Group",
    "attention",
    "bucket",
    "collective",
    "gemm",
    "group",
    "itemsize",
    "kernel",
    "rate",
    "sent",
    "taken",
]

BYTES = {"f32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp8": 1.0}


def itemsize(element: str) -> int:
    """Returns the bytes of an element type of a manifest, such as "bf16" or "f8E4M3FN"."""
    bits = re.match(r"\D+(\d+)", element)
    if bits is None:
        raise ValueError(f"element type '{element}' has no number of bits")
    parts = 2 if element.startswith("complex") else 1
    return parts * max(1, int(bits.group(1)) // 8)


@functools.lru_cache(maxsize=1 << 16)
def gemm(
    device: Device,
    rows: int,
    columns: int,
    depth: int,
    *,
    batch: int = 1,
    dtype: str = "bf16",
    out: float = 2.0,
) -> float:
    """Returns the seconds of a product [rows, depth] x [depth, columns].

    The product is cut into tiles, one per multiprocessor at a time; a partial last wave takes as
    long as a full one. The result is written after the sums, not concurrently. Memory traffic is a
    lower bound.

    Args:
        device: the GPU.
        rows: of the result.
        columns: of the result.
        depth: size of the contraction.
        batch: independent products in one call.
        dtype: of the operands.
        out: bytes that are moved per element of the result.
    """
    written = batch * rows * columns * out / device.bandwidth
    operands = batch * (rows + columns) * depth * BYTES[dtype] / device.bandwidth
    best = math.inf
    for tall, wide in device.tiles:
        tiles = batch * math.ceil(rows / tall) * math.ceil(columns / wide)
        waves = math.ceil(tiles / device.multiprocessors)
        flops = 2.0 * tall * wide * depth * waves * device.multiprocessors
        # Small tiles read their operands more often than the tensor cores can take them.
        rate = device.math[dtype] * min(1.0, 0.9 if tall * wide < 1 << 15 else 1.0)
        best = min(best, flops / rate)
    return device.launch + max(best, operands) + written


def kernel(device: Device, moved: float) -> float:
    """Returns the seconds of a kernel that reads and writes `moved` bytes."""
    return device.launch + moved / device.bandwidth


def attention(device: Device, flops: float, *, backward: bool) -> float:
    """Returns the seconds of a fused attention of `flops` FLOPs, those of the mask excluded."""
    return device.launch + flops / device.attention[1 if backward else 0]


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of ranks: its size, and how many of its ranks are in one node."""

    ranks: int
    inside: int

    @property
    def nodes(self) -> int:
        """The number of nodes that it spans."""
        return math.ceil(self.ranks / self.inside)


def group(device: Device, ranks: int, stride: int) -> Group:
    """Returns the group of `ranks` ranks, each `stride` from the next."""
    return Group(ranks, max(1, min(ranks, device.links.node // stride)))


def rate(device: Device, ranks: Group) -> float:
    """Returns the bytes/s of a ring in a group; across nodes, through all its network cards."""
    links = device.links
    if ranks.nodes == 1:
        return links.nvlink
    return min(links.nvlink, ranks.inside * links.network * links.network_share)


def taken(device: Device, ranks: Group) -> float:
    """Returns the share of a GPU that an exchange in a group takes from concurrent kernels."""
    return device.comm_share * rate(device, ranks) / device.links.nvlink


def bucket(device: Device, ranks: Group, share: float = 0.9) -> float:
    """Returns the bytes from which a gather reaches a share of its bandwidth.

    The loss is latency / (latency + bytes / bandwidth), by NCCL's protocol for large messages.
    """
    if ranks.ranks == 1:
        return 0.0
    base, near, far, _ = device.links.hops["Simple"]
    over = ranks.nodes - 1
    latency = base + (ranks.ranks - 1 - over) * near + over * far
    moved = latency * share / (1 - share) * rate(device, ranks)
    return moved * ranks.ranks / (ranks.ranks - 1)


def sent(kind: str, size: float, ranks: int) -> float:
    """Returns the bytes that each rank sends in a collective on `size` bytes of whole data."""
    share = size * (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "send": size, "broadcast": size}.get(kind, share)


def collective(device: Device, kind: str, size: float, ranks: Group, *, load: float = 1) -> float:
    """Returns the seconds of a collective: latency + bytes / bandwidth, by NCCL's best protocol.

    Args:
        device: with its links.
        kind: "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast" or "send".
        size: bytes of the whole data: an all-gather's result, a reduction's operand.
        ranks: the group.
        load: share of the group's bandwidth that the collective gets.
    """
    if ranks.ranks == 1 or size <= 0:
        return 0.0
    links = device.links
    crosses = ranks.nodes > 1
    bandwidth = rate(device, ranks)
    if kind == "all_to_all" and crosses:
        # Traffic inside a node does not use the network.
        bandwidth *= (ranks.ranks - 1) / max(ranks.ranks - ranks.inside, 1)
        bandwidth = min(bandwidth, links.nvlink)
    elif kind == "all_reduce" and not crosses and links.nvls and ranks.ranks > 2:
        bandwidth = links.nvls
    moved = sent(kind, size, ranks.ranks)
    rounds = 2 if kind == "all_reduce" else 1
    hops = 1 if kind == "send" else rounds * (ranks.ranks - 1)
    over = rounds * (ranks.nodes - 1) if kind != "send" else int(crosses)
    best = math.inf
    for base, near, far, share in links.hops.values():
        latency = base + (hops - over) * near + over * far
        best = min(best, latency + moved / (bandwidth * share * load))
    return best
