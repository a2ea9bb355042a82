"""Keys and values as people read them: JSON, text, Avro, Protobuf, hexadecimal. Pure.

Records are hostile: a value can have any bytes and any size. The text that leaves this module has
no control characters, and the page shows it as text only.
"""

import base64
import binascii
import codecs
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

SHOWN_BYTES: Final = 64 * 1024
"""Of a value on its page; the rest is in the download."""
SUMMARISED_BYTES: Final = 64 * 1024
"""Of a value in a list; a row shows one line of it."""
PREVIEW_CHARS: Final = 400
_WHITESPACE_READ: Final = 64
MAX_PARSED_BYTES: Final = 2 * 1024 * 1024
"""A larger value is not parsed to be shown; a filter does parse it."""
REGISTRY_PREFIX: Final = 0
_PREFIX_BYTES: Final = 5
_HEX_COLUMNS: Final = 16
_HEX_SHOWN: Final = 4096
_DELETE: Final = 0x7F
_C1_END: Final = 0xA0
_HIDDEN: Final = frozenset(
    (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
)
"""Invisible characters and those that change the direction of the text around them."""


class Coding(StrEnum):
    """How bytes become text, and text becomes bytes."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or a value; `kind` is what it was recognised as."""

    kind: str
    text: str
    object: Any = None
    has_object: bool = False
    """Whether a JSONPath can be applied to `object`."""
    note: str = ""
    """Why it is not shown as asked for."""


class RegistryDecoder(Protocol):
    """Decodes values that begin with a schema's id; raises `UndecodableValue`."""

    def decode(self, data: bytes) -> tuple[str, object]:
        """The schema's kind and id as text, and the value."""
        ...


class UndecodableValue(ValueError):
    """The value cannot be decoded; the message says why."""


class Decoder:
    """Decodes with a schema registry if there is one."""

    def __init__(self, registry: RegistryDecoder | None = None) -> None:
        self._registry = registry

    def decode(self, data: bytes | None, coding: Coding) -> Decoded:
        """Never fails: what cannot be decoded as asked for is shown as it is, with a note."""
        if data is None:
            return Decoded("null", "null", None, has_object=True)
        match coding:
            case Coding.HEX:
                return Decoded("hex", hex_dump(data))
            case Coding.BASE64:
                return Decoded("base64", base64.b64encode(data[:SHOWN_BYTES]).decode())
            case Coding.TEXT:
                return Decoded("text", visible(data.decode("utf-8", "replace")))
            case Coding.JSON:
                found = _json(data)
                return found or _plain(data, "it is not JSON")
            case Coding.REGISTRY:
                return self._registered(data)
            case Coding.AUTO:
                return self._recognised(data)

    def summarise(self, data: bytes | None, coding: Coding) -> Decoded:
        """For a row of a list: of a large value, only the beginning is decoded.

        It is then called JSON if it begins and ends as a JSON object or array does.
        """
        if data is None or len(data) <= SUMMARISED_BYTES:
            return self.decode(data, coding)
        found = self.decode(_head(data), coding)
        if coding in (Coding.AUTO, Coding.JSON) and found.kind == "text" and _is_enclosed(data):
            return replace(found, kind="JSON", note="")
        return found

    def object_of(self, data: bytes | None, coding: Coding) -> tuple[bool, object]:
        """Whether a JSONPath applies, and to what; without the text, which takes far longer."""
        if data is None:
            return True, None
        if coding is Coding.REGISTRY or (coding is Coding.AUTO and self._is_registered(data)):
            found = self._registered(data)
            return found.has_object, found.object
        try:
            return True, json.loads(data)
        except (ValueError, RecursionError):
            return False, None

    def _is_registered(self, data: bytes) -> bool:
        return self._registry is not None and has_prefix(data)

    def _recognised(self, data: bytes) -> Decoded:
        if not data:
            return Decoded("empty", "")
        if self._is_registered(data):
            return self._registered(data)
        if data[:1] in b'{["-0123456789tfn \n\r\t' and len(data) <= MAX_PARSED_BYTES:
            found = _json(data)
            if found is not None:
                return found
        return _plain(data)

    def _registered(self, data: bytes) -> Decoded:
        if self._registry is None:
            return _plain(data, "the console has no schema registry: start it with --registry URL")
        try:
            kind, value = self._registry.decode(data)
        except UndecodableValue as error:
            return _plain(data, str(error))
        return Decoded(kind, _pretty(value), value, has_object=True)


def _head(data: bytes) -> bytes:
    """The beginning, without a part of a UTF-8 character at its end."""
    cut = data[:SUMMARISED_BYTES]
    try:
        return cut[: codecs.utf_8_decode(cut, "strict", False)[1]]
    except UnicodeDecodeError:
        return cut


def _is_enclosed(data: bytes) -> bool:
    ends = data[:_WHITESPACE_READ].lstrip()[:1] + data[-_WHITESPACE_READ:].rstrip()[-1:]
    return ends in (b"{}", b"[]")


def has_prefix(data: bytes) -> bool:
    """Whether the bytes can be those of a registered schema: a zero byte and an id."""
    return len(data) >= _PREFIX_BYTES and data[0] == REGISTRY_PREFIX


def _json(data: bytes) -> Decoded | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return Decoded("JSON", _pretty(value), value, has_object=True)


def _pretty(value: object) -> str:
    try:
        return visible(json.dumps(value, indent=2, ensure_ascii=False, default=_text_of))
    except (ValueError, RecursionError):
        return visible(repr(value))


def _text_of(value: object) -> str:
    """Values of Avro and Protobuf that JSON does not have."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _plain(data: bytes, note: str = "") -> Decoded:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Decoded("binary", hex_dump(data), note=note)
    controls = sum(ord(each) < ord(" ") and each not in "\n\r\t" for each in text[:4096])
    if controls > len(text[:4096]) // 4:
        return Decoded("binary", hex_dump(data), note=note)
    return Decoded("text", visible(text), note=note)


def visible(text: str) -> str:
    """The text with control and direction characters as their code points."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(each) for each in text)


def _visible(char: str) -> str:
    code = ord(char)
    is_control = code < ord(" ") or _DELETE <= code < _C1_END
    if (is_control and char not in "\n\t") or code in _HIDDEN or 0xD800 <= code < 0xE000:
        return f"\u27e8U+{code:04X}\u27e9"
    return char


def hex_dump(data: bytes) -> str:
    """Offset, bytes and printable characters, as hexdump -C shows them; the first 4 KiB."""
    lines = []
    for at in range(0, min(len(data), _HEX_SHOWN), _HEX_COLUMNS):
        part = data[at : at + _HEX_COLUMNS]
        printable = "".join(chr(byte) if ord(" ") <= byte < _DELETE else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {printable}")
    return "\n".join(lines)


def preview(decoded: Decoded, data: bytes | None) -> str:
    """One short line for a list."""
    if decoded.kind == "binary":
        return (data or b"")[:48].hex(" ")
    if decoded.kind == "JSON" and data is not None:
        text = data[: 4 * PREVIEW_CHARS].decode("utf-8", "replace")
    else:
        text = decoded.text[: 4 * PREVIEW_CHARS]
    line = " ".join(visible(text).split())
    return line if len(line) <= PREVIEW_CHARS else line[:PREVIEW_CHARS] + "…"


def from_text(text: str, coding: Coding) -> bytes:
    """The bytes that a visitor typed; raises `ValueError`."""
    match coding:
        case Coding.HEX:
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise ValueError("this is not hexadecimal, such as 00 ff 1a") from None
        case Coding.BASE64:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:
                raise ValueError("this is not base64") from None
        case Coding.JSON:
            try:
                json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"this is not JSON: {error}") from None
            return text.encode()
        case _:
            return text.encode()
