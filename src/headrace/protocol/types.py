"""The primitive types of the wire, as annotations for `Struct` fields.

For a type checker each name is the plain Python type. At run time it has a `Wire`, from which the
compiler reads the encoding. Arrays are `list[X]`, nullable ones `list[X] | None`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final, NamedTuple

Buffer = bytes | bytearray | memoryview


class Wire(NamedTuple):
    """The encoding of one primitive type: a fixed-size `struct` code, or a length and its bytes."""

    kind: str
    """`fixed`, `string`, `bytes` or `records`."""
    code: str = ""
    size: int = 0
    nullable: bool = False


ZERO_UUID: Final = bytes(16)
"""Kafka's value for "no id"."""

int8 = Annotated[int, Wire("fixed", "b", 1)]
int16 = Annotated[int, Wire("fixed", "h", 2)]
uint16 = Annotated[int, Wire("fixed", "H", 2)]
int32 = Annotated[int, Wire("fixed", "i", 4)]
uint32 = Annotated[int, Wire("fixed", "I", 4)]
int64 = Annotated[int, Wire("fixed", "q", 8)]
float64 = Annotated[float, Wire("fixed", "d", 8)]
boolean = Annotated[bool, Wire("fixed", "?", 1)]
uuid = Annotated[bytes, Wire("fixed", "16s", 16)]
"""Sixteen raw bytes."""
string = Annotated[str, Wire("string")]
nullable_string = Annotated[str | None, Wire("string", nullable=True)]
bytes_ = Annotated[bytes, Wire("bytes")]
"""Read as a copy, so that a handler may keep it after the receive buffer is reused."""
nullable_bytes = Annotated[bytes | None, Wire("bytes", nullable=True)]
record_set = Annotated[Buffer, Wire("records")]
"""Record batches: read as a view of the caller's buffer and written without a copy."""
nullable_record_set = Annotated[Buffer | None, Wire("records", nullable=True)]


def encode_uuid(uuid: bytes) -> str:
    """A UUID as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    """The bytes of `encode_uuid`'s text; raises `ValueError` if it is not base64."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
