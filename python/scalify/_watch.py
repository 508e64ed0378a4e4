"""Checks of a step's counters: warnings of casts that clip, NaNs, and violated assumptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

from scalify._diagnostics import warn
from scalify.calibration import HealthPolicy, WidenTracker
from scalify.ranges import describe_violation, violated_assumptions
from scalify.recipe import Recipe

__all__ = ["Health", "Watch", "advice_for", "carries", "make_policy", "may_adapt"]

Health = HealthPolicy | Literal["report", "rescale", "adapt", "widen", "off"] | None

# The policy of a step without one. In healthy runs the tails of gradients are flushed, so only
# saturation counts. A check waits for the GPU, so there is one every 20 steps.
DEFAULT_POLICY = HealthPolicy("adapt", every=20, flushed=1.0)
_DEFAULT_REPORT_POLICY = dataclasses.replace(DEFAULT_POLICY, action="report")
# The factor by which checks become more frequent: a scale that is far off takes several moves.
_ADAPTED_CHECK_FACTOR = 5


def make_policy(
    health: Health, adaptive_scales: bool | None, is_static: bool = False
) -> HealthPolicy | None:
    """Returns the policy that `scalify.Numerics(health=)` means; None reads no counter.

    Scales that the user chose to be static are checked in the step in which a cast is unhealthy.

    Raises:
        ValueError: the policy moves scales, which `adaptive_scales=False` forbids.
    """
    if health is None:
        usual = _DEFAULT_REPORT_POLICY if adaptive_scales is False else DEFAULT_POLICY
        return dataclasses.replace(usual, at_once=usual.saturated) if is_static else usual
    if isinstance(health, str):
        health = None if health == "off" else HealthPolicy(health)
    if health is not None and health.action in ("rescale", "adapt") and adaptive_scales is False:
        raise ValueError(
            f"health policy '{health.action}' needs adaptive_scales=True: else scales are constants"
        )
    return health


def advice_for(options: Mapping[str, Any], is_in_stages: bool) -> str:
    """Returns advice on a cast that clips, for the user of a step with these options."""
    recipe, is_adaptive = options["recipe"], bool(options.get("adaptScales"))
    if Recipe.of(recipe).is_delayed:
        return "A larger `margin` in the recipe gives its amax room to grow."
    if carries(options):
        return (
            "Its scale is carried and follows the amax of each step: values that grow faster from "
            "one step to the next clip in that step; health='widen' leaves such a cast wide."
        )
    if is_adaptive:
        return "Jit.rescale() between steps moves the scales, and health='rescale' calls it."
    if is_in_stages:
        return "wide= leaves a cast wide; stages of a pipeline keep constant scales."
    return "health='rescale' lets scales follow the values, health='widen' leaves a cast wide."


def carries(options: Mapping[str, Any]) -> bool:
    """Whether a step with these options carries scales of casts and moves them itself."""
    is_propagated = Recipe.of(options["recipe"]).scales == "propagated"
    return is_propagated and not options.get("adaptScales") and options.get("carryScales", True)


def may_adapt(options: Mapping[str, Any]) -> bool:
    """Whether a step with these options can be recompiled with scales that move.

    False if scales move already, are not constants, or come from a calibration.
    """
    is_propagated = Recipe.of(options["recipe"]).scales == "propagated"
    moves = carries(options) or options.get("adaptScales")
    return is_propagated and not moves and "castScales" not in options


class Watch:
    """Checks a step's counters by a policy, and issues each warning once.

    Attributes:
        policy: the limits, and how often to check.
        steps: the number of steps run for each compiled shape, which determines when to check.
    """

    def __init__(
        self,
        policy: HealthPolicy | None,
        name: str,
        advice: Callable[[], str],
        is_carried: bool = False,
    ) -> None:
        """Watches the step `name`; `advice()` returns advice on a cast that clips.

        If scales are carried and the user gave no policy, only casts that are unhealthy in two
        consecutive steps are reported, since the step after one that clips has moved the scale.
        """
        self.policy = policy
        self._needs_two_checks = is_carried and policy in (DEFAULT_POLICY, _DEFAULT_REPORT_POLICY)
        self._unhealthy_before: set[str] = set()
        self.steps: dict[Hashable, int] = {}
        self._name = name
        self._advice = advice
        self._issued: set[str] = set()

    def is_due(self, key: Hashable) -> bool:
        """Counts a step that has run; returns whether the policy checks it."""
        self.steps[key] = self.steps.get(key, 0) + 1
        if self.policy is None:
            return False
        return bool(self._unhealthy_before) or self.steps[key] % self.policy.every == 0

    def look(
        self,
        health: Sequence[Mapping[str, Any]],
        state: Callable[[], tuple[Sequence[Any], Sequence[Any]]],
        tracker: WidenTracker,
        may_adapt: bool,
    ) -> bool:
        """Checks a step and warns; returns whether to recompile it with scales that move.

        Args:
            health: the step's rows, as from `Executable.health`.
            state: returns the artefact's assumptions and the state to check them on.
            tracker: the step's casts under the policy "widen".
            may_adapt: whether the policy "adapt" can recompile the step.
        """
        assert self.policy is not None
        if self.policy.assumptions:
            self._broken(*state())
        self._warn_nans(health)
        if self.policy.action == "widen":
            self._widened(tracker, health)
        elif self.policy.action == "adapt" and may_adapt:
            return self._adapts(health)
        elif self.policy.action != "rescale":
            self._warn_unhealthy(health)
        return False

    def stuck(self, health: Iterable[Mapping[str, Any]]) -> None:
        """Warns of casts that saturate although scales move, as their own does not."""
        assert self.policy is not None
        for row in self.policy.unhealthy(health):
            if row["saturated"] > self.policy.saturated * row["elements"]:
                self._say(
                    f"stuck {row['cast']}",
                    f"{_describe_cast(row)}, and its scale does not move: casts in loops and "
                    "branches, of state that is returned narrow and by measured scales keep "
                    "theirs. health='widen' leaves such a cast wide, and recipe 'fp8-current' "
                    "measures its scale",
                )

    def warn_renewed(self, changed: int, count: int) -> None:
        """Warns once that `changed` of `count` dots take other formats."""
        self._say(
            "renewed",
            f"'{self._name}' is compiled once more, and later as often as it takes: its arguments' "
            "sizes have moved, or its gradients from F32's, so that other dots are sensitive to "
            "rounding "
            f"({changed} of {count} change their format); health='off' keeps formats",
        )

    def warn_not_renewed(self, error: Exception) -> None:
        """Warns once that formats could not be chosen for the sizes of now."""
        self._say(
            "not renewed",
            f"'{self._name}' keeps its formats, since those for the sizes that its arguments have "
            f"now could not be found: {type(error).__name__}: {error}",
        )

    def adapt(self) -> None:
        """Switches to the policy "rescale"."""
        assert self.policy is not None
        every = max(1, self.policy.every // _ADAPTED_CHECK_FACTOR)
        self.policy = dataclasses.replace(self.policy, action="rescale", every=every)

    def _say(self, key: str, text: str) -> None:
        """Warns once of `key`, at the line that called the step."""
        if key not in self._issued:
            self._issued.add(key)
            warn(text)

    def _broken(self, assumptions: Sequence[Any], state: Sequence[Any]) -> None:
        for broken in violated_assumptions(assumptions, state):
            self._say(
                broken["assumption"],
                f"a proof no longer holds: {describe_violation(broken)}; casts still saturate "
                "and count; measure and compile again to prove them anew",
            )

    def _warn_nans(self, health: Iterable[Mapping[str, Any]]) -> None:
        """Warns of the first cast, in the order of the step, that read one, or an infinity."""
        found = [row for row in health if row["nans"]]
        if not found:
            return
        first = found[0]
        self._say(
            "nans",
            f"{len(found)} casts read NaN or infinities, first cast '{first['cast']}' to "
            f"{first['format']} at {first['loc']}: {first['nans']} of {first['elements']} values; "
            "look at what is computed before it",
        )

    def _widened(self, tracker: WidenTracker, health: Sequence[Mapping[str, Any]]) -> None:
        assert self.policy is not None
        for cast in tracker.look(self.policy, health):
            self._say(
                f"wide {id(tracker)} {cast.cast}",
                f"of cast '{cast.cast}' at {cast.names or 'no name'}, {cast.reason} at "
                f"{self.policy.patience} checks in a row: '{self._name}' leaves it wide "
                "after .recompile()",
            )

    def _adapts(self, health: Sequence[Mapping[str, Any]]) -> bool:
        assert self.policy is not None
        unhealthy = self.policy.unhealthy(health)
        if not unhealthy:
            return False
        more = f", and {len(unhealthy) - 1} more" if len(unhealthy) > 1 else ""
        self._say(
            "adapts",
            f"{_describe_cast(unhealthy[0])}{more}. '{self._name}' is compiled once more, with "
            "scales that follow the values from here on; health='rescale' has them from the start, "
            "and health='report' leaves them as they are",
        )
        return True

    def _warn_unhealthy(self, health: Sequence[Mapping[str, Any]]) -> None:
        assert self.policy is not None
        unhealthy = self.policy.unhealthy(health)
        if self._needs_two_checks:
            before, self._unhealthy_before = (
                self._unhealthy_before,
                {row["cast"] for row in unhealthy},
            )
            unhealthy = [
                row for row in unhealthy if row["cast"] in before and not self._is_settled(row)
            ]
        for row in unhealthy:
            self._say(row["cast"], f"{_describe_cast(row)}. {self._advice()}")

    def _is_settled(self, row: Mapping[str, Any]) -> bool:
        """Whether a carried scale is where its rule puts it although its cast flushes values.

        The rule leaves formats of five exponent bits 24 binades or more below the amax. Most
        gradients of a nearly one-hot softmax are smaller than that: no scale keeps them, and they
        do not count beside the others.
        """
        assert self.policy is not None
        saturates = row["saturated"] > self.policy.saturated * row["elements"]
        survives = row["flushed"] + row["zeros"] < row["elements"]
        return survives and not saturates and row["format"] in ("f8E5M2", "f16")


def _describe_cast(row: Mapping[str, Any]) -> str:
    return (
        f"cast '{row['cast']}' to {row['format']} at {row['loc']}: of {row['elements']} values "
        f"{row['saturated']} saturated and {row['flushed']} became zero"
    )
