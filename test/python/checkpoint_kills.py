"""Kills training jobs at random moments, and checks that they resume bit for bit.

    python checkpoint_kills.py FOLDER --victim rank --kills 100

A job is ranks that train with shares of state in FP8, with a checkpoint after every step. It is
killed, whole or one of its ranks, at a moment between its start and its end; the others must end
with an error that names the rank. Then the next one goes on from the newest checkpoint. When
a job comes to its end, its state must be that of a job that nobody killed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any

import numpy as np

import scalify
from scalify import checkpoint
from scalify._executable import Executable
from scalify.mesh import Shard, layout_of

RANKS = 4
STEPS = 20
# A rank waits no longer for another one that lives, and a job for its ranks.
TIMEOUT = 10
SHAPES = {"first": (32, 48), "second": (48, 16)}


def compile_step(path: pathlib.Path) -> None:
    """Writes the artefact of a step on the ranks, in a process of its own: JAX has threads."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    from scalify._executable import build
    from scalify.partition import partition

    def step(params: Any, moments: Any, x: jax.Array) -> Any:
        def loss(params: Any) -> jax.Array:
            hidden = jax.nn.relu(x @ params["first"])
            return jnp.mean((hidden @ params["second"] - x[:, :16]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return jax.tree.map(lambda p, m: p - 0.02 * m, params, moments), moments, value

    mesh = jax.sharding.AbstractMesh((RANKS,), ("data",))
    tree = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in SHAPES.items()}
    specs = tuple(NamedSharding(mesh, spec) for spec in (P(), P(), P("data")))
    jitted = jax.jit(step, in_shardings=specs, donate_argnums=(0, 1))
    lowered = jitted.trace(tree, tree, jax.ShapeDtypeStruct((16, 32), "float32"))
    text = lowered.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    local = partition(text, zero=3)
    artefact, _ = build(local.text, {"recipe": "fp8-delayed"})
    path.write_bytes(artefact)


def train(base: pathlib.Path, run: pathlib.Path) -> None:
    """Is one rank of a job: goes on from the newest checkpoint to the last step."""
    mesh = scalify.make_mesh(data=RANKS)
    step = Executable((base / "step.scalify").read_bytes(), 1, comm=mesh.comm)
    layouts = [layout_of(entry) for entry in step.manifest["args"]]
    rng = np.random.default_rng(0)
    count = 2 * len(SHAPES)
    state: list[Any] = []
    for index, shape in enumerate((*SHAPES.values(), *SHAPES.values())):
        scale = shape[0] ** -0.5 if index < len(SHAPES) else 0
        array = rng.normal(size=shape).astype(np.float32) * np.float32(scale)
        layout = layouts[index]
        assert layout is not None
        state.append(Shard(layout.cut(array, mesh.rank), layout, mesh))
    start = 0
    if checkpoint.latest(run, mesh=mesh):
        tree: Any = {"state": state, "kept": step.kept}
        start, tree = checkpoint.load(run, tree, mesh=mesh)
        state, step.kept = tree["state"], tree["kept"]
    for index in range(start, STEPS):
        x = np.random.default_rng(index).normal(size=(16, 32)).astype(np.float32)
        layout = layouts[count]
        assert layout is not None
        results = step(*(one.data for one in state), layout.cut(x, mesh.rank))
        state = [Shard(part, old.layout, mesh) for part, old in zip(results, state, strict=False)]
        checkpoint.save(run, {"state": state, "kept": step.kept}, index + 1, mesh=mesh, keep=2)
        if mesh.rank == 0:
            # Whoever reads this has been promised the checkpoint.
            with (base / "promised").open("a") as file:
                file.write(f"{run.name} {index + 1}\n")
    mesh.comm.barrier()  # type: ignore[union-attr]


def fork_rank(base: pathlib.Path, run: pathlib.Path, rank: int, job: str) -> int:
    """Starts a rank, whose output goes to a file."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        log = os.open(base / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 2)
        os.environ.update(SCALIFY_RANK=str(rank), SCALIFY_SIZE=str(RANKS), SCALIFY_JOB=job)
        os.environ["SCALIFY_COMM_TIMEOUT"] = str(TIMEOUT)
        train(base, run)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def wait(children: list[int]) -> list[int]:
    """Returns how the ranks ended: their status, or minus the signal.

    Raises:
        TimeoutError: one hangs.
    """
    ended: dict[int, int] = {}
    deadline = time.monotonic() + 3 * TIMEOUT
    while len(ended) < len(children):
        for child in set(children) - ended.keys():
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                ended[child] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            for child in set(children) - ended.keys():
                os.kill(child, signal.SIGKILL)
            raise TimeoutError(f"ranks hang: {set(children) - ended.keys()}, {ended}")
        time.sleep(0.002)
    return [ended[child] for child in children]


class Kills:
    """Jobs of one folder, one after the other, and statistics of them."""

    def __init__(self, base: pathlib.Path, victim: str, seed: int) -> None:
        self.base = base
        self.victim = victim
        self.random = random.Random(seed)
        self.rounds = 0
        self.jobs = 0
        self.seen: collections.Counter[str] = collections.Counter()
        self.wanted = self.state(self.uninterrupted())

    def run_job(self, run: pathlib.Path, delay: float | None) -> bool:
        """Runs a job, killed after a delay; returns whether it was."""
        self.jobs += 1
        job = f"kills-{os.getpid()}-{self.jobs}"
        children = [fork_rank(self.base, run, rank, job) for rank in range(RANKS)]
        hit = self.random.randrange(RANKS)
        if delay is not None:
            time.sleep(delay)
            for child in [children[hit]] if self.victim == "rank" else children:
                os.kill(child, signal.SIGKILL)
        ended = wait(children)
        if -signal.SIGKILL not in ended:
            assert ended == [0] * RANKS, (ended, self.log(0))
            return False
        if self.victim == "rank":
            for rank, status in enumerate(ended):
                if rank != hit:
                    self.check_survivor(rank, status, hit)
        return True

    def log(self, rank: int) -> str:
        return (self.base / f"rank{rank}.log").read_text(errors="replace")

    def check_survivor(self, rank: int, status: int, hit: int) -> None:
        """Checks the exit of a rank that was not itself killed."""
        if status == 0:
            # It was done when the other one was killed, which had no more than to end.
            self.seen["was done"] += 1
            return
        text = self.log(rank)
        assert status == 1, (status, text)
        if re.search(r"step \d+, \w+", text):
            assert f"rank {hit} died" in text, text
            self.seen["told of collective and step"] += 1
            return
        assert re.search(rf"rank {hit} .*job", text), text
        self.seen["told as ranks met"] += 1

    def uninterrupted(self) -> pathlib.Path:
        run = self.base / "uninterrupted"
        assert not self.run_job(run, None)
        return run

    def state(self, run: pathlib.Path) -> dict[str, bytes]:
        """Returns the bits of the last checkpoint."""
        step, tree = checkpoint.load(run)
        assert step == STEPS
        return {name: np.asarray(leaf).tobytes() for name, leaf in tree.items()}

    def check_newest_checkpoint(self, run: pathlib.Path) -> None:
        """Checks that the newest checkpoint is whole, and no older than the last completed save."""
        promised = 0
        if (self.base / "promised").exists():
            lines = (self.base / "promised").read_text().splitlines()
            steps = [int(line.split()[1]) for line in lines if line.split()[0] == run.name]
            promised = max(steps, default=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is damaged
            newest = checkpoint.latest(run)
            found = 0 if newest is None else checkpoint.load(run).step
        assert found >= promised, (found, promised)
        unfinished = any(run.glob(".unfinished-*"))
        self.seen["in the middle of a save" if unfinished else "between saves"] += 1

    def kill(self, count: int) -> None:
        """Kills so many jobs, and finishes each round."""
        started = time.monotonic()
        assert not self.run_job(self.base / "timed", None)
        whole = time.monotonic() - started
        done = 0
        while done < count:
            run = self.base / f"round{self.rounds}"
            self.rounds += 1
            # A round has as many kills as it takes; its last job ends by itself.
            while done < count:
                if not self.run_job(run, self.random.uniform(0, whole)):
                    whole *= 0.8  # the machine has become faster
                    break
                whole *= 1.05
                done += 1
                self.check_newest_checkpoint(run)
            self.run_job(run, None)
            assert self.state(run) == self.wanted, f"round {self.rounds} has other bits"
            shutil.rmtree(run)
        print(
            f"{done} kills of {'a rank' if self.victim == 'rank' else 'the whole job'} in "
            f"{self.rounds} rounds of {STEPS} steps on {RANKS} ranks, {self.jobs} jobs: "
            f"{json.dumps(self.seen)}; none hung, none lost a checkpoint, all ended with the bits "
            "of a job that nobody killed"
        )


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--victim", choices=["rank", "job", "compile"], default="rank")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    step = options.folder / "step.scalify"
    if options.victim == "compile":
        compile_step(step)
        return
    if not step.exists():
        command = [sys.executable, __file__, str(options.folder), "--victim", "compile"]
        subprocess.run(command, check=True)
    base = pathlib.Path(tempfile.mkdtemp(dir=options.folder))
    shutil.copy(step, base)
    Kills(base, options.victim, options.seed).kill(options.kills)
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
