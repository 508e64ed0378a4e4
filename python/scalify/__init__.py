"""Scalify: a graph compiler for low-precision training."""

from __future__ import annotations

import os
import pathlib

# In a checkout the extension modules lie in the build tree; SCALIFY_BUILD names another one.
# In an installed package they lie beside this file and the folder below does not exist.
_checkout = pathlib.Path(__file__).resolve().parents[2]
_build = pathlib.Path(os.environ.get("SCALIFY_BUILD") or _checkout / "build")
if (_extensions := _build / "python" / "scalify").is_dir():
    __path__.append(str(_extensions))
