"""Imports every module of programs, which enters them into the registry."""

from __future__ import annotations

import os

# Sharded programs are lowered for four devices.
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    )

import fp8_inputs
import gpt2
import llama
import moe
import public
import sharded
import vision

__all__ = ["fp8_inputs", "gpt2", "llama", "moe", "public", "sharded", "vision"]
