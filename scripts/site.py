"""Builds the documentation as a site: `make docs`.

    python scripts/site.py [--serve]

Pages are staged in build/docs/pages: those of docs/, the reference of passes and dialects from the
td files, pages of API references, a notebook of each tutorial, and a page for each file of the
repository that another page links to. MkDocs then builds build/docs/site and fails on any link or
anchor that leads nowhere. Its packages are installed once, into build/docs/env; then no network is
needed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

__all__ = ["main", "repository_links"]

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS, OUT = ROOT / "docs", ROOT / "build" / "docs"
PAGES = OUT / "pages"
# The modules that the reference of Python describes, by page.
API = {
    "scalify": ["scalify"],
    "lax": ["scalify.lax", "scalify.nn"],
    "checkpoint": ["scalify.checkpoint", "scalify.orbax"],
    "nnx": ["scalify.nnx"],
    "torch": ["scalify.torch"],
    "models": ["scalify.models.llama", "scalify.models.llama.hf", "scalify.models.tokenizer"],
    "train": [
        "scalify.train",
        "scalify.train.settings",
        "scalify.train.config",
        "scalify.train.tokens",
        "scalify.train.data",
        "scalify.train.page",
        "scalify.train.export",
    ],
    "tools": [
        "scalify.artefact",
        "scalify.check",
        "scalify.partition",
        "scalify.portable",
        "scalify.tokenize",
    ],
}
LINK = re.compile(r"(\]\()([^)#\s][^)\s]*)(\))")
FENCE = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "bash", ".toml": "toml"}


def environment() -> pathlib.Path:
    """Returns the folder of the environment's programs, made or brought up to date."""
    folder, requirements = OUT / "env", ROOT / "requirements-docs.txt"
    ready, wanted = folder / "ready", requirements.read_text()
    if not ready.exists() or ready.read_text() != wanted:
        print(f"docs: installing {requirements.name} into {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        options = ["--disable-pip-version-check", "-r", str(requirements)]
        subprocess.run([*install, *options], check=True)
        ready.write_text(wanted)
    return folder / "bin"


def staged(source: pathlib.Path) -> pathlib.Path:
    """Returns the page that shows a file of the repository."""
    if source.is_relative_to(DOCS) and source.is_file():
        return PAGES / source.relative_to(DOCS)
    path = source.relative_to(ROOT).as_posix()
    return PAGES / "files" / (path if path.endswith(".md") else f"{path}.md")


def repository_links(text: str, source: pathlib.Path) -> tuple[str, list[pathlib.Path]]:
    """Points a page's links at the pages that show their targets.

    Args:
        text: The page's text.
        source: The page's file.

    Returns:
        The new text, and the targets outside of docs/. A link that leads nowhere is left to MkDocs.
    """
    found: list[pathlib.Path] = []

    def replaced(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        folder = source if source.is_dir() else source.parent
        target = pathlib.Path(os.path.normpath(folder / path))
        if "://" in path or not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        if target == DOCS:
            target = DOCS / "README.md"
        if target.is_dir() or not target.is_relative_to(DOCS):
            found.append(target)
        relative = os.path.relpath(staged(target), staged(source).parent)
        return f"{match[1]}{relative}{mark}{anchor}{match[3]}"

    return LINK.sub(replaced, text), found


def shown(source: pathlib.Path) -> str:
    """Returns a page of Markdown for a file or a folder of the repository."""
    name = source.relative_to(ROOT).as_posix()
    if source.is_dir():
        inside = sorted(path for path in source.iterdir() if not path.name.startswith("__"))
        rows = [
            f"[`{path.name}`]({path.name})" if path.suffix == ".md" else f"`{path.name}`"
            for path in inside
        ]
        return f"# {name}\n\n" + "".join(f"- {row}\n" for row in rows)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        return text
    return f"# {name}\n\n`````{FENCE.get(source.suffix, 'text')}\n{text}\n`````\n"


def stage() -> None:
    """Writes all pages but the generated ones."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES)
    waiting = sorted(DOCS.rglob("*.md"))
    done = set(waiting)
    while waiting:
        source = waiting.pop()
        text = shown(source)
        if source.suffix == ".md" or source.is_dir():
            text, found = repository_links(text, source)
            fresh = set(found) - done
            done |= fresh
            waiting += sorted(fresh)
        page = staged(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


def stage_reference() -> None:
    """Writes the pages whose text is in docstrings and td files."""
    folder = PAGES / "reference"
    (folder / "python").mkdir(parents=True)
    for page, modules in API.items():
        parts = [f"# {modules[0]}\n"] + [
            f"## {module}\n\n::: {module}\n    options: {{heading_level: 3}}\n"
            for module in modules
        ]
        if len(modules) == 1:
            parts = [f"# {modules[0]}\n\n::: {modules[0]}\n"]
        (folder / "python" / f"{page}.md").write_text("\n".join(parts), encoding="utf-8")
    subprocess.run([str(ROOT / "scripts" / "docs.sh"), str(folder)], check=True)


def stage_notebooks(python: pathlib.Path) -> None:
    """Writes a notebook of each tutorial beside its page, which links to it."""
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        out = PAGES / "tutorials" / f"{page.stem}.ipynb"
        command = [str(python), str(ROOT / "scripts" / "tutorial.py"), "notebook", str(page)]
        subprocess.run([*command, str(out)], check=True)
        staged_page = PAGES / "tutorials" / page.name
        title, rest = staged_page.read_text(encoding="utf-8").split("\n", 1)
        link = f"[This page as a notebook]({out.name})"
        staged_page.write_text(f"{title}\n\n{link}\n{rest}", encoding="utf-8")


def main() -> int:
    """Returns MkDocs' exit status."""
    parser = argparse.ArgumentParser(description="Builds the site of the documentation.")
    parser.add_argument("--serve", action="store_true", help="then serve it on 127.0.0.1:8000")
    options = parser.parse_args()
    programs = environment()
    stage()
    stage_reference()
    stage_notebooks(programs / "python")
    # Its advice on the successor of MkDocs is not about our pages.
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [str(programs / "mkdocs"), "build", "--strict"]
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        print("\n".join(line for line in lines if not line.startswith("INFO")))
        return done.returncode
    print(f"docs: wrote {(OUT / 'site' / 'index.html').relative_to(ROOT)}")
    if options.serve:
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]
        return subprocess.run([*command, "--directory", str(OUT / "site")]).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
