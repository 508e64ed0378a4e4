"""Chakra execution traces, for simulators that take them, of what the planner simulates.

MLCommons' schema (`et_def.proto`, package ChakraProtoMsg, version 0.0.4): a file for each rank, of
messages with their length before them, first the metadata, then a node for each task. Messages are
`protobuf`'s own; the part of the schema that is used is declared here, by its field numbers.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from scalify.plan import events
from scalify.plan.wire import Wire

__all__ = ["COLLECTIVES", "NODE_TYPES", "SCHEMA", "messages", "nodes", "write"]

SCHEMA = "0.0.4"
NODE_TYPES = {"compute": 4, "send": 5, "receive": 6, "collective": 7}
COLLECTIVES = {"all_reduce": 0, "all_gather": 2, "all_to_all": 6, "reduce_scatter": 7}

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "ChakraProtoMsg"
# Name, number, type, label, type's name for messages and enums, and the oneof that it is part of.
_MESSAGES: dict[str, list[tuple[str, int, int, int, str, bool]]] = {
    "BoolList": [("values", 1, _FIELD.TYPE_BOOL, _FIELD.LABEL_REPEATED, "", False)],
    "AttributeProto": [
        ("name", 1, _FIELD.TYPE_STRING, _FIELD.LABEL_OPTIONAL, "", False),
        ("double_val", 3, _FIELD.TYPE_DOUBLE, _FIELD.LABEL_OPTIONAL, "", True),
        ("int32_val", 7, _FIELD.TYPE_INT32, _FIELD.LABEL_OPTIONAL, "", True),
        ("int64_val", 9, _FIELD.TYPE_INT64, _FIELD.LABEL_OPTIONAL, "", True),
        ("uint64_val", 13, _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL, "", True),
        ("bool_val", 27, _FIELD.TYPE_BOOL, _FIELD.LABEL_OPTIONAL, "", True),
        ("bool_list", 28, _FIELD.TYPE_MESSAGE, _FIELD.LABEL_OPTIONAL, "BoolList", True),
        ("string_val", 29, _FIELD.TYPE_STRING, _FIELD.LABEL_OPTIONAL, "", True),
    ],
    "GlobalMetadata": [
        ("version", 1, _FIELD.TYPE_STRING, _FIELD.LABEL_OPTIONAL, "", False),
        ("attr", 2, _FIELD.TYPE_MESSAGE, _FIELD.LABEL_REPEATED, "AttributeProto", False),
    ],
    "Node": [
        ("id", 1, _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL, "", False),
        ("name", 2, _FIELD.TYPE_STRING, _FIELD.LABEL_OPTIONAL, "", False),
        ("type", 3, _FIELD.TYPE_ENUM, _FIELD.LABEL_OPTIONAL, "NodeType", False),
        ("ctrl_deps", 4, _FIELD.TYPE_UINT64, _FIELD.LABEL_REPEATED, "", False),
        ("data_deps", 5, _FIELD.TYPE_UINT64, _FIELD.LABEL_REPEATED, "", False),
        ("start_time_micros", 6, _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL, "", False),
        ("duration_micros", 7, _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL, "", False),
        ("attr", 10, _FIELD.TYPE_MESSAGE, _FIELD.LABEL_REPEATED, "AttributeProto", False),
    ],
}
_TYPE_NAMES = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
]


def messages() -> dict[str, Any]:
    """Returns the classes of the schema's messages, by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="scalify_chakra.proto", package=_PACKAGE, syntax="proto3"
    )
    kinds = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_TYPE_NAMES):
        kinds.value.add(name=name, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(inside for *_, inside in fields):
            message.oneof_decl.add(name="value")
        for field, number, kind, label, type_name, inside in fields:
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if type_name:
                added.type_name = f".{_PACKAGE}.{type_name}"
            if inside:
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


def nodes(line: events.Timeline, wires: Sequence[Wire]) -> list[Any]:
    """Returns a node for each task of a timeline, in its order.

    A task depends on what it waits for, and on the one before it on its stream. Times are the
    simulation's, in microseconds; `comm_size` is of the whole data, in bytes: what a gather gives,
    what a reduction takes. `num_ops` are FLOPs of products, `tensor_size` bytes of memory.

    Args:
        line: what was simulated.
        wires: what its exchanges move, by their chunk.
    """
    classes = messages()
    made = []
    last: dict[int, int] = {}
    for number, (task, (start, end)) in enumerate(zip(line.tasks, line.spans, strict=True)):
        node = classes["Node"](id=number, name=task.name or f"task {number}")
        node.start_time_micros = round(start * 1e6)
        node.duration_micros = round((end - start) * 1e6)
        node.data_deps.extend(task.needs)
        before = last.get(task.stream)
        if before is not None and before not in task.needs:
            node.ctrl_deps.append(before)
        last[task.stream] = number
        node.attr.add(name="is_cpu_op", bool_val=False)
        node.attr.add(name="simulated", bool_val=True)
        node.attr.add(name="stream", int32_val=task.stream)
        if task.chunk < 0:
            node.type = NODE_TYPES["compute"]
            node.attr.add(name="num_ops", int64_val=round(task.flops))
            node.attr.add(name="tensor_size", int64_val=round(task.moved))
        else:
            _describe(node, wires[task.chunk])
        made.append(node)
    return made


def _describe(node: Any, wire: Wire) -> None:
    if wire.is_message:
        node.type = NODE_TYPES["receive" if wire.kind == "receive" else "send"]
    else:
        node.type = NODE_TYPES["collective"]
        node.attr.add(name="comm_type", int64_val=COLLECTIVES[wire.kind])
    node.attr.add(name="comm_size", int64_val=round(wire.size))
    node.attr.add(name="pg_name", string_val=f"{wire.ranks.ranks} ranks, stride {wire.stride}")
    node.attr.add(name="dtype", string_val=wire.dtype)


def _put(file: BinaryIO, message: Any) -> None:
    content = message.SerializeToString(deterministic=True)
    length = len(content)
    while length >= 0x80:
        file.write(bytes([length & 0x7F | 0x80]))
        length >>= 7
    file.write(bytes([length]))
    file.write(content)


def write(
    folder: pathlib.Path, ranks: Iterable[int], line: events.Timeline, wires: Sequence[Wire]
) -> list[pathlib.Path]:
    """Writes `step.RANK.et` for each rank; all ranks of a step run the same list.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    classes = messages()
    made = nodes(line, wires)
    paths = []
    for rank in ranks:
        path = folder / f"step.{rank}.et"
        with path.open("wb") as file:
            head = classes["GlobalMetadata"](version=SCHEMA)
            head.attr.add(name="origin", string_val="scalify-plan, simulated")
            head.attr.add(name="rank", int64_val=rank)
            _put(file, head)
            for node in made:
                _put(file, node)
        paths.append(path)
    return paths
