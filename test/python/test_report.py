"""Reports: every value with its rule, chains that end, statistics against numpy, one page."""

from __future__ import annotations

import collections
import functools
import html.parser
import json
import math
import pathlib
import re
import shutil
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import scalify
from scalify import _compiler

Tree = dict[str, Any]

# All casts are to FP8, and the head is wide.
RECIPE = scalify.Recipe(head=False, sensitive=False)


def loss(params: Tree, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(jax.nn.silu(x @ params["a"]) @ params["b"])
    return jnp.mean((hidden @ params["c"] - y) ** 2)


def step(params: Tree, x: Any, y: Any) -> tuple[Tree, Any]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


@functools.cache
def arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = {"a": (64, 128), "b": (128, 96), "c": (96, 32)}
    params = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    x = rng.normal(size=(16, 64)).astype(np.float32)
    return params, x, rng.normal(size=(16, 32)).astype(np.float32)


@functools.cache
def transformed() -> scalify.Transformed:
    made = scalify.transform(step, recipe=RECIPE)
    made.text(*arguments())
    return made


def test_every_value_has_its_rule() -> None:
    text = jax.jit(step).lower(*arguments()).as_text()
    report = scalify.compile(
        text, recipe="fp8", numerics=scalify.Numerics(scales="declared")
    ).report()
    propagated = scalify.opt(text, "scalify-import,scalify-propagate")
    rules = re.findall(r'scalify.rule = "([^"]*)", scalify.scale = (-?\d+)', propagated)
    rows = collections.Counter(
        (row["rule"], str(row["scale"])) for row in report if row["op"] not in ("quantize",)
    )
    assert len(rules) > 30 and not collections.Counter(rules) - rows
    assert [row["id"] for row in report] == list(range(len(report)))
    for row in report:
        assert all(0 <= source < len(report) for source in row["from"])
        if row["op"] == "quantize":
            (root,) = row["from"]
            room = -3 if row["phase"] == "backward" else 0
            assert report[root]["scale"] + room == row["scale"] and report[root]["op"] != "quantize"
            assert ("room for gradients" in row["rule"]) == (room != 0)
    casts = {row["cast"] for row in report.casts()}
    assert casts and {row["cast"] for row in report if row["cast"]} == casts


def test_the_schema_is_the_documented_one() -> None:
    table = json.loads(
        _compiler.report(jax.jit(step).lower(*arguments()).as_text(), '{"recipe": "fp8"}')
    )
    assert table["schema"] == "scalify.report/1" and table["recipe"] == "fp8"
    page = pathlib.Path(__file__).parents[2] / "docs" / "stages" / "explain.md"
    documented = set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE))
    assert {key for row in table["rows"] for key in row} <= documented
    assert set(table["summary"]) <= documented
    passes = [entry["after"] for entry in table["summary"]["ops"]]
    assert passes == ["validate-import", "propagate", "quantize"]
    hints = [entry["scale_ops"].get("scale_hint", 0) for entry in table["summary"]["ops"]]
    assert hints[0] == 0 and hints[1] > 0 and hints[2] == 0, "casts take the place of hints"


def test_a_chain_ends_at_arguments_and_constants() -> None:
    # All six operands are cast, also of the dots that fp8 would leave wide.
    report = scalify.transform(step, recipe=RECIPE.replace(sensitive=True)).report(*arguments())
    for cast in ("c0", "c5"):
        chain = report.why(cast, depth=0)
        assert chain[0]["op"] == "quantize" and chain[0]["depth"] == 0
        leaves = [line for line in chain if not line["from"] and not line["repeated"]]
        assert leaves and {line["op"] for line in leaves} <= {"argument", "constant"}
        assert all(line["rule"] for line in chain)
    gradient = report.why("c5", depth=0)
    assert {"x", "params['c']"} <= {line["value"] for line in gradient}
    # Each value's sources are shown once, however often it is reached.
    expanded = [line["id"] for line in gradient if line["from"] and not line["repeated"]]
    assert len(expanded) == len(set(expanded))
    short = report.why("c5", depth=2)
    assert max(line["depth"] for line in short) == 2 and any(line["cut"] for line in short)
    assert "more below" in str(short)


