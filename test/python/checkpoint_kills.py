"""Kills training jobs at random moments, and sees whether they go on bit for bit.

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
TIMEOUT = 20
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
    if mesh.gather_bytes(b"x" if checkpoint.latest(run) else b"")[0]:
        tree: Any = {"state": state, "kept": step.kept}
        start, tree = checkpoint.load(run, tree, mesh=mesh)
        state, step.kept = tree["state"], tree["kept"]
    for index in range(start, STEPS):
        x = np.random.default_rng(index).normal(size=(16, 32)).astype(np.float32)
        layout = layouts[count]
        assert layout is not None
        results = step(*(one.data for one in state), layout.cut(x, mesh.rank))
        state = [
            Shard(part, old.layout, mesh) for part, old in zip(results, state, strict=False)
        ]
        checkpoint.save(run, {"state": state, "kept": step.kept}, index + 1, mesh=mesh, keep=2)
        if mesh.rank == 0:
            # Whoever reads this has been promised the checkpoint.
            with (base / "promised").open("a") as file:
                file.write(f"{run.name} {index + 1}\n")
    mesh.comm.barrier()  # type: ignore[union-attr]


def fork_rank(base: pathlib.Path, run: pathlib.Path, rank: int, job: str) -> int:
    """Starts a rank; what it says goes to a file."""
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
        for child in children:
            if child not in ended and os.waitpid(child, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)
        if time.monotonic() > deadline:
            raise TimeoutError
    return [ended[child] for child in children]
