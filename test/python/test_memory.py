"""Executable.memory: the plan's bytes, and the sizes of state in FP8-LM."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from live_bytes import live_bytes

import scalify
from scalify import _compiler
from scalify.memory import largest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "llama"))

import model
import optimizer
from config import ModelConfig, TrainConfig

WIDTH, ROWS, DEPTH = 64, 32, 3
PARAMETERS = DEPTH * WIDTH * WIDTH


def params() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(DEPTH)]


def loss(params: Any, x: Any) -> Any:
    for weight in params:
        x = x + jnp.tanh(x @ weight)
    return jnp.mean(jnp.square(x))


def make(
    recipe: str | scalify.Recipe, optimizer: optax.GradientTransformation | None = None
) -> tuple[Any, Any]:
    """Returns a step and its arguments."""
    optimizer = optimizer or optax.adam(1e-3)

    def step(params: Any, opt: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        updates, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, value

    weights = params()
    opt = jax.tree.map(np.asarray, optimizer.init(weights))
    x = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return scalify.jit(step, recipe, donate_argnums=(0, 1)), (weights, opt, x)


@functools.cache
def memory(
    recipe: str | scalify.Recipe, optimizer: optax.GradientTransformation | None = None
) -> dict[str, Any]:
    step, arguments = make(recipe, optimizer)
    found: dict[str, Any] = step.memory(*arguments)
    return found


@pytest.mark.parametrize("recipe", ["none", "fp8", "fp8-lm-o2"])
def test_what_is_planned_is_what_runs(recipe: str) -> None:
    """`Jit.memory` compiles no kernel, and what it compiles is not called."""
    step, arguments = make(recipe)
    planned = step.memory(*arguments)
    with pytest.raises(RuntimeError, match="has not been called yet"):
        step.memory()
    step(*arguments)
    assert planned == step.memory() == step.executable().memory


@pytest.mark.parametrize(
    ("recipe", "each"),
    [
        ("none", 12),
        ("bf16", 12),
        ("fp8", 12),
        ("fp8-lm-o1", 10),
        ("fp8-lm-o2", 5),
        ("fp8-lm-o3", 5),
    ],
)
def test_state_takes_the_bytes_of_its_formats(recipe: str, each: int) -> None:
    """FP8-LM (section 2.3): 2 bytes of the master, 1 and 2 of the moments, in place of 3 x 4."""
    found = memory(recipe)
    assert found["parameters"] == PARAMETERS
    assert found["state"] == each * PARAMETERS


@pytest.mark.parametrize(
    ("level", "state", "scaling", "clip"),
    [
        ("o1", 10, "mu", True),
        ("o2", 5, "mu", False),
        ("o2", 5, "mu", True),
        ("o2", 5, "minimum", False),
        ("o2", 5, "minimum", True),
        ("o3", 5, "mu", True),
    ],
)
def test_gradients_are_a_byte_each_until_the_update(
    level: str, state: int, scaling: str, clip: bool
) -> None:
    """FP8-LM (section 2.3): 5 bytes of state and 1 of the gradient, in place of 16.

    The update widens a gradient in its own kernel; clipping reads all of them once before.
    """
    recipe = scalify.Recipe.preset(f"fp8-lm-{level}").replace(head=True, gradient_scaling=scaling)
    adam = optax.adam(1e-3)
    found = memory(recipe, optax.chain(optax.clip_by_global_norm(1.0), adam) if clip else adam)
    # Scales, factors and partial sums are numbers beside tensors.
    assert PARAMETERS <= found["gradients"] < 1.05 * PARAMETERS
    assert found["state"] + found["gradients"] < (state + 1.05) * PARAMETERS


def test_forward_keeps_less_where_it_is_rounded() -> None:
    """bf16 rounds each tanh that the backward reads; F32 keeps all of them wide."""
    wide, narrow = memory("none"), memory("bf16")
    tanhs = DEPTH * ROWS * WIDTH * 4
    assert wide["kept"] >= tanhs
    assert narrow["kept"] < wide["kept"]


@pytest.mark.parametrize("recipe", ["none", "fp8-lm-o2"])
def test_peak_is_the_sum_of_its_parts(recipe: str) -> None:
    found = memory(recipe)
    parts = sum(found["arguments"].values()) + found["results"] + found["constants"]
    assert found["peak"] == parts + found["arena"]
    assert max(found["kept"], found["gradients"]) <= found["arena"]


def example(recipe: str, layers: int = 2) -> tuple[Any, Any]:
    """The example's step under a recipe, and its arguments for a micro-batch."""
    cfg = ModelConfig(layers=layers)
    weights = model.init(jax.random.key(0), cfg)
    adamw = optimizer.make_optimizer(TrainConfig())
    state = adamw.init(weights)
    step = scalify.jit(optimizer.make_step(cfg, adamw), recipe, donate_argnums=(0, 1))
    return step, lambda batch: (weights, state, np.zeros((batch, cfg.seq + 1), np.int32))


