"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "zoo"))

import xla_flags

xla_flags.add(xla_flags.FAST)

# Scripts of tests write no old names of options either.
os.environ.setdefault("PYTHONWARNINGS", "error:scalify.:DeprecationWarning")

# Steps show memory that they have not written, in child processes too; empty, it is off.
os.environ.setdefault("SCALIFY_FILL", "nan")
# Each pass must leave valid IR; users' compilations verify it once a stage.
os.environ.setdefault("SCALIFY_VERIFY_EACH", "1")
