"""Generates the source of the reader of one message version.

Guarantees of a reader, for any input:

- It returns a message or raises `MalformedMessage`, never another exception.
- It checks a claimed length or count against the remaining bytes before it allocates anything: an
  element needs at least its minimum encoded size.
- A message has at most `MAX_ELEMENTS` structs, strings in arrays and tagged fields in total, so a
  large frame of tiny elements cannot grow a hundredfold in memory.
- Nesting is never deeper than the declaration.

A run of fixed-size fields is read by one `struct` call together with the length, count or first
varint byte after it. `struct` itself checks the bounds of these reads, so the buffer is first
limited to `end`.
"""

import struct
from typing import Any, Final

from headrace.protocol.errors import MalformedMessage
from headrace.protocol.layout import Field, Source, fields_of, least_size
from headrace.protocol.struct import Reader, Struct
from headrace.protocol.types import Buffer

MAX_ELEMENTS: Final = 1 << 20
"""Structs, strings in arrays and tagged fields in one message: at worst about 150 MB. The largest
legitimate message (the metadata of 200,000 partitions) has a quarter of that."""

MAX_REQUEST_ELEMENTS: Final = 1 << 17
"""The limit for a request, which comes from an untrusted client and is read on the broker's event
loop: at worst a tenth of a second. The largest legitimate request names 100,000 partitions."""

MAX_TAGS_PER_STRUCT: Final = 1000
"""No version of any message has as many as ten."""

