"""The pages of docs/: their links, their place in the site, and the site itself."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def script(name: str) -> types.ModuleType:
    """Returns a file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(
        f"scripts_{name}", ROOT / "scripts" / f"{name}.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_of_the_docs_leads_somewhere() -> None:
    layout = script("check_layout")
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert len(pages) > 50
    dead = {
        str(page.relative_to(ROOT)): layout.dead_links(page, page.read_text()) for page in pages
    }
    assert not {page: links for page, links in dead.items() if links}


def test_a_dead_link_or_anchor_is_found(tmp_path: pathlib.Path) -> None:
    layout = script("check_layout")
    other = tmp_path / "other.md"
    other.write_text("# A [link](x.md)'s `name`\n\n## Twice\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "page.md"
    good = "(other.md) (other.md#a-links-name) (#here) (https://example.org/#x) (other.md#twice)"
    bad = ["missing.md", "other.md#thrice", "#there", "other.md#no-heading"]
    links = [*good.split(), *(f"({link})" for link in bad)]
    text = "# Here\n\n" + " ".join(f"[a\nb]{link}" for link in links)
    page.write_text(text)
    assert layout.dead_links(page, text) == bad


def test_the_site_s_menu_has_every_page() -> None:
    menu = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    written = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert len(menu) == len(set(menu))
    assert {page for page in menu if not page.startswith("reference/")} == written


def test_links_to_files_of_the_repository_get_pages() -> None:
    site = script("site")
    page = ROOT / "docs" / "stages" / "pipeline.md"
    text = (
        "[a](../../README.md#why) [b](import.md#roles) [c](../../examples/train) [d](https://x.y)"
    )
    new, found = site.repository_links(text, page)
    assert new == (
        "[a](../files/README.md#why) [b](import.md#roles) [c](../files/examples/train.md) "
        "[d](https://x.y)"
    )
    assert found == [ROOT / "README.md", ROOT / "examples" / "train"]


def test_the_readme_s_figures_are_those_of_the_results() -> None:
    results = sorted((ROOT / "benchmarks" / "results").glob("suite-*.json"))[-1]
    rows = json.loads(results.read_text())
    sys.path.insert(0, str(ROOT / "benchmarks"))
    chart = importlib.import_module("chart")
    means = chart.geometric_means(rows["rows"])
    drawn = (ROOT / "docs" / "images" / "speedup.svg").read_text()
    assert chart.title(rows) in drawn
    for name, (label, _, _) in chart.SHOWN.items():
        assert f"{label}: {means[name]:.2f}x" in drawn
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"{means['scalify none']:.2f} times as fast as `jax.jit`'s in F32 as they are, "
        f"{means['scalify fp8']:.2f} times under `fp8`, and "
        f"{means['scalify bf16']:.2f} times under `bf16`"
    ) in readme


def test_the_site_builds() -> None:
    if not (ROOT / "build" / "docs" / "env" / "ready").exists():
        pytest.skip("MkDocs is not installed: `make docs` does it")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "site.py")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((ROOT / "build" / "docs" / "site").rglob("*.html"))
    assert len(pages) > 80
    # A browser fetches sources; a reader follows references.
    for page in pages:
        fetched = re.findall(r"<(?:script|img|link)[^>]*https?://[^>]*>", page.read_text())
        assert not [tag for tag in fetched if 'rel="canonical"' not in tag], page
