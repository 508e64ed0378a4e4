"""Every op of the input language has a scale rule, or an entry that says why it has none."""

from __future__ import annotations

import pathlib
import re
import subprocess

from test_scaling import OPT, ROOT

FAMILIES = {
    *("Untouched", "Pass", "PassEach", "Align", "Reduce", "Product", "Quotient", "True"),
    *("Opaque", "Regions", "Expanded", "by operands"),
}
DOCS = ROOT / "docs" / "stages" / "scaling-rules.md"


def table() -> dict[str, str]:
    """Returns the family of each op, as `scalify-opt --scalify-list-rules` prints it."""
    done = subprocess.run([OPT, "--scalify-list-rules"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


def registered(dialect: str, folder: str) -> set[str]:
    """Returns the ops that the dialect's own .td files define."""
    names: set[str] = set()
    for path in pathlib.Path(ROOT / "include/scalify/Dialect" / folder).glob("*.td"):
        text = path.read_text()
        pattern = r'^def [A-Za-z]+_\w+Op\b\s*:\s*\w+<\s*"(\w+)"'
        names |= {f"{dialect}.{name}" for name in re.findall(pattern, text, re.MULTILINE)}
    return names


def test_every_op_has_an_entry() -> None:
    """The list covers what the .td files define, and nothing is missing."""
    rows = table()
    assert set(rows.values()) <= FAMILIES
    for dialect, folder in {"stablehlo": "StableHLO", "chlo": "CHLO", "sdy": "Sdy"}.items():
        defined = registered(dialect, folder)
        assert len(defined) > 5
        assert defined <= set(rows), sorted(defined - set(rows))


def test_chlo_ops_that_import_keeps_have_rules() -> None:
    """scalify-validate-import refuses all others."""
    expanded = {name for name, family in table().items() if family == "Expanded"}
    kept = {"chlo.top_k", "chlo.ragged_dot"}
    assert expanded == registered("chlo", "CHLO") - kept


def test_docs_list_every_op_with_its_family() -> None:
    """The page of rules names each op beside the family that the compiler has for it."""
    text = DOCS.read_text()
    documented: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 2 and cells[1] in FAMILIES:
            for name in re.findall(r"`([a-z_0-9]+\.[a-z_0-9]+)`", cells[0]):
                documented[name] = cells[1]
    rows = {name: family for name, family in table().items() if family != "Expanded"}
    wrong = {name: (family, documented.get(name)) for name, family in rows.items()}
    wrong = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
    assert not wrong
