"""A training script over two stages, which a test runs as ranks or alone."""

from __future__ import annotations

import hashlib
import os
import signal
import sys

import jax
import numpy as np
import pipeline_programs
from jax.sharding import PartitionSpec as P

import scalify


def main(mode: str) -> None:
    """Prints losses and a digest of the state, whole."""
    has_ranks = mode == "ranks"
    mesh = scalify.make_mesh(pipe=2, data=2) if has_ranks else scalify.make_mesh(pipe=2)
    step = scalify.jit(
        pipeline_programs.mlp_step(4),
        distribution=scalify.Distribution(
            mesh=mesh,
            pipeline=scalify.Pipeline("pipe", "interleaved", 2),
            zero=1 if has_ranks else 0,
        ),
        donate_argnums=0,
        in_shardings=(None, P(None, "data")) if has_ranks else None,
        threads=1,
    )
    state = pipeline_programs.mlp_state(4)
    for number, tokens in enumerate(pipeline_programs.batches(3, 2)):
        if mode == "dies" and mesh.rank == 1 and number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        state, loss = step(state, tokens)
        print(float(loss))
    leaves = jax.tree.leaves(state)
    whole = [one.gather() if isinstance(one, scalify.Shard) else one for one in leaves]
    digest = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in whole))
    print(digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1])
