"""Options in groups, and their old names, which only this file uses.

Other files test the options by their new names. Here an old name must have the effect of the new
one, and warn.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx

import scalify
from scalify import GPU, Distribution, Numerics, _groups, _text

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS: dict[str, Any] = {"distribution": Distribution, "numerics": Numerics, "gpu": GPU}
MESH = scalify.make_mesh(data=2)
STAGES = scalify.make_mesh(pipe=2)
WIDE = scalify.WideCast("c0: x", "", 4, "chosen by the user")
SCALES = scalify.Scales((0, 0), ("x", "w"))

# A value of each option that is not the one by default, with what it needs beside it.
VALUES: dict[str, dict[str, Any]] = {
    "mesh": {"mesh": MESH},
    "zero": {"zero": 2, "mesh": MESH},
    "pipeline": {"pipeline": scalify.Pipeline(), "mesh": STAGES},
    "reduce": {"reduce": "each"},
    "memory_limit": {"memory_limit": 1 << 30},
    "overlap": {"overlap": False},
    "bucket_bytes": {"bucket_bytes": 0},
    "sums": {"sums": "nccl"},
    "scales": {"scales": [0, -3]},
    "cast_scales": {"cast_scales": "static"},
    "roles": {"roles": {"^x$": "batch"}},
    "ranges": {"ranges": [{"max": 2.0}, None]},
    "range_use": {"range_use": "choose"},
    "calibration": {"calibration": scalify.Calibration("fp8", SCALES, ())},
    "rescale": {"rescale": ["residual"]},
    "adaptive_scales": {"adaptive_scales": True},
    "health": {"health": scalify.HealthPolicy("widen", every=3)},
    "wide": {"wide": (WIDE,)},
    "pack_state": {"pack_state": False},
    "device": {"device": "null"},
    "streams": {"streams": 2},
    "library_attention": {"library_attention": "exact"},
    "epilogues": {"epilogues": "all"},
}
# What `compile` and `transform` had.
COMPILE = {
    *("memory_limit", "overlap", "bucket_bytes", "sums"),
    *("scales", "cast_scales", "roles", "ranges"),
    *("device", "streams", "library_attention", "epilogues"),
}
TRANSFORM = {
    *("scales", "cast_scales", "roles", "ranges", "range_use", "calibration", "rescale", "wide"),
    "adaptive_scales",
}


def product(x: Any, w: Any) -> Any:
    return x @ w


def grouped(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options in their groups."""
    found: dict[str, Any] = {}
    for group, make in GROUPS.items():
        names = {field.name for field in dataclasses.fields(make)} & options.keys()
        if names:
            found[group] = make(**{name: options[name] for name in names})
    return found


def told(made: scalify.Jit) -> Any:
    """Returns a step's settings, without its function."""
    return made._settings


def rewritten(made: scalify.Transformed) -> Any:
    return made._extra, made._given


