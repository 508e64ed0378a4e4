"""Writes the page of ops and element types from the programs of the dialects' own tests.

python test/python/op_types.py --write docs/op-types.md

Each op of a test in test/Dialect/StableHLO or test/Dialect/CHLO becomes a program of its own, once
with every element type in place of the type of its first operand (or result).
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import pathlib
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib.mlir import ir

from scalify import _compiler
from scalify.errors import CompileError

__all__ = ["TYPES", "column", "compiles", "one_op_programs", "page", "substitute"]

ROOT = pathlib.Path(__file__).parents[2]
TYPES = [
    *("f32", "f64", "bf16", "f16", "f8E4M3FN", "f8E5M2", "complex<f32>", "complex<f64>"),
    *("i1", "i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64"),
]
GROUPS = {
    "all": TYPES,
    "floats": TYPES[:6],
    "f64 to f16": TYPES[:4],
    "complex": TYPES[6:8],
    "integers": TYPES[9:],
    "8 to 64 bits": [t for t in TYPES[9:] if int(t.lstrip("ui")) >= 8],
    "2 and 4 bits": [t for t in TYPES[9:] if int(t.lstrip("ui")) < 8],
    "f8": TYPES[4:6],
}


def one_op_programs(text: str) -> Iterator[tuple[str, str]]:
    """Yields (op, program) for every op at the top level of the functions of a test file."""
    for part in text.split("// -----"):
        with jax_mlir.make_ir_context() as context:
            module = _parse(part, context)
            if module is None:
                continue
            for function in module.body.operations:
                if function.operation.name != "func.func":
                    continue
                for block in function.regions[0]:
                    for op in block.operations:
                        name = op.operation.name
                        if name.startswith(("stablehlo.", "chlo.")):
                            yield name, _alone(op.operation)


def _parse(text: str, context: Any) -> Any:
    """Returns the module without the lines that JAX's parser refuses, and their users."""
    lines = text.split("\n")
    for _ in range(30):
        try:
            return ir.Module.parse("\n".join(lines), context)
        except ir.MLIRError as error:
            found = re.search(r'"-":(\d+):', str(error))
            if found is None:
                return None
            lines[int(found[1]) - 1] = ""
    return None


def _alone(op: Any) -> str:
    inputs = ", ".join(f"%a{i}: {value.type}" for i, value in enumerate(op.operands))
    results = ", ".join(str(value.type) for value in op.results)
    names = ", ".join(f"%a{i}" for i in range(len(op.operands)))
    body = op.get_asm(print_generic_op_form=True, use_local_scope=True)
    body = re.sub(r"^(%\S+ = )?(\"[\w.]+\")\([^)]*\)", rf"\2({names})", body, count=1)
    count = len(op.results)
    bound = f"%r:{count} = " if count > 1 else "%r = " if count else ""
    values = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r" if count else ""
    ends = f"return {values} : {results}" if count else "return"
    return f"func.func public @main({inputs}) -> ({results}) {{\n  {bound}{body}\n  {ends}\n}}\n"


def substitute(program: str, element: str) -> str | None:
    """Returns the program with another type in place of its first one; None if it has no tensor."""
    found = re.search(r"tensor<(?:[\d?]+x)*(complex<\w+>|[a-z]\w*)>", program)
    if found is None:
        return None
    first = re.escape(found[1])
    is_part = element in ("f64", "complex<f64>") and found[1] in ("f32", "complex<f32>")
    changed = re.sub(rf"(tensor<(?:[\d?]+x)*){first}(?=[>,])", rf"\g<1>{element}", program)
    if is_part:  # real numbers go with complex ones of their precision
        changed = re.sub(r"\bf32\b", "f64", changed)
    # Numbers in a region or an attribute are written in the kind of the type.
    is_float = element.startswith(("f", "b", "c"))
    if is_float != found[1].startswith(("f", "b", "c")):
        kind = "FLOAT" if is_float else "UNSIGNED" if element.startswith(("u", "i1")) else "SIGNED"
        kind = "SIGNED" if element == "i16" else kind
        changed = re.sub(r"(comparison_type )\w+", rf"\g<1>{kind}", changed)
    return changed


def _passes(text: str, pipeline: str) -> bool:
    try:
        _compiler.opt(text, pipeline)
    except CompileError:
        return False
    return True


