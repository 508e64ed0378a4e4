"""The compiler: StableHLO text in, artefact or text out."""

from typing import Any

def compile(text: str, options: str) -> tuple[bytes, list[dict[str, Any]]]:
    """Returns (artefact, diagnostics).

    Args:
        text: a StableHLO module.
        options: a JSON object of CompileOptions' members (include/scalify/Pipeline/Compiler.h).

    Raises:
        scalify.CompileError: the text cannot be compiled with the options.
        ValueError: `options` is not such an object.
    """

def transform(text: str, options: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Returns (StableHLO text, report as JSON, diagnostics); raises as `compile` does."""

def report(text: str, options: str) -> str:
    """Returns the report of every value as JSON (docs/stages/explain.md); raises as `compile`."""

def decide_formats(text: str, options: str, exponents: list[int]) -> list[list[str]]:
    """Returns the formats of a program's dots on floats by each correction of the noise analysis.

    Args:
        text: see `compile`.
        options: those of `compile`; `noiseExponent` is not used.
        exponents: log2 of corrections.
    """

def opt(text: str, pipeline: str, debug_info: bool = False) -> str:
    """Returns the IR text after a pass pipeline in mlir-opt's syntax; raises as `compile` does.

    Args:
        text: the IR.
        pipeline: the passes.
        debug_info: whether to print the ops' locations.
    """

def options() -> dict[str, list[str]]:
    """Returns the words that each plain option takes, none for any text, by the option's key."""

def targets() -> dict[str, dict[str, Any]]:
    """Returns the names, capabilities and costs of each target, by its name.

    Times are in nanoseconds, rates per nanosecond.
    """

def run_passes(
    text: str, pipeline: str, debug_info: bool = False, options: str = "{}"
) -> tuple[str, list[dict[str, Any]]]:
    """Returns the result of `opt`, and the remarks of the passes.

    Args:
        text: see `opt`.
        pipeline: see `opt`.
        debug_info: see `opt`.
        options: those of `compile`; only `roles` is used.
    """

def recipes() -> list[str]:
    """Returns the names of the built-in recipes."""

def recipe_parts() -> list[str]:
    """Returns the names of a recipe's parts, in print order."""

def priors() -> list[dict[str, Any]]:
    """Returns the table of guesses about training: name, predicts, constant, reason."""

def gradient_limits() -> dict[str, float]:
    """Returns the errors of gradients up to which formats hold.

    Mean squares of errors over those of gradients: `worst` for one tensor, `all` for all together.
    Dots are widened until errors are within the share `room` of these, or `narrow_room` where they
    become 16 bits.
    """

def carried_limits() -> dict[str, float]:
    """Returns when carried scales of E4M3 move, and where to.

    `room`: the binades that a move leaves above the amax. `flushed`: the share of nonzero elements
    that a cast may flush before its scale moves down.
    """

def read_recipe(text: str) -> str:
    """Returns the name and the value of every part of a recipe, as a JSON object.

    Args:
        text: a preset's name, or a `#scalify.recipe<...>`.

    Raises:
        scalify.CompileError: the text is neither.
    """

def print_recipe(name: str, parts: str) -> str:
    """Returns the shortest text of a recipe; raises as `read_recipe`.

    Args:
        name: of the recipe; a preset's name implies its parts.
        parts: a JSON list of [part, value] with values as from `read_recipe`; the last entry of a
            part wins.
    """
