"""Processes with the variables of torchrun and Slurm find one another, on one machine and on two.

Two machines are this one: their ranks meet by `tcp` at a loopback address.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest
from train_runs import finish, prepare, records, start

from scalify import _runtime

# A rank loads the runtime alone, as `make_mesh` uses it, without JAX.
RANK = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("_runtime", sys.argv[1])
runtime = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runtime)
comm = runtime.Communicator()
parts = [part.decode() for part in comm.all_gather(f"rank {comm.rank}".encode())]
print(json.dumps([runtime.launched(), comm.transport, parts]))
"""


def free_port() -> int:
    """Returns a port that was free."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def torchrun(rank: int, here: int, port: int) -> dict[str, str]:
    """Returns the variables of a rank of two, `here` on its machine."""
    ranks = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank % here, "LOCAL_WORLD_SIZE": here}
    values = {name: str(value) for name, value in ranks.items()}
    return values | {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}


def slurm(rank: int, here: int, port: int) -> dict[str, str]:
    """Returns the variables of a rank of two, `here` on its machine.

    The port follows from the job's number.
    """
    task = {"PROCID": rank, "NTASKS": 2, "LOCALID": rank % here, "NNODES": 2 // here}
    values = {f"SLURM_{name}": str(value) for name, value in task.items()}
    job = {"SLURM_JOB_ID": str(port), "SLURM_STEP_ID": "0"}
    return values | job | {"SLURM_JOB_NODELIST": "localhost,node[2-3]"}


@pytest.mark.parametrize("launcher", [torchrun, slurm])
def test_two_ranks_meet(launcher: object) -> None:
    started = []
    for here, transport in ((2, "local"), (1, "tcp")):
        port = free_port()
        for rank in range(2):
            variables = launcher(rank, here, port)  # type: ignore[operator]
            environment = {**os.environ, **variables}
            # For one that a busy machine starts late; less than what `communicate` waits below.
            environment["SCALIFY_COMM_TIMEOUT"] = "60"
            command = [sys.executable, "-W", "ignore", "-c", RANK, _runtime.__file__]
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            started.append((process, [[rank, 2], transport, ["rank 0", "rank 1"]]))
    for process, wanted in started:
        said, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        assert json.loads(said) == wanted


def test_torchrun_itself_launches_training(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch", reason="torchrun is PyTorch's")
    config = prepare(tmp_path)
    sets = ["train.mesh={data=2}", "train.steps=3"]
    # One process computes the steps of all ranks.
    finish(start(config, *sets))
    words = [word for one in (f"log.folder={tmp_path}/two", *sets) for word in ("--set", one)]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    port = f"--master_port={free_port()}"
    done = subprocess.run(
        [*command, port, "-m", "scalify.train", str(config), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = ([step["loss"] for step in records(tmp_path / name)] for name in ("run", "two"))
    assert len(two) == 3
    assert two == one
