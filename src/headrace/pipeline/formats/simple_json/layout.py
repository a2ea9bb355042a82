"""A schema as flat tables, for the compiled reader. Pure.

Nodes are in depth-first order: a node's subtree follows it. A list has one child. A map has two:
keys and values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.pipeline.formats.schema import (
    ArrayOf,
    MapOf,
    Primitive,
    StructOf,
    Type,
    required_paths,
)
from headrace.pipeline.formats.simple_json.kinds import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    STRING,
    STRUCT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Bytes,
    Numbers,
)

MAX_NODES: Final = 2000
MAX_DEPTH: Final = 60
"""The limit for the schema; the reader's stack is a little larger."""
_INTEGERS: Final = {
    "tinyint": (pa.int8(), 7),
    "smallint": (pa.int16(), 15),
    "int": (pa.int32(), 31),
    "bigint": (pa.int64(), 63),
}
_PLAIN: Final = {
    "boolean": (BOOLEAN, pa.bool_()),
    "float": (FLOAT, pa.float32()),
    "double": (DOUBLE, pa.float64()),
    "string": (STRING, pa.string()),
    "date": (DATE, pa.date32()),
    "timestamp": (TIMESTAMP, pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": (TIMESTAMP_NTZ, pa.timestamp("us")),
}
MAX_DECIMAL_DIGITS: Final = 18
"""The limit for a number that is read as a decimal; its column may be wider."""


@dataclass(slots=True)
class Node:
    """One node of the schema."""

    name: str
    kind: int
    type: pa.DataType
    parent: int
    end: int
    """The index after the last node of its subtree."""
    required: bool
    low: int = 0
    """The smallest integer; a decimal's digits before the point."""
    high: int = 0
    """The largest integer; a decimal's digits after the point."""
    in_list: bool = False
    """Whether the number of its values may differ from the number of rows."""


class Unsupported(Exception):
    """The schema has a type that the reader does not support."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables, with one entry per node."""

    nodes: tuple[Node, ...]
    kinds: Numbers
    ends: Numbers
    required: Numbers
    lows: Numbers
    highs: Numbers
    parents: Numbers
    names: Bytes
    name_starts: Numbers
    """Where each name begins in `names`, followed by the end of the last name."""

    def children(self, at: int) -> Iterator[int]:
        child = at + 1
        while child < self.nodes[at].end:
            yield child
            child = self.nodes[child].end


def layout(columns: StructOf) -> Layout:
    """Builds the tables; raises `Unsupported`."""
    nodes: list[Node] = []
    must = set(required_paths(columns))
    _add(nodes, "", columns, -1, must, (), in_list=False)
    if len(nodes) > MAX_NODES:
        raise Unsupported(f"{len(nodes)} columns with their parts")
    names = [node.name.encode() for node in nodes]
    starts = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=starts[1:])

    def table(values: list[int]) -> Numbers:
        return np.array(values, np.int64)

    return Layout(
        nodes=tuple(nodes),
        kinds=table([node.kind for node in nodes]),
        ends=table([node.end for node in nodes]),
        required=table([node.required for node in nodes]),
        lows=table([node.low for node in nodes]),
        highs=table([node.high for node in nodes]),
        parents=table([node.parent for node in nodes]),
        names=np.frombuffer(b"".join(names) + b"\0", np.uint8),
        name_starts=starts,
    )


def _add(
    nodes: list[Node],
    name: str,
    kind: Type,
    parent: int,
    must: set[tuple[str, ...]],
    path: tuple[str, ...],
    *,
    in_list: bool,
) -> pa.DataType:
    if len(path) > MAX_DEPTH:
        raise Unsupported("it is too deep")
    at = len(nodes)
    node = Node(name, STRUCT, pa.null(), parent, 0, path in must, in_list=in_list)
    nodes.append(node)
    match kind:
        case StructOf(columns):
            if not columns:
                raise Unsupported("a struct without fields")
            found = [
                (
                    each.name,
                    _add(
                        nodes, each.name, each.type, at, must, (*path, each.name), in_list=in_list
                    ),
                )
                for each in columns
            ]
            node.type = pa.struct([pa.field(name, type_) for name, type_ in found])
        case ArrayOf(item):
            # No required column has this path.
            inner = _add(nodes, "", item, at, set(), (*path, ""), in_list=True)
            node.kind, node.type = LIST, pa.list_(pa.field("element", inner))
        case MapOf(value, Primitive("string")):
            _add(nodes, "", Primitive("string"), at, set(), (*path, ""), in_list=True)
            inner = _add(nodes, "", value, at, set(), (*path, ""), in_list=True)
            node.kind, node.type = MAP, pa.map_(pa.string(), inner)
        case Primitive(text):
            _primitive(node, text)
        case _:
            raise Unsupported("a map whose keys are not strings")
    node.end = len(nodes)
    return node.type


def _primitive(node: Node, text: str) -> None:
    if text in _PLAIN:
        node.kind, node.type = _PLAIN[text]
    elif text in _INTEGERS:
        node.type, bits = _INTEGERS[text]
        node.kind, node.low, node.high = INTEGER, -(1 << bits), (1 << bits) - 1
    elif text.startswith("decimal("):
        precision, scale = (int(each) for each in text[8:-1].split(","))
        if scale > min(precision, MAX_DECIMAL_DIGITS):
            raise Unsupported(text)
        node.kind, node.type = DECIMAL, pa.decimal128(precision, scale)
        node.low, node.high = precision - scale, scale
    else:
        raise Unsupported(text)
