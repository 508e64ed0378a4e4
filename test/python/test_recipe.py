"""Recipes as values: the attribute's parts, its text, and equal hashes of equal content."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalify
from scalify import _compiler

Recipe = scalify.Recipe


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ params["a"])
    return jnp.mean((jnp.tanh(hidden @ params["b"]) @ params["out"]) ** 2)


def step(params: dict[str, jax.Array], x: jax.Array) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"a": (32, 64), "b": (64, 32), "out": (32, 16)}
    params = {
        name: rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    return params, rng.normal(size=(48, 32)).astype(np.float32)


def test_the_class_has_a_field_for_each_part_of_the_attribute() -> None:
    fields = [field.name for field in dataclasses.fields(Recipe)]
    assert fields == ["name", *_compiler.recipe_parts()]
    # What a field may be is said in the text of its attribute.
    assert Recipe.__doc__ is not None
    for name in fields:
        assert f"        {name}: " in Recipe.__doc__


def test_without_parts_it_is_the_preset_fp8() -> None:
    assert Recipe() == Recipe.preset("fp8")
    assert dataclasses.asdict(Recipe()) == dataclasses.asdict(Recipe.preset("fp8"))


@pytest.mark.parametrize("name", scalify.recipes())
def test_a_preset_is_printed_by_its_name_and_read_again(name: str) -> None:
    recipe = Recipe.preset(name)
    assert str(recipe) == f'#scalify.recipe<"{name}">'
    assert Recipe.parse(str(recipe)) == Recipe.of(name) == recipe
    # All parts, written out under a name that stands for others.
    other = dataclasses.replace(recipe, name="mine")
    assert Recipe.parse(str(other)) == other == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe


TEXTS = [
    '"fp8", head = true',
    '"fp8", linear = [f8E4M3FN, f32], attention = false, router = f16, masters = f16',
    '"fp8-block", scales = current, block = [1, 0], weight_block = [32, 32]',
    '"fp8", forward_dot = bf16, input_grad = f8E5M2, weight_grad = false, unprofitable = bf16',
    r""""fp8", where = {"weight_grad:layer0/" = false, "x" = bf16}""",
    r""""fp8", where = {"layer0/" = false, "params\\['w'\\]" = [f8E5M2, f8E4M3FN]}""",
    '"fp8-delayed", history = 1024, history_use = most_recent, margin = -1',
    r'"bf16", moments = bf16, saved = given, rescale = ["residual_grad", "grad:ffn\\d"]',
    '"fp8", accumulation = [precise, fast, fast], where = {"a" = precise, "b" = fast, "c" = bf16}',
    '"fp8", accumulation = precise',
    '"its own \\22name\\22", forward = f8E5M2, gradient_exponent = -7',
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_and_printed_as_the_compiler_does(text: str) -> None:
    text = f"#scalify.recipe<{text}>"
    recipe = Recipe.parse(text)
    assert str(recipe) == text
    assert Recipe(**dataclasses.asdict(recipe)) == recipe
    # The attribute, as scalify-opt prints it.
    module = f"module attributes {{scalify.recipe = {text}}} {{}}"
    assert f"scalify.recipe = {recipe}" in scalify.opt(module, "cse")


def test_values_have_one_spelling_and_recipes_are_values() -> None:
    where: Any = {"b": "wide", "a": ["f8E5M2", "f8E5M2"]}
    recipe = Recipe(head="wide", linear=("f8E4M3FN", "f8E4M3FN"), where=where, rescale=["residual"])
    assert recipe.head is False and recipe.linear == "f8E4M3FN"
    assert recipe.where == (("b", False), ("a", "f8E5M2"))
    assert recipe.rescale == ("residual",)
    assert len({recipe, dataclasses.replace(recipe, name="other"), Recipe()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.head = True  # type: ignore[misc]


def test_replace_takes_the_words_for_several_parts_in_order() -> None:
    recipe = Recipe().replace(attention="bf16", attention_pv="f16", state="f16", moments="given")
    assert recipe == Recipe(
        attention_qk="bf16", attention_pv="f16", attention_ds="bf16", masters="f16"
    )
    assert Recipe.preset("bf16").replace(name="mine", saved="given").name == "mine"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"colour": True}, r"unknown part 'colour' of a recipe: expected one of scales, forward"),
        ({"head": "f9"}, r"part 'head' of a recipe is 'f9': expected true, false, wide, a format"),
        ({"head": 3}, r"part 'head' of a recipe is '3': expected true"),
        ({"head": ("f16", "bf16")}, r"part 'head' .* 'f16' and 'bf16', which cannot meet"),
        ({"head": "true, margin = 3"}, r"part 'head' of a recipe is '\"true, margin = 3\"'"),
        ({"scales": "amax"}, r"part 'scales' of a recipe is 'amax': expected none, propagated"),
        ({"masters": None}, r"part 'masters' of a recipe is 'null': expected given or a format"),
        ({"history": "ten"}, r"part 'history' of a recipe is 'ten': expected an integer"),
        ({"history": 1.5}, r"part 'history' of a recipe is '1.5': expected an integer"),
        ({"margin": 2}, r"part 'margin' .* is 2 under scales = propagated, which measure no amax"),
        ({"margin": 65}, r"part 'margin' of a recipe is 65: expected -64 to 64 binades"),
        ({"gradient_exponent": 500}, r"part 'gradient_exponent' .* 500: expected -64 to 64"),
        (
            {"accumulation": "slow"},
            r"part 'accumulation' .* 'slow': expected fast or precise, or \[",
        ),
        ({"accumulation": ("fast",)}, r"part 'accumulation' of a recipe is '\[fast\]': expected"),
        ({"block": 128}, r"part 'block' of a recipe is '128': expected \[free, contracting\]"),
        ({"where": {"[": True}}, r"part 'where' .* pattern '\[', which is no regular expression"),
        ({"where": "x"}, r"part 'where' of a recipe is 'x': expected {\"regular expression\""),
        ({"rescale": "x"}, r"part 'rescale' of a recipe is '\"x\"': expected a list"),
    ],
)
def test_what_cannot_be_is_named_with_what_can(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(scalify.CompileError, match=message):
        Recipe().replace(**parts)
    if "colour" not in parts:
        with pytest.raises(scalify.CompileError, match=message):
            Recipe(**parts)


def test_a_preset_that_is_none_is_named_with_those_that_are() -> None:
    for make in (Recipe.preset, Recipe.parse):
        with pytest.raises(ValueError, match="unknown recipe 'fp9': expected one of none, fp16"):
            make("fp9")


def hash_of(text: str, recipe: Any) -> str:
    numerics = scalify.Numerics(scales=[-3, -3, -3, 0])
    return str(scalify.compile(text, recipe, numerics=numerics).manifest["hash"])


def test_equal_content_has_one_hash_however_it_is_written() -> None:
    text = jax.jit(step, keep_unused=True).lower(*data()).as_text(debug_info=True)
    head, rest = text.split("attributes {", 1)
    by_hand = '#scalify.recipe<"by hand", head = true, gradient_exponent = -3, linear = true>'
    in_ir = f"{head}attributes {{scalify.recipe = {by_hand}, {rest}"
    hashes = {
        hash_of(text, '#scalify.recipe<"fp8", head = true>'),
        hash_of(in_ir, None),
        hash_of(text, Recipe("in Python", head=True)),
        hash_of(text, Recipe.preset("fp8-current").replace(head=True, **own("fp8"))),
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("name", scalify.recipes())
def test_all_parts_written_out_have_the_hash_of_the_preset(name: str) -> None:
    """In IR, in Python, and by the preset's name, for a step of two small dots."""

    def small(params: Any, x: Any) -> Any:
        grad = jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["a"]) @ p["out"]) ** 2))
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grad(params))

    params = {"a": np.ones((16, 16), np.float32), "out": np.ones((16, 16), np.float32)}
    lowered = jax.jit(small, keep_unused=True, donate_argnums=0).lower(params, params["a"])
    text = lowered.as_text(debug_info=True)
    preset = Recipe.preset(name)
    parts = {part: getattr(preset, part) for part in _compiler.recipe_parts()}
    # By another name than the preset's, so that no part is left to it.
    assert not preset.where
    by_hand = ", ".join(
        f"{part} = {'{}' if part == 'where' else in_ir(value, part in NAMES)}"
        for part, value in parts.items()
    )
    head, rest = text.split("attributes {", 1)
    marked = f'{head}attributes {{scalify.recipe = #scalify.recipe<"by hand", {by_hand}>, {rest}'
    numerics = scalify.Numerics(scales=[-2, -2, 0])
    hashes = {
        str(scalify.compile(source, recipe, numerics=numerics).manifest["hash"])
        for source, recipe in ((text, name), (marked, None), (text, Recipe("in Python", **parts)))
    }
    assert len(hashes) == 1


