"""Checks that other linters lack.

Lengths of files and of lines of docs, unfinished text, links to files and anchors that are not
there, passes without description, and lines of lit tests that FileCheck does not read.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

__all__ = ["anchors", "dead_links", "main"]

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOO_LONG, WIDE = 600, 100
CODE = {".cpp", ".cc", ".c", ".h", ".cu", ".td", ".py", ".sh"}
# Spelled in two parts, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK|place" + r"holder)\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
NAMED = re.compile(r"<a id=\"([^\"]+)\">")
FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
PASS = re.compile(r"^def\s+(\w+)\s*:\s*\w*Pass<", re.MULTILINE)

PREFIXES = re.compile(r"--?check-prefix(?:es)?[= ]([\w,-]+)")
EXPECTED = re.compile(r"^\s*//\s*([A-Z][A-Z0-9_-]*)(?:\{LITERAL\})?:", re.MULTILINE)
SUFFIX = re.compile(r"-(NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+)$")


def tracked() -> list[pathlib.Path]:
    """Returns the repository's files, including those not added yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def undescribed(text: str) -> list[str]:
    """Returns the passes of a td file that lack a summary or a description."""
    starts = [match.start() for match in PASS.finditer(text)]
    bodies = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [
        match.group(1)
        for match, body in zip(PASS.finditer(text), bodies, strict=True)
        if "let summary" not in body or "let description" not in body
    ]


def unread(text: str) -> set[str]:
    """Returns the prefixes of a lit test's expectations that no command reads."""
    joined = re.sub(r"\\\n.*?RUN:", "", text)
    read = {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL"}
    for command in re.findall(r"FileCheck[^|\n]*", joined):
        named = PREFIXES.findall(command)
        read.update(",".join(named).split(",") if named else ["CHECK"])
    return {word for word in EXPECTED.findall(text) if SUFFIX.sub("", word) not in read}


def wide(lines: list[str]) -> list[int]:
    """Returns the numbers of lines above WIDE columns, except rows of tables."""
    return [
        number
        for number, line in enumerate(lines, 1)
        if len(line) > WIDE and not line.startswith("|")
    ]


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page: its headings' slugs, as code hosts form them, and its own."""
    plain = FENCED.sub("", text)
    found: dict[str, int] = {}
    for heading in HEADING.findall(plain):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown).strip().lower().replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return set(found) | set(NAMED.findall(plain))


def dead_links(path: pathlib.Path, text: str) -> list[str]:
    """Returns the links of a page whose file, or whose anchor in a page, is not there."""
    dead = []
    for link in LINK.findall(FENCED.sub("", text)):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists():
            dead.append(link)
        elif anchor and target.suffix == ".md":
            page = text if target == path else target.read_text(encoding="utf-8")
            if anchor not in anchors(page):
                dead.append(link)
    return dead


def check(path: pathlib.Path) -> list[str]:
    """Returns the errors of one file."""
    name = path.relative_to(ROOT)
    errors: list[str] = []
    if path.suffix not in CODE | {".mlir", ".md"} and path.name != "CMakeLists.txt":
        return errors
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix in CODE and len(lines) > TOO_LONG:
        errors.append(f"{name}: {len(lines)} lines; split it by op family or by question")
    for number, line in enumerate(lines, 1):
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            errors.append(f"{name}:{number}: an unresolved merge conflict")
        if match := UNFINISHED.search(line):
            errors.append(f"{name}:{number}: '{match.group()}' marks something unfinished")
    if path.suffix == ".md":
        errors += [f"{name}:{number}: wider than {WIDE} columns" for number in wide(lines)]
        errors += [f"{name}: link to '{link}' leads nowhere" for link in dead_links(path, text)]
    if path.suffix == ".mlir" and "RUN:" in text:
        errors += [f"{name}: no command reads '{word}:'" for word in sorted(unread(text))]
    if path.name.endswith("Passes.td"):
        errors += [f"{name}: pass '{p}' lacks a summary or description" for p in undescribed(text)]
    return errors


def main() -> int:
    """Prints all findings; returns 1 if there is an error."""
    count = 0
    for path in tracked():
        errors = check(path)
        for line in errors:
            print(f"error: {line}")
        count += len(errors)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