def compiled(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    """Returns the options that `scalify.compile` passes to the compiler."""
    asked: list[Any] = []

    class Made:
        def report(self) -> Any:
            return self

        def measured_arguments(self) -> list[str]:
            return []

        casts = dots = measured_arguments

    def compile_text(text: str, *given: Any) -> Made:
        asked.extend(given)
        return Made()

    with monkeypatch.context() as patch:
        patch.setattr(_text, "compile_text", compile_text)
        scalify.compile("module {}", **options)
    return asked


def one_warning(make: Callable[[], Any]) -> tuple[Any, str]:
    """Returns the result of `make`, which warns once in this file, and the warning's text."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = make()
    assert [one.category for one in found] == [DeprecationWarning], [str(one) for one in found]
    assert found[0].filename == __file__
    return made, str(found[0].message)


def spelled(options: dict[str, Any]) -> str:
    """Returns the text of a warning after the function's name."""
    group, made = next(iter(grouped(options).items()))
    written = ", ".join(f"{name}=..." for name in options)
    return f"({written}) is deprecated: write {group}=scalify.{type(made).__name__}({written})"


@pytest.mark.parametrize("name", VALUES)
def test_jit_takes_an_old_name_and_says_how_it_is_written_now(name: str) -> None:
    options = VALUES[name]
    made, said = one_warning(lambda: scalify.jit(product, **options))
    assert said == "scalify.jit" + spelled(options)
    assert told(made) == told(scalify.jit(product, **grouped(options)))
    assert told(made) != told(scalify.jit(product))


@pytest.mark.parametrize("name", sorted(TRANSFORM - {"adaptive_scales"}))
def test_transform_takes_an_old_name(name: str) -> None:
    made, said = one_warning(lambda: scalify.transform(product, **VALUES[name]))
    assert said == "scalify.transform" + spelled(VALUES[name])
    wanted = scalify.transform(product, **grouped(VALUES[name]))
    assert rewritten(made) == rewritten(wanted) != rewritten(scalify.transform(product))


@pytest.mark.parametrize("name", sorted(COMPILE))
def test_compile_takes_an_old_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, said = one_warning(lambda: compiled(monkeypatch, **VALUES[name]))
    assert said == "scalify.compile" + spelled(VALUES[name])
    assert made == compiled(monkeypatch, **grouped(VALUES[name])) != compiled(monkeypatch)


def test_every_option_of_a_group_is_here_and_on_the_page() -> None:
    fields = {
        field.name: group for group, make in GROUPS.items() for field in dataclasses.fields(make)
    }
    assert fields == _groups._OLD
    assert fields.keys() == VALUES.keys()
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    section = page.split("## Options in groups")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`( \*)? \| ([^|]+) \|", section, re.M)
    assert {name for name, _, _ in rows} == fields.keys()
    assert {name for name, star, _ in rows if star} == COMPILE - {*GPU.__dataclass_fields__}
    for name, _, by_default in rows:
        default = GROUPS[fields[name]].__dataclass_fields__[name].default
        assert by_default == (f'"{default}"' if isinstance(default, str) else str(default))


def test_several_old_names_are_one_warning() -> None:
    made, said = one_warning(
        lambda: scalify.jit(product, mesh=MESH, health="off", zero=1, threads=1)
    )
    assert said == (
        "scalify.jit(mesh=..., health=..., zero=...) is deprecated: write "
        "distribution=scalify.Distribution(mesh=..., zero=...), "
        "numerics=scalify.Numerics(health=...)"
    )
    assert (told(made).distribution, told(made).policy) == (Distribution(mesh=MESH, zero=1), None)


def test_a_decorator_warns_once_where_it_is_written() -> None:
    decorate, _ = one_warning(lambda: scalify.jit(recipe="none", scales=[0, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = decorate(product)
        # A step is pickled as it is written now.
        again = pickle.loads(pickle.dumps(scalify.jit(product, "none", numerics=Numerics())))
        assert told(again) == told(scalify.jit(product, "none"))
        assert told(made) == told(scalify.jit(product, "none", numerics=Numerics(scales=[0, 0])))
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(made(x, x), product(x, x))


def test_a_pickled_step_keeps_its_groups() -> None:
    groups: Any = {"numerics": Numerics(health="off", scales=SCALES), "gpu": GPU(device="cpu")}
    old, _ = one_warning(
        lambda: scalify.jit(product, health="off", scales=SCALES, device="cpu", threads=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (old, scalify.jit(product, threads=1, **groups)):
            assert told(pickle.loads(pickle.dumps(made))) == told(made)
    fn, _ = one_warning(lambda: scalify.transform(product, scales=SCALES))
    assert rewritten(pickle.loads(pickle.dumps(fn))) == rewritten(fn)


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(scalify.filter_jit, donate="none"),
        scalify.nnx.jit,
        scalify.filter_transform,
        scalify.nnx.transform,
    ],
    ids=["filter_jit", "nnx.jit", "filter_transform", "nnx.transform"],
)
def test_what_hands_options_on_takes_both(make: Any) -> None:
    old, said = one_warning(lambda: make(product, "fp8", cast_scales="static"))
    assert "write numerics=scalify.Numerics(cast_scales=...)" in said
    new = make(product, "fp8", numerics=Numerics(cast_scales="static"))
    by = told if isinstance(new.step, scalify.Jit) else rewritten
    assert by(old.step) == by(new.step) != by(make(product, "fp8").step)
    decorated, _ = one_warning(lambda: make(recipe="fp8", cast_scales="static")(product))
    assert by(decorated.step) == by(new.step)


def test_modules_run_by_both() -> None:
    def step(model: Any, x: Any) -> Any:
        return model(x)

    model, x = nnx.Linear(4, 4, rngs=nnx.Rngs(0)), np.ones((2, 4), np.float32)
    old, _ = one_warning(lambda: scalify.nnx.jit(step, "none", health="off"))
    new = scalify.nnx.jit(step, "none", numerics=Numerics(health="off"))
    np.testing.assert_array_equal(old(model, x), new(model, x))


def test_collect_hands_numerics_on() -> None:
    x = np.ones((4, 4), np.float32)
    new = scalify.collect(product, x, x, numerics=Numerics(scales=[0, 0]))
    old, _ = one_warning(lambda: scalify.collect(product, x, x, scales=[0, 0]))
    assert len(old) == len(new)


def test_a_mesh_alone_is_a_distribution() -> None:
    bare = scalify.jit(product, distribution=MESH)
    assert told(bare) == told(scalify.jit(product, distribution=Distribution(mesh=MESH)))
    assert bare.mesh is MESH


def test_an_old_name_fills_up_its_group() -> None:
    options: dict[str, Any] = {"distribution": Distribution(mesh=MESH), "zero": 3}
    made, _ = one_warning(lambda: scalify.jit(product, **options))
    assert told(made).distribution == Distribution(mesh=MESH, zero=3)


@pytest.mark.parametrize("function", [scalify.jit, scalify.transform])
def test_an_option_is_given_once(function: Any) -> None:
    words = r"\(scales=\.\.\.\) beside numerics=scalify.Numerics\(scales=\.\.\.\), which sets it"
    with pytest.raises(TypeError, match=words):
        function(product, scales=[0, 0], numerics=Numerics(scales=[1, 1]))


def test_a_mesh_is_given_once() -> None:
    with pytest.raises(TypeError, match=r"mesh=\.\.\.\) beside distribution="):
        scalify.jit(product, mesh=MESH, distribution=MESH)


UNKNOWN: list[tuple[Any, tuple[Any, ...], str, str]] = [
    (scalify.jit, (product,), "health_policy", r"\?|'health_policy'$"),
    (scalify.jit, (product,), "stream", r"Did you mean gpu=scalify.GPU\(streams=\.\.\.\)\?"),
    (scalify.jit, (product,), "numeric", r"Did you mean numerics=\.\.\.\?"),
    (scalify.jit, (product,), "donate_argnum", r"Did you mean donate_argnums=\.\.\.\?"),
    (scalify.jit, (product,), "colour", r"keyword argument 'colour'$"),
    (scalify.transform, (product,), "health", r"keyword argument 'health'"),
    (scalify.transform, (product,), "mesh", r"keyword argument 'mesh'"),
    (scalify.compile, ("module {}",), "wide", r"keyword argument 'wide'"),
    (scalify.compile, ("module {}",), "zero", r"keyword argument 'zero'"),
    (scalify.jit, (product,), "backend", r"of jax.jit: .* target="),
    (scalify.jit, (product,), "device", r"of jax.jit: leave it out"),
    (scalify.filter_jit, (product,), "compiler_options", r"of jax.jit: leave it out"),
    (scalify.transform, (product,), "device", r"the jax.jit around"),
    (scalify.filter_jit, (product,), "sum", r"Distribution\(sums=\.\.\.\)"),
]


@pytest.mark.parametrize(("function", "args", "name", "words"), UNKNOWN)
def test_an_unknown_name_is_an_error(function: Any, args: Any, name: str, words: str) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument '\w+'") as caught:
        function(*args, **{name: 1})
    assert re.search(words, str(caught.value))


def test_what_a_function_does_not_heed_is_an_error() -> None:
    text = "module {}"
    for options, words in (
        ({"numerics": Numerics(health="off")}, r"take numerics=scalify.Numerics\(health=\.\.\.\)"),
        ({"distribution": Distribution(mesh=MESH)}, r"Distribution\(mesh=\.\.\.\): of this group"),
        ({"distribution": MESH}, r"it takes memory_limit, overlap, bucket_bytes, sums"),
    ):
        with pytest.raises(TypeError, match=words):
            scalify.compile(text, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"transform does not take .*\(pack_state=\.\.\.\)"):
        scalify.transform(product, numerics=Numerics(pack_state=False))
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpu'"):
        scalify.transform(product, gpu=GPU())


def test_a_group_is_its_dataclass() -> None:
    for options, words in (
        ({"numerics": {"scales": [0, 0]}}, r"numerics=\{.*expected a scalify.Numerics$"),
        ({"distribution": 4}, r"distribution=4: expected a scalify.Distribution or a scalify.Mesh"),
        ({"gpu": "null"}, r"gpu='null': expected a scalify.GPU"),
    ):
        with pytest.raises(TypeError, match=words):
            scalify.jit(product, **options)


def test_a_group_judges_itself() -> None:
    mesh: Any = jax.sharding.AbstractMesh((2,), ("data",))
    for make, error, words in (
        (lambda: Distribution(zero=1), ValueError, "zero= needs a mesh"),
        (lambda: Distribution(mesh=mesh), TypeError, r"expected a mesh of scalify.make_mesh"),
        (lambda: Distribution(pipeline=scalify.Pipeline()), ValueError, "needs a mesh with its"),
        (
            lambda: Distribution(mesh=STAGES, pipeline=scalify.Pipeline(), memory_limit=1),
            ValueError,
            "memory_limit with pipeline=",
        ),
        (lambda: Distribution(reduce="first"), ValueError, "neither 'last' nor 'each'"),
        (lambda: Numerics(cast_scales="moved"), ValueError, "expected 'carried' or 'static'"),
        (lambda: Numerics(scales="given"), ValueError, "expected 'static', 'declared'"),
        (lambda: Numerics(health="cure"), ValueError, "unknown action 'cure'"),
        (lambda: Numerics(health="adapt", adaptive_scales=False), ValueError, "adaptive_scales"),
        (lambda: Numerics(calibration=3), TypeError, "expected a Calibration"),
        (lambda: Numerics(roles=3), TypeError, "expected a mapping"),
        (lambda: Numerics(wide=["c0"]), TypeError, "is not a WideCast"),
        (lambda: GPU(library_attention="some"), ValueError, "expected 'recipe', 'exact' or 'none'"),
    ):
        with pytest.raises(error, match=words):  # type: ignore[call-overload]
            make()  # type: ignore[no-untyped-call]
    for group in GROUPS.values():
        with pytest.raises(TypeError, match="positional"):
            group(None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            group().mesh = None


def old_names(path: pathlib.Path) -> Iterator[str]:
    """Yields the calls of Scalify in a file that give an option by its old name."""
    ours = re.compile(r"(scalify\.)?(nnx\.)?(jit|transform|compile|filter_jit|filter_transform)")
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        words = [ast.unparse(call.func), *(ast.unparse(one) for one in call.args[:1])]
        if words[0] == "functools.partial":
            words = words[1:]
        if ours.fullmatch(words[0]) and not words[0].startswith("nnx"):
            names = {one.arg for one in call.keywords} & VALUES.keys()
            if names:
                yield f"{path.relative_to(ROOT)}:{call.lineno}: {words[0]}({', '.join(names)})"


def test_nothing_else_writes_old_names() -> None:
    folders = ("python", "examples", "benchmarks", "integration", "test")
    found = [
        line
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if path != pathlib.Path(__file__).resolve()
        for line in old_names(path)
    ]
    assert not found
    assert len(list(old_names(pathlib.Path(__file__).resolve()))) > 5