def compiles(text: str, **options: str) -> bool:
    try:
        _compiler.compile(text, json.dumps({"recipe": "none", **options}))
    except CompileError:
        return False
    return True


def _infers(text: str) -> bool:
    """Whether a result of another shape is refused."""
    last = text.rindex(") -> ")
    head, results = text[:last], text[last:]
    wrong = re.sub(r"tensor<((?:\d+x)*)", r"tensor<7x\1", results)
    main, rest = head.split("{\n", 1)
    arrow = main.rindex(") -> ")
    main = main[:arrow] + re.sub(r"tensor<((?:\d+x)*)", r"tensor<7x\1", main[arrow:])
    return wrong != results and not _passes(main + "{\n" + rest + wrong, "builtin.module()")


def column(types: set[str]) -> str:
    """Returns the shortest text of a set of element types."""
    left, names = set(types), []
    for name, group in GROUPS.items():
        if set(group) <= left:
            names.append(name)
            left -= set(group)
    return ", ".join([*names, *(f"`{t}`" for t in TYPES if t in left)]) or "none"


def _families() -> dict[str, str]:
    tool = pathlib.Path(_compiler.__file__).parents[2] / "bin" / "scalify-opt"
    done = subprocess.run([tool, "--scalify-list-rules"], capture_output=True, text=True)
    return dict(line.split("\t") for line in done.stdout.splitlines())


def _scan(path: pathlib.Path) -> dict[str, dict[str, set[str]]]:
    """Returns the types of each column for the ops of one test file."""
    found: dict[str, dict[str, set[str]]] = {}
    seen: set[str] = set()
    for name, program in one_op_programs(path.read_text()):
        for element in TYPES:
            text = substitute(program, element)
            if text is None or text in seen or not _passes(text, "builtin.module()"):
                continue
            seen.add(text)
            columns = found.setdefault(name, defaultdict(set))
            columns["parses"].add(element)
            if not columns["infers"] and _infers(text):
                columns["infers"].add(element)
            if element not in columns["cpu"] and compiles(text):
                columns["cpu"].add(element)
            if element not in columns["gpu"] and compiles(text, target="sm_90a", ptxas="none"):
                columns["gpu"].add(element)
    return found


def _rows() -> list[str]:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    paths = [
        path
        for folder in ("StableHLO", "CHLO")
        for path in sorted((ROOT / "test" / "Dialect" / folder).glob("*.mlir"))
        if not path.stem.endswith("invalid")
    ]
    paths.sort(key=lambda path: -path.stat().st_size)
    # Processes of their own, since JAX's are not to be forked.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for part in pool.map(_scan, paths):
            for name, columns in part.items():
                for key, types in columns.items():
                    found[name][key] |= types
    families = _families()
    rows = []
    for name, columns in sorted(found.items()):
        rows.append(
            f"| `{name}` | {column(columns['parses'])} | {'yes' if columns['infers'] else 'no'} "
            f"| {families.get(name, 'none')} | {column(columns['cpu'])} "
            f"| {column(columns['gpu'])} |"
        )
    return rows


def page() -> str:
    """Returns the docs page."""
    intro = (
        "Each op of the dialects' own tests (`test/Dialect/StableHLO`, `test/Dialect/CHLO`) is "
        "compiled alone, with every element type in place of that of its first operand. Operands "
        "are arguments: an op whose shapes must be constants shows `none` although a program with "
        "constants compiles. The columns: types that the parser and the verifier accept; whether a "
        "result of a wrong shape is refused; how a scale moves through the op "
        "([families](stages/scaling-rules.md)); types that compile for the CPU, and for "
        "sm_90a. That the compiled code is right is what `test/python/test_cpu_*.py` and the other "
        "tests show, for the types they name. `make op-types` writes this page."
    )
    return "\n".join(
        [
            "# Ops and element types",
            "",
            *textwrap.wrap(intro, width=100, break_on_hyphens=False),
            "",
            "| op | parses and verifies | checks results | scales | CPU | sm_90a |",
            "|---|---|---|---|---|---|",
            *_rows(),
            "",
        ]
    )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        text = page()
        if sys.argv[1:2] == ["--write"]:
            pathlib.Path(sys.argv[2]).write_text(text, encoding="utf-8")
        else:
            print(text, end="")
