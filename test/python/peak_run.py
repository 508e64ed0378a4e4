"""Runs steps of an artefact and prints, as JSON, the memory that they took by /proc.

Usage: peak_run.py ARTEFACT STEPS EXECUTABLES, which run in turn

A process of its own: other executables have arenas too. Launched as a rank, it runs that rank's
artefact.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys

import numpy as np

from scalify import _runtime
from scalify._dtypes import to_numpy
from scalify._executable import Executable


def anonymous() -> int:
    """Bytes of this process that are resident and belong to no file."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(r"RssAnon:\s+(\d+)", status)[0])


def arenas() -> dict[str, int]:
    """Bytes mapped and resident of the mappings that ask for huge pages, as arenas alone do."""
    found = {"mapped": 0, "resident": 0}
    mapped = resident = 0
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        if words := re.match(r"(\w+)-(\w+) ", line):
            mapped = int(words[2], 16) - int(words[1], 16)
        elif line.startswith("Rss:"):
            resident = 1024 * int(line.split()[1])
        elif line.startswith("VmFlags:") and " hg" in line:
            found["mapped"] += mapped
            found["resident"] += resident
    return found


def main() -> None:
    path, steps, executables = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # A fill would make pages resident that the step does not touch.
    os.environ.pop("SCALIFY_FILL", None)
    manifest = Executable(pathlib.Path(path).read_bytes(), device="null").manifest
    comm = _runtime.Communicator() if _runtime.launched()[1] > 1 else None
    loaded = [_runtime.Executable(path, 1, comm=comm) for _ in range(executables)]
    # Arrays of the runtime: donated ones are not copied.
    arguments = [
        _runtime.array(np.ones(a["shape"], to_numpy(a["dtype"]))) for a in manifest["args"]
    ]
    given = sum(argument.nbytes for argument in arguments)
    before = anonymous()
    grown = []
    for index in range(steps):
        results = loaded[index % executables].run(arguments)
        for i, argument in enumerate(manifest["args"]):
            if (result := argument.get("alias_result")) is not None and result >= 0:
                arguments[i] = results[result]
        grown.append(anonymous() - before)
    print(json.dumps({"arguments": given, "grown": grown, **arenas()}))


if __name__ == "__main__":
    main()
