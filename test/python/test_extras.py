"""The package imports what pyproject.toml declares: its dependencies, and extras by part."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from scalify.train.command import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Modules and packages whose import needs an extra. Others import without any.
PARTS = {
    "scalify.nnx": "flax",
    "scalify.orbax": "orbax",
    "scalify.torch": "torch",
    "scalify.train.layout": "train",
    "scalify.train.loop": "train",
    "scalify.train.optimizer": "train",
    "scalify.train.step": "train",
}

# argv[1] has [what, modules, missing packages] for each process: the first imports its modules, and
# is forked for each of the others, so that JAX is imported once. Prints [what, error].
IMPORT = """
import importlib, json, os, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Absent())
first, *others = json.loads(sys.argv[1])
def run(what, modules, missing):
    global absent
    absent = set(missing)
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(json.dumps([what, f"import of {name}: {error}"]), flush=True)
run(*first)
for other in others:
    pid = os.fork()
    if pid == 0:
        run(*other)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, other[0]
"""


def name_of(requirement: str) -> str:
    """Returns the distribution of a requirement, in the spelling of PEP 503."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@functools.cache
def closure(distribution: str) -> frozenset[str]:
    """Returns a distribution and what it requires on this platform, without extras."""
    try:
        required = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return frozenset()
    inner = [closure(name_of(one)) for one in required if "extra" not in one]
    # etils[epath] and the like: the extras' own packages may be there.
    return frozenset({distribution}).union(*inner)


def installed() -> dict[str, set[str]]:
    """Returns the distributions of each top-level package."""
    found = importlib.metadata.packages_distributions()
    return {top: {name_of(one) for one in names} for top, names in found.items()}


def absent(extra: str | None) -> list[str]:
    """Returns the installed packages that neither the dependencies nor an extra bring."""
    declared = [*PROJECT["dependencies"], *(EXTRAS[extra] if extra else [])]
    here = frozenset().union(*(closure(name_of(one)) for one in declared))
    return sorted(top for top, names in installed().items() if not names & here)


def part(module: str) -> str | None:
    """Returns the extra that a module's import needs."""
    names = [name for name in PARTS if module == name or module.startswith(f"{name}.")]
    return PARTS[names[0]] if names else None


def modules() -> dict[str, pathlib.Path]:
    """Returns the package's modules with their files."""
    found = {}
    for top in ("scalify", "scalify_cli", "scalify_plan"):
        for path in sorted((PYTHON / top).rglob("*.py")):
            parts = path.relative_to(PYTHON).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return {name: path for name, path in found.items() if not name.endswith("__main__")}


def errors(*processes: tuple[str, list[str], list[str]]) -> dict[str, str]:
    """Returns the error of each process of IMPORT that has one."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT, json.dumps(processes)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def is_installed(extra: str) -> bool:
    """Whether an extra's packages are installed."""
    try:
        return all(importlib.metadata.version(name_of(one)) for one in EXTRAS[extra])
    except importlib.metadata.PackageNotFoundError:
        return False


def test_modules_import_with_what_their_extra_declares() -> None:
    extras = [None, *filter(is_installed, EXTRAS)]
    found = errors(
        *(
            (str(extra), [name for name in modules() if part(name) == extra], absent(extra))
            for extra in extras
        )
    )
    assert not found


@pytest.mark.parametrize(
    ("module", "package"),
    [("scalify.nnx", "flax"), ("scalify.orbax", "orbax"), ("scalify.torch", "torch")],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.startswith((module, f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{module} needs {package}") as caught:
        importlib.import_module(module)
    assert f"pip install 'scalify[{PARTS[module]}]'" in str(caught.value)


def test_training_without_optax_names_the_extra(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        'model.name = "llama"\ndata.train = "a.tokens"\ntrain = {steps = 1, batch = 1}'
    )
    monkeypatch.setitem(sys.modules, "optax", None)
    assert main([str(config)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("scalify train: training needs optax")
    assert "pip install 'scalify[train]'" in said


def test_imports_within_functions_are_declared() -> None:
    declared = {name_of(one) for one in PROJECT["dependencies"]}
    for extra in EXTRAS.values():
        declared |= {name_of(one) for one in extra}
    # They are parts of what is declared, and released with it.
    declared |= closure("jax") & {"jaxlib"} | {"etils", "flax", "torch"}
    tops, own = installed(), {"scalify", "scalify_cli", "scalify_plan", "scalify_runtime"}
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = [node.module]
            else:
                continue
            for one in found:
                top = one.split(".")[0]
                if top in sys.stdlib_module_names or top in own:
                    continue
                names = tops.get(top, {name_of(top)})
                assert names & declared, f"{name} imports {one}, of {', '.join(names)}"