def test_the_name_of_a_brief_row_is_no_other_value_s() -> None:
    report = transformed().report()
    for row in report.casts():
        assert report.why(row["value"])[0]["cast"] == row["cast"]
    # Of a dot it is one of the text after Precision, where numbers are others.
    assert report.dots()
    for row in report.dots():
        with pytest.raises(KeyError, match="no value is called 'precision:%"):
            report.why(row["value"])


def test_names_and_near_matches() -> None:
    report = transformed().report()
    argument = report.why("params['b']")
    assert re.match(r"params\['b'\] = argument, 2\^-\d, declared scale", str(argument))
    assert report.why(f"#{argument[0]['id']}")[0] == argument[0]
    with pytest.raises(KeyError, match=r"near it: .*params\['a'\]"):
        report.why("params['z']")
    with pytest.raises(KeyError, match=r"values match .test_report\.py."):
        report.why("test_report.py")


def test_python_and_the_tool_tell_the_same_chain(tmp_path: pathlib.Path) -> None:
    lowered = jax.jit(step).lower(*arguments())
    text = lowered.as_text(debug_info=True)
    (tmp_path / "step.mlir").write_text(text)
    tool = pathlib.Path(_compiler.__file__).parents[2] / "bin" / "scalify-compile"
    command = [tool, tmp_path / "step.mlir", "-o", "/dev/null", "--recipe=fp8"]
    command += ["--scalify-why=c4", "--scalify-why-depth=0"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exe = scalify.compile(text, recipe="fp8")
    assert str(exe.report().why("c4", depth=0)) + "\n" == told
    assert told.count("\n") > 10


@pytest.mark.parametrize("recipe", ["fp8-current", "fp8-plain"])
def test_casts_of_other_recipes_say_where_their_scale_is_from(recipe: str) -> None:
    preset = scalify.Recipe.preset(recipe).replace(head=False, sensitive=False)
    report = scalify.transform(step, recipe=preset).report(*arguments())
    rules = {row["rule"] for row in report if row["op"] == "quantize"}
    want = "measured in the step" if recipe == "fp8-current" else "unit scale of the recipe"
    assert all(rule.startswith(want) for rule in rules)
    wide = [row for row in report if row["reason"].startswith("stays wide: head")]
    assert len(wide) == 3 and {row["op"] for row in wide} == {"dot_general"}


def test_a_full_report_travels_with_the_artefact(tmp_path: pathlib.Path) -> None:
    text = jax.jit(lambda x, w: jnp.tanh(x @ w) @ w.T).lower(
        np.zeros((16, 32), np.float32), np.zeros((32, 16), np.float32)
    )
    full = scalify.compile(text.as_text(), recipe="fp8", report="full")
    brief = scalify.compile(text.as_text(), recipe="fp8")
    for name, exe in (("full", full), ("brief", brief)):
        exe.save(tmp_path / name)
    loaded = scalify.load(tmp_path / "full")
    assert list(loaded.report()) == list(brief.report()) and len(loaded.report()) > 5
    assert loaded.report().counts() == full.report().counts()
    small = scalify.load(tmp_path / "brief").report()
    assert {row["op"] for row in small} <= {"argument", "quantize", "dot_general"}
    with pytest.raises(ValueError, match="report='full'"):
        small.why("c0")
    # What runs is the same.
    for key in ("functions", "buffers", "counters", "arena_bytes"):
        assert full.manifest[key] == brief.manifest[key]


def test_statistics_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (32, 64)).astype(np.float32)
    w = rng.normal(0, 2.0**-6, (64, 48)).astype(np.float32)
    x[0, :3] = 1e4, 2.0**-30, -np.inf
    recipe = '#scalify.recipe<"fp8", head = true>'
    got = scalify.collect(
        jnp.matmul, x, w, recipe=recipe, numerics=scalify.Numerics(scales=[1, -6])
    )
    assert len(got) == 1
    for name, value, exponent in (("c0", x, 1), ("c1", w, -6)):
        (figures,) = got.of(name)
        assert figures is not None
        scale = 2.0**exponent
        scaled = value.astype(np.float64) / scale
        finite = np.isfinite(scaled)
        with np.errstate(all="ignore"):
            narrow = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        power, noise = (scaled[finite] ** 2).sum(), ((narrow - scaled)[finite] ** 2).sum()
        # Sums in f32 over two thousand terms.
        assert figures["sqnr"] == pytest.approx(10 * math.log10(power / noise), abs=0.01)
        assert figures["amax"] == np.abs(value[np.isfinite(value)]).max()
        assert figures["rms"] == pytest.approx(
            np.sqrt(np.mean(value[finite].astype(np.float64) ** 2)), rel=1e-4
        )
        assert figures["flushed"] == np.mean((narrow == 0) & (scaled != 0))
        # 464 lies halfway between 448 and what would come next, and rounds to even.
        assert figures["saturated"] == np.mean((np.abs(scaled) > 464) & finite)
        assert figures["scale"] == scale
    assert got.of("c0")[0]["saturated"] > 0  # type: ignore[index]


