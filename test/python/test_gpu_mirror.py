"""The structures with which the GPU checks call the runtime, against its header."""

from __future__ import annotations

import ctypes
import pathlib
import re

import pytest
from gpu_scripts import runtime

HEADER = pathlib.Path(__file__).resolve().parents[2] / "runtime/include/scalify/runtime.h"
PLAIN = {
    "int32_t": ctypes.c_int32,
    "scalify_rt_device": ctypes.c_int32,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "const char *": ctypes.c_char_p,
}


def fields(name: str) -> list[tuple[str, str]]:
    """Returns type and name of each member of a structure of the header."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.DOTALL)
    assert body, name
    found = re.findall(r"^\s*([\w ]+?[ ]?\*?)(\w+);", body[1], re.MULTILINE)
    return [(kind.strip(), member) for kind, member in found]


@pytest.mark.parametrize(
    ("name", "mirror"),
    [
        ("scalify_rt_options", runtime._Options),
        ("scalify_rt_tensor", runtime._Tensor),
        ("scalify_rt_counter", runtime._Counter),
        ("scalify_rt_profile_entry", runtime._Entry),
    ],
)
def test_members_are_the_header_s(name: str, mirror: type[ctypes.Structure]) -> None:
    wanted = fields(name)
    assert [field[0] for field in mirror._fields_] == [member for _, member in wanted]
    for field, (kind, member) in zip(mirror._fields_, wanted, strict=True):
        size = ctypes.sizeof(PLAIN.get(kind, ctypes.c_void_p))
        assert ctypes.sizeof(field[1]) == size, member
        assert (field[1] in PLAIN.values()) == (kind in PLAIN), member
