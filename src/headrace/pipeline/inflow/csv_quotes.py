"""Detects quoted values that span lines of a CSV file, and files that cannot be read.

Spark reads a file line by line, in many tasks. With the option `multiLine`, one task reads the
whole file. Only files with values that span lines need this option. After a quote that is never
closed, Spark would read the rest of the file as one value, so such a file is refused.
"""

import re
from codecs import getincrementaldecoder
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from headrace.pipeline.sinks.file_stores import open_store

CHUNK_BYTES: Final = 8 << 20
MAX_VALUE_BYTES: Final = 64 << 20
"""The limit of one record while the scan searches for the end of a quoted value."""


_END: Final = rb"(?:\r\n|\n|\r)"


class BadText(Exception):
    """A file that cannot be read: the reason, and the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class UnclosedQuote(BadText):
    """A quoted value that does not end."""

    def __init__(self, line: int) -> None:
        super().__init__(line, f"a quoted value begins in line {line} and does not end")


class NotUtf8(BadText):
    """Invalid UTF-8, which Spark would replace by other characters."""

    def __init__(self, line: int) -> None:
        advice = "options: {encoding: ISO-8859-1}, say, reads another encoding"
        super().__init__(line, f"line {line} is not UTF-8 ({advice})")


class Quoting(NamedTuple):
    """The syntax of values, from the options of Spark's reader."""

    separator: bytes = b","
    quote: bytes = b'"'
    escape: bytes = b'"'
    comment: bytes = b""
    skips_blanks: bool = False
    """Whether blanks before a quote are ignored."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Quoting":
        given = {name.lower(): value for name, value in options.items()}
        quote = given.get("quote", '"')
        return cls(
            given.get("sep", given.get("delimiter", ",")).encode(),
            quote.encode(),
            given.get("escape", quote).encode(),
            given.get("comment", "").encode(),
            given.get("ignoreleadingwhitespace", "").lower() == "true",
        )

    def patterns(self) -> "_Patterns":
        mark, sep, escape = (re.escape(each) for each in (self.quote, self.separator, self.escape))
        inner = b"[^%b]*+(?:%b%b[^%b]*+)*+" % (mark, mark, mark, mark)
        in_line = inner.replace(b"[^", rb"[^\r\n")
        if self.escape != self.quote:
            inner = b"(?:[^%b%b]|%b.)*+" % (mark, escape, escape)
            in_line = rb"(?:[^\r\n%b%b]|%b[^\r\n])*+" % (mark, escape, escape)
        lead = rb"[ \t]*+" if self.skips_blanks else b""
        others = rb"[^%b\r\n]*+" if len(self.separator) == 1 else rb"(?:(?!%b)[^\r\n])*+"
        plain = b"%b(?!%b)" % (lead, mark) + others % sep

        def value(inside: bytes) -> bytes:
            quoted = rb"%b%b%b%b[ \t]*+(?=%b|[\r\n]|\Z)" % (lead, mark, inside, mark, sep)
            return b"(?:%b|%b)" % (quoted, plain)

        before = b"(?:%b%b)*+" % (value(inner), sep)
        line = b"(?:%b%b)*+" % (value(in_line), sep) + value(in_line) + _END
        return _Patterns(
            re.compile(b"(?:%b)*+" % line, re.DOTALL),
            re.compile(before + value(inner) + b"(?P<end>%b)" % _END, re.DOTALL),
            re.compile(before + lead + mark + inner + rb"\Z", re.DOTALL),
            re.compile(before + value(inner) + rb"\Z", re.DOTALL),
        )


class _Patterns(NamedTuple):
    """Patterns that match from the beginning of a record."""

    lines: "re.Pattern[bytes]"
    """Any number of records, each on one line."""
    whole: "re.Pattern[bytes]"
    """A record with the end of its line."""
    within_quotes: "re.Pattern[bytes]"
    """A record that the end of the text cuts within a quoted value."""
    cut: "re.Pattern[bytes]"
    """A record that the end of the text cuts outside of a quoted value."""


class QuotedLines(NamedTuple):
    """The result for one file."""

    spans_lines: bool
    ends: frozenset[bytes]
    """The line ends that end a record."""


def scan_quotes(chunks: Iterable[bytes], quoting: Quoting) -> QuotedLines:
    """Scans a file for quoted values; raises `UnclosedQuote`. Skips lines without quotes."""
    if not quoting.quote:
        deque(chunks, maxlen=0)
        return QuotedLines(spans_lines=False, ends=frozenset())
    scan = _Scan(quoting, quoting.patterns())
    rest, line = b"", 1
    for chunk, is_last in _with_last(chunks):
        text = rest + chunk
        if is_last and text and not text.endswith((b"\r", b"\n")):
            text += b"\n"
            scan.ends[b"\n"] -= 1  # the file does not have it
        unread, in_quotes = scan.read(text, is_last=is_last)
        if in_quotes and (is_last or len(text) - unread > MAX_VALUE_BYTES):
            raise UnclosedQuote(line + text.count(b"\n", 0, unread))
        line += text.count(b"\n", 0, unread)
        rest = text[unread:]
    return QuotedLines(scan.spans_lines, frozenset(+scan.ends))


class _Scan:
    def __init__(self, quoting: Quoting, patterns: _Patterns) -> None:
        self._quoting = quoting
        self._patterns = patterns
        self.spans_lines = False
        self.ends: Counter[bytes] = Counter()

    def read(self, text: bytes, *, is_last: bool) -> tuple[int, bool]:
        """Returns the position of the last, incomplete record, and whether the text ends within a
        quoted value of it."""
        at = 0
        while (mark := text.find(self._quoting.quote, at)) >= 0:
            start = _line_start(text, at, mark)
            self._note_ends(text[at:start])
            at = self._end_of_records(text, start)
            if at > start:
                continue
            if self._patterns.within_quotes.match(text, start):
                return start, True
            if not is_last and self._patterns.cut.match(text, start):
                return start, False
            at = text.find(b"\n", start) + 1  # a quote elsewhere: skips the line
            if not at:
                return start, False
        end = _line_start(text, at, len(text))
        self._note_ends(text[at:end])
        return end, False

    def _end_of_records(self, text: bytes, start: int) -> int:
        """The end of the records that begin at `start`; `start` if it is not known."""
        comment = self._quoting.comment
        if comment and text.startswith(comment, start):
            return max(start, text.find(b"\n", start) + 1)
        lines = None if comment else self._patterns.lines.match(text, start)
        if lines is not None and lines.end() > start:
            self._note_ends(lines[0])
            return lines.end()
        record = self._patterns.whole.match(text, start)
        if record is None:
            return start
        self._note_ends(record["end"])
        self.spans_lines |= record.start("end") > start + len(_first_line(record[0]))
        return record.end()

    def _note_ends(self, lines: bytes) -> None:
        both = lines.count(b"\r\n")
        self.ends[b"\r\n"] += both
        self.ends[b"\n"] += lines.count(b"\n") - both
        self.ends[b"\r"] += lines.count(b"\r") - both


def _first_line(text: bytes) -> bytes:
    return re.split(rb"[\r\n]", text, maxsplit=1)[0]


def _line_start(text: bytes, since: int, before: int) -> int:
    """The start of the line that contains `before`."""
    return max(text.rfind(b"\n", since, before), text.rfind(b"\r", since, before), since - 1) + 1


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Marks the last chunk. No other chunk ends between \\r and \\n."""
    held = b""
    for chunk in chunks:
        if held and held != b"\r":
            cut = len(held) - held.endswith(b"\r")
            yield held[:cut], False
            held = held[cut:]
        held += chunk
    yield held, True


def utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The unchanged chunks; raises `NotUtf8`."""
    decoder, line = getincrementaldecoder("utf-8")(), 1
    for chunk in chain(chunks, [b""]):
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise NotUtf8(line + error.object.count(b"\n", 0, error.start)) from None
        line += chunk.count(b"\n")
        if chunk:
            yield chunk


def chunks_of(path: str, storage_options: Mapping[str, str] | None) -> Iterator[bytes]:
    """The decompressed content of a file."""
    store, inside = open_store(path, storage_options)
    with store.open_input_stream(inside, compression="detect") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
