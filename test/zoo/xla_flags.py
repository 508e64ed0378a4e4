"""Flags of XLA for programs that are small, run a few times, and are compiled often."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["FAST", "add"]

# Optimizations would take more time than they save.
FAST = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
}


def add(flags: Mapping[str, str]) -> None:
    """Adds flags to XLA_FLAGS, which JAX reads when it starts; one that is given stays."""
    given = os.environ.get("XLA_FLAGS", "")
    new = [f"--{name}={value}" for name, value in flags.items() if name not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *new]).strip()
