"""Steps of 8B and 1.3B shapes, one layer of them, and the largest micro-batches, by all sides.

Only shapes are needed here: weights are created where the steps run (weights.py).
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import blocks
import jax

import model
import optimizer
import scalify
import steps
import weights
from artefacts import Folder, manifest_of
from config import ModelConfig, TrainConfig
from runtime import Tensor
from scalify import Recipe, _compiler
from scalify.memory import largest
from shapes import LLAMA_8B

__all__ = ["CAP", "add_blocks", "add_large", "add_micro_batches", "add_middle"]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model and the number of sequences per step."""

    name: str
    model: ModelConfig
    batch: int

    def members(self, layers: int) -> dict[str, Any]:
        """Returns the members of a check with this many layers."""
        sizes = dataclasses.asdict(dataclasses.replace(self.model, layers=layers))
        return {"shape": self.name, "layers": layers, "model": sizes, "batch": self.batch}


# 16,384 tokens a step, the most that a GPU of 141 GB holds with six layers and their F32 state on
# all sides: casts of weights and the optimizer cost the same for any number of tokens.
LARGE = Shape("8B-shaped", dataclasses.replace(LLAMA_8B, seq=2048), 8)
# Bytes of a plan that fit on that GPU.
ROOM = 130 * 10**9
MIDDLE = Shape(
    "1.3B",
    dataclasses.replace(
        LLAMA_8B, seq=2048, vocab=32000, dim=2048, layers=24, heads=16, kv_heads=16, ffn=5504
    ),
    4,
)
TINY = ModelConfig(dim=64, ffn=128, seq=32, dtype="bfloat16")
# Memory of a GPU of 80 GB for a step, without its context and the libraries' workspaces.
CAP = 72 << 30
CAP_LAYERS = 4


# FP8 with other decisions than the recipe's own: products whose gradients it considers sensitive
# are cast too, as in other libraries; and scales that no step moves.
_ALL = str(Recipe.preset("fp8").replace(sensitive=True))
VARIANTS: dict[str, dict[str, Any]] = {
    "fp8, all products": {"recipe": _ALL},
    "fp8, all products, static scales": {"recipe": _ALL, "carryScales": False},
}


def options_of(recipe: str) -> dict[str, Any]:
    """Returns the compiler's options of a recipe or of one of VARIANTS."""
    return VARIANTS.get(recipe, {"recipe": recipe})


def text_of(shape: Shape, layers: int, batch: int | None = None) -> str:
    """Returns a training step with attention by a library."""
    cfg = dataclasses.replace(shape.model, layers=layers)
    with blocks.parts(model, blocks.our_attention):
        return steps.lower(cfg, TrainConfig(), batch or shape.batch)


@functools.cache
def _exponent(kind: str, shape: tuple[int, ...]) -> int | None:
    """Returns the exponent of weights of a kind, which repeat one block of normal numbers."""
    (found,) = scalify.measure([weights.fill(Tensor(kind, "f32", shape, 0, -1))]).exponents
    return found


