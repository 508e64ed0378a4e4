"""The modules of integration/gpu, for tests of their conclusions."""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / "integration" / "gpu"), str(ROOT / "examples" / "llama")]
sys.path[:0] = FOLDERS
try:
    import blocks
    import check
    import common
    import timed

    import derive
    import judge
    import model
    import runtime
    import weights
    import xla
    from artefacts import Folder
    from config import ModelConfig
    from runtime import Tensor
finally:
    for folder in FOLDERS:
        sys.path.remove(folder)

__all__ = [
    "Folder",
    "ModelConfig",
    "Tensor",
    "blocks",
    "check",
    "common",
    "derive",
    "judge",
    "model",
    "runtime",
    "timed",
    "weights",
    "xla",
]
