"""scalify.jit: what it takes, and whether that goes together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from scalify._build import shared_options
from scalify._jit import Jit
from scalify._lowering import Signature
from scalify._ranks import abstract_mesh
from scalify._stages import Pipeline
from scalify._watch import Health, policy_of
from scalify._wrapper import again, with_options
from scalify.calibration import Calibration, WideCast, scale_options
from scalify.mesh import Mesh
from scalify.ranges import RangesLike
from scalify.recipe import Recipe, RecipeLike
from scalify.scales import ScalesLike, roles_option

__all__ = ["jit"]


def jit(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    target: str = "cpu",
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    mesh: Mesh | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    zero: Literal[0, 1, 2, 3] = 0,
    pipeline: Pipeline | None = None,
    reduce: Literal["last", "each"] | None = None,
    memory_limit: int | None = None,
    strict: bool = False,
    scales: ScalesLike | Literal["static"] = None,
    cast_scales: Literal["carried", "static"] = "carried",
    roles: Mapping[str, str] | None = None,
    ranges: RangesLike = None,
    range_use: Literal["report", "choose"] = "report",
    calibration: Calibration | None = None,
    rescale: Sequence[str] = (),
    adaptive_scales: bool | None = None,
    health: Health = None,
    wide: Sequence[WideCast] = (),
    pack_state: bool = True,
    mcpu: str | None = None,
    threads: int = 0,
    report: str = "brief",
    device: str | None = None,
    fallback: Literal["xla"] | None = None,
    streams: int = 1,
    library_attention: Literal["recipe", "exact", "none"] = "recipe",
    epilogues: Literal["exact", "all", "none"] = "exact",
    overlap: bool = True,
    bucket_bytes: int | None = None,
    sums: Literal["ordered", "nccl"] = "ordered",
) -> Jit:
    """Returns `fn` compiled by a recipe: pytrees in, pytrees out, donated in place.

    Compiles at the first call for each structure, shapes, dtypes and static values, as
    `jax.jit` does. The scales of arguments are measured at that first call, never again.

    Args:
        fn: a JAX function of pytrees of arrays, unmodified. Without it the result is a decorator:
            `@scalify.jit(recipe="fp8")`, of functions and of methods.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`.
        target: "cpu", or "sm_90a" for H100 and H200, which needs no GPU to compile.
        static_argnums: positions of arguments that are no arrays, as `jax.jit` has them.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory the results take over.
        donate_argnames: their names.
        keep_unused: taken as `jax.jit` takes it; a step has all its arguments either way.
        inline: the same; a step within another one is inlined either way.
        mesh: the ranks that the step runs on, from `scalify.make_mesh`; one process for each, or
            one alone that computes what all would. Arguments are whole arrays, the same on every
            rank, or `scalify.Shard`s; results that lie in parts are Shards.
        in_shardings: trees of `jax.sharding.PartitionSpec`s over the mesh's axes, as `jax.jit`
            takes them: how arguments lie on the ranks. None leaves it to the partitioner.
        out_shardings: the same of results. A donated argument's is best said on both sides.
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
            weights in shares are gathered again for the backward, or gradients are summed by
            micro-batches, whichever moves fewer bytes; a remark, or with `strict` an error, where
            that is not enough.
        strict: make an op without a rule, or a dot that misses its format, an error.
        scales: of the arguments, from `scalify.measure` or `Jit.scales`, instead of measuring;
            "static" measures them, and is `cast_scales="static"`.
        cast_scales: under recipes with propagated scales, of casts whose values may grow: "carried"
            from step to step, which each step moves, or "static", constants of the first step.
        roles: of arguments that the rules take for others, as `{"regular expression": role}`,
            searched in the names that reports print; the first match counts. A role is "param",
            "master", "moment", "state", "batch", "input" or "scalar".
        ranges: what proofs may assume of arguments, by name or as a list in main's order; it
            counts before what was measured with the scales (`scalify.measure_ranges`).
        range_use: "choose" lets the proofs decide: a value whose bound is beyond E4M3 and within
            E5M2 is cast to that, and with `strict` a dot on an unproved value stays wide.
        calibration: measured scales of casts, from `scalify.calibrate`; its arguments' scales
            count if `scales` is not given.
        rescale: where the step measures scales: "residual_grad", "residual", or a regular
            expression that is searched in JAX's names, "grad:" before it for gradients.
        adaptive_scales: keep the scales of casts beside the state instead of in the code, so that
            `Jit.rescale` moves them without a new compilation; the policy "rescale" implies it.
        health: what to do, between two steps, about casts that clip: an action of
            `scalify.HealthPolicy`, or a policy with its limits. None looks at every 20th step: it
            warns of NaNs, and where a cast saturates more than a thousandth of its values, constant
            scales are left for such that move ("adapt"). "off" does not look.
        wide: casts to leave wide, with the dots that read them, from `Jit.widened`.
        pack_state: let donated state that the recipe stores narrow be `scalify.ScaledArray`s
            between steps, of one or two bytes an element. False, and with adaptive scales: F32
            with the same values.
        mcpu: the CPU whose instructions kernels may use; "x86-64-v3" if not given.
        threads: 0 for one per core that the process may use. Results do not depend on it.
        report: "full" keeps every value, its facts and where they came from in the artefact.
        device: where steps run, as for `scalify.Executable`.
        fallback: "xla" runs what the CPU target lacks (calls of LAPACK, FFT, complex numbers, loops
            of unknown length) by XLA inside of the step; the report lists it. None: an error.
        streams: of a GPU, how many streams commands that do not fill it may run on side by side.
        library_attention: of a GPU, which attentions in 16 bits are cuDNN's: "exact" where the
            program rounds the results as cuDNN does, "recipe" also where the recipe has made the
            operands BF16, and "none" for a machine without cuDNN: kernels and products then.
        epilogues: of a GPU, whether biases, ReLUs and casts to FP8 behind products are the
            library's: "exact" where no rounding and no count changes, "all" also casts that health
            counts, where the library rounds once and the program more often, GELU in its tanh form
            by the library's tanh, and the gradients of GELU and ReLU.
        overlap: whether what ranks exchange goes on beside what is computed, with the same bits.
        bucket_bytes: on several ranks, of what a rank gives to a bucket, that is to one message of
            several arrays; 0 for none. None is 1 MiB on CPUs, 25 MiB on GPUs, 0 with `pipeline`.
        sums: of floats over ranks, in their order as one process makes them, or by NCCL in its own.
    """
    given = dict(locals())
    if fn is None:
        return cast(Jit, with_options(jit, given))
    is_static = "static" in (cast_scales, scales if isinstance(scales, str) else None)
    policy = policy_of(health, adaptive_scales, is_static)
    if mesh is None and (in_shardings is not None or out_shardings is not None):
        raise ValueError("shardings need a mesh: mesh=scalify.make_mesh(data=4)")
    if mesh is None and zero:
        raise ValueError("zero= needs a mesh: ranks that share state")
    if pipeline is not None:
        pipeline.check(mesh, (in_shardings, out_shardings), zero)
        if memory_limit:
            raise ValueError(
                "memory_limit with pipeline=: stages keep what they gather; leave it out"
            )
    if pipeline is not None and policy is not None and policy.action in ("rescale", "widen"):
        raise ValueError(
            f"health policy '{policy.action}' with pipeline=: a stage counts its own casts alone, "
            "and the others would differ; leave one of the two out"
        )
    signature = Signature(
        fn,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        {"in_shardings": in_shardings, "out_shardings": out_shardings},
        abstract_mesh(mesh, pipeline),
        str(recipe),
    )
    rescales = policy is not None and policy.action == "rescale"
    extra, scales = scale_options(recipe, scales, calibration, rescale, wide, cast_scales)
    extra |= {"rangeUse": range_use, "packState": pack_state}
    options = {
        **shared_options(given),
        "recipe": str(recipe),
        "callbacks": True,
        "fallback": fallback or "",
        **extra,
        **roles_option(roles),
    }
    if (rescales or adaptive_scales) and Recipe.of(recipe).is_delayed:
        raise ValueError(
            f"recipe '{recipe}' moves scales by the amaxes of earlier steps: leave out "
            "adaptive_scales and the health policy 'rescale', which move them by what was counted"
        )
    if adaptive_scales and pipeline is not None:
        raise ValueError(
            "adaptive_scales=True with pipeline=: a stage counts its own casts alone, and scales "
            "that follow counts would differ"
        )
    if rescales or adaptive_scales:
        # Scales of state move too, which F32 state takes as it is.
        options |= {"adaptScales": True, "packState": False}
    step = Jit(
        signature, options, scales, threads, policy, ranges, device, mesh, zero, pipeline, reduce
    )
    step.made_by = again(jit, given)
    return step
