"""Broken text gives a diagnostic and a normal exit, never a crash.

Valid programs are damaged at random (with fixed seeds): tokens are dropped, doubled, swapped or
replaced by one from elsewhere. Each damaged function is a module of its own in one long input.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPT = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin" / "scalify-opt"
SEEDS = sorted((ROOT / "test" / "Dialect").glob("*/*.mlir"))
TOKEN = re.compile(r"[%@#!]?[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\"[^\"]*\"|->|\S|\s+")


def damage(text: str, everything: list[str], rng: random.Random) -> str:
    """Returns `text` with one to three tokens changed."""
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(rng.randint(1, 3)):
        i = rng.choice(words)
        kind = rng.randrange(5)
        if kind == 0:
            tokens[i] = ""
        elif kind == 1:
            tokens[i] += " " + tokens[i]
        elif kind == 2:
            j = rng.choice(words)
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 3:
            tokens[i] = rng.choice(["-1", "0", "99999999999999999999", "[]", "{}", "none", "?"])
        else:
            tokens[i] = rng.choice(everything)
    return "".join(tokens)


def functions(path: pathlib.Path) -> list[str]:
    """Returns the chunks of a lit test, without its comments."""
    text = re.sub(r"^\s*//(?! -----).*\n", "", path.read_text(), flags=re.MULTILINE)
    chunks = text.split("// -----\n")
    return [part for chunk in chunks for part in re.split(r"(?=^func\.func)", chunk, flags=re.M)]


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_crash(path: pathlib.Path) -> None:
    rng = random.Random(path.stem)
    parts = [part for part in functions(path) if part.strip()]
    everything = [token for part in parts for token in TOKEN.findall(part) if token.strip()]
    chunks = [damage(rng.choice(parts), everything, rng) for _ in range(300)]
    text = "\n// -----\n".join(chunks)
    done = subprocess.run(
        [OPT, "-", "-split-input-file", "-allow-unregistered-dialect"],
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert "error: " in done.stderr


def attribute(text: str) -> str:
    return f"func.func @main() attributes {{a = {text}}} {{ return }}"


def aliases(kind: str, first: str, form: str, depth: int) -> str:
    lines = [form.format(i + 1, i) for i in range(depth)]
    return "\n".join([f"{kind}a0 = {first}", *lines, ""])


# Text that nests in itself, by the way in which it does.
NESTED = {
    "attributes": lambda n: attribute("[" * n + "]" * n),
    "types": lambda n: attribute("tuple<" * n + "i1" + ">" * n),
    "regions": lambda n: (
        "func.func @main(%p: tensor<i1>) {\n"
        + '"stablehlo.if"(%p) ({\n' * n
        + "stablehlo.return\n"
        + "}, { stablehlo.return }) : (tensor<i1>) -> ()\nstablehlo.return\n" * n
        + "}"
    ),
    "attribute-aliases": lambda n: aliases("#", "[1]", "#a{} = [#a{}]", n) + attribute(f"#a{n}"),
    "type-aliases": lambda n: (
        aliases("!", "tuple<i1>", "!a{} = ()\n-> tuple<!a{}>", n) + attribute(f"!a{n}")
    ),
    "minuses": lambda n: attribute("affine_map<(d0) -> (" + "-" * n + "d0)>"),
    "sums": lambda n: attribute("affine_map<(d0) -> (" + "d0 + " * n + "d0)>"),
    "quotients": lambda n: attribute("affine_map<(d0) -> (d0" + " floordiv 2" * n + ")>"),
}


@pytest.mark.parametrize("tool", ["scalify-opt", "scalify-compile"])
@pytest.mark.parametrize("kind", NESTED)
def test_deep_text_is_refused(kind: str, tool: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "deep.mlir").write_text(NESTED[kind](100_000))
    command = [OPT.parent / tool, "deep.mlir", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr[-2000:]
    place = r'deep\.mlir"?:\d+:\d+\)?: error: the text nests more than 512'
    assert re.search(place, done.stderr), done.stderr[-2000:]


def test_the_limit_of_nesting_is_an_option(tmp_path: pathlib.Path) -> None:
    def run(kind: str, depth: int, *options: str) -> int:
        (tmp_path / "text.mlir").write_text(NESTED[kind](depth))
        command = [OPT, "text.mlir", "-o", "out", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode

    assert run("attributes", 500) == run("attribute-aliases", 500) == 0
    assert run("attributes", 600) == run("attribute-aliases", 600) == 1
    limit = "--scalify-nesting-limit=700"
    assert run("attributes", 600, limit) == run("attribute-aliases", 600, limit) == 0


DOUBLED = {
    "attributes": ("#", "[1]", "#a{} = [#a{}, #a{}]", "module attributes {{a = {}}} {{}}"),
    "types": ("!", "i1", "!a{} = (!a{})\n-> !a{}", "module attributes {{a = {}}} {{}}"),
    "tuples": ("!", "tuple<i1>", "!a{} = tuple<!a{}, !a{}>", "module attributes {{a = {}}} {{}}"),
    "calls": ("#", 'loc("a":1:1)', "#a{} = loc(callsite(#a{} at #a{}))", "module {{}} loc({})"),
    "names": ("#", 'loc("a":1:1)', '#a{} = loc(fused["b"(#a{}), #a{}])', "module {{}} loc({})"),
}


@pytest.mark.parametrize("tool", ["scalify-opt", "scalify-compile"])
@pytest.mark.parametrize("kind", DOUBLED)
def test_aliases_that_double_are_refused(kind: str, tool: str, tmp_path: pathlib.Path) -> None:
    """Forty lines are a tree of 2^40, which no walk would finish."""
    mark, first, line, use = DOUBLED[kind]
    lines = [f"{mark}a0 = {first}"] + [line.format(i, i - 1, i - 1) for i in range(1, 41)]
    (tmp_path / "doubled.mlir").write_text("\n".join([*lines, use.format(f"{mark}a40")]))
    command = [OPT.parent / tool, "doubled.mlir", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr[-2000:]
    limit = 1 << (21 if mark == "!" else 16)
    assert f"the aliases in this one stand for more than {limit} tokens" in done.stderr


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_calls_beyond_the_limits_are_refused(
    times: int, public: bool, tmp_path: pathlib.Path
) -> None:
    """Twenty thousand calls within one another, and a doubling of 2^40 ops."""
    count = 20_000 if times == 1 else 40
    type_ = "tensor<4xf32>"
    lines = []
    # Each after what it calls, which is then known before.
    for i in range(count):
        calls = f"%1 = stablehlo.negate %0 : {type_}\n"
        if i:
            calls = "".join(
                f"%{j + 1} = call @f{i - 1}(%{j}) : ({type_}) -> {type_}\n" for j in range(times)
            )
        kind = "public" if public else "private"
        name = "main" if i == count - 1 else f"f{i}"
        lines.append(f"func.func {'public' if name == 'main' else kind} @{name}(%0: {type_})")
        lines.append(f"-> {type_} {{\n{calls}return %{times if i else 1} : {type_}\n}}")
    # A second root, so that those that are used stay public.
    lines.append(f"func.func public @other(%0: {type_}) {{ return }}")
    (tmp_path / "calls.mlir").write_text("\n".join(lines))
    command = [OPT, "calls.mlir", "--scalify-inline-calls", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr[-2000:]
    limit = "more than 512 calls are within" if times == 1 else "there may be 1048576"
    assert limit in done.stderr


def test_aliases_of_locations_stand_for_little(tmp_path: pathlib.Path) -> None:
    """JAX names a frame in many locations, and defines them before and after the program."""
    frames = ['#f0 = loc("a.py":1:1)']
    frames += [f'#f{i} = loc(callsite("g{i}"(#f0) at #f{i - 1}))' for i in range(1, 100)]
    body = "".join(
        f"%{i + 1} = stablehlo.negate %{i} : tensor<4xf32> loc(#l{i})\n" for i in range(2000)
    )
    after = [f'#l{i} = loc("op{i}"(#f99))' for i in range(2000)]
    program = f"func.func @main(%0: tensor<4xf32>) {{\n{body}return\n}}"
    (tmp_path / "named.mlir").write_text("\n".join([*frames, program, *after]))
    command = [OPT, "named.mlir", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_wide_text_is_not_deep(tmp_path: pathlib.Path) -> None:
    """What stands side by side does not nest."""
    lines = "".join(f"#a{i} = affine_map<(d0) -> (d0 - 1, -1)>\n" for i in range(2000))
    negative = "%{} = arith.constant -1 : i32\n"
    body = "".join(negative.format(i) for i in range(2000))
    uses = ", ".join(f"a{i} = #a{i}" for i in range(2000))
    text = f"{lines}func.func @main() attributes {{{uses}}} {{\n{body}return\n}}"
    (tmp_path / "wide.mlir").write_text(text)
    command = [OPT, "wide.mlir", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_deep_json_is_refused(tmp_path: pathlib.Path) -> None:
    """Of a file of state, whose header is JSON, and of a file of scales."""
    header = b'{"a": ' + b"[" * 1_000_000
    (tmp_path / "state").write_bytes(len(header).to_bytes(8, "little") + header)
    (tmp_path / "scales").write_bytes(header)
    (tmp_path / "text.mlir").write_text("func.func @main() { return }")
    for option in ("--state=state", "--scales=scales"):
        command = [OPT.parent / "scalify-compile", "text.mlir", "-o", "out", option]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1, done.stderr[-2000:]
        assert "it nests more than 512 levels" in done.stderr


def test_damaged_programs_compile_or_are_refused(tmp_path: pathlib.Path) -> None:
    """By all stages; `make mutated` takes many more."""
    script = pathlib.Path(__file__).with_name("mutated_run.py")
    command = [sys.executable, script, "--programs", "200", "--folder", tmp_path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