# Parts that are lists of strings.
NAMES = {"rescale", "priors"}


def in_ir(value: Any, is_quoted: bool = False) -> str:
    """Returns a part's value as the attribute spells it, by the definition in its documentation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(in_ir(entry, is_quoted) for entry in value)}]"
    return json.dumps(value) if is_quoted else str(value)


def own(preset: str) -> dict[str, Any]:
    """Returns the parts in which fp8-current differs from `preset`."""
    theirs, ours = Recipe.preset(preset), Recipe.preset("fp8-current")
    parts = _compiler.recipe_parts()
    return {p: getattr(theirs, p) for p in parts if getattr(theirs, p) != getattr(ours, p)}


def test_the_label_stays_in_the_manifest() -> None:
    run = scalify.jit(step, Recipe("mine", head=True))
    run(*data())
    assert run.executable().manifest["recipe"] == "mine"
    assert Recipe.of(run.recipe) == Recipe(head=True)


def test_every_entry_takes_one() -> None:
    recipe = Recipe(head=True)
    params, x = data()
    run, text = scalify.jit(step, recipe), '#scalify.recipe<"fp8", head = true>'
    rewritten = scalify.transform(step, recipe)
    np.testing.assert_array_equal(run(params, x)[1], scalify.jit(step, text)(params, x)[1])
    np.testing.assert_array_equal(
        rewritten(params, x)[1], scalify.transform(step, text)(params, x)[1]
    )
    assert len(scalify.probe(step, recipe)(params, x)) == len(run.report().casts())
    assert scalify.collect(step, params, x, recipe=recipe)
    # A calibration is by content, too.
    calibration = scalify.calibrate(step, params, x, recipe=text)
    assert calibration.casts == scalify.calibrate(run, params, x).casts
    scalify.jit(step, recipe, numerics=scalify.Numerics(calibration=calibration))(params, x)
    with pytest.raises(ValueError, match="calibrate by the recipe"):
        scalify.jit(step, "fp8", numerics=scalify.Numerics(calibration=calibration))


def test_a_recipe_whose_scales_are_delayed_is_one_by_content() -> None:
    recipe = Recipe("mine", scales="delayed", history=4)
    params, x = data()
    run = scalify.jit(step, recipe)
    run(params, x)
    history = run.executable().amax_history
    assert history is not None and history.shape[1] == 4
    assert scalify.transform(step, recipe).init_state(params, x).shape == history.shape
    with pytest.raises(ValueError, match="moves scales by the amaxes"):
        scalify.jit(step, recipe, numerics=scalify.Numerics(adaptive_scales=True))


def gradient_error(params: dict[str, np.ndarray], x: np.ndarray, recipe: Any, name: str) -> float:
    got = np.asarray(scalify.transform(jax.grad(loss), recipe)(params, x)[name], np.float64)
    want = np.asarray(jax.grad(loss)(params, x)[name], np.float64)
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def formats(recipe: Any) -> dict[tuple[str, str], str]:
    run = scalify.transform(jax.grad(loss), recipe)
    rows = run.report(*data()).dots()
    return {(row["kind"], row["weight"].split("'")[1]): row["format"] for row in rows}


def test_each_kind_of_dot_has_formats_of_its_own() -> None:
    wide, both = "f32 x f32 -> f32", "f8E4M3FN x f8E4M3FN -> f32"
    found = formats(Recipe(weight_grad="bf16", input_grad=False, head=False))
    # The first layer's input needs no gradient; the head is wide.
    assert found == {
        ("forward_dot", "a"): both,
        ("forward_dot", "b"): both,
        ("forward_dot", "out"): wide,
        ("input_grad", "out"): wide,
        ("weight_grad", "out"): wide,
        ("input_grad", "b"): wide,
        ("weight_grad", "b"): "bf16 x bf16 -> f32",
        ("weight_grad", "a"): "bf16 x bf16 -> f32",
    }
    only = formats(Recipe(forward_dot=False, head=False, where={"weight_grad:'b'": "wide"}))
    assert {key for key, value in only.items() if value != wide} == {
        ("input_grad", "b"),
        ("weight_grad", "a"),
    }


def test_wide_gradients_of_weights_are_nearer() -> None:
    # As torchao's rowwise_with_gw_hp: only what reaches the gradient dot is rounded.
    params, x = data()
    narrow = gradient_error(params, x, "fp8", "b")
    wide = gradient_error(params, x, Recipe(weight_grad=False), "b")
    assert wide < 0.95 * narrow < 0.1


def test_dots_that_fp8_would_slow_down_are_listed_with_the_reason() -> None:
    run = scalify.jit(jax.grad(loss), Recipe(head=True, unprofitable="bf16"))
    run(*data())
    rows = run.report().dots()
    assert all(row["format"] == "bf16 x bf16 -> f32" for row in rows)
    assert all("unprofitable" in row["reason"] and "us in BF16" in row["reason"] for row in rows)
    remarks = [remark["message"] for remark in run.executable().manifest["remarks"]]
    assert sum("unprofitable" in remark for remark in remarks) == len(rows)
    # By default nothing is judged.
    plain = scalify.jit(jax.grad(loss), Recipe(head=True))
    plain(*data())
    assert all(row["format"].startswith("f8") for row in plain.report().dots())
