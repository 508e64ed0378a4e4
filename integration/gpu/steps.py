"""Training steps of the example for a GPU, with the CPU's losses."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import data
import model
import optimizer
import scalify
from artefacts import Folder
from config import ModelConfig, TrainConfig
from scalify.scales import argument_options, range_option

__all__ = ["RECIPES", "add_example", "add_training", "lower"]

RECIPES = ("none", "bf16", "fp8", "fp8-current")
STEPS = 20
# Percent of validation loss that fp8 may lose, as in examples/llama; also the allowed difference of
# a GPU's training from the CPU's: another order of sums leads to other weights, like another
# recipe.
BAR = 1.5


@dataclasses.dataclass(frozen=True)
class Example:
    """The example's model and its training parameters."""

    model: ModelConfig
    train: TrainConfig

    @classmethod
    def of(cls, small: bool) -> Example:
        """Returns the example of `make train`, or a small one."""
        if not small:
            return cls(ModelConfig(), TrainConfig())
        cfg = ModelConfig(layers=1, dim=32, heads=2, kv_heads=1, ffn=64, seq=32)
        return cls(cfg, TrainConfig(batch=4, steps=4, warmup=2))


def lower(cfg: ModelConfig, train: TrainConfig, batch: int) -> str:
    """Returns the text of a training step; nothing is allocated."""
    adamw = optimizer.make_optimizer(train)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    tokens = jax.ShapeDtypeStruct((batch, cfg.seq + 1), np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    return step.lower(params, jax.eval_shape(adamw.init, params), tokens).as_text(debug_info=True)


def _run_cpu(exe: Any, state: list[Any], batches: NDArray[Any]) -> dict[str, Any]:
    """Returns the losses of steps on this CPU, and the norms of the final state.

    Restores the state that the executable keeps.
    """
    kept, losses = exe.kept, []
    for batch in batches:
        *state, loss = exe(*state, batch)
        losses.append(float(np.asarray(loss)))
    norms = {
        argument["name"]: float(np.linalg.norm(np.asarray(leaf).astype(np.float64)))
        for argument, leaf in zip(exe.args, state, strict=False)
    }
    exe.kept = kept
    return {"losses": losses, "norms": norms}


def _wanted(exe: Any, state: list[Any], batches: NDArray[Any]) -> dict[str, Any]:
    """Returns losses and norms of this CPU, and the change of moments' norms by F32's last bits.

    A GPU sums in another order, and casts to FP8 amplify the difference: the change of the CPU's
    own norms over four draws of weights that differ in F32's last bit helps to interpret a gap.
    """
    wanted = _run_cpu(exe, state, batches)
    spread = 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        turned = [
            leaf * (1 + 2.0**-23 * rng.standard_normal(leaf.shape)).astype(np.float32)
            if leaf.dtype == np.float32
            else leaf
            for leaf in state
        ]
        norms = _run_cpu(exe, turned, batches)["norms"]
        for name, norm in wanted["norms"].items():
            if norm and not name.startswith("params"):
                spread = max(spread, abs(norms[name] / norm - 1))
    return wanted | {"spread_of_moments": spread}


def _batches(example: Example, steps: int) -> NDArray[Any]:
    train = example.train
    return data.train_batches(data.load(), steps, train.batch, example.model.seq, train.seed)


def _state(example: Example) -> list[Any]:
    params = model.init(jax.random.key(example.train.seed), example.model)
    adamw = optimizer.make_optimizer(example.train)
    return [np.asarray(leaf) for leaf in jax.tree.leaves((params, adamw.init(params)))]


def add_example(folder: Folder, small: bool) -> None:
    """Adds 20 steps of the example by each recipe, and their losses on this CPU."""
    example = Example.of(small)
    text = lower(example.model, example.train, example.train.batch)
    state, batches = _state(example), _batches(example, STEPS)
    # Moments and counters start from zero, so the file omits them.
    nonzero = {f"arg{i}": leaf for i, leaf in enumerate(state) if leaf.any()}
    folder.arrays("example-state", nonzero)
    folder.arrays("example-batches", {"batches": batches.astype(np.uint8)})
    # Both sides run one program: the scales of arguments are its constants.
    scales = scalify.measure([*state, batches[0]])
    given = argument_options(scales) | {"ranges": range_option(scales)}
    # For a test of the script: fp8-current measures amaxes first.
    few = [recipe for recipe in RECIPES if recipe != "bf16"]
    for recipe in few if small else RECIPES:
        artefact = folder.artefact(f"example-{recipe}", text, recipe=recipe, **given)
        exe = scalify.compile(text, recipe, numerics=scalify.Numerics(scales=scales))
        wanted = _wanted(exe, state, batches)
        folder.add(
            f"20 steps of the example by {recipe}",
            "losses",
            rank=10 if recipe in ("none", "fp8") else 75,
            expect=6,
            artefact=artefact,
            state="example-state.npz",
            batches="example-batches.npz",
            **wanted,
        )
    folder.add(
        "steps of the example on one stream and two",
        "streams",
        rank=78,
        expect=10,
        artefacts={
            "one stream": "example-fp8.scalify.xz",
            "two streams": folder.artefact(
                "example-streams", text, recipe="fp8", streams=2, **given
            ),
        },
        state="example-state.npz",
        batches="example-batches.npz",
    )


def _train_cpu(
    text: str, loss: str, recipe: str, state: list[Any], arrays: dict[str, NDArray[Any]]
) -> float:
    """Returns the validation loss of a whole training on this CPU."""
    scales = scalify.measure([*state, arrays["batches"][0].astype(np.int32)])
    exe = scalify.compile(text, recipe, numerics=scalify.Numerics(scales=scales))
    evaluate = scalify.compile(loss, recipe)
    for batch in arrays["batches"]:
        *state, _ = exe(*state, batch.astype(np.int32))
    names = {argument["name"]: index for index, argument in enumerate(exe.args)}
    params = [
        state[names[a["name"]]]
        for a in evaluate.args
        if a["name"] in names and a["name"] != "batch"
    ]
    found = [
        float(np.asarray(evaluate(*params, window.astype(np.int32))[0]))
        for window in arrays["windows"]
    ]
    return float(np.mean(found))


def add_training(folder: Folder, small: bool) -> None:
    """Adds the whole training of the example, to the validation loss, by none and fp8.

    Each runs here first, on the CPU.
    """
    example = Example.of(small)
    windows = data.validation_batches(data.load(), example.train.batch, example.model.seq)
    batches = _batches(example, example.train.steps)
    windows = windows[:2] if small else windows
    arrays = {"batches": batches.astype(np.uint8), "windows": windows.astype(np.uint8)}
    folder.arrays("training-batches", arrays)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), example.model))
    batch = jax.ShapeDtypeStruct(windows.shape[1:], np.int32)
    loss = jax.jit(lambda params, batch: model.loss(params, batch, example.model))
    text = loss.lower(params, batch).as_text(debug_info=True)
    step = lower(example.model, example.train, example.train.batch)
    for recipe in ("none", "fp8"):
        folder.add(
            f"training of the example by {recipe}",
            "training",
            artefact=f"example-{recipe}.scalify.xz",
            evaluate=folder.artefact(f"example-loss-{recipe}", text, recipe=recipe),
            state="example-state.npz",
            batches="training-batches.npz",
            validation=_train_cpu(step, text, recipe, _state(example), arrays),
            bar=BAR,
            rank=45,
            expect=25,
        )
    folder.add("fp8's validation loss beside none's", "gap", bar=BAR)
