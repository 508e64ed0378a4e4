"""Checkpoints of Hugging Face's transformers: safetensors files with a config.json, in and out.

Matrices are transposed, since PyTorch stores [outputs, inputs]; values stay bit for bit.
"""

from __future__ import annotations

from scalify.models.llama.hf.reading import load
from scalify.models.llama.hf.writing import save

__all__ = ["load", "save"]
