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

# Of `Numerics.calibration`.
FIRST_BATCH: Final = "first-batch"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """How a step runs on several ranks, for `distribution=`.

    `scalify.jit` takes a `Mesh` alone, too. `scalify.compile` takes `memory_limit`, `overlap`,
    `bucket_bytes` and `sums`: its program is what one rank runs.

    Attributes:
        mesh: the ranks that the step runs on, from `scalify.make_mesh`; one process for each, or
            one alone that computes what all would. Arguments are whole arrays, the same on every
            rank, or `scalify.Shard`s; results that lie in parts are Shards.
        zero: level of ZeRO: donated state that ranks would all keep alike is kept in shares, with 1
            and 2 moments, with 3 parameters too; such results are Shards.
        pipeline: how the step is cut over the ranks of a mesh's axis, at its
            `scalify.lax.stage_border`s. Each stage keeps the state of its layers, on the ranks of
            the mesh's other axes as shardings and `zero` say: such results are Shards that are
            empty elsewhere. Alone, the process runs the step of all stages.
        reduce: of gradients that a loop over micro-batches adds up, whether ranks sum them behind
            the last one, or "each" as it comes: as many times the bytes, and with `zero` a share of
            them in memory. None is "last", unless `memory_limit` asks for less.
        memory_limit: bytes that a rank may need for a step, by its plan. Where it would need more,
            `jit` gathers weights in shares again for the backward, or sums gradients by
            micro-batches, whichever moves fewer bytes; of `compile`'s program `partition` was told
            when gradients are summed. Where that is not enough, the compiler says so in a remark,
            or with `strict` in an error.
        overlap: whether what ranks exchange goes on beside what is computed, with the same bits.
        bucket_bytes: what a rank gives to a bucket, that is to one message of several arrays; 0
            for none. None is 1 MiB on CPUs, 25 MiB on GPUs, 0 with `pipeline`.
        sums: of floats over ranks, in their order as one process makes them ("ordered"), or by
            NCCL in its own ("nccl").

    Raises:
        ValueError: `zero` or `pipeline` without a mesh that they need, `pipeline` with
            `memory_limit`, or a word that `reduce` does not know.
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
            raise TypeError(f"mesh={self.mesh!r}: expected one of scalify.make_mesh")
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
                "memory_limit with pipeline=: stages keep what they gather; leave it out"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numerics:
    """Where scales come from, and what is done about casts that clip, for `numerics=`.

    `scalify.compile` takes `scales`, `cast_scales`, `roles` and `ranges`; `scalify.transform` takes
    all but `health` and `pack_state`.

    Attributes:
        scales: log2 of the scales of arguments, from `scalify.measure` or `Jit.scales`, by name, or
            as a list in main's order. None: arguments are measured at the first call, as far as it
            has values; an argument without a scale is measured in each step. "declared": arguments
            of which no scale is known count as 2^0, and are an error under `strict`; donated state
            counts as what is written. "static" measures, and is `cast_scales="static"`.
        cast_scales: under recipes with propagated scales, of casts whose values may grow: "carried"
            from step to step, which each step moves, or "static", constants of the first step.
        roles: of arguments that the rules take for others, as `{"regular expression": role}`,
            searched in the names that reports print; the first match counts. A role is "param",
            "master", "moment", "state", "batch", "input" or "scalar".
        ranges: what proofs may assume of arguments, by name or as a list in main's order; it
            counts before what was measured with the scales (`scalify.measure_ranges`).
        range_use: "choose" lets the proofs decide: a value whose bound is beyond E4M3 and within
            E5M2 is cast to that, and with `strict` a dot on an unproved value stays wide. "report"
            leaves formats alone.
        calibration: "first-batch" calibrates the casts that stand on priors (`Report.prior_casts`):
            before the first step `jit` runs it on copies of its arguments, once to three times,
            and carries on with the scales that their casts then have. None keeps the predicted
            scales. A result of `scalify.calibrate` gives all casts constant scales; its arguments'
            scales apply if `scales` is not given.
        rescale: where the step measures scales: "residual_grad", "residual", or a regular
            expression that is searched in JAX's names, "grad:" before it for gradients.
        adaptive_scales: keep the scales of casts beside the state instead of in the code, so that
            `Jit.rescale` moves them without a new compilation; the policy "rescale" implies it.
            `transform` has no executable that would keep them, and refuses True.
        health: what to do, between two steps, about casts that clip: an action of
            `scalify.HealthPolicy`, or a policy with its limits. None looks at every 20th step: it
            warns of NaNs, and where a cast saturates more than a thousandth of its values, constant
            scales are left for such that move ("adapt"). "off" does not look.
        wide: casts to leave wide, with the dots that read them, from `Jit.widened`.
        pack_state: let donated state that the recipe stores narrow be `scalify.ScaledArray`s
            between steps, of one or two bytes an element. False, and with adaptive scales: F32
            with the same values.

    Raises:
        TypeError: a calibration, a cast to leave wide or the roles are none.
        ValueError: a word is unknown, or the health policy moves scales that
            `adaptive_scales=False` keeps.
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
        carried_option(self.cast_scales, self.scales)
        roles_option(self.roles)
        wide_option(self.wide)
        is_made = isinstance(self.calibration, Calibration)
        if not is_made and self.calibration not in (None, FIRST_BATCH):
            raise TypeError(
                f"calibration={self.calibration!r}: expected a Calibration, as scalify.calibrate "
                f"or Calibration.load makes one, {FIRST_BATCH!r} or None"
            )
        check_words({"range_use": self.range_use})
        _ = self.policy

    @property
    def policy(self) -> HealthPolicy | None:
        """What `health` asks for; None reads no counter."""
        is_static = isinstance(self.scales, str) and self.scales == "static"
        is_static = is_static or self.cast_scales == "static"
        return make_policy(self.health, self.adaptive_scales, is_static)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GPU:
    """How a step runs on a GPU, for `gpu=` of `scalify.jit` and `scalify.compile`.

    Attributes:
        device: where steps run, as for `scalify.Executable`.
        streams: how many streams commands that do not fill the GPU may run on side by side.
        library_attention: which attentions in 16 bits are cuDNN's: "exact" where the program rounds
            the results as cuDNN does, "recipe" also where the recipe has made the operands BF16,
            and "none" for a machine without cuDNN: kernels and products then.
        epilogues: whether biases, ReLUs and casts to FP8 behind products are the library's: "exact"
            where no rounding and no count changes, "all" also casts that health counts, where the
            library rounds once and the program more often, GELU in its tanh form by the library's
            tanh, and the gradients of GELU and ReLU, "none" nowhere.

    Raises:
        ValueError: an option is none of its words.
    """

    device: str | None = None
    streams: int = 1
    library_attention: Literal["recipe", "exact", "none"] = "recipe"
    epilogues: Literal["exact", "all", "none"] = "exact"

    def __post_init__(self) -> None:
        check_words(vars(self))
