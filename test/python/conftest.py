"""What all tests share."""

from __future__ import annotations

import os

# Programs of tests are small, and each runs a few times: XLA's optimizations take longer than
# they save. A flag that is given stays. Read when JAX starts, after this.
_FLAGS = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
}
_given = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = " ".join(
    [_given, *(f"--{name}={value}" for name, value in _FLAGS.items() if name not in _given)]
).strip()
