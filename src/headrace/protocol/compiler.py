"""Compiles a struct's constructor, and a message's reader and writer for one version.

Each is straight-line Python source, generated from the declaration on first use.
"""

from collections.abc import Callable
from typing import Any

from headrace.protocol.layout import Source, fields_of
from headrace.protocol.reading import ReaderSource
from headrace.protocol.struct import Reader, Struct, Writer
from headrace.protocol.writing import WriterSource


def compile_reader(cls: type[Struct], version: int) -> Reader:
    """A function `(buf, pos, end) -> (message, pos)` that raises only `MalformedMessage`."""
    return ReaderSource(cls, version).compile()


def compile_writer(cls: type[Struct], version: int) -> Writer:
    """A function `(message, out)` that appends the message's chunks to `out`."""
    return WriterSource(cls, version).compile()


def compile_init(cls: type[Struct]) -> Callable[..., None]:
    """The keyword-only constructor, with every field's default."""
    source = Source()
    missing = source.bind("MISSING", object())
    parameters, body = [], []
    for field in fields_of(cls):
        name = field.name
        if field.fresh_list:
            parameters.append(f"{name}={missing}")
            body.append(f"self.{name} = [] if {name} is {missing} else {name}")
        else:
            parameters.append(f"{name}={source.literal(field.default)}")
            body.append(f"self.{name} = {name}")
    star = ", *, " if parameters else ""
    source.line(f"def __init__(self{star}{', '.join(parameters)}):")
    source.indent()
    for line in body or ["pass"]:
        source.line(line)
    init: Callable[..., Any] = source.build("__init__", f"{cls.__name__} constructor")
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
