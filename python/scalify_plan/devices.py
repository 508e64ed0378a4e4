"""Properties of a GPU and of its links, for the cost model.

Every number is from a data sheet, from a published measurement of one kernel or one collective, or
from a library's source; none is from the time of a training step. `docs/planner.md` has the
sources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from scalify.artefact import targets

__all__ = ["A100", "DEVICES", "H100", "Device", "Links"]


@dataclasses.dataclass(frozen=True, eq=False)
class Links:
    """How GPUs are connected.

    Attributes:
        node: GPUs of a node, all of them on NVLink.
        nvlink: bytes/s that a ring of NCCL moves through each GPU of a node.
        nvls: bytes/s of an all-reduce that the switch sums, or 0.
        network: line rate, in bytes/s, of a GPU's share of the node's network cards.
        network_share: share of the line rate that NCCL reaches.
        hops: for each of NCCL's protocols (base, hop on NVLink, hop over the network) in seconds,
            and the share of the bandwidth that is left for data.
    """

    node: int
    nvlink: float
    nvls: float
    network: float
    network_share: float
    hops: Mapping[str, tuple[float, float, float, float]]


@dataclasses.dataclass(frozen=True, eq=False)
class Device:
    """A GPU.

    Attributes:
        peak: FLOP/s of the data sheet by format, without sparsity.
        math: FLOP/s that products reach within a tile's sum, by format: of a large product that is
            repeated until the clock has settled, less its last wave and the write of its result.
        bandwidth: bytes/s that copies reach.
        memory: bytes.
        multiprocessors: their number.
        tiles: (rows, columns) of the tiles of products.
        launch: seconds between two consecutive kernels.
        attention: FLOP/s of fused attention (forward, backward), on the products that a causal mask
            leaves.
        comm_share: share of the multiprocessors that a collective at NVLink's bandwidth takes from
            a concurrent kernel; a slower one takes less.
        links: of its node and network.
    """

    name: str
    peak: Mapping[str, float]
    math: Mapping[str, float]
    bandwidth: float
    memory: float
    multiprocessors: int
    tiles: tuple[tuple[int, int], ...]
    launch: float
    attention: tuple[float, float]
    comm_share: float
    links: Links

    @property
    def has_fp8(self) -> bool:
        """Whether products in FP8 are faster than those in BF16."""
        return self.peak["fp8"] > self.peak["bf16"]


# NCCL's tuner: LL sends a flag with each word, LL128 with each line, Simple waits for chunks.
_HOPPER = {
    "LL": (6.6e-6, 0.6e-6, 2.7e-6, 0.25),
    "LL128": (14e-6, 1.9e-6, 4.0e-6, 120 / 128),
    "Simple": (8.4e-6, 3.4e-6, 14e-6, 1.0),
}

# For both GPUs: a launch after another kernel, and the large tiles of cuBLAS.
_LAUNCH = 2e-6
_TILES = ((128, 256), (256, 128), (128, 128))

# The compiler's own cost model has these figures, per nanosecond.
_SM90A = targets()["sm_90a"]
_PER_SECOND = 1e9

H100 = Device(
    name="h100",
    peak={
        kind: _SM90A["peaks"][key] * _PER_SECOND
        for kind, key in (("bf16", "bits16"), ("fp8", "bits8"), ("tf32", "tf32"), ("f32", "f32"))
    },
    math={
        "bf16": _SM90A["bits16"] * _PER_SECOND,
        "fp8": _SM90A["bits8"] * _PER_SECOND,
        "tf32": 383e12,
        "f32": _SM90A["f32"] * _PER_SECOND,
    },
    bandwidth=_SM90A["bandwidth"] * _PER_SECOND,
    memory=80e9,
    multiprocessors=int(_SM90A["processors"]),
    tiles=_TILES,
    launch=_LAUNCH,
    attention=(500e12, 400e12),
    comm_share=16 / 132,
    links=Links(8, 360e9, 470e9, 50e9, 0.94, _HOPPER),
)

A100 = Device(
    name="a100",
    peak={"bf16": 312e12, "fp8": 312e12, "tf32": 156e12, "f32": 19.5e12},
    math={"bf16": 262e12, "fp8": 262e12, "tf32": 131e12, "f32": 18e12},
    bandwidth=1.8e12,
    memory=80e9,
    multiprocessors=108,
    tiles=_TILES,
    launch=_LAUNCH,
    attention=(190e12, 150e12),
    comm_share=16 / 108,
    links=Links(8, 235e9, 0, 25e9, 0.94, _HOPPER),
)

DEVICES = {device.name: device for device in (A100, H100)}