_NUMBERS_PER_ELEMENT: Final = 16
"""The count of numbers in an array that uses as much of the limit as one struct."""

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka's own limit: the old encoding's length is an int16."""

_VARINT_BYTES: Final = 5


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits and the position after it."""
    value = shift = 0
    for index in range(_VARINT_BYTES):
        byte = buf[pos + index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos + index + 1
        shift += 7
    raise MalformedMessage(f"the varint at byte {pos} has more than 32 bits")


def skip_tags(buf: Buffer, pos: int, end: int, count: int, budget: int) -> tuple[int, int]:
    """Skips tagged fields that this version does not have; returns position and budget."""
    budget = check_tags(pos, end, count, budget)
    for _ in range(count):
        _tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise MalformedMessage(f"a tagged field ends {pos - end} bytes past the message")
    return pos, budget


def read_uuids(buf: Buffer, pos: int, stop: int) -> list[bytes]:
    """The UUIDs between two positions."""
    return [bytes(buf[start : start + 16]) for start in range(pos, stop, 16)]


def check_tags(pos: int, end: int, count: int, budget: int) -> int:
    """The budget left after `count` tagged fields, each of at least two bytes."""
    if count * 2 > end - pos or count > budget or count > MAX_TAGS_PER_STRUCT:
        raise MalformedMessage(
            f"{count} tagged fields claimed, {end - pos} bytes remain, "
            f"{MAX_TAGS_PER_STRUCT} are allowed"
        )
    return budget - count


def _element_limit(cls: type[Struct]) -> int:
    return MAX_REQUEST_ELEMENTS if cls.__name__.endswith("Request") else MAX_ELEMENTS


class ReaderSource:
    """Generates the source of a reader, field by field."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = version >= cls.flexible_since
        self._source = Source()
        self._source.names.update(
            new=object.__new__,
            view=memoryview,
            Malformed=MalformedMessage,
            unpack_from=struct.unpack_from,
            struct_error=struct.error,
            uvarint=read_uvarint,
            skip_tags=skip_tags,
            check_tags=check_tags,
            uuids=read_uuids,
        )
        self._run: list[tuple[str, int, str]] = []  # struct code, size, target

    def compile(self) -> Reader:
        """The finished reader."""
        title = f"{self._cls.__name__} v{self._version}"
        source = self._source
        source.line("def read(buf, pos, end):")
        source.indent()
        source.line("if end != len(buf): buf = view(buf)[:end]; end = len(buf)")
        source.line(f"budget = {_element_limit(self._cls)}")
        source.line("try:")
        source.indent()
        message = self._read_struct(self._cls)
        self._flush_run()
        source.line(f"return {message}, pos")
        source.dedent()
        source.line("except Malformed as error:")
        source.line(f"    raise Malformed(f'{title}: {{error}}') from None")
        source.line("except (struct_error, IndexError):")
        source.line(
            f"    raise Malformed(f'{title}: cut short near byte {{pos}} of {{end}}') from None"
        )
        return source.build("read", f"{title} reader")

    def _read_struct(self, cls: type[Struct]) -> str:
        """Reads a struct's fields into a new instance; returns the name of its variable."""
        source = self._source
        target = source.fresh("o")
        source.line(f"{target} = new({source.bind('C', cls)})")
        tagged = []
        for field in fields_of(cls):
            if not field.is_in(self._version):
                self._set_default(field, target)
            elif field.options.tag is not None:
                self._set_default(field, target)
                tagged.append(field)
            else:
                self._read_field(field, f"{target}.{field.name}")
        if self._flexible:
            self._read_tags(tagged, target)
        return target

    def _set_default(self, field: Field, target: str) -> None:
        value = "[]" if field.fresh_list else self._source.literal(field.default)
        self._source.line(f"{target}.{field.name} = {value}")

    def _read_field(self, field: Field, target: str) -> None:
        if field.array:
            self._read_array(field, target)
        elif field.struct is not None:
            self._read_nested_struct(field, field.struct, target)
        elif field.wire is not None and field.wire.kind == "fixed":
            self._run.append((field.wire.code, field.wire.size, target))
        else:
            self._read_blob(field, target, field.is_nullable_in(self._version))

    def _read_nested_struct(self, field: Field, cls: type[Struct], target: str) -> None:
        source = self._source
        if not field.is_nullable_in(self._version):
            source.line(f"{target} = {self._read_struct(cls)}")
            return
        mark = source.fresh("n")
        self._run.append(("b", 1, mark))
        self._flush_run()
        null = "<= 0" if field.options.tag is not None else "< 0"
        source.line(f"if {mark} {null}: {target} = None")
        source.line("else:")
        source.indent()
        nested = self._read_struct(cls)
        self._flush_run()
        source.line(f"{target} = {nested}")
        source.dedent()

    def _read_length(self, compact: bool, code: str, name: str, nullable: bool) -> str:
        """Reads a length or count after the pending run; -1 means null."""
        source = self._source
        length = source.fresh("n")
        if not compact:
            self._run.append((code, 2 if code == "h" else 4, length))
            self._flush_run()
            least = -1 if nullable else 0
            source.line(
                f"if {length} < {least}: raise Malformed(f'{name} has the length {{{length}}}')"
            )
            return length
        self._flush_run(varint=length)
        source.line(f"if {length} > 127: {length}, pos = uvarint(buf, pos - 1)")
        if not nullable:
            source.line(f"if not {length}: raise Malformed('{name} is null')")
        source.line(f"{length} -= 1")
        return length

    def _read_blob(self, field: Field, target: str, nullable: bool) -> None:
        assert field.wire is not None
        source = self._source
        kind, name = field.wire.kind, field.name
        code = "h" if kind == "string" else "i"
        length = self._read_length(self._flexible and field.options.compact, code, name, nullable)
        if nullable:
            source.line(f"if {length} < 0: {target} = None")
            source.line("else:")
            source.indent()
        start = source.fresh("s")
        source.line(f"{start} = pos")
        source.line(f"pos += {length}")
        limit = f" or {length} > {MAX_STRING_BYTES}" if kind == "string" else ""
        source.line(
            f"if pos > end{limit}: "
            f"raise Malformed(f'{name} has the length {{{length}}}, "
            f"{{end - {start}}} bytes remain')"
        )
        piece = f"buf[{start}:pos]"
        if kind == "string":
            source.line(f'{target} = str({piece}, "utf-8", "replace")')
        elif kind == "bytes":
            source.line(f"{target} = bytes({piece})")
        else:
            source.line(f"{target} = view(buf)[{start}:pos]")
        if nullable:
            source.dedent()

    def _read_array(self, field: Field, target: str) -> None:
        source = self._source
        nullable = field.is_nullable_in(self._version)
        count = self._read_length(self._flexible, "i", field.name, nullable)
        if nullable:
            source.line(f"if {count} < 0: {target} = None")
            source.line("else:")
            source.indent()
        if field.wire is not None and field.wire.kind == "fixed":
            self._read_fixed_elements(field, field.wire.code, field.wire.size, count, target)
        else:
            self._read_elements(field, count, target)
        if nullable:
            source.dedent()

    def _check_count(self, field: Field, count: str, least: int, share: str = "") -> None:
        self._source.line(
            f"if {count} * {least} > end - pos or {count} > budget: "
            f"raise Malformed(f'{field.name} claims {{{count}}} elements, "
            f"{{end - pos}} bytes remain')"
        )
        self._source.line(f"budget -= {count}{share}")

    def _read_fixed_elements(
        self, field: Field, code: str, size: int, count: str, target: str
    ) -> None:
        source = self._source
        self._check_count(field, count, size, f" // {_NUMBERS_PER_ELEMENT}")
        stop = source.fresh("p")
        source.line(f"{stop} = pos + {count} * {size}")
        if code == "16s":
            source.line(f"{target} = uuids(buf, pos, {stop})")
        else:
            source.line(f"{target} = list(unpack_from(f'>{{{count}}}{code}', buf, pos))")
        source.line(f"pos = {stop}")

    def _read_elements(self, field: Field, count: str, target: str) -> None:
        source = self._source
        if field.struct is not None:
            least = least_size(field.struct, self._version, self._flexible)
        else:
            least = 1 if self._flexible else 2
        self._check_count(field, count, max(least, 1))
        elements = source.fresh("l")
        source.line(f"{elements} = []")
        source.line(f"for _ in range({count}):")
        source.indent()
        if field.struct is not None:
            element = self._read_struct(field.struct)
            self._flush_run()
        else:
            element = source.fresh("e")
            self._read_blob(field, element, nullable=False)
        source.line(f"{elements}.append({element})")
        source.dedent()
        source.line(f"{target} = {elements}")

    def _read_tags(self, tagged: list[Field], target: str) -> None:
        source = self._source
        count = source.fresh("n")
        self._flush_run(varint=count)
        source.line(f"if {count}:")
        source.indent()
        source.line(f"if {count} > 127: {count}, pos = uvarint(buf, pos - 1)")
        if not tagged:
            source.line(f"pos, budget = skip_tags(buf, pos, end, {count}, budget)")
            source.dedent()
            return
        source.line(f"budget = check_tags(pos, end, {count}, budget)")
        tag, stop = source.fresh("t"), source.fresh("p")
        source.line(f"for _ in range({count}):")
        source.indent()
        source.line(f"{tag}, pos = uvarint(buf, pos)")
        source.line(f"{stop}, pos = uvarint(buf, pos)")
        source.line(f"{stop} += pos")
        source.line(f"if {stop} > end: raise Malformed('a tagged field runs past the end')")
        for index, field in enumerate(tagged):
            source.line(f"{'elif' if index else 'if'} {tag} == {field.options.tag}:")
            source.indent()
            self._read_field(field, f"{target}.{field.name}")
            self._flush_run()
            source.line(
                f"if pos != {stop}: raise Malformed('{field.name} is not as long as its tag says')"
            )
            source.dedent()
        source.line(f"else: pos = {stop}")
        source.dedent()
        source.dedent()

    def _flush_run(self, varint: str | None = None) -> None:
        """Reads the pending run, and with it the first byte of a varint."""
        source, run = self._source, self._run
        if varint is not None:
            if not run:
                source.line(f"{varint} = buf[pos]; pos += 1")
                return
            run.append(("B", 1, varint))
        if not run:
            return
        unpack: Any = struct.Struct(">" + "".join(code for code, _, _ in run)).unpack_from
        source.names[name := source.fresh("u")] = unpack
        targets = ", ".join(target for _, _, target in run)
        comma = "," if len(run) == 1 else ""
        source.line(f"{targets}{comma} = {name}(buf, pos)")
        source.line(f"pos += {sum(size for _, size, _ in run)}")
        run.clear()
