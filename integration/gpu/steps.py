"""Training steps for a GPU: the example's, with the CPU's losses, and steps of 8B shapes."""

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
from shapes import LLAMA_8B

__all__ = ["RECIPES", "add_example", "add_large", "add_training"]

RECIPES = ("none", "bf16", "fp8", "fp8-current")
# One sequence of 2,048 tokens a step: six layers with their F32 state fit into an H100.
LARGE = dataclasses.replace(LLAMA_8B, seq=2048)
LARGE_SMALL = ModelConfig(dim=64, ffn=128, seq=32, dtype="bfloat16")
STEPS = 20
BAR = 1.5  # percent of validation loss that fp8 may lose, as in examples/llama


@dataclasses.dataclass(frozen=True)
class Example:
    """The example's model and the plan of its training."""

    model: ModelConfig
    train: TrainConfig

    @classmethod
    def of(cls, small: bool) -> Example:
        """Returns the example as `make train` has it, or a small one."""
        if not small:
            return cls(ModelConfig(), TrainConfig())
        cfg = ModelConfig(layers=2, dim=32, heads=2, kv_heads=1, ffn=64, seq=32)
        return cls(cfg, TrainConfig(batch=4, steps=4, warmup=2))


def lower(cfg: ModelConfig, train: TrainConfig, batch: int) -> str:
    """Returns the text of a training step; nothing is allocated."""
    adamw = optimizer.make_optimizer(train)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    tokens = jax.ShapeDtypeStruct((batch, cfg.seq + 1), np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    return step.lower(params, jax.eval_shape(adamw.init, params), tokens).as_text(debug_info=True)


def _run_cpu(text: str, recipe: str, state: list[Any], batches: NDArray[Any]) -> dict[str, Any]:
    """Returns the losses of steps on this CPU, and the norms of what they leave."""
    exe = scalify.compile(text, recipe)
    losses = []
    for batch in batches:
        *state, loss = exe(*state, batch)
        losses.append(float(np.asarray(loss)))
    norms = {
        argument["name"]: float(np.linalg.norm(np.asarray(leaf).astype(np.float64)))
        for argument, leaf in zip(exe.args, state, strict=False)
    }
    return {"losses": losses, "norms": norms}


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
    # Moments and counters start from zero, which needs no file.
    nonzero = {f"arg{i}": leaf for i, leaf in enumerate(state) if leaf.any()}
    folder.arrays("example-state", nonzero)
    folder.arrays("example-batches", {"batches": batches.astype(np.uint8)})
    for recipe in RECIPES[::2] if small else RECIPES:
        artefact = folder.artefact(f"example-{recipe}", text, recipe=recipe)
        wanted = _run_cpu(text, recipe, state, batches)
        folder.add(
            f"20 steps of the example by {recipe}",
            "losses",
            artefact=artefact,
            state="example-state.npz",
            batches="example-batches.npz",
            **wanted,
        )
    folder.add(
        "steps of the example on one stream and two",
        "streams",
        artefacts={
            "one stream": "example-fp8.scalify",
            "two streams": folder.artefact("example-streams", text, recipe="fp8", streams=2),
        },
        state="example-state.npz",
        batches="example-batches.npz",
    )


def add_training(folder: Folder, small: bool) -> None:
    """Adds the whole training of the example, to the validation loss, by none and fp8."""
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
    for recipe in ("none", "fp8"):
        folder.add(
            f"training of the example by {recipe}",
            "training",
            artefact=f"example-{recipe}.scalify",
            evaluate=folder.artefact(f"example-loss-{recipe}", text, recipe=recipe),
            state="example-state.npz",
            batches="training-batches.npz",
            budget=240,
        )


def add_large(folder: Folder, small: bool) -> None:
    """Adds steps of 8B shapes, ours and by jax.jit; their weights are made where they run."""
    large = LARGE_SMALL if small else LARGE
    depths = (1, 2) if small else (2, 6)
    for depth in depths:
        text = lower(dataclasses.replace(large, layers=depth), TrainConfig(), 1)
        for recipe in ("fp8",) if small else ("bf16", "fp8"):
            artefact = folder.artefact(f"8b-{depth}-{recipe}", text, recipe=recipe)
            title = f"8B-shaped step of {depth} layers by {recipe}"
            members = {"artefact": artefact, "layers": depth, "recipe": recipe}
            folder.add(title, "step", 150, vocab=large.vocab, fresh=True, **members)
    # The likely best first: an hour on a GPU may end before the last.
    for variant in ("default", "cudnn", "latency hiding", "no triton gemm"):
        for depth in depths:
            title = f"8B-shaped step of {depth} layers by jax.jit, {variant}"
            sizes = dataclasses.asdict(dataclasses.replace(large, layers=depth))
            members = {"model": sizes, "layers": depth, "variant": variant}
            folder.add(title, "xla", 150, fresh=True, **members)
    folder.add("8B-shaped steps beside TransformerEngine", "transformer_engine")
    folder.add("time of a layer", "layers", depths=list(depths))
    folder.add("share of casts", "casts", depths=list(depths))
    folder.add("fp8's validation loss beside none's", "gap", bar=BAR)
