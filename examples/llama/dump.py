"""Writes the StableHLO text of the example's training step, for scalify-opt and for reading.

Usage: python examples/llama/dump.py step.mlir --layers 2 --debug-info --state state.safetensors
"""

from __future__ import annotations

import argparse
import pathlib

import jax
import numpy as np
import safetensors.numpy

import cli
import model
import optimizer
from config import ModelConfig, TrainConfig

__all__ = ["main"]


def main() -> None:
    """Parses the command line, lowers the step and writes its text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--debug-info", action="store_true", help="keep locations")
    parser.add_argument("--state", type=pathlib.Path, help="also save arguments, as safetensors")
    cli.add_fields(parser, ModelConfig, TrainConfig)
    options = parser.parse_args()
    cfg, plan = cli.made(options, ModelConfig), cli.made(options, TrainConfig)

    params = model.init(jax.random.key(plan.seed), cfg)
    adamw = optimizer.make_optimizer(plan)
    state = adamw.init(params)
    rng = np.random.default_rng(0)
    batch = rng.integers(0, cfg.vocab, (plan.batch, cfg.seq + 1), dtype=np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    lowered = step.lower(params, state, batch)
    options.out.write_text(lowered.as_text(debug_info=options.debug_info))
    if options.state:
        leaves = jax.tree.leaves((params, state, batch))
        kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
        arrays = {f"arg{i}": np.asarray(leaves[j]) for i, j in enumerate(kept)}
        safetensors.numpy.save_file(arrays, options.state)


if __name__ == "__main__":
    main()
