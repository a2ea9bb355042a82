"""Generates the source of the writer of one message version.

The writer appends chunks: one for each run of fixed-size fields together with the length, count or
empty tag section after it (one `struct` call), and one for each string and record set. A value that
the version cannot carry raises `UnsupportedVersion`; one that does not fit its type raises
`ProtocolError`. After an error the chunks appended so far must be discarded.
"""

import struct
from typing import Any, Final

from headrace.protocol.errors import ProtocolError, UnsupportedVersion
from headrace.protocol.layout import Field, Source, fields_of
from headrace.protocol.struct import Struct, Writer

_MAX_STRING_BYTES: Final = 0x7FFF

SMALL_VARINTS: Final = tuple(bytes((value,)) for value in range(128))


def write_uvarint(value: int) -> bytes:
    """An unsigned varint of any size."""
    if value < 128:
        return SMALL_VARINTS[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class WriterSource:
    """Generates the source of a writer, field by field."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = version >= cls.flexible_since
        self._source = Source()
        self._source.names.update(
            pack=struct.pack,
            struct_error=struct.error,
            ProtocolError=ProtocolError,
            Unsupported=UnsupportedVersion,
            uvarint=write_uvarint,
            small=SMALL_VARINTS,
        )
        self._append = "append"
        self._run: list[tuple[str, str]] = []  # struct code, argument ("" for a pad byte)

    def compile(self) -> Writer:
        """The finished writer."""
        title = f"{self._cls.__name__} v{self._version}"
        source = self._source
        source.line("def write(o, out):")
        source.indent()
        source.line("append = out.append")
        source.line("try:")
        source.indent()
        source.line("pass")
        self._write_struct(self._cls, "o")
        self._flush_run()
        source.dedent()
        source.line("except (struct_error, AttributeError, TypeError, ValueError) as error:")
        source.line(f"    raise ProtocolError(f'{title} cannot be written: {{error}}') from error")
        return source.build("write", f"{title} writer")

    def _write_struct(self, cls: type[Struct], owner: str) -> None:
        tagged = []
        for field in fields_of(cls):
            if not field.is_in(self._version):
                if not field.options.ignorable:
                    self._refuse_non_default(field, owner)
            elif field.options.tag is not None:
                tagged.append(field)
            else:
                self._write_field(field, f"{owner}.{field.name}")
        if self._flexible:
            self._write_tags(tagged, owner)

    def _refuse_non_default(self, field: Field, owner: str) -> None:
        self._source.line(
            f"if not ({self._is_default_expression(field, owner)}): raise Unsupported("
            f"f'{{type({owner}).__name__}}.{field.name} = {{{owner}.{field.name}!r}} "
            f"cannot be written in version {self._version}')"
        )

    def _write_field(self, field: Field, value: str) -> None:
        if field.array:
            self._write_array(field, value)
        elif field.struct is not None:
            self._write_nested_struct(field, field.struct, value)
        elif field.wire is not None and field.wire.kind == "fixed":
            self._run.append((field.wire.code, value))
        else:
            self._write_blob(field, value, field.is_nullable_in(self._version))

    def _write_nested_struct(self, field: Field, cls: type[Struct], value: str) -> None:
        source = self._source
        owner = source.fresh("o")
        source.line(f"{owner} = {value}")
        if not field.is_nullable_in(self._version):
            self._write_struct(cls, owner)
            return
        before = self._run[:]
        source.line(f"if {owner} is None:")
        source.indent()
        # In a tagged field the marker is a varint and not a byte, so null is 0 there.
        self._run.append(("b", "-1" if field.options.tag is None else "0"))
        self._flush_run()
        source.dedent()
        source.line("else:")
        source.indent()
        self._run = [*before, ("b", "1")]
        self._write_struct(cls, owner)
        self._flush_run()
        source.dedent()

    def _write_blob(self, field: Field, value: str, nullable: bool) -> None:
        assert field.wire is not None
        source = self._source
        compact = self._flexible and field.options.compact
        is_string = field.wire.kind == "string"
        chunk, length = source.fresh("v"), source.fresh("n")
        source.line(f"{chunk} = {value}")
        if nullable:
            source.line(f"if {chunk} is None: {chunk} = b''; {length} = {0 if compact else -1}")
            source.line("else:")
            source.indent()
        if is_string:
            source.line(f"{chunk} = {chunk}.encode()")
        source.line(f"{length} = len({chunk}){' + 1' if compact else ''}")
        if is_string:
            limit = _MAX_STRING_BYTES + compact
            source.line(f"if {length} > {limit}: raise ValueError('{field.name} is too long')")
        if nullable:
            source.dedent()
        if compact:
            self._flush_run_with_varint(length)
        else:
            self._run.append(("h" if is_string else "i", length))
            self._flush_run()
        source.line(f"{self._append}({chunk})")

    def _write_array(self, field: Field, value: str) -> None:
        source = self._source
        elements, count = source.fresh("v"), source.fresh("n")
        source.line(f"{elements} = {value}")
        plus = " + 1" if self._flexible else ""
        if field.is_nullable_in(self._version):
            null = 0 if self._flexible else -1
            source.line(f"if {elements} is None: {elements} = (); {count} = {null}")
            source.line(f"else: {count} = len({elements}){plus}")
        else:
            source.line(f"{count} = len({elements}){plus}")
        if self._flexible:
            self._flush_run_with_varint(count)
        else:
            self._run.append(("i", count))
            self._flush_run()
        if field.wire is not None and field.wire.kind == "fixed":
            self._write_fixed_elements(field.wire.code, elements)
            return
        element = source.fresh("o")
        source.line(f"for {element} in {elements}:")
        source.indent()
        source.line("pass")
        if field.struct is not None:
            self._write_struct(field.struct, element)
        else:
            self._write_blob(field, element, nullable=False)
        self._flush_run()
        source.dedent()

    def _write_fixed_elements(self, code: str, elements: str) -> None:
        form = f"'16s' * len({elements})" if code == "16s" else f"f'>{{len({elements})}}{code}'"
        self._source.line(f"if {elements}: {self._append}(pack({form}, *{elements}))")

    def _write_tags(self, tagged: list[Field], owner: str) -> None:
        if not tagged:
            self._run.append(("x", ""))
            return
        source = self._source
        before = self._run[:]
        tests = " and ".join(self._is_default_expression(field, owner) for field in tagged)
        source.line(f"if {tests}:")
        source.indent()
        self._run.append(("x", ""))
        self._flush_run()
        source.dedent()
        source.line("else:")
        source.indent()
        self._run = before
        self._flush_run()
        outer, parts = self._append, source.fresh("parts")
        source.line(f"{parts} = []")
        for field in sorted(tagged, key=lambda each: each.options.tag or 0):
            self._write_tag(field, owner, parts)
        self._append = outer
        source.line(f"{outer}(uvarint(len({parts})))")
        source.line(f"for part in {parts}: {outer}(part)")
        source.dedent()

    def _write_tag(self, field: Field, owner: str, parts: str) -> None:
        source = self._source
        source.line(f"if not ({self._is_default_expression(field, owner)}):")
        source.indent()
        inner, self._append = source.fresh("inner"), source.fresh("append")
        source.line(f"{inner} = []")
        source.line(f"{self._append} = {inner}.append")
        self._write_field(field, f"{owner}.{field.name}")
        self._flush_run()
        source.line(f"{inner} = b''.join({inner})")
        source.line(
            f"{parts}.append(uvarint({field.options.tag}) + uvarint(len({inner})) + {inner})"
        )
        source.dedent()

    def _is_default_expression(self, field: Field, owner: str) -> str:
        value = f"{owner}.{field.name}"
        if field.fresh_list:
            return f"not {value} and {value} is not None" if field.nullable else f"not {value}"
        if field.default is None:
            return f"{value} is None"
        default = self._source.literal(field.default)
        if isinstance(field.default, Struct):
            return f"({value} is {default} or {value} == {default})"
        return f"{value} == {default}"

    def _flush_run_with_varint(self, length: str) -> None:
        """Writes the pending run together with a varint, which mostly has one byte."""
        source, run = self._source, self._run
        if not run:
            source.line(f"{self._append}(small[{length}] if {length} < 128 else uvarint({length}))")
            return
        source.line(f"if {length} < 128: {self._pack_statement([*run, ('B', length)])}")
        source.line(f"else: {self._pack_statement(run)}; {self._append}(uvarint({length}))")
        run.clear()

    def _flush_run(self) -> None:
        if self._run:
            self._source.line(self._pack_statement(self._run))
            self._run.clear()

    def _pack_statement(self, run: list[tuple[str, str]]) -> str:
        """The statement that appends the run."""
        form = struct.Struct(">" + "".join(code for code, _ in run))
        arguments = [argument for _, argument in run if argument]
        if not arguments:
            return f"{self._append}({bytes(form.size)!r})"
        pack: Any = form.pack
        self._source.names[name := self._source.fresh("p")] = pack
        return f"{self._append}({name}({', '.join(arguments)}))"
