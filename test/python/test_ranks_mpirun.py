"""Scripts that mpirun starts train as they do alone, to the bit."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "llama_ranks_script.py"
TRAIN = HERE.parents[1] / "examples" / "llama" / "train.py"

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")


def launch(size: int, *command: str | pathlib.Path, **extra: str) -> str:
    """Returns what a script prints, on ranks of mpirun or, with size 0, alone."""
    # Root, and more ranks than cores: for tests.
    allowed = ["rmaps_base_oversubscribe", "ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM"]
    names = [f"OMPI_{'' if name.isupper() else 'MCA_'}{name}" for name in allowed]
    env = {**os.environ, **dict.fromkeys(names, "1"), **extra}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    start = ["mpirun", "-n", str(size)] if size else []
    done = subprocess.run(
        [*start, sys.executable, *command], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_llama_of_eight_ranks_over_mpi_has_the_bits_of_one_process() -> None:
    command = (SCRIPT, "--mesh", "data=4,tensor=2", "--zero", "2", "--layers", "1", "--steps", "3")
    found = re.findall(
        r"rank (\d) of 8, over mpi: bits ([0-9a-f]+)", launch(8, *command, SCALIFY_TRANSPORT="mpi")
    )
    (wanted,) = re.findall(r"rank 0 of 8, alone: bits ([0-9a-f]+)", launch(0, *command))
    assert sorted(found) == [(str(rank), wanted) for rank in range(8)]


def test_the_example_on_ranks_has_the_bits_and_the_losses_of_one_process(
    tmp_path: pathlib.Path,
) -> None:
    # Small, and what JAX compiles to draw weights is compiled once for all runs.
    options = "--mesh data=2 --zero 2 --recipe fp8 --alone --layers 1 --dim 16 --ffn 32 --seq 64"
    plan = f"--batch 32 --steps 3 --warmup 1 --out {tmp_path}/llama.html"
    command = (TRAIN, *options.split(), *plan.split())
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    told = [launch(size, *command, **cache) for size in (0, 2)]
    bits = [
        re.findall("fp8: bits of losses, weights and moments ([0-9a-f]+)", text) for text in told
    ]
    # One rank speaks for both; validation is by ranks, too.
    losses = [re.findall(r"^fp8 +(\d\.\d{4}) +(\d\.\d{4})", text, re.MULTILINE) for text in told]
    assert bits[0] == bits[1] and len(bits[0]) == 1
    assert losses[0] == losses[1] and len(losses[0]) == 1
