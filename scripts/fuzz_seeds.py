"""Writes programs of the lit tests as seeds for fuzzing, each function as the main one of its own.

    scripts/fuzz_seeds.py FOLDER

Import compiles `@main` only, and most tests have functions of other names, one for each case. So
each function that no other refers to makes a program: it, as `@main`, with the functions that it
needs and what else stands at the top (aliases, meshes). Tests in plan form stay whole. Comments,
which would take most of a seed's bytes, are left out, and so are programs of more than `LARGEST`
bytes.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

LARGEST = 12_000
_FUNCTION = re.compile(r"^\s*func\.func\s+(public\s+|private\s+)?@([\w$.-]+|\"[^\"]*\")")
_SYMBOL = re.compile(r"@([\w$.-]+|\"[^\"]*\")")


def _items(program: str) -> list[str]:
    """Returns what stands at the top of a program, in order, by its braces and parentheses."""
    items, open_braces, start = [], 0, 0
    quoted = False
    for at, character in enumerate(program):
        if character == '"' and program[at - 1 : at] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in "{(":
            open_braces += 1
        elif character in "})":
            open_braces -= 1
        if character == "\n" and open_braces <= 0 and not quoted:
            items.append(program[start : at + 1])
            start, open_braces = at + 1, 0
    items.append(program[start:])
    return [item for item in items if item.strip()]


def _as_main(item: str) -> str:
    return _FUNCTION.sub("func.func public @main", item, count=1)


def variants(program: str) -> list[str]:
    """Returns a program for each function that no other refers to, or the one without any."""
    items = _items(program)
    others = [item for item in items if not _FUNCTION.match(item)]
    functions = {found[2]: item for item in items if (found := _FUNCTION.match(item))}
    calls = {
        name: [
            one for one in dict.fromkeys(_SYMBOL.findall(item)) if one in functions and one != name
        ]
        for name, item in functions.items()
    }
    called = {one for some in calls.values() for one in some}
    made = []
    for name in [one for one in functions if one not in called]:
        needed = [name]
        for one in needed:  # grows
            needed += [other for other in calls[one] if other not in needed]
        made.append(
            "".join([*others, _as_main(functions[name]), *(functions[one] for one in needed[1:])])
        )
    return made or [program]


def main() -> None:
    """Writes the seeds, named by their test and content, into the folder of the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((Path(__file__).parent.parent / "test").rglob("*.mlir")):
        for chunk in path.read_text().split("// -----\n"):
            program = re.sub(r"^\s*//.*\n", "", chunk, flags=re.MULTILINE)
            for text in variants(program) if "plan.program" not in program else [program]:
                if text.strip() and len(text) <= LARGEST:
                    name = hashlib.sha1(text.encode()).hexdigest()[:16]
                    (folder / f"{path.stem}-{name}").write_text(text)


if __name__ == "__main__":
    main()