def scales_of(shape: Shape, layers: int) -> dict[str, int]:
    """Returns the exponents that `scalify.jit` measures for a step's first arguments, by name."""
    cfg = dataclasses.replace(shape.model, layers=layers)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    state = jax.eval_shape(optimizer.make_optimizer(TrainConfig()).init, params)
    found: dict[str, int] = {}
    for prefix, tree in (("params", params), ("opt_state", state)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = prefix + jax.tree_util.keystr(path)
            parts = ("norm", "'wo'", "'w_down'") if prefix == "params" else ()
            kind = " ".join([prefix, *(part for part in parts if part in name)])
            if leaf.dtype == "float32" and (exponent := _exponent(kind, leaf.shape)) is not None:
                found[name] = exponent
    return found


def _add_ours(
    folder: Folder,
    shape: Shape,
    layers: int,
    recipe: str,
    rank: int,
    expect: float,
) -> None:
    """Adds our step by a recipe or one of VARIANTS."""
    title = f"{shape.name} step of {layers} layers by {recipe}"
    given = {**options_of(recipe), "scales": scales_of(shape, layers)}
    artefact = folder.artefact(f"{shape.name}-{layers}-{recipe}", text_of(shape, layers), **given)
    if (peak := folder.peak(artefact)) > ROOM:
        reason = f"its plan takes {peak / 1e9:.0f} GB, and a GPU of 141 GB has {ROOM / 1e9:.0f}"
        folder.add(title, "skip", rank=rank, reason=reason)
        return
    folder.add(
        title,
        "step",
        rank=rank,
        expect=expect,
        fresh=True,
        artefact=artefact,
        recipe=recipe,
        **shape.members(layers),
    )


def _add_jax(
    folder: Folder, shape: Shape, layers: int, variant: str, rank: int, expect: float
) -> None:
    folder.add(
        f"{shape.name} step of {layers} layers by jax.jit, {variant}",
        "xla",
        rank=rank,
        expect=expect,
        fresh=True,
        variant=variant,
        **shape.members(layers),
    )


def add_large(folder: Folder, small: bool) -> None:
    """Adds steps of 8B shapes, ours and by jax.jit, and what follows from them."""
    shape = Shape("8B-shaped", TINY, 2) if small else LARGE
    low, high = depths = (1, 2) if small else (2, 6)
    # `none` runs the BF16 program unchanged, like jax.jit; `bf16` adds its own casts.
    for layers, expect in ((high, 70), (low, 50)):
        for recipe in ("fp8",) if small else ("fp8", "fp8, all products", "none"):
            _add_ours(folder, shape, layers, recipe, 20, 35)
        _add_jax(folder, shape, layers, "bf16", 20, expect)
    for layers in () if small else (high, low):
        _add_ours(folder, shape, layers, "fp8, all products, static scales", 25, 35)
        _add_ours(folder, shape, layers, "bf16", 50, 35)
    _add_jax(folder, shape, high, "fp8", 50, 70)
    for layers, expect in ((high, 70), (low, 50)):
        _add_jax(folder, shape, layers, "bf16, latency hiding", 60, expect)
    for variant in ("bf16, no triton gemm", "fp8, no triton gemm", "bf16, no command buffers"):
        _add_jax(folder, shape, high, variant, 65, 70)
    _add_jax(folder, shape, low, "fp8", 80, 50)
    _add_jax(folder, shape, high, "fp8 current", 90, 70)
    # The scores of six layers would not fit.
    _add_jax(folder, shape, low, "bf16, attention as written", 90, 50)
    members: dict[str, Any] = {"shape": shape.name, "depths": list(depths)}
    for title, kind in (
        ("steps side by side", "sides"),
        ("time of a layer", "layers"),
        ("share of casts", "casts"),
    ):
        folder.add(title, kind, **members)


def add_middle(folder: Folder, small: bool) -> None:
    """Adds a whole step of a model of 1.3B parameters."""
    shape = Shape("1.3B", TINY, 2) if small else MIDDLE
    layers = 1 if small else shape.model.layers
    for recipe in () if small else ("fp8", "none"):
        _add_ours(folder, shape, layers, recipe, 70, 30)
    for variant in ("bf16", "fp8"):
        _add_jax(folder, shape, layers, variant, 70, 120)
    folder.add("1.3B side by side", "sides", shape=shape.name, depths=[layers])


def add_blocks(folder: Folder, small: bool) -> None:
    """Adds one layer's forward and backward: ours, by jax.jit, and by TransformerEngine."""
    shape = Shape("layer", TINY, 2) if small else dataclasses.replace(LARGE, name="layer")
    cfg = dataclasses.replace(shape.model, layers=1)
    layer, x = blocks.shapes(model, cfg, shape.batch)
    with blocks.parts(model, blocks.our_attention):
        lowered = jax.jit(blocks.block(model, cfg)).lower(layer, x, x)
    text = lowered.as_text(debug_info=True)
    members = shape.members(1)
    # As measured by `scalify.jit`.
    scales = {
        name + jax.tree_util.keystr(path): _exponent(name + jax.tree_util.keystr(path), leaf.shape)
        for name, tree in (("layer", layer), ("x", x), ("grad", x))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
    for recipe in ("fp8",) if small else ("fp8", "fp8, all products", "none"):
        options = options_of(recipe) | {"scales": scales}
        artefact = folder.artefact(f"layer-{recipe}", text, **options)
        title = f"layer, forward and backward, by {recipe}"
        folder.add(title, "block", rank=55, expect=15, artefact=artefact, recipe=recipe, **members)
    for variant in ("bf16", "fp8", "fp8 current"):
        title = f"layer, forward and backward, by jax.jit, {variant}"
        more = {"variant": variant, **members}
        folder.add(title, "xla_block", rank=55, expect=40, fresh=True, **more)
    for recipe in ("bf16", "fp8 delayed", "fp8 current"):
        title = f"layer, forward and backward, by TransformerEngine, {recipe}"
        more = {"recipe": recipe, **members}
        folder.add(title, "transformer_engine", rank=55, expect=30, fresh=True, **more)
    folder.add("layer side by side", "blocks")


def add_micro_batches(folder: Folder, small: bool) -> None:
    """Adds steps of the largest micro-batch of each recipe whose plan fits under a cap of bytes."""
    shape = Shape("capped", TINY, 1) if small else Shape("capped", LARGE.model, 1)
    layers, cap = (1, 3 << 20) if small else (CAP_LAYERS, CAP)
    for recipe in ("fp8",) if small else ("bf16", "fp8", "fp8-lm-o2", "none"):
        # As in scalify.jit: state that the recipe stores narrow is narrow between steps.
        scales = scales_of(shape, layers)
        options = {"recipe": recipe, "packState": True, "scales": scales}

        def peak(batch: int, options: dict[str, Any] = options) -> int:
            text = text_of(shape, layers, batch)
            given = {"target": "sm_90a", "planOnly": True, **options}
            artefact, _ = _compiler.compile(text, json.dumps(given))
            return int(manifest_of(artefact)["memory"]["peak"])

        batch = largest(peak, cap, 1 << 10)
        title = f"largest micro-batch at {cap / 2**30:g} GiB by {recipe}"
        if not batch:
            folder.add(title, "skip", reason=f"not one sequence of {layers} layers fits")
            continue
        largest_shape = dataclasses.replace(shape, batch=batch)
        artefact = folder.artefact(f"capped-{recipe}", text_of(shape, layers, batch), **options)
        folder.add(
            title,
            "step",
            rank=40,
            expect=45,
            fresh=True,
            artefact=artefact,
            recipe=recipe,
            cap=cap,
            **largest_shape.members(layers),
        )
    folder.add("largest micro-batches", "micro_batches", cap=cap)
