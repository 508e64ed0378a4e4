"""Options of `jit`, `compile` and `transform` in three groups: ranks, numerics, GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from scalify._plain import check_words
from scalify._stages import Pipeline
from scalify._watch import Health, make_policy
from scalify.calibration import Calibration, HealthPolicy, WideCast, carried_option, wide_option
from scalify.mesh import Mesh
from scalify.ranges import RangesLike
from scalify.scales import ScalesLike, roles_option

__all__ = ["FIRST_BATCH", "GPU", "Distribution", "Numerics"]

# The value of `Numerics.calibration` that calibrates on the first batch.
FIRST_BATCH: Final = "first-batch"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """How a step runs on several ranks, for `distribution=`.

    `scalify.jit` also takes a bare `Mesh`. `scalify.compile` takes only `memory_limit`, `overlap`,
    `bucket_bytes` and `sums`, since its program is already that of one rank.

    Attributes:
        mesh: the ranks that the step runs on, from `scalify.make_mesh`: one process per rank, or a
            single process that simulates all ranks. Arguments are whole arrays, identical on every
            rank, or `scalify.Shard`s; sharded results are Shards.
        zero: level of ZeRO: donated state that would be replicated is sharded over the ranks,
            moments with 1 and 2, parameters too with 3. Such results are Shards.
        pipeline: how the step is cut into stages over one axis of the mesh, at its
            `scalify.lax.stage_border`s. Each stage keeps the state of its layers, laid out over the
            mesh's other axes by shardings and `zero`: such results are Shards that are empty on
            other stages. A single process runs the step of all stages.
        reduce: when ranks reduce gradients that a loop over micro-batches accumulates: "last", once
            after the loop, or "each", after each micro-batch, which sends that many times the
            bytes, and with `zero` keeps only a share of the gradients in memory. None is "last",
            unless `memory_limit` asks for less.
        memory_limit: bytes that a rank may need for a step, by its plan. If the plan needs more,
            `jit` rematerialises all-gathers of sharded weights in the backward, or reduces
            gradients after each micro-batch, whichever moves fewer bytes. For `compile`,
            `partition` has already fixed when gradients are reduced. If that is not enough, the
            compiler emits a remark, or with `strict` an error.
        overlap: whether collectives run concurrently with computation; the bits are the same.
        bucket_bytes: bytes that a rank contributes to a bucket, that is, to one message of several
            arrays; 0 for no buckets. None is 1 MiB on CPUs, 25 MiB on GPUs, 0 with `pipeline`.
        sums: the order of floating-point sums over ranks: that of one process ("ordered"), or
            NCCL's own ("nccl").

    Raises:
        TypeError: `mesh` is not a `scalify.Mesh`.
        ValueError: `zero` or `pipeline` lacks the mesh that it needs, `pipeline` is given with
            `memory_limit`, or `reduce` or `sums` is an unknown word.
    """

    mesh: Mesh | None = None
    zero: Literal[0, 1, 2, 3] = 0
    pipeline: Pipeline | None = None
    reduce: Literal["last", "each"] | None = None
    memory_limit: int | None = None
    overlap: bool = True
    bucket_bytes: int | None = None
    sums: Literal["ordered", "nccl"] = "ordered"

    def __post_init__(self) -> None:
        if self.mesh is not None and not isinstance(self.mesh, Mesh):
            raise TypeError(f"mesh={self.mesh!r}: expected a mesh of scalify.make_mesh")
        if self.zero not in (0, 1, 2, 3):
            raise ValueError(f"zero={self.zero!r}: ZeRO has levels 1 to 3, and 0 shards no state")
        if self.mesh is None and self.zero:
            raise ValueError("zero= needs a mesh: ranks that share state")
        if self.reduce not in (None, "last", "each"):
            raise ValueError(f"reduce '{self.reduce}' is neither 'last' nor 'each'")
        check_words({"sums": self.sums})
        if self.pipeline is None:
            return
        self.pipeline.check(self.mesh, (), self.zero)
        if self.memory_limit:
            raise ValueError(
                "memory_limit with pipeline=: stages keep gathered weights; leave it out"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numerics:
    """The sources of scales, and the policy for casts that clip, for `numerics=`.

    `scalify.compile` takes `scales`, `cast_scales`, `roles` and `ranges`; `scalify.transform` takes
    all but `health` and `pack_state`.

    Attributes:
        scales: log2 of the scales of arguments, from `scalify.measure` or `Jit.scales`, by name, or
            as a list in main's order. None: arguments are measured at the first call, if it has
            values; an argument without a scale is measured in each step. "declared": an argument
            without a declared scale has scale 2^0, and is an error under `strict`; donated state
            takes the scale of the value written to it. "static" measures, and is
            `cast_scales="static"`.
        cast_scales: under recipes with propagated scales, the scales of casts whose values may
            grow: "carried" from step to step and updated by each step, or "static", constants from
            the first step.
        roles: roles of arguments that the rules infer wrongly, as `{"regular expression": role}`,
            searched in the names that reports print; the first match counts. A role is "param",
            "master", "moment", "state", "batch", "input" or "scalar".
        ranges: what proofs may assume of arguments, by name or as a list in main's order; overrides
            ranges measured with the scales (`scalify.measure_ranges`).
        range_use: "choose" lets proofs select formats: a value whose bound exceeds E4M3 but fits
            E5M2 is cast to E5M2, and with `strict` a dot on an unproved value stays wide. "report"
            leaves formats alone.
        calibration: "first-batch" calibrates casts whose scales come from priors
            (`Report.prior_casts`), and with arguments that `jit` measured on a CPU all casts:
            before the first step `jit`, and a function of `transform` that keeps its scales, runs
            it until no scale moves, three times or as long as they fall, and starts with the scales
            that these casts then have. None keeps the predicted scales, and the formats that were
            chosen for the first batch. A result of `scalify.calibrate` gives all casts constant
            scales; its arguments' scales apply if `scales` is not given.
        rescale: where the step measures scales: "residual_grad", "residual", or a regular
            expression that is searched in JAX's names, prefixed with "grad:" for gradients.
        adaptive_scales: keep the scales of casts as state instead of constants in the code, so that
            `Jit.rescale` moves them without recompilation; the policy "rescale" implies it.
            `transform` has no executable to keep them, and refuses True.
        health: what to do between steps about casts that clip: an action of `scalify.HealthPolicy`,
            or a policy with its limits. None checks every 20th step: it warns of NaNs, and if a
            cast saturates more than a thousandth of its values, replaces constant scales by scales
            that move ("adapt"). "off" checks nothing. At checks, ever more rarely, `jit` also
            measures its arguments again, and its gradients beside those of F32; if other dots are
            now sensitive to rounding, it compiles the step once more.
        wide: casts to leave wide, with the dots that read them, from `Jit.widened`.
        pack_state: keep donated state that the recipe stores narrow as `scalify.ScaledArray`s
            between steps, with one or two bytes an element. False, and adaptive scales, keep F32
            with the same values.

    Raises:
        TypeError: `calibration`, `wide` or `roles` has the wrong type.
        ValueError: a word is unknown, or the health policy moves scales that
            `adaptive_scales=False` fixes.
    """

    scales: ScalesLike | Literal["static"] = None
    cast_scales: Literal["carried", "static"] = "carried"
    roles: Mapping[str, str] | None = None
    ranges: RangesLike = None
    range_use: Literal["report", "choose"] = "report"
    calibration: Calibration | Literal["first-batch"] | None = FIRST_BATCH
    rescale: Sequence[str] = ()
    adaptive_scales: bool | None = None
    health: Health = None
    wide: Sequence[WideCast] = ()
    pack_state: bool = True

    def __post_init__(self) -> None:
        rescale = (self.rescale,) if isinstance(self.rescale, str) else tuple(self.rescale)
        object.__setattr__(self, "rescale", rescale)
        carried_option(self.cast_scales, self.scales)
        roles_option(self.roles)
        wide_option(self.wide)
        object.__setattr__(self, "wide", tuple(self.wide))
        is_calibration = isinstance(self.calibration, Calibration)
        if not is_calibration and self.calibration not in (None, FIRST_BATCH):
            raise TypeError(
                f"calibration={self.calibration!r}: expected a Calibration, as scalify.calibrate "
                f"or Calibration.load makes one, {FIRST_BATCH!r} or None"
            )
        check_words({"range_use": self.range_use})
        _ = self.policy

    @property
    def policy(self) -> HealthPolicy | None:
        """The policy that `health` selects; None reads no counter."""
        is_static = isinstance(self.scales, str) and self.scales == "static"
        is_static = is_static or self.cast_scales == "static"
        return make_policy(self.health, self.adaptive_scales, is_static)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GPU:
    """How a step runs on a GPU, for `gpu=` of `scalify.jit` and `scalify.compile`.

    Attributes:
        device: where steps run, as for `scalify.Executable`.
        streams: number of streams on which commands that do not fill the GPU may run concurrently.
        library_attention: which attentions in 16 bits cuDNN computes: "exact", if the program
            rounds the results as cuDNN does; "recipe", also if the recipe has made the operands
            BF16; "none", for a machine without cuDNN, which runs kernels and GEMMs instead.
        epilogues: which biases, ReLUs and casts to FP8 after GEMMs the library computes: "exact",
            if no rounding and no count changes; "all", also casts that health counts if the library
            rounds once and the program more often, GELU in its tanh form with the library's tanh,
            and the gradients of GELU and ReLU; "none".

    Raises:
        ValueError: an option has an unknown value.
    """

    device: str | None = None
    streams: int = 1
    library_attention: Literal["recipe", "exact", "none"] = "recipe"
    epilogues: Literal["exact", "all", "none"] = "exact"

    def __post_init__(self) -> None:
        check_words(vars(self))