def test_statistics_under_jit_in_loops_and_from_counters() -> None:
    params, x, y = arguments()
    made = scalify.transform(
        step, numerics=scalify.Numerics(scales=scalify.measure((params, x, y))), statistics=True
    )

    def train(params: Tree) -> Tree:
        def body(carry: Tree, _: Any) -> tuple[Tree, Any]:
            return made(carry, x, y)

        return jax.lax.scan(body, params, None, length=3)[0]

    jax.jit(train)(params)
    traced = made.statistics()
    assert len(traced) == 3
    eager = scalify.collect(made, params, x, y, steps=3, update=lambda a, r: (r[0], *a[1:]))
    assert len(eager) == 3 and len(made.statistics()) == 3, "a collection is its own"
    for cast in eager.casts:
        for a, b in zip(traced.of(cast), eager.of(cast), strict=True):
            assert a is not None and b is not None
            assert a["amax"] == pytest.approx(b["amax"], rel=1e-3)
    counted = scalify.collect(
        scalify.jit(step, numerics=scalify.Numerics(scales=scalify.measure((params, x, y)))),
        *arguments(),
    )
    for cast in eager.casts:
        ours, theirs = counted.of(cast)[0], eager.of(cast)[0]
        assert ours is not None and theirs is not None
        # Counts of our kernels and of XLA's: sums round apart in the last bit.
        assert ours["flushed"] == pytest.approx(theirs["flushed"], abs=2e-3)
        assert ours["saturated"] == theirs["saturated"] == 0
    with pytest.raises(RuntimeError, match="collects no statistics"):
        transformed().statistics()


@pytest.mark.parametrize("make", [scalify.jit, scalify.transform])
def test_statistics_leave_donated_arguments_to_the_caller(make: Any) -> None:
    params, x, y = jax.tree.map(jnp.array, arguments())
    assert len(scalify.collect(make(step, donate_argnums=0), params, x, y, steps=2)) == 2
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(params))


def test_statistics_cost_nothing_when_off() -> None:
    args = arguments()
    text = jax.jit(step).lower(*args).as_text()
    pipeline = "scalify-pipeline{{recipe=fp8 stablehlo=true{}}}"
    plain = scalify.opt(text, pipeline.format(""))
    assert plain == scalify.opt(text, pipeline.format(" collect-statistics=false"))
    measured = scalify.opt(text, pipeline.format(" collect-statistics=true"))
    stages = "scalify-import,scalify-scaling,scalify-precision{recipe=fp8}"
    table = f"tensor<{scalify.opt(text, stages).count('= scalify.quantize')}x8xf32>"
    assert measured != plain and table in measured and table not in plain
    # It adds ops and takes none away.
    ops = [collections.Counter(re.findall(r"stablehlo\.\w+", x)) for x in (plain, measured)]
    assert not ops[0] - ops[1] and ops[0]["stablehlo.dot_general"] == 8
    on = scalify.transform(step, recipe=RECIPE, statistics=True)
    results = zip(jax.tree.leaves(on(*args)), jax.tree.leaves(transformed()(*args)), strict=True)
    for a, b in results:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)  # XLA may fuse otherwise


