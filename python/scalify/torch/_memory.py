"""PyTorch's tensors as numpy arrays over the same memory.

numpy and PyTorch share memory by DLPack's rules, but numpy has no name for BF16 and the FP8 types:
those pass as bytes, and become the types of ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["adopt", "as_argument", "to_tensor", "view"]

# The runtime's kernels read whole vectors.
_ALIGNMENT = 64

_TYPES: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}
_NARROWED = {torch.int64: torch.int32}


def view(tensor: torch.Tensor) -> Any:
    """Returns a dense tensor of the CPU as an array over its memory."""
    plain = tensor.detach()
    if plain.dtype in _TYPES:
        as_bytes, dtype = _TYPES[plain.dtype]
        return plain.view(as_bytes).numpy().view(dtype)
    return plain.numpy()


def to_tensor(array: Any) -> torch.Tensor:
    """Returns an array of a step's results as a tensor over its memory."""
    array = np.asarray(array)
    for dtype, (as_bytes, known) in _TYPES.items():
        if array.dtype == known:
            plain = array.view(np.int16 if as_bytes == torch.int16 else np.uint8)
            return torch.from_numpy(plain).view(dtype)
    return torch.from_numpy(array)


def adopt(tensor: torch.Tensor, name: str) -> bool:
    """Makes a step able to overwrite a tensor: dense, and at a multiple of 64 bytes.

    If it is not, its memory is replaced by a copy that is; views of the old memory keep that.

    Returns:
        Whether it is copied.

    Raises:
        ValueError: the tensor is not on the CPU, or is of a type that steps do not hold.
    """
    check(tensor, name)
    if tensor.is_contiguous() and tensor.data_ptr() % _ALIGNMENT == 0:
        return False
    tensor.data = tensor.detach().clone(memory_format=torch.contiguous_format)
    return True


def check(tensor: torch.Tensor, name: str) -> None:
    """Checks that a step can read a tensor.

    Raises:
        ValueError: it is not on the CPU, not dense, or of 64-bit floats.
    """
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}, and the step runs on the CPU: .cpu()")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} has the layout {tensor.layout}: make it dense, .to_dense()")
    if tensor.dtype in (torch.float64, torch.complex128):
        raise ValueError(f"{name} is {tensor.dtype}, which JAX narrows: convert it, .float()")


def as_argument(tensor: torch.Tensor, name: str) -> Any:
    """Returns an array for a tensor that a step reads: over its memory if that is dense.

    Integers of 64 bits become 32, as JAX has them.

    Raises:
        ValueError: a step cannot read it, or an integer does not fit.
    """
    check(tensor, name)
    narrow = _NARROWED.get(tensor.dtype)
    if narrow is not None:
        limits = torch.iinfo(narrow)
        if tensor.numel() and (int(tensor.max()) > limits.max or int(tensor.min()) < limits.min):
            raise ValueError(f"{name} has integers beyond {narrow}, which steps have")
        tensor = tensor.to(narrow)
    return view(tensor.detach().resolve_conj().resolve_neg().contiguous())
