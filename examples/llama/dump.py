"""Writes the StableHLO text of the example's training step, for scalify-opt and for reading.

Usage: python examples/llama/dump.py step.mlir --layers 2 --debug-info
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np

import model
import optimizer
from config import ModelConfig, TrainConfig

__all__ = ["main"]


def main() -> None:
    """Parses the command line, lowers the step and writes its text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--debug-info", action="store_true", help="keep locations")
    parser.add_argument("--args", type=pathlib.Path, help="also save initial arguments as .npz")
    parser.add_argument("--batch", type=int, default=TrainConfig.batch)
    for field in dataclasses.fields(ModelConfig):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    options = parser.parse_args()
    names = [field.name for field in dataclasses.fields(ModelConfig)]
    cfg = ModelConfig(**{name: getattr(options, name) for name in names})

    params = model.init(jax.random.key(0), cfg)
    adamw = optimizer.make_optimizer(TrainConfig())
    state = adamw.init(params)
    rng = np.random.default_rng(0)
    batch = rng.integers(0, cfg.vocab, (options.batch, cfg.seq + 1), dtype=np.int32)
    step = jax.jit(optimizer.make_step(cfg, adamw), donate_argnums=(0, 1))
    lowered = step.lower(params, state, batch)
    options.out.write_text(lowered.as_text(debug_info=options.debug_info))
    if options.args:
        leaves = jax.tree.leaves((params, state, batch))
        kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
        arrays: dict[str, Any] = {f"arg{i}": np.asarray(leaves[j]) for i, j in enumerate(kept)}
        np.savez(options.args, **arrays)


if __name__ == "__main__":
    main()
