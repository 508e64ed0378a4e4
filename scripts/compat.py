"""Runs the package against other versions of jax, each in an environment of its own.

    python scripts/compat.py [VERSION ...]

The first and the last of VERSIONS are the limits in pyproject.toml. Environments are kept below
build/compat. Each has the newest versions of pyproject.toml's dependencies that work with its
version of jax. The tests in TESTS run in each, with the extension modules of this checkout.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "compat"
VERSIONS = ("0.7.0", "0.7.2", "0.8.3", "0.9.2", "0.10.2")

# The tests' needs beside the package's own dependencies.
TOOLS = ("flax", "optax", "equinox", "flatbuffers", "pytest", "hypothesis")

# Tests of all uses of JAX: tracing, lowering, callbacks, primitives, pytrees, frameworks; and
# numbers.
TESTS = (
    "test/python/test_jit.py",
    "test/python/test_transform.py",
    "test/python/test_transform_forms.py",
    "test/python/test_transform_compose.py",
    "test/python/test_callbacks.py",
    "test/python/test_fallback.py",
    "test/python/test_within_jit.py",
    "test/python/test_filter_jit.py",
    "test/python/test_nnx.py",
    "test/python/test_gradients.py",
    "test/python/test_lax.py",
    "test/python/test_partition.py",
    "test/python/test_public_loops.py",
)

# At exit jaxlib 0.7.0 may free an entry of the cache of jitted functions that it is deleting
# (PjitFunctionCache::Clear), and glibc aborts. equinox.filter_jit of a BatchNorm shows it alone.
ABORTS_AT_EXIT = ("0.7.0",)


def python_of(version: str) -> pathlib.Path:
    """Returns the interpreter of a version's environment, which is created if needed."""
    folder = FOLDER / f"jax-{version}"
    python = folder / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = (f"jax=={version}", f"jaxlib=={version}", *project["dependencies"], *TOOLS)
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(packages):
        print(f"compat: installing jax {version}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.write_text("\n".join(packages))
    return python


def versions_in(python: pathlib.Path) -> dict[str, str]:
    """Returns an environment's packages with their versions."""
    command = [str(python), "-m", "pip", "list", "--format=freeze"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split("==", 1) for line in listed.splitlines() if "==" in line)


def run(version: str, tests: tuple[str, ...]) -> tuple[dict[str, str], collections.Counter[str]]:
    """Runs the tests by one version; returns its packages and the number of tests by outcome.

    Each file runs in its own process, as by ctest: some need several devices of XLA's.
    """
    python = python_of(version)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "SCALIFY_BUILD": os.environ.get("SCALIFY_BUILD", str(ROOT / "build")),
    }
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    total: collections.Counter[str] = collections.Counter()
    with (FOLDER / f"jax-{version}.log").open("w") as log:
        for test in tests:
            done = subprocess.run(
                [*command, test], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            print(done.stdout, done.stderr, file=log, flush=True)
            # Without a summary, the process did not come to its exit.
            summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
            counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", summary)}
            total.update(counts)
            aborts = version in ABORTS_AT_EXIT and done.returncode < 0
            if not (done.returncode in (0, 1) or aborts) or not counts.get("passed"):
                total["errors"] += 1
    return versions_in(python), total


def main() -> int:
    """Prints the table; returns 1 if a test failed by any version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--tests", nargs="+", default=TESTS)
    options = parser.parse_args()
    failed = 0
    print(f"{'jax':8} {'numpy':8} {'flax':8} {'optax':8} {'equinox':8} passed skipped failed")
    for version in options.versions:
        packages, counts = run(version, tuple(options.tests))
        bad = sum(counts.get(kind, 0) for kind in ("failed", "error", "errors"))
        failed += bad
        names = " ".join(f"{packages.get(name, '-'):8}" for name in ("numpy", "flax", "optax"))
        print(
            f"{version:8} {names} {packages.get('equinox', '-'):8} {counts.get('passed', 0):6} "
            f"{counts.get('skipped', 0):7} {bad:6}",
            flush=True,
        )
        if bad:
            print(f"         see {(FOLDER / f'jax-{version}.log').relative_to(ROOT)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
