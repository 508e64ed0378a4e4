"""Scalify: a graph compiler for low-precision training.

`jit` compiles a JAX function for Scalify's own runtime, `transform` rewrites it and lets JAX
run it, `compile` takes StableHLO text. `measure` computes the scales of arguments, `probe` returns
the operand of every cast, `opt` runs passes on text. `lax` has functions that set or measure the
scale of a value in a JAX program, `nn` has layers that a GPU runs as one operation.
"""

from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any

# In a checkout the extension modules lie in the build tree; SCALIFY_BUILD names another one.
# In an installed package they lie beside this file and the folder below does not exist.
_checkout = pathlib.Path(__file__).resolve().parents[2]
_build_folder = pathlib.Path(os.environ.get("SCALIFY_BUILD") or _checkout / "build")
if (_extensions := _build_folder / "python" / "scalify").is_dir():
    __path__.append(str(_extensions))

from scalify import artefact, checkpoint, lax, nn  # noqa: E402
from scalify._calibrate import calibrate  # noqa: E402
from scalify._collect import collect  # noqa: E402
from scalify._decorate import jit  # noqa: E402
from scalify._executable import Executable, load  # noqa: E402
from scalify._filter import FilterJit, filter_jit, filter_transform  # noqa: E402
from scalify._jit import Jit  # noqa: E402
from scalify._probe import probe  # noqa: E402
from scalify._runtime import Array  # noqa: E402
from scalify._scaled_array import ScaledArray  # noqa: E402
from scalify._stages import Pipeline  # noqa: E402
from scalify._statistics import Statistics  # noqa: E402
from scalify._text import compile  # noqa: E402
from scalify._transform import Transformed, opt, transform  # noqa: E402
from scalify._tune import Tuned, tune  # noqa: E402
from scalify.calibration import Calibration, HealthPolicy, WideCast  # noqa: E402
from scalify.errors import CompileError  # noqa: E402
from scalify.memory import largest_batch  # noqa: E402
from scalify.mesh import Mesh, Shard, make_mesh  # noqa: E402
from scalify.options import GPU, Distribution, Numerics  # noqa: E402
from scalify.ranges import check_assumptions, measure_ranges  # noqa: E402
from scalify.recipe import Recipe, recipes  # noqa: E402
from scalify.report import Report  # noqa: E402
from scalify.scales import Scales, measure  # noqa: E402

__all__ = [
    "GPU",
    "Array",
    "Calibration",
    "CompileError",
    "Distribution",
    "Executable",
    "FilterJit",
    "HealthPolicy",
    "Jit",
    "Mesh",
    "Numerics",
    "Pipeline",
    "Recipe",
    "Report",
    "ScaledArray",
    "Scales",
    "Shard",
    "Statistics",
    "Transformed",
    "Tuned",
    "WideCast",
    "artefact",
    "calibrate",
    "check_assumptions",
    "checkpoint",
    "collect",
    "compile",
    "filter_jit",
    "filter_transform",
    "jit",
    "largest_batch",
    "lax",
    "load",
    "make_mesh",
    "measure",
    "measure_ranges",
    "nn",
    "opt",
    "probe",
    "recipes",
    "transform",
    "tune",
]


def __getattr__(name: str) -> Any:
    # Imported on demand: `python -m scalify.partition` warns if the package has already imported
    # that module, and `nnx` and `torch` need Flax and PyTorch, which are optional.
    if name in ("check", "nnx", "partition", "torch"):
        return importlib.import_module(f"scalify.{name}")
    raise AttributeError(f"module 'scalify' has no attribute '{name}'")
