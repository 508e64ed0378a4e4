"""Compiles JAX functions for the CPU target and compares them with jax.jit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from scalify import _compiler, _runtime

__all__ = ["check", "compile_text", "compiled"]


def compile_text(text: str, **options: Any) -> _runtime.Executable:
    """Compiles StableHLO text; `options` are CompileOptions' members."""
    artefact, _ = _compiler.compile(text, json.dumps(options))
    return _runtime.Executable(artefact)


def compiled(fn: Callable[..., Any], args: Sequence[Any], **options: Any) -> _runtime.Executable:
    """Compiles `fn`, traced at `args`."""
    text = jax.jit(fn, keep_unused=True).lower(*args).as_text(debug_info=True)
    return compile_text(text, **options)


def check(
    fn: Callable[..., Any],
    *args: Any,
    rtol: float = 2e-6,
    atol: float = 1e-6,
    exact: bool = False,
) -> None:
    """Runs `fn` through the CPU target and through jax.jit and compares every result.

    Args:
        fn: a JAX function of arrays (pytrees allowed).
        args: its arguments.
        rtol: relative tolerance for floats; integers and booleans are compared exactly.
        atol: absolute tolerance for floats.
        exact: compare bits of floats too, but for the payload of a NaN.
    """
    executable = compiled(fn, args)
    got = executable.run([np.asarray(x) for x in jax.tree.leaves(args)])
    want = jax.tree.leaves(jax.jit(fn)(*args))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape and g.dtype == w.dtype, (g.shape, g.dtype, w.shape, w.dtype)
        if g.dtype.kind in "biu" or exact:
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(
                g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol
            )
