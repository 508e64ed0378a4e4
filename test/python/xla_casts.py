"""What XLA of the installed jaxlib does not do: a mark for tests that need it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

__all__ = ["XLA_CASTS"]

# 54 lies half-way between two numbers of E4M3, and 53.9966 below it.
_FOUND = jax.jit(lambda x: x.astype(jnp.float8_e4m3fn).astype(x.dtype))(np.float32(53.996574))

XLA_CASTS = pytest.mark.skipif(
    float(_FOUND) != 52,
    reason="this jaxlib's XLA (0.7.0) rounds F32 to F16 and then to FP8, off by a unit near ties",
)
"""Marks tests that compare XLA's FP8 data with those of ml_dtypes or of our kernels."""
