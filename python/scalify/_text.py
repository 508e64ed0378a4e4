"""scalify.compile: StableHLO text to a compiled step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from scalify._build import make_recompiler
from scalify._executable import Executable, compile_text
from scalify._groups import Groups, regroup
from scalify._settings import device_options
from scalify.calibration import carried_option
from scalify.options import GPU, Distribution, Numerics
from scalify.recipe import RecipeLike
from scalify.report import Report
from scalify.scales import ScalesLike, argument_options, range_option, roles_option

__all__ = ["compile"]

# The fields that apply to a step's text; `partition` has already applied those of ranks.
_SUPPORTED_FIELDS = (
    *("memory_limit", "overlap", "bucket_bytes", "sums"),
    *("scales", "cast_scales", "roles", "ranges"),
    *("device", "streams", "library_attention", "epilogues"),
)


def compile(
    program: str | bytes,
    recipe: RecipeLike | None = "none",
    target: str = "cpu",
    strict: bool = False,
    *,
    distribution: Distribution | None = None,
    numerics: Numerics | None = None,
    gpu: GPU | None = None,
    mcpu: str | None = None,
    snapshots: str | os.PathLike[str] | None = None,
    threads: int = 0,
    report: str = "brief",
    simulate_ranks: bool | int = False,
    arg_shapes: Mapping[str | int, Sequence[int]] | None = None,
    **deprecated: Any,
) -> Executable:
    """Compiles a StableHLO program with a public @main.

    Args:
        program: text, or bytes of a jax.export artefact.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`; None for the recipe in the program's attribute.
        target: "cpu", or a GPU, which is not needed to compile: "sm_90a" ("cuda", "h100"), "h200".
            `scalify.artefact.targets()` lists all.
        strict: make an op without a rule, or a dot that misses its format, an error.
        distribution: for the program of one of several ranks: `memory_limit`, `overlap`,
            `bucket_bytes` and `sums`.
        numerics: `scales`, `cast_scales`, `roles` and `ranges` of arguments. Without scales, the
            first call measures the arguments and compiles again, under every recipe that casts;
            until then, and in an artefact saved before, each step measures arguments whose scales
            it needs, and formats and first scales are those of arguments of size 2^0.
        gpu: how the step runs on a GPU.
        mcpu: the CPU whose instructions kernels may use; "x86-64-v3" if not given.
        snapshots: a folder for the IR after each stage.
        threads: as for `Executable`.
        report: "full" keeps every value, its facts and their sources in the artefact.
        simulate_ranks: `program` is that of one device of a mesh (`scalify.partition`), and the
            executable simulates all devices, on whole arrays and with sums in the order of ranks. A
            number is the number of devices that the mesh must have.
        arg_shapes: shapes of the arguments whose types are dynamic, as those of `jax.export`'s
            symbolic dimensions, by name or number. All other shapes must follow from them.
        **deprecated: fields of the groups as arguments of their own, accepted for one more release.

    Raises:
        scalify.CompileError: the program or the options are invalid.
        TypeError: an argument is unknown or given twice, or a group sets a field that is not
            supported here.
        ValueError: bytes that are not a program, or scales of the wrong shape.
    """
    groups, given = regroup("compile", locals(), _SUPPORTED_FIELDS)
    if not isinstance(program, (str, bytes, bytearray)):
        raise TypeError(f"expected StableHLO text or bytes, not {type(program).__name__}")
    options, scales = _options(groups, given)
    from scalify import portable  # late: it is also run as a command

    text = portable.to_text(program)
    made = compile_text(text, options, threads, groups.gpu.device)
    if scales is None and _depends_on_sizes(made.report()):
        made._remake = make_recompiler(text, options, groups.numerics.ranges)
    return made


def _depends_on_sizes(report: Report) -> bool:
    """Returns whether other sizes of arguments may give other scales, or formats of dots.

    Measured and delayed scales need no argument's, but the choice of formats reads its size, and
    so do the scales of a first step.
    """
    return bool(
        report.measured_arguments() or report.casts() or any(row["wide"] for row in report.dots())
    )


def _options(groups: Groups, given: dict[str, Any]) -> tuple[dict[str, Any], ScalesLike]:
    """Returns the compiler's options, and the scales of arguments."""
    numerics, recipe, snapshots = groups.numerics, given["recipe"], given["snapshots"]
    options: dict[str, Any] = {
        **device_options(given, groups.distribution, groups.gpu),
        **roles_option(numerics.roles),
        "recipe": None if recipe is None else str(recipe),
        "snapshots": None if snapshots is None else os.fspath(snapshots),
    }
    carried, scales = carried_option(numerics.cast_scales, numerics.scales)
    options |= carried
    if given["simulate_ranks"] is not False:
        options["simulateRanks"] = 0 if given["simulate_ranks"] is True else given["simulate_ranks"]
    if given["arg_shapes"]:
        options["argShapes"] = [
            f"{name}={'x'.join(str(int(size)) for size in shape)}"
            for name, shape in given["arg_shapes"].items()
        ]
    if (assumed := range_option(scales, numerics.ranges)) is not None:
        options["ranges"] = assumed
    return options | argument_options(scales), scales
