"""Trains a small LLaMA on a mesh, as ranks or alone, and prints a digest of its final state.

`python llama_ranks_script.py --mesh data=4,tensor=2 --recipe fp8 --zero 2`, alone or under mpirun.
An axis "sequence" shards norms by sequence, as Megatron does.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys

import jax
import numpy as np
from jax.sharding import PartitionSpec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"))

import model
import optimizer
import sharding
from config import ModelConfig, TrainConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mesh", default="data=8")
    parser.add_argument("--recipe", default="none")
    parser.add_argument("--zero", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--dies", type=int, help="the rank that ends by SIGKILL before step 2")
    options = parser.parse_args()
    pairs = (part.split("=") for part in options.mesh.split(","))
    on = sharding.Ranks.of({name: int(size) for name, size in pairs}, options.zero)
    if "sequence" in on.mesh.axes:
        norm, constrain = model.rms_norm, jax.lax.with_sharding_constraint
        parts = PartitionSpec("data", "sequence", None)
        model.rms_norm = lambda x, *args: norm(constrain(x, parts), *args)
    cfg = ModelConfig(layers=options.layers, seq=16, dim=options.dim, ffn=2 * options.dim)
    adamw = optimizer.make_optimizer(TrainConfig(warmup=2))
    rng = np.random.default_rng(0)

    def weight(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        if leaf.ndim < 2:
            return np.ones(leaf.shape, leaf.dtype)
        return (leaf.shape[0] ** -0.5 * rng.normal(size=leaf.shape)).astype(leaf.dtype)

    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), cfg))
    params = jax.tree.map(weight, shapes)
    state = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(adamw.init, shapes)
    )
    step = on.step(optimizer.make_step(cfg, adamw), options.recipe, params, state)
    losses = []
    for index in range(options.steps):
        if options.dies == on.mesh.rank and index == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = 2 * on.mesh.axes.get("data", 1)
        # Text that can be learnt: each token follows the one before it.
        starts = rng.integers(0, cfg.vocab, (rows, 1), dtype=np.int32)
        batch = (starts + np.arange(cfg.seq + 1, dtype=np.int32)) % cfg.vocab
        params, state, loss = step(params, state, batch)
        losses.append(np.asarray(loss))
    assert losses[-1] < losses[0]
    whole = sharding.gathered((params, state, losses))
    comm = on.mesh.comm
    how = "alone" if comm is None else f"over {comm.transport}"
    print(f"rank {on.mesh.rank} of {on.mesh.size}, {how}: bits {sharding.bits(whole)}", flush=True)


if __name__ == "__main__":
    main()
