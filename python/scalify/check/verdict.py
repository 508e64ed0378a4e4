"""From measurements to advice: which bars a recipe misses, what to try next, three lines."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from scalify.check.results import BARS, CastHealth, Look, Result, Verdict
from scalify.recipe import Recipe

__all__ = ["amax_recipe", "judged", "ladder", "verdict", "with_more_roles"]

_NAMES = 3  # of tensors and casts, in a sentence
# Share of the FLOPs of products below which a recipe is not worth its name.
_LITTLE = 0.01
# Share below which roles that the recipe leaves wide are tried narrow, if they are as much.
_SOME = 0.25
# A time below this share of another one is called faster.
_CLEARLY = 0.9
_ROLES = re.compile(r"(\w+)[: ]")


def amax_recipe(recipe: Recipe) -> Recipe:
    """Returns the recipe with scales from largest values: of "fp8" it is "fp8-current"."""
    # An amax leaves no headroom for gradients to grow into.
    return recipe.replace(scales="current", gradient_exponent=0, name=f"{recipe.name}-current")


def judged(result: Result, amax: float | None) -> Result:
    """Returns a result with the bars that it misses.

    Args:
        result: the measurements.
        amax: the cosine of all gradients by amax scaling; None if that is no yardstick for it.
    """
    faults = [fault for look in result.looks for fault in _look_faults(look)]
    whole = result.looks[0].whole if result.looks else 0.0
    if amax is not None and whole < amax - BARS.amax:
        faults.append(f"cosine {whole:.4f}, amax scaling has {amax:.4f}")
    for what, rows in (
        ("saturate", [cast for cast in result.casts if cast.saturated > BARS.saturated]),
        ("flush", [cast for cast in result.casts if cast.flushed > BARS.flushed]),
        ("read NaN", [cast for cast in result.casts if cast.nans]),
    ):
        if rows:
            faults.append(f"{len(rows)} casts {what}: {_casts(rows, what)}")
    return dataclasses.replace(result, amax=amax, faults=tuple(faults))


def _look_faults(look: Look) -> list[str]:
    when = f" after {look.step} steps" if look.step else ""
    faults = []
    if look.whole < BARS.whole:
        faults.append(f"cosine {look.whole:.4f}{when}")
    low = sorted((value, name) for name, value in look.tensors.items() if value < BARS.worst)
    if low:
        names = ", ".join(f"{name} {value:.3f}" for value, name in low[:_NAMES])
        more = f" and {len(low) - _NAMES} more" if len(low) > _NAMES else ""
        faults.append(f"below {BARS.worst}{when}: {names}{more}")
    return faults


def _casts(rows: Sequence[CastHealth], what: str) -> str:
    key = "flushed" if what == "flush" else "saturated"
    ordered = sorted(rows, key=lambda cast: -float(getattr(cast, key)))
    return ", ".join(
        f"{cast.cast} at {cast.location} ({100 * getattr(cast, key):.2g} %)"
        for cast in ordered[:_NAMES]
    )


def with_more_roles(result: Result) -> tuple[str, Recipe] | None:
    """Returns a label and a recipe that also casts the roles in which most FLOPs stay wide.

    None if enough is narrow, or if no role of the recipe is the reason.
    """
    start = Recipe.of(result.recipe)
    if not start.casts or not start.forward.startswith("f8") or result.narrow >= _SOME:
        return None
    shares: dict[str, float] = {}
    for share in result.wide:
        if (found := _ROLES.match(share.reason)) and getattr(start, found[1], None) is False:
            shares[found[1]] = shares.get(found[1], 0.0) + share.flops
    # Parts that are wide for their accuracy stay so.
    shares.pop("sensitive", None)
    roles = [role for role, share in shares.items() if share >= _SOME]
    if not roles:
        return None
    label = f"{result.label}, {', '.join(f'{role}=True' for role in roles)}"
    return label, start.replace(**dict.fromkeys(roles, True))


def ladder(failed: Result) -> Iterator[tuple[str, Recipe]]:
    """Yields what to try after an FP8 recipe has failed, from fast to safe, with labels.

    Args:
        failed: the result of the recipe that was asked for.
    """
    start = Recipe.of(failed.recipe)
    if not start.casts or not start.forward.startswith("f8"):
        return
    if failed.amax is not None and failed.looks[0].whole < failed.amax - BARS.amax:
        yield f"{failed.label}, amax scaling", amax_recipe(start)
    low = {
        name for look in failed.looks for name, value in look.tensors.items() if value < BARS.worst
    }.intersection(failed.weights)
    if low and failed.looks[-1].whole >= BARS.whole:
        where = [(f"^{re.escape(name)}$", "bf16") for name in sorted(low)]
        yield f"{failed.label}, {len(low)} layers in bf16", start.replace(where=where)
    yield (
        f"{failed.label}, backward in bf16",
        start.replace(input_grad="bf16", weight_grad="bf16"),
    )
    yield f"{failed.label}, forward in bf16", start.replace(forward_dot="bf16")


def verdict(
    results: Sequence[Result],
    jax_seconds: float,
    jax_memory: int | None,
    compared: str,
    left_out: int = 0,
) -> Verdict:
    """Returns the advice: the first result that holds, in the order in which they were tried.

    Args:
        results: of the recipe asked for first, then of what was tried in its place.
        jax_seconds: of a step by `jax.jit`.
        jax_memory: bytes of its program.
        compared: "gradients", "updates" or "results".
        left_out: the number of tensors that are not judged.
    """
    asked = results[0]
    useful = [result for result in results if result.holds and _is_worth(result)]
    chosen = useful[0] if useful else None
    if chosen is None:
        reason = asked.error or "; ".join(asked.faults) or _why_wide(asked)
        first = f"Do not use {asked.label} for this step: {reason}."
        rest = [
            f"{other.label} misses too: {other.error or '; '.join(other.faults)}"
            for other in results[1:]
            if not other.holds
        ]
        second = ". ".join(rest[-2:]) or "It would cast nothing that counts"
        return Verdict("do not", "", (first, f"{second}.", _cost(asked, jax_seconds, jax_memory)))
    if chosen is asked:
        first = f"Use it: recipe '{chosen.label}' as it is."
    else:
        reason = asked.error or "; ".join(asked.faults) or _why_wide(asked)
        first = (
            f"Use {chosen.label}, recipe={chosen.recipe!r}, in place of {asked.label}: {reason}."
        )
    cost = _cost(chosen, jax_seconds, jax_memory)
    evidence = _evidence(chosen, compared) + _warn_of_few(chosen, left_out)
    lines = (first, evidence, cost + _faster(chosen, useful))
    if chosen is asked:
        return Verdict("use", chosen.recipe, lines)
    return Verdict("with settings", chosen.recipe, lines)


def _is_worth(result: Result) -> bool:
    return result.narrow >= _LITTLE


def _why_wide(result: Result) -> str:
    if not result.wide:
        return "it has no product that could be narrow"
    top = result.wide[0]
    share = f"{100 * top.flops:.0f} % of FLOPs"
    return f"its products stay wide ({top.dots} of them, {share}: {top.reason})"


def _evidence(result: Result, compared: str) -> str:
    parts = []
    for look in result.looks:
        value, name = look.worst
        when = f" after {look.step} steps" if look.step else ""
        parts.append(f"cosine {look.whole:.4f}{when}, worst tensor {value:.4f} ({name})")
    text = f"Beside F32, {compared}: {'; '.join(parts)}"
    if result.amax is not None:
        text += f"; amax scaling {result.amax:.4f}"
    saturated = max((cast.saturated for cast in result.casts), default=0.0)
    drifts = [
        f"{phase} {span[0]:+.1f} .. {span[1]:+.1f}"
        for phase in ("forward", "backward")
        if (span := result.drift(phase)) is not None
    ]
    if drifts:
        text += f"; drift in binades {', '.join(drifts)}"
    return f"{text}; at most {100 * saturated:.2g} % of a cast saturate."


def _warn_of_few(result: Result, left_out: int) -> str:
    """Returns a sentence for a step most of whose tensors say nothing yet, or ""."""
    judged = len(result.looks[0].tensors)
    if left_out <= judged:
        return ""
    return (
        f" Only {judged} of {judged + left_out} tensors could be judged (the others are zero or "
        "rounding noise, as at initial weights of zero): check again from a checkpoint."
    )


def _cost(result: Result, jax_seconds: float, jax_memory: int | None) -> str:
    text = f"{100 * result.narrow:.0f} % of the FLOPs of products are narrow"
    if result.wide and result.narrow < 1:
        text += f" (most of the rest: {result.wide[0].reason})"
    if result.seconds:
        ratio = jax_seconds / result.seconds
        text += (
            f"; a step takes {1e3 * result.seconds:.3g} ms here, {ratio:.2f} "
            f"times the speed of jax.jit ({1e3 * jax_seconds:.3g} ms)"
        )
    if result.memory:
        text += f"; {_bytes(result.memory)}"
        if jax_memory:
            text += f", jax.jit {_bytes(jax_memory)}"
    return text + "."


def _faster(chosen: Result, useful: Sequence[Result]) -> str:
    """Returns a sentence on another recipe that holds and is faster on this machine, or ""."""
    timed = [(other.seconds, other) for other in useful if other.seconds is not None]
    if not timed or chosen.seconds is None:
        return ""
    seconds, other = min(timed, key=lambda pair: pair[0])
    if other is chosen or seconds > _CLEARLY * chosen.seconds:
        return ""
    return f" On this machine {other.label}, which holds too, takes {1e3 * seconds:.3g} ms."


def _bytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