def test_the_largest_batch_is_the_largest() -> None:
    """The largest batch under the memory of 8 sequences."""
    step, arguments = example("bf16", layers=1)
    cap = step.memory(*arguments(8))["peak"]
    assert scalify.largest_batch(step, arguments, cap) == 8


def test_fp8_lm_admits_a_larger_batch_than_bf16() -> None:
    """At 12 layers 9 sequences fit where 8 of bf16 do, and 10 do not.

    docs/research/plan-sizes.md has the bytes.
    """
    step, arguments = example("bf16", 12)
    cap = step.memory(*arguments(8))["peak"]
    step, arguments = example("fp8-lm-o2", 12)
    peaks = [step.memory(*arguments(batch))["peak"] for batch in (9, 10)]
    assert peaks[0] <= cap < peaks[1]


@pytest.mark.parametrize(
    ("recipe", "cast", "state"),
    [("none", 4, 12), ("bf16", 4, 12), ("fp8-lm-o1", 1, 10), ("fp8-lm-o3", 1, 5)],
)
def test_gradients_of_the_example_are_as_narrow_as_the_recipe_says(
    recipe: str, cast: int, state: int
) -> None:
    """Of linear layers; embedding, head and norms are not cast."""
    step, arguments = example(recipe)
    found = step.memory(*arguments(1))
    cfg = ModelConfig(layers=2)
    heads = cfg.heads + cfg.kv_heads
    linear = cfg.layers * cfg.dim * (2 * cfg.head_dim * heads + 3 * cfg.ffn)
    wide = found["parameters"] - linear
    assert found["state"] == state * found["parameters"]
    gradients = cast * linear + 4 * wide
    # Scales and factors are beside them.
    assert gradients <= found["gradients"] < 1.01 * gradients


