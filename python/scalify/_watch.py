"""What a step's counters say after it has run: warnings of casts that clip, NaNs, broken proofs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from scalify.calibration import HealthPolicy, Patient
from scalify.ranges import broken_assumptions, describe_broken
from scalify.recipe import Recipe, RecipeLike

__all__ = ["Health", "Watch", "policy_of", "way_out"]

Health = HealthPolicy | Literal["report", "rescale", "widen", "off"] | None

# What a step without a policy is held to. Gradients have tails that become zero in healthy runs, so
# that only what saturates counts; a look waits for a GPU, so that there is one in 20 steps.
USUAL = HealthPolicy("report", every=20, flushed=1.0)


def policy_of(health: Health) -> HealthPolicy | None:
    """Returns the policy that `scalify.jit(..., health=)` means; None reads no counter."""
    if isinstance(health, str):
        return None if health == "off" else HealthPolicy(health)
    return USUAL if health is None else health


def way_out(recipe: RecipeLike, is_in_stages: bool, is_adaptive: bool) -> str:
    """Returns what the user of a recipe can do about a cast that clips."""
    if Recipe.of(recipe).is_delayed:
        return "A larger margin in the recipe's 'scales' gives its amax room to grow."
    if is_adaptive:
        return "Jit.rescale() between steps moves the scales, and health='rescale' calls it."
    if is_in_stages:
        return "wide= leaves a cast wide; stages of a pipeline keep constant scales."
    return "health='rescale' lets scales follow what is seen, health='widen' leaves a cast wide."


class Watch:
    """Looks at a step's counters as a policy says, and warns of each thing once.

    Attributes:
        policy: what is looked for and how often.
        steps: how many steps have run, by which looks are due.
    """

    def __init__(self, policy: HealthPolicy | None, name: str, advice: Callable[[], str]) -> None:
        """Watches the step `name`; `advice()` is what a user can do about a cast that clips."""
        self.policy = policy
        self.steps = 0
        self._name = name
        self._advice = advice
        self._said: set[str] = set()

    def is_due(self) -> bool:
        """Counts the step that has just run; whether the policy looks at it."""
        self.steps += 1
        return self.policy is not None and self.steps % self.policy.every == 0

    def look(
        self,
        health: Sequence[Mapping[str, Any]],
        state: Callable[[], tuple[Sequence[Any], Sequence[Any]]],
        patient: Patient,
    ) -> None:
        """Warns of what a step has left.

        Args:
            health: its rows, as `Executable.health` has them.
            state: returns the artefact's assumptions and the state to look for them in.
            patient: what is known of the step's casts under the policy "widen".
        """
        assert self.policy is not None
        if self.policy.assumptions:
            self._broken(*state())
        self._nans(health)
        if self.policy.action == "widen":
            self._widened(patient, health)
        elif self.policy.action != "rescale":
            self._sick(health)

    def _say(self, key: str, text: str) -> None:
        """Warns once of `key`, at the line that called the step."""
        if key in self._said:
            return
        self._said.add(key)
        # _say, what found it, look, Jit._look, Jit.__call__, and the caller.
        warnings.warn(text, stacklevel=6)

    def _broken(self, assumptions: Sequence[Any], state: Sequence[Any]) -> None:
        for broken in broken_assumptions(assumptions, state):
            self._say(
                broken["assumption"],
                f"a proof no longer holds: {describe_broken(broken)}; casts still saturate "
                "and count; measure and compile again to prove them anew",
            )

    def _nans(self, health: Iterable[Mapping[str, Any]]) -> None:
        """Warns of the first cast, in the order of the step, that read a NaN."""
        found = [row for row in health if row["nans"]]
        if not found:
            return
        first = found[0]
        self._say(
            "nans",
            f"{len(found)} casts read NaN, first cast '{first['cast']}' to {first['format']} at "
            f"{first['loc']}: {first['nans']} of {first['elements']} values. No scale makes them: "
            "look at what is computed before it",
        )

    def _widened(self, patient: Patient, health: Sequence[Mapping[str, Any]]) -> None:
        assert self.policy is not None
        for cast in patient.look(self.policy, health):
            self._say(
                f"wide {id(patient)} {cast.cast}",
                f"of cast '{cast.cast}' at {cast.names or 'no name'}, {cast.reason} at "
                f"{self.policy.patience} looks in a row: '{self._name}' leaves it wide "
                "once .recompile() was called",
            )

    def _sick(self, health: Sequence[Mapping[str, Any]]) -> None:
        assert self.policy is not None
        for row in self.policy.sick(health):
            self._say(
                row["cast"],
                f"cast '{row['cast']}' to {row['format']} at {row['loc']}: of "
                f"{row['elements']} values {row['saturated']} saturated and "
                f"{row['flushed']} became zero. {self._advice()}",
            )
