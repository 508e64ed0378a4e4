"""Runs clang-tidy-22 over the C++ files that changed since they last passed, in bounded time.

MLIR's headers make one file take some seconds, so a file that passed is not checked again until
its own text, one of the project's headers that it includes, or .clang-tidy changes. A run stops at
a time limit, if any: the next run checks the remaining files, which it names.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

__all__ = ["main"]

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAMPS = ROOT / "build" / "tidy"


def headers() -> dict[pathlib.Path, list[pathlib.Path]]:
    """Returns the project's headers that each source includes, from ninja's last build."""
    done = subprocess.run(
        ["ninja", "-C", "build", "-t", "deps"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[pathlib.Path, list[pathlib.Path]] = {}
    for block in done.stdout.split("\n\n"):
        lines = [line.strip() for line in block.splitlines()[1:]]
        paths = [(ROOT / "build" / line).resolve() for line in lines]
        own = [
            path for path in paths if path.is_relative_to(ROOT) and path.suffix in {".cpp", ".h"}
        ]
        for source in own:
            if source.suffix == ".cpp":
                found[source] = sorted(path for path in own if path.suffix == ".h")
    return found


def stamp_of(source: pathlib.Path, included: list[pathlib.Path]) -> pathlib.Path:
    """Returns the path of a stamp, whose name is a hash of all text that passed."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for path in (source, *included):
        digest.update(path.read_bytes() if path.exists() else b"")
    name = str(source.relative_to(ROOT)).replace("/", "_")
    return STAMPS / f"{name}.{digest.hexdigest()[:16]}"


def tidy(source: pathlib.Path, stamp: pathlib.Path) -> str:
    """Returns clang-tidy's findings for one file, or ""."""
    command = ["clang-tidy-22", "--quiet", "--warnings-as-errors=*", "-p", "build", str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.touch()
        return ""
    return done.stdout or done.stderr


def main() -> int:
    """Checks the files of build/compile_commands.json; returns 1 if one has findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="forget what passed before")
    parser.add_argument(
        "--seconds", type=float, default=240, help="start no file after this; 0 for no limit"
    )
    options = parser.parse_args()
    STAMPS.mkdir(parents=True, exist_ok=True)
    if options.all:
        for stamp in STAMPS.iterdir():
            stamp.unlink()
    entries = json.loads((ROOT / "build" / "compile_commands.json").read_text())
    sources = {pathlib.Path(entry["file"]).resolve() for entry in entries}
    foreign = (ROOT / "build", ROOT / ".venv")
    own = [s for s in sources if s.is_relative_to(ROOT) and not any(map(s.is_relative_to, foreign))]
    includes = headers()
    stamps = {source: stamp_of(source, includes.get(source, [])) for source in own}
    due = sorted(source for source in own if not stamps[source].exists())
    # The last changed first: at the time limit the oldest remain.
    due.sort(key=lambda source: source.stat().st_mtime, reverse=True)

    end = time.monotonic() + (options.seconds or float("inf"))
    failed, left = 0, 0

    def within_time(source: pathlib.Path) -> str | None:
        return tidy(source, stamps[source]) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, findings in zip(due, pool.map(within_time, due), strict=True):
            if findings is None:
                left += 1
            elif findings:
                failed += 1
                head = "\n".join(findings.splitlines()[:20])
                print(f"{source.relative_to(ROOT)}:\n{head}", flush=True)
    print(f"clang-tidy: {len(own)} files, {len(due) - left} looked at, {failed} with findings")
    if left:
        print(f"clang-tidy: {left} files left at the time limit; run it again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
