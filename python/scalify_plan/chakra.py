"""Chakra execution traces of what the planner simulates, as input of other simulators.

MLCommons' schema (`et_def.proto`, package ChakraProtoMsg, version 0.0.4): one file per rank of
length-prefixed messages, first the metadata, then a node for each task. `protobuf` encodes the
messages; the part of the schema that is used is declared here, by its field numbers.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from scalify_plan import events
from scalify_plan.wire import Wire

__all__ = ["COLLECTIVES", "NODE_TYPES", "SCHEMA", "messages", "nodes", "write"]

SCHEMA = "0.0.4"
NODE_TYPES = {"compute": 4, "send": 5, "receive": 6, "collective": 7}
COLLECTIVES = {
    "all_reduce": 0,
    "all_gather": 2,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
}

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "ChakraProtoMsg"
# Number and type of fields by name: a scalar, a message or an enum; [] marks a repeated field.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "BoolList": {"values": (1, "bool[]")},
    "AttributeProto": {
        "name": (1, "string"),
        "double_val": (3, "double"),
        "int32_val": (7, "int32"),
        "int64_val": (9, "int64"),
        "uint64_val": (13, "uint64"),
        "bool_val": (27, "bool"),
        "bool_list": (28, "BoolList"),
        "string_val": (29, "string"),
    },
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "AttributeProto[]")},
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "NodeType"),
        "ctrl_deps": (4, "uint64[]"),
        "data_deps": (5, "uint64[]"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "attr": (10, "AttributeProto[]"),
    },
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
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    # An attribute has a name and one value.
    attribute = next(one for one in file.message_type if one.name == "AttributeProto")
    attribute.oneof_decl.add(name="value")
    for value in attribute.field[1:]:
        value.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    """Declares a field of a message."""
    single = kind.removesuffix("[]")
    added = message.field.add(name=name, number=number)
    added.label = _FIELD.LABEL_OPTIONAL if single == kind else _FIELD.LABEL_REPEATED
    if single in _MESSAGES or single == "NodeType":
        is_message = single in _MESSAGES
        added.type = _FIELD.TYPE_MESSAGE if is_message else _FIELD.TYPE_ENUM
        added.type_name = f".{_PACKAGE}.{single}"
    else:
        added.type = _FIELD.Type.Value(f"TYPE_{single.upper()}")


def nodes(line: events.Timeline, wires: Sequence[Wire]) -> list[Any]:
    """Returns a node for each task of a timeline, in its order.

    A task depends on its needs, and on its predecessor on its stream. Times are the simulation's,
    in microseconds; `comm_size` is the bytes of the whole data: an all-gather's result, a
    reduction's operand. `num_ops` is the FLOPs of products, `tensor_size` the bytes of memory that
    are moved.

    Args:
        line: the simulated timeline.
        wires: of its exchanges, indexed by their chunk.
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


def _write_message(file: BinaryIO, message: Any) -> None:
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
        OSError: a file cannot be written.
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
            _write_message(file, head)
            for node in made:
                _write_message(file, node)
        paths.append(path)
    return paths
