"""Flags of XLA for programs that are small, run a few times, and are compiled often."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["FAST", "add"]

# Optimizations would take more time than they save. Without emitters of fusions, each of which is a
# compilation by MLIR, and in one piece a step takes a quarter of what it takes with them.
FAST = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_llvm_disable_expensive_passes": "true",
}


def add(flags: Mapping[str, str]) -> None:
    """Adds flags to XLA_FLAGS, which JAX reads when it starts; one that is given stays."""
    given = os.environ.get("XLA_FLAGS", "")
    new = [f"--{name}={value}" for name, value in flags.items() if name not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *new]).strip()