def test_statistics_in_a_loop_sum_over_its_iterations() -> None:
    text = """
    func.func public @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
      %s = stablehlo.constant dense<1.0> : tensor<f32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8xf32>
      cond {
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %q = scalify.quantize %a, %s {cast = "c0"} : tensor<8xf32> -> tensor<8xf8E4M3FN>
        %b = scalify.dequantize %q, %s : tensor<8xf8E4M3FN> -> tensor<8xf32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %d = stablehlo.add %b, %b : tensor<8xf32>
        stablehlo.return %j, %d : tensor<i32>, tensor<8xf32>
      }
      return %0#1 : tensor<8xf32>
    }"""
    from scalify._call import Module, call, out_avals

    plain = scalify.opt(text, "scalify-collect-statistics,scalify-to-stablehlo")
    module = Module("loop", out_avals(plain), lambda _: plain, None)
    x = np.float32([1, 2, 3, 100, 2.0**-12, 0, -1, 5])
    result, table = jax.jit(functools.partial(call, module))(x, np.int32(4))
    assert np.asarray(result)[3] == 896  # 448 at most, doubled
    row = dict(zip(scalify._statistics.COLUMNS, np.asarray(table)[0].tolist(), strict=True))
    # 100 rounds to 96; 96, 192, 384, 768: the last is beyond 448. 2^-12 is flushed once, then 0.
    assert row["elements"] == 32 and row["saturated"] == 1 and row["flushed"] == 1
    assert row["amax"] == 768 and row["scale"] == 1


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.data = ""
        self.script = ""
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)
        given = dict(attrs)
        self.outside += [f"{tag} {key}" for key in ("src", "href", "srcset") if key in given]
        self.kind = given.get("type", "") if tag == "script" else self.kind

    kind: str | None = ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] == "script":
            if self.kind == "application/json":
                self.data += text
            else:
                self.script += text


def test_the_page_is_one_file_without_a_network(tmp_path: pathlib.Path) -> None:
    statistics = scalify.collect(transformed(), *arguments(), steps=2)
    transformed()(*arguments())  # with values, from which scales are constants
    transformed().report().save(tmp_path / "scales.html", statistics)
    text = (tmp_path / "scales.html").read_text()
    assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\(", text)
    assert "fetch(" not in text and "XMLHttpRequest" not in text
    page = _Page()
    page.feed(text)
    page.close()
    assert not page.open and not page.outside
    data = json.loads(page.data)
    assert len(data["rows"]["value"]) == len(transformed().report())
    casts = transformed().report().casts()
    assert data["statistics"]["steps"] == 2
    assert len(data["statistics"]["casts"]) == len(casts) == 5
    # The prediction for a normal value at its scale is near what a run measures.
    for place, figures in zip(
        data["statistics"]["casts"], data["statistics"]["metrics"]["sqnr"], strict=True
    ):
        assert data["predicted"][str(place)][2] == pytest.approx(figures[0], abs=3)
    node = shutil.which("node")
    if node is not None:
        (tmp_path / "page.js").write_text(page.script)
        subprocess.run([node, "--check", tmp_path / "page.js"], check=True)
    transformed().report().save(tmp_path / "scales.json")
    assert json.loads((tmp_path / "scales.json").read_text())["schema"] == "scalify.report/1"
    statistics.save(tmp_path / "statistics.json")
    assert scalify.Statistics.load(tmp_path / "statistics.json").casts == statistics.casts
    with pytest.raises(ValueError, match="does not hold statistics"):
        scalify.Statistics.load(tmp_path / "scales.json")


def test_a_chain_leads_out_of_the_body_of_a_loop() -> None:
    def scanned(weights: Any, x: Any) -> Any:
        return jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, weights)[0]

    weights = np.full((3, 16, 16), 0.25, np.float32)
    report = scalify.transform(scanned).report(weights, np.ones((8, 16), np.float32))
    (dot,) = [row for row in report if row["op"] == "dot_general"]
    assert dot["body"]
    chain = report.why(f"#{dot['id']}", depth=0)
    assert {"weights", "x"} <= {line["value"] for line in chain}
    assert "body_argument" in {line["op"] for line in chain}
    # The carry comes from what the body yields, and so from the dot itself.
    assert any(line["id"] == dot["id"] and line["repeated"] for line in chain[1:])
