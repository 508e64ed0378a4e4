"""The compiler's options, from the options of `jit`, `compile` and `transform`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from scalify import _runtime
from scalify._groups import Groups
from scalify._plain import plain_options
from scalify.calibration import Calibration, HealthPolicy, carried_option, wide_option
from scalify.options import FIRST_BATCH, GPU, Distribution, Numerics
from scalify.ranges import RangesLike
from scalify.recipe import Recipe, RecipeLike
from scalify.scales import ScalesLike, roles_option

__all__ = ["Settings", "device_options", "moves", "numerics_options"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of a `Jit`, besides its function.

    Attributes:
        options: of the compiler, without those that depend on the step's arguments.
        scales: of the arguments; None to measure them.
        ranges: what proofs may assume of the arguments.
        policy: for casts that clip; None reads no counter.
        distribution: the ranks.
        device: where steps run.
        threads: of a step on a CPU.
        calibrates: whether the first batch calibrates casts whose scales come from priors.
        renews: whether formats that depend on sizes of arguments are decided again along training.
    """

    options: dict[str, Any]
    scales: ScalesLike
    ranges: RangesLike
    policy: HealthPolicy | None
    distribution: Distribution
    device: str | None
    threads: int
    calibrates: bool = False
    renews: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether steps run on one rank, which does not simulate others."""
        simulated = Recipe.of(self.options["recipe"]).simulated_ranks
        return self.distribution.mesh is None and simulated == 1

    @staticmethod
    def of(groups: Groups, given: Mapping[str, Any]) -> Settings:
        """Returns the settings for arguments of `scalify.jit`.

        Args:
            groups: its groups of options.
            given: its other arguments, by name.

        Raises:
            ValueError: the recipe cannot use a calibration.
        """
        numerics, recipe = groups.numerics, given["recipe"]
        own, scales = numerics_options(recipe, numerics)
        options = {
            **device_options(given, groups.distribution, groups.gpu),
            **own,
            "recipe": str(recipe),
            "callbacks": True,
            "fallback": given["fallback"] or "",
            "packState": numerics.pack_state,
        }
        if given["target"] == "cpu" and given["mcpu"] is None:
            # The step runs where it is compiled.
            options["mcpu"] = _runtime.processor() or None
        if moves(numerics):
            # Scales of state move too; F32 state does not depend on them.
            options |= {"adaptScales": True, "packState": False}
        run = (groups.distribution, groups.gpu.device, given["threads"])
        calibrates = numerics.calibration == FIRST_BATCH and groups.distribution.pipeline is None
        chosen = Recipe.of(recipe)
        depends = chosen.casts and chosen.sensitive is not True and scales is None
        policy = numerics.policy
        renews = depends and calibrates and own.get("carryScales", True)
        # Casts that are wide by name may be others, or have other numbers, under other formats.
        renews = renews and policy is not None and policy.action != "widen" and not numerics.wide
        # Sizes that the user gives are those to choose formats for. A pipeline starts from the bits
        # of one process, whose formats it keeps.
        is_alone = groups.distribution.pipeline is None
        options["formatsStay"] = scales is None and not renews and is_alone
        return Settings(options, scales, numerics.ranges, policy, *run, calibrates, renews)


def moves(numerics: Numerics) -> bool:
    """Whether scales of casts are state that `Jit.rescale` moves, from the first step on."""
    is_rescaled = numerics.policy is not None and numerics.policy.action == "rescale"
    return is_rescaled or bool(numerics.adaptive_scales)


def device_options(
    given: Mapping[str, Any], distribution: Distribution, gpu: GPU
) -> dict[str, Any]:
    """Returns the compiler's options for device and ranks, for `jit` and `compile`.

    Args:
        given: the function's arguments, by name.
        distribution: the group of options for ranks.
        gpu: the group of options for a GPU.
    """
    plain: dict[str, Any] = {}
    for source in (given, vars(distribution), vars(gpu)):
        plain |= plain_options(source)
    return plain | {"bucketBytes": distribution.bucket_bytes}


def numerics_options(recipe: RecipeLike, numerics: Numerics) -> tuple[dict[str, Any], ScalesLike]:
    """Returns the compiler's options for scales of casts, and the scales of arguments.

    Both are for `jit` and `transform`.

    Raises:
        ValueError: the recipe cannot use a calibration.
    """
    own, scales = carried_option(numerics.cast_scales, numerics.scales)
    options = own | {"rangeUse": numerics.range_use, **roles_option(numerics.roles)}
    rescale = numerics.rescale
    given = numerics.calibration
    calibration = given if isinstance(given, Calibration) else None
    if rescale:
        options["rescaleAt"] = list(rescale)
    if calibration is not None and Recipe.of(recipe).is_delayed:
        raise ValueError(
            f"recipe '{recipe}' takes scales from the amaxes of earlier steps, and a calibration "
            "has constants: leave it out, or take another recipe"
        )
    if calibration is not None:
        options["castScales"] = calibration.options(recipe)
        scales = calibration.scales if scales is None else scales
    if numerics.wide:
        options["wide"] = wide_option(numerics.wide)
    return options, scales
