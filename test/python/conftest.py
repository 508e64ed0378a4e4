"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
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
# Tests make many objects of JAX and keep few: at the usual 700, collections take 4 % of their time.
gc.set_threshold(50_000)
