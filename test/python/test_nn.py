"""`scalify.nn` in plain JAX, on the CPU, and as calls of a GPU's library on a recording."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from typing import Any

import gpu_steps
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import scalify
from scalify import Recipe, _compiler, nn
from scalify._executable import Executable

Arrays = tuple[NDArray[Any], ...]


def operands(
    dtype: Any = np.float32, batch: int = 2, length: int = 24, heads: int = 4, kv_heads: int = 2
) -> Arrays:
    """Returns q, k, v and a gradient of the result."""
    rng = np.random.default_rng(0)
    shapes = [(batch, length, count, 16) for count in (heads, kv_heads, kv_heads, heads)]
    return tuple(rng.normal(size=shape).astype(np.float32).astype(dtype) for shape in shapes)


def exact(q: Any, k: Any, v: Any, grad: Any, causal: bool, scale: float) -> list[NDArray[Any]]:
    """Returns the result and the gradients of q, k and v in F64, head by head."""
    q, k, v, grad = (np.asarray(x).astype(np.float64) for x in (q, k, v, grad))
    out, dq, dk, dv = (np.zeros_like(x) for x in (q, q, k, v))
    group = q.shape[2] // k.shape[2]
    for b, n in itertools.product(range(q.shape[0]), range(q.shape[2])):
        h = n // group
        scores = q[b, :, n] @ k[b, :, h].T * scale
        if causal:
            scores[np.triu_indices(len(scores), 1)] = -np.inf
        raised = np.exp(scores - scores.max(-1, keepdims=True))
        weights = raised / raised.sum(-1, keepdims=True)
        out[b, :, n] = weights @ v[b, :, h]
        inner = grad[b, :, n] @ v[b, :, h].T
        ds = weights * (inner - (weights * inner).sum(-1, keepdims=True)) * scale
        dq[b, :, n] = ds @ k[b, :, h]
        dk[b, :, h] += ds.T @ q[b, :, n]
        dv[b, :, h] += weights.T @ grad[b, :, n]
    return [out, dq, dk, dv]


def with_gradients(
    q: Any, k: Any, v: Any, grad: Any, *, causal: bool, scale: float | None = None
) -> Any:
    out, pull = jax.vjp(functools.partial(nn.attention, causal=causal, scale=scale), q, k, v)
    return out, *pull(grad)


# Of the largest value: F32's and BF16's rounding, through three dots and a softmax.
ULPS = {"float32": 2.0**-20, "bfloat16": 2.0**-6, "float16": 2.0**-9}


def assert_near(found: Any, wanted: list[NDArray[Any]]) -> None:
    for got, want in zip(found, wanted, strict=True):
        got = np.asarray(got)
        bound = ULPS[got.dtype.name] * np.abs(want).max()
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("compiler", "dtype", "causal"),
    [
        (jax.jit, np.float32, True),
        (jax.jit, ml_dtypes.bfloat16, False),
        (scalify.jit, np.float32, False),
        (scalify.jit, ml_dtypes.bfloat16, True),
        (scalify.jit, np.float16, True),
    ],
)
def test_equals_attention_in_f64(compiler: Any, dtype: Any, causal: bool) -> None:
    args = operands(dtype)
    options = {"recipe": "none"} if compiler is scalify.jit else {}
    fn = functools.partial(with_gradients, causal=causal, scale=0.3)
    found = compiler(fn, **options)(*args)
    assert_near(found, exact(*args, causal=causal, scale=0.3))


def test_default_scale_heads_and_other_lengths() -> None:
    q, k, v, grad = operands(kv_heads=4, length=8)
    _, k, v, _ = operands(kv_heads=4, length=12)
    found = jax.jit(functools.partial(with_gradients, causal=False))(q, k, v, grad)
    assert_near(found, exact(q, k, v, grad, False, 0.25))


def test_transformations() -> None:
    args = operands()
    wanted = exact(*args, causal=True, scale=0.25)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def layer(carry: Any, operand: Any) -> Any:
        return carry, nn.attention(operand[0], *operand[1:], causal=True)

    def scanned(q: Any, k: Any, v: Any) -> Any:
        return jax.lax.scan(layer, 0.0, (q[None], k[None], v[None]))[1][0]

    def mapped(q: Any, k: Any, v: Any) -> Any:
        single = functools.partial(nn.attention, causal=True)
        return jax.vmap(lambda *x: single(*(leaf[None] for leaf in x))[0])(q, k, v)

    for fn in (scanned, mapped):
        out, pull = jax.vjp(jax.jit(fn), *args[:3])
        assert_near([out, *pull(args[3])], wanted)
    shared = jax.vmap(functools.partial(nn.attention, causal=True), in_axes=(0, None, None))
    assert_near([shared(args[0][None], *args[1:3])[0]], wanted[:1])


def test_on_a_cpu_the_bits_of_the_attention_written_out() -> None:
    q, k, v, grad = operands(ml_dtypes.bfloat16)
    named = {"causal": True, "scale": 0.25}
    whole = scalify.jit(functools.partial(with_gradients, **named), recipe="bf16")
    out, *grads = whole(q, k, v, grad)

    def written(q: Any, k: Any, v: Any, grad: Any) -> Any:
        return nn._forward(q, k, v, **named), *nn._backward(q, k, v, grad, **named)

    wanted = scalify.jit(written, recipe="bf16")(q, k, v, grad)
    for got, want in zip([out, *grads], wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize(
    ("shapes", "causal", "message"),
    [
        ([(2, 8, 4, 16), (2, 8, 4, 16), (2, 8, 4, 8)], False, "expected"),
        ([(2, 8, 4, 16), (2, 8, 3, 16), (2, 8, 3, 16)], False, "4 query heads are not"),
        ([(2, 8, 4, 16), (3, 8, 4, 16), (3, 8, 4, 16)], False, "must agree"),
        ([(2, 8, 4, 16), (2, 9, 4, 16), (2, 9, 4, 16)], True, "as many queries"),
    ],
)
def test_wrong_shapes(shapes: list[tuple[int, ...]], causal: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.attention(*(jnp.zeros(shape) for shape in shapes), causal=causal)


def test_wrong_formats() -> None:
    x = jnp.zeros((1, 8, 2, 16))
    with pytest.raises(ValueError, match="formats float32, bfloat16"):
        nn.attention(x, x.astype(jnp.bfloat16), x, causal=True)
    with pytest.raises(ValueError, match="expected one of float32"):
        nn.attention(*[x.astype(jnp.int32)] * 3, causal=True)


@functools.cache
def layers(dtype: Any, scanned: bool = False) -> str:
    """Returns the text of a step of two layers of projections around an attention."""

    def layer(x: Any, weights: Any) -> Any:
        q, k, v = (
            (x @ weights[name].astype(dtype)).reshape(2, 96, -1, 32) for name in ("q", "k", "v")
        )
        return x + nn.attention(q, k, v, causal=True).reshape(x.shape) @ weights["o"].astype(dtype)

    def loss(weights: Any, x: Any) -> Any:
        if scanned:
            body = jax.checkpoint(lambda x, w: (layer(x, w), None), prevent_cse=False)
            x, _ = jax.lax.scan(body, x, weights)
        else:
            for i in range(2):
                x = layer(x, jax.tree.map(lambda leaf, i=i: leaf[i], weights))
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    def step(weights: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value

    widths = {"q": 128, "k": 64, "v": 64, "o": 128}
    weights = {n: jax.ShapeDtypeStruct((2, 128, w), jnp.float32) for n, w in widths.items()}
    x = jax.ShapeDtypeStruct((2, 96, 128), dtype)
    return jax.jit(step, donate_argnums=0).lower(weights, x).as_text(debug_info=True)


def on_a_gpu(text: str, recipe: str, **named: str) -> tuple[Executable, list[str]]:
    """Returns the executable on the recording, and its remarks."""
    # What is recorded needs no assembler.
    options = {"recipe": recipe, "target": "sm_90a", "ptxas": "none", **named}
    artefact, diagnostics = _compiler.compile(text, json.dumps(options))
    return Executable(artefact, device="null"), [str(found) for found in diagnostics]


def calls(exe: Executable) -> list[str]:
    """Returns the calls of cuDNN in a step."""
    dtypes = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
    exe(*(np.zeros(arg["shape"], dtypes[arg["dtype"]]) for arg in exe.args))
    return [line for line in exe.trace.splitlines() if line.startswith("cudnnExecute")]


@pytest.mark.parametrize(
    ("recipe", "scanned"),
    [("none", False), ("bf16", True), ("bf16", False), ("fp8-current", False), ("fp8-lm-o2", True)],
)
def test_a_gpu_calls_its_library(recipe: str, scanned: bool) -> None:
    exe, _ = on_a_gpu(layers(jnp.bfloat16, scanned), recipe)
    found = calls(exe)
    # A checkpoint makes the attention of each layer again before its gradient.
    forward = ["cudnnExecute attention"] * (4 if scanned else 2)
    names = sorted(line.split(" q=")[0] for line in found)
    assert names == sorted(forward + ["cudnnExecute attention_grad"] * 2)
    for line in found:
        assert "b=2 h=4 hk=2 q=96 k=96 d=32 bf16 scale=" in line and line.endswith(" causal")
    # Nothing has a row of weights any more.
    assert not any(buffer["shape"][-2:] == [96, 96] for buffer in exe.manifest["buffers"])


@pytest.mark.parametrize("recipe", ['#scalify.recipe<"fp8", attention = false>', "fp8-lm-o2"])
def test_f32_stays_kernels_with_a_remark(recipe: str) -> None:
    exe, remarks = on_a_gpu(layers(jnp.float32), recipe)
    assert not calls(exe)
    reasons = [text for text in remarks if "attention stays GEMMs and kernels" in text]
    assert len(reasons) == 2 and all("an operand is f32" in text for text in reasons)


def test_the_library_is_chosen_by_name() -> None:
    for choice in (False, True, None, "all"):
        with pytest.raises(ValueError, match=f"library_attention={choice!r}: expected 'recipe'"):
            scalify.jit(jnp.sin, gpu=scalify.GPU(library_attention=choice))


def test_f32_under_a_recipe_that_multiplies_it_in_bf16() -> None:
    recipe = str(Recipe.preset("fp8-current").replace(attention="bf16"))
    exe, _ = on_a_gpu(layers(jnp.float32), recipe)
    names = sorted(line.split(" q=")[0] for line in calls(exe))
    assert names == ["cudnnExecute attention"] * 2 + ["cudnnExecute attention_grad"] * 2
    # The program does not round the results, which the library does.
    exact, remarks = on_a_gpu(layers(jnp.float32), recipe, libraryAttention="exact")
    assert not calls(exact)
    reasons = [text for text in remarks if "library_attention=recipe lets the library" in text]
    assert len(reasons) == 2 and all("not rounded to the operands' format" in r for r in reasons)


@pytest.mark.parametrize("recipe", ["none", "bf16", "fp8-block", "fp8-lm-o2"])
def test_the_attention_that_llama_writes_out(recipe: str) -> None:
    sizes = {"vocab": 64, "layers": 1, "dim": 64, "heads": 4, "kv_heads": 2, "ffn": 64, "seq": 48}
    cfg = gpu_steps.config.ModelConfig(**sizes, dtype="bfloat16")
    # Of one sequence JAX writes the gradient of the softmax in another way. In F32 the gradients
    # of q and k go wide into those of RoPE.
    text = gpu_steps.shapes.lower(cfg, scanned=False, batch=1 if recipe == "none" else 2)
    if recipe == "bf16":
        text = gpu_steps.shapes.lower(dataclasses.replace(cfg, dtype="float32"), scanned=False)
    exe, remarks = on_a_gpu(text, recipe)
    attentions = [c for c in exe.manifest["functions"]["step"] if c["op"] == "attention"]
    assert [command["gradient"] for command in attentions] == [False, True]
    assert not any(buffer["shape"][-2:] == [48, 48] for buffer in exe.manifest["buffers"])
    assert not any("attention stays" in text for text in remarks)


def test_without_the_library() -> None:
    step = jax.jit(lambda q: nn.attention(q, q, q, causal=True))
    text = step.lower(jax.ShapeDtypeStruct((2, 32, 4, 32), jnp.bfloat16)).as_text()
    for library in ("recipe", "exact", "none"):
        exe = scalify.compile(
            text, "none", "sm_90a", gpu=scalify.GPU(device="null", library_attention=library)
        )
        ops = {command["op"] for command in exe.manifest["functions"]["step"]}
        assert ("attention" in ops) == (library != "none")
    with pytest.raises(ValueError, match="library_attention='some': expected 'recipe'"):
        scalify.compile(text, "none", "sm_90a", gpu=scalify.GPU(library_attention="some"))  # type: ignore[arg-type]