def by_proc(path: pathlib.Path, steps: int, executables: int = 1) -> dict[str, Any]:
    """Returns the memory that steps take in a process of their own (peak_run.py)."""
    command = [sys.executable, str(pathlib.Path(__file__).parent / "peak_run.py"), str(path)]
    command += [str(steps), str(executables)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_executables_that_run_in_turn_share_memory(tmp_path: pathlib.Path) -> None:
    """As a training step and its evaluation: temporaries of the one are in the other's memory."""
    step, arguments = example("fp8", 2)
    executable = step.executable(*arguments(8))
    executable.save(tmp_path / "step.scalify")
    measured = by_proc(tmp_path / "step.scalify", steps=4, executables=2)
    arena, tiles = (-(-executable.memory[one] // 4096) * 4096 for one in ("arena", "tiles"))
    assert measured["mapped"] == measured["resident"] == arena + 2 * tiles


@pytest.mark.parametrize(
    ("recipe", "layers", "batch"), [("bf16", 12, 8), ("fp8", 2, 8), ("fp8-lm-o2", 2, 11)]
)
def test_a_step_takes_the_memory_that_the_plan_says(
    recipe: str, layers: int, batch: int, tmp_path: pathlib.Path
) -> None:
    """By /proc: the arena is resident to its last page; beside it and the arguments is little."""
    step, arguments = example(recipe, layers)
    executable = step.executable(*arguments(batch))
    executable.save(tmp_path / "step.scalify")
    measured, plan = by_proc(tmp_path / "step.scalify", steps=3), executable.memory
    assert measured["arguments"] == sum(plan["arguments"].values())
    # Of one thread.
    pages = sum(-(-plan[memory] // 4096) * 4096 for memory in ("arena", "tiles"))
    assert measured["mapped"] == measured["resident"] == pages
    # The rest are tables, panels of GEMMs and Python's own objects.
    assert max(measured["grown"]) < pages + (1 << 20)
    # Of it all is needed at once but for what packing and places at multiples of 64 bytes leave.
    assert 0.97 * plan["arena"] <= live_bytes(executable.manifest) <= plan["arena"]


def test_no_batch_fits_into_nothing() -> None:
    step, arguments = example("none", layers=1)
    assert scalify.largest_batch(step, arguments, 1000) == 0
    assert scalify.largest_batch(step, arguments, 1 << 40, most=1) == 1


def test_the_backward_computes_again_what_it_can() -> None:
    """Of a SwiGLU the two dots' results are kept (and not their sigmoid, gate and product), of a
    softmax one of the numerators and the weights."""
    step, arguments = example("none")
    found = step.memory(*arguments(4))
    cfg = ModelConfig(layers=2)
    rows, wide = 4 * cfg.seq, 4
    ffn = 2 * rows * cfg.ffn * wide
    scores = rows * cfg.seq * cfg.heads * wide
    # Of width `dim`: what the norms read and leave, queries, keys, values and the mix, each once.
    narrow = 8 * rows * cfg.dim * wide
    head = 2 * rows * cfg.vocab * wide
    assert found["kept"] <= cfg.layers * (ffn + scores + narrow) + head


def kept_of_gated_layers(recipe: str, dtype: Any, **more: Any) -> int:
    """Bytes that a GPU keeps for the backward of a step of gated layers, by its plan."""

    def loss(params: Any, x: Any) -> Any:
        x = x.astype(dtype)
        for layer in params:
            gate, up, down = (weight.astype(dtype) for weight in layer)
            x = x + (jax.nn.silu(x @ gate) * (x @ up)) @ down
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    def step(params: Any, x: Any) -> Any:
        grads = jax.grad(loss)(params, x)
        return jax.tree.map(lambda weight, grad: weight - 0.1 * grad, params, grads)

    def shape(*dims: int) -> Any:
        return jax.ShapeDtypeStruct(dims, np.float32)

    layer = (shape(WIDTH, 4 * WIDTH), shape(WIDTH, 4 * WIDTH), shape(4 * WIDTH, WIDTH))
    text = jax.jit(step, donate_argnums=0).lower([layer] * DEPTH, shape(16 * ROWS, WIDTH))
    scales = [-3] * (3 * DEPTH) + [0]
    options = {"recipe": recipe, "target": "sm_90a", "planOnly": True, "scales": scales} | more
    artefact, _ = _compiler.compile(text.as_text(), json.dumps(options))
    length = int.from_bytes(artefact[8:16], "little")
    return int(json.loads(artefact[32 : 32 + length])["memory"]["kept"])


def test_what_is_cast_again_is_not_kept_on_a_gpu() -> None:
    """FP8 data are weights, or casts of values that gradients read in BF16: no more is kept."""
    narrow = kept_of_gated_layers("none", jnp.bfloat16)
    for recipe in ("fp8", "fp8-current"):
        # Scales are numbers beside tensors. Casts by carried scales, which count, are made once.
        kept = kept_of_gated_layers(recipe, jnp.bfloat16, carryScales=False)
        assert kept < narrow + 1024


def test_bf16_keeps_less_than_f32_on_a_gpu() -> None:
    """Of a layer of width D F32 keeps x and the results of two dots, (1 + 4 + 4) D numbers of 4
    bytes; `bf16` these and the product, which it made of the unrounded two, (1 + 4 + 4 + 4) D of 2.
    """
    wide = kept_of_gated_layers("none", jnp.float32)
    assert kept_of_gated_layers("bf16", jnp.float32) < 0.8 * wide


@pytest.mark.parametrize(("first", "each", "step"), [(10, 3, 1), (100, 7, 4), (5, 50, 1)])
def test_the_largest_batch_of_known_peaks(first: int, each: int, step: int) -> None:
    """Peaks that grow by `each` for every `step` of the batch, by few questions."""
    asked: list[int] = []

    def peak(batch: int) -> int:
        asked.append(batch)
        return first + each * step * (batch // step)

    for cap in range(0, 400, 13):
        asked.clear()
        fits = [b for b in range(1, 301) if first + each * step * (b // step) <= cap]
        assert largest(peak, cap, 300) == max(fits, default=0)
        assert len(asked) == len(set(asked)) <= 12


def test_a_straight_line_takes_four_questions() -> None:
    asked: list[int] = []

    def peak(batch: int) -> int:
        asked.append(batch)
        return 10 + 3 * batch

    assert largest(peak, 1000) == 330
    assert asked == [1, 2, 330, 331]
    # The most is asked for before it is believed.
    asked.clear()
    assert largest(peak, 1000, most=10) == 10 and asked == [1, 2, 10]
    assert largest(peak, 39, most=10) == 9
