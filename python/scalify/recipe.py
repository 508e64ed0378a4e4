"""Recipes as values: which values are cast to which formats, and the sources of their scales.

The compiler parses and prints recipes, so that there is one grammar. `Recipe` has a field for each
part of the attribute `#scalify.recipe`, and a test compares the two.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from scalify import _compiler

__all__ = ["Format", "Formats", "Recipe", "RecipeLike", "recipes"]

Format = Literal["f8E4M3FN", "f8E5M2", "f16", "bf16", "f32"]
# True: the recipe's own formats. False or "wide": not cast. A pair: the formats of forward operands
# and of gradients; "f32" keeps an operand, and with it the dot, wide.
Formats = bool | Literal["wide"] | Format | tuple[Format, Format]
# The accumulation of dots on FP8 data; a triple is for forward_dot, input_grad and weight_grad.
Sum = Literal["fast", "precise"]
Storage = Literal["given", "f8E4M3FN", "f8E5M2", "f16", "bf16"]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A precision recipe; its fields are the parts of `#scalify.recipe`, by default those of fp8.

        recipe = scalify.Recipe.preset("fp8-delayed").replace(head=True, history=1024)
        recipe = scalify.Recipe("mine", where={r"layer0/": "wide"}).replace(attention="bf16")
        step = scalify.jit(train_step, recipe=recipe)

    `str(recipe)` is the text of the attribute: the name, and the parts in which it differs from the
    preset of that name (from fp8, where there is none). Two recipes are equal if their parts are;
    the name is a label, in reports and in an artefact's manifest, and changes no code and no hash.

    Attributes:
        name: a label.
        scales: where scales come from: "none" (nothing is cast), "propagated" (from the rules),
            "current" (the operand's amax, measured in the step), "unit" (a plain cast), "block"
            (an amax for each block of an operand), "delayed" (amaxes of earlier steps).
        forward: format of operands computed by the forward.
        gradient: format of operands that are gradients.
        linear: formats of linear layers' dots; the roles below are given likewise.
        attention_qk: of the scores.
        attention_pv: of the product of weights and values, and its two gradients.
        attention_ds: of the dots on the gradient of the scores.
        head: of the last linear layer before the loss.
        embedding: of a one-hot times a table.
        convolution: of convolutions.
        router: of a linear layer that chooses experts.
        optimizer: of dots of the update, as in Muon.
        product: of two activations without a softmax between, as in linear attention.
        forward_dot: of dots that compute a layer's output, in place of their role's formats if the
            role is cast; True: the role's formats.
        input_grad: of dots that compute the gradient of a layer's input, likewise.
        weight_grad: of dots that compute the gradient of a weight, likewise.
        accumulation: of dots on FP8 data where the machine has two modes, as Hopper's tensor cores:
            "fast" or "precise", or a triple for forward_dot, input_grad and weight_grad.
        unprofitable: formats of dots that FP8 would make slower than BF16 by a model of an H100;
            True: as of all others.
        sensitive: of dots whose rounding, by a model, moves gradients too far from those of F32;
            True: as of all others.
        where: exceptions, of which the first match applies: pairs of a regular expression, which is
            searched in the name of the dot's weight and in its location, and formats, or "fast" or
            "precise". Given as a mapping or as pairs. The prefix "weight_grad:" (or another kind)
            restricts an exception to dots of that kind.
        masters: storage format of parameters, with their scale; "given": unchanged.
        first_moment: storage format of the optimizer's moments other than second moments.
        second_moment: storage format of moments whose root the optimizer takes; the root is stored.
        state_rounding: "stochastic", which keeps the mean, or "nearest".
        stored_gradient: storage format of gradients of weights between the backward and the
            optimizer, with their scale; "given": unchanged.
        gradient_scaling: factor on these gradients: "mu", which follows saturation; "minimum", none
            beside the scale that ranks share; "inverse_sqrt" of the number of ranks.
        gradient_sum: format of sums of gradients that a loop over micro-batches carries.
        gradient_wire: format in which a rank sends its gradient of a weight to the ranks that
            reduce it, in F32, with a scale that the ranks share; "given": unchanged.
        activation_wire: the same for partial products that ranks reduce in the forward, and for
            their gradients, as under tensor parallelism.
        simulated_ranks: gradients with a leading dimension of this size are reduced like those of
            this many ranks; 1: none are.
        saved: format of values saved by the forward for the backward, except operands of dots.
        gradient_exponent: added to the log2 of every gradient's scale.
        block: sizes of blocks of activations and gradients along the free and the contracting
            dimension, under "block"; 0 spans the dimension.
        weight_block: of blocks of weights.
        history: the number of earlier steps whose amaxes "delayed" uses.
        history_use: which of these amaxes it uses, "max" or "most_recent".
        margin: binades that "current", "block" and "delayed" leave free above the amax; under
            others 0.
        rescale: where the step measures scales: "residual", "residual_grad", or regular
            expressions for names in locations.
        priors: the guesses about training that predictions use, by name; "default" for all, "none"
            for none.

    Raises:
        scalify.CompileError: a part cannot have that value; names the part, the value, and the
            possible values.
    """

    name: str = dataclasses.field(default="fp8", compare=False)
    scales: Literal["none", "propagated", "current", "unit", "block", "delayed"] = "propagated"
    forward: Format = "f8E4M3FN"
    gradient: Format = "f8E5M2"
    linear: Formats = True
    attention_qk: Formats = "bf16"
    attention_pv: Formats = "bf16"
    attention_ds: Formats = "bf16"
    head: Formats = "bf16"
    embedding: Formats = "bf16"
    convolution: Formats = "bf16"
    router: Formats = False
    optimizer: Formats = False
    product: Formats = False
    forward_dot: Formats = True
    input_grad: Formats = True
    weight_grad: Formats = True
    accumulation: Sum | tuple[Sum, Sum, Sum] = ("fast", "precise", "precise")
    unprofitable: Formats = True
    sensitive: Formats = "bf16"
    where: Mapping[str, Formats | Sum] | Iterable[tuple[str, Formats | Sum]] = ()
    masters: Storage = "given"
    first_moment: Storage = "given"
    second_moment: Storage = "given"
    state_rounding: Literal["nearest", "stochastic"] = "stochastic"
    stored_gradient: Storage = "given"
    gradient_scaling: Literal["mu", "minimum", "inverse_sqrt"] = "mu"
    gradient_sum: Storage = "given"
    gradient_wire: Storage = "given"
    activation_wire: Storage = "given"
    simulated_ranks: int = 1
    saved: Storage = "given"
    gradient_exponent: int = -3
    block: tuple[int, int] = (1, 128)
    weight_block: tuple[int, int] = (128, 128)
    history: int = 16
    history_use: Literal["max", "most_recent"] = "max"
    margin: int = 0
    rescale: tuple[str, ...] = ()
    priors: tuple[str, ...] = ("default",)

    def __post_init__(self) -> None:
        text = _print(self.name, self._parts())
        # Canonicalise values: "wide" becomes False, a list a tuple.
        for part, value in _read(text).items():
            object.__setattr__(self, part, value)
        object.__setattr__(self, "_text", text)

    def _parts(self) -> dict[str, Any]:
        return {part: getattr(self, part) for part in _compiler.recipe_parts()}

    @staticmethod
    def preset(name: str) -> Recipe:
        """Returns a built-in recipe, see `scalify.recipes()`.

        Raises:
            ValueError: the name is unknown.
        """
        if name not in recipes():
            raise ValueError(f"unknown recipe '{name}': expected one of {', '.join(recipes())}")
        return Recipe.parse(name)

    @staticmethod
    def parse(text: str) -> Recipe:
        """Returns the recipe of a text: `#scalify.recipe<"fp8", head = true>`, or a preset's name.

        Raises:
            scalify.CompileError: the text is not a recipe.
        """
        return _parse(text)

    @staticmethod
    def of(recipe: RecipeLike) -> Recipe:
        """Returns a `Recipe` unchanged, and parses a name or text."""
        return recipe if isinstance(recipe, Recipe) else _parse(recipe)

    def replace(self, **parts: Any) -> Recipe:
        """Returns the recipe with some parts replaced.

        Args:
            **parts: fields; also `attention`, `moments` and `state`, which stand for
                several. Later parts override earlier ones.

        Raises:
            scalify.CompileError: a part is unknown, or cannot have that value.
        """
        name = parts.pop("name", self.name)
        kept = {part: value for part, value in self._parts().items() if part not in parts}
        return _parse(_print(name, {**kept, **parts}))

    @property
    def casts(self) -> bool:
        """Whether anything is cast."""
        return self.scales != "none"

    @property
    def is_delayed(self) -> bool:
        """Whether scales come from the amaxes of earlier steps, which are state."""
        return self.scales == "delayed"

    @property
    def narrows_state(self) -> bool:
        """Whether masters or moments are stored in a format of the recipe's."""
        return any(
            part != "given" for part in (self.masters, self.first_moment, self.second_moment)
        )

    def __str__(self) -> str:
        return str(self.__dict__["_text"])


RecipeLike = Recipe | str


def _plain(value: Any) -> Any:
    """Returns a value for JSON, with mappings as pairs to keep their order."""
    if isinstance(value, Mapping):
        return [[key, _plain(entry)] for key, entry in value.items()]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, Iterable):
        return [_plain(entry) for entry in value]
    return str(value)


def _print(name: str, parts: Mapping[str, Any]) -> str:
    pairs = [[part, _plain(value)] for part, value in parts.items()]
    return _compiler.print_recipe(name, json.dumps(pairs))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _read(text: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(_compiler.read_recipe(text))
    return {part: _frozen(value) for part, value in values.items()}


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Recipe:
    return Recipe(**_read(text))


def recipes() -> list[str]:
    """Returns the names of the built-in recipes."""
    return _compiler.recipes()
