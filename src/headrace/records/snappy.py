"""Snappy in the two formats that Kafka's clients write.

Java clients and most others use the framing of xerial's snappy-java: a 16-byte header, then blocks,
each after its 4-byte length. librdkafka writes one raw block. A reader must support both. Every
block states its decompressed length, so the limit is checked before memory is allocated.
"""

from struct import Struct, error

from headrace.records.buffer import Buffer
from headrace.records.errors import CorruptCompression, DecompressedTooLarge

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_VERSIONS = Struct(">ii")
_LENGTH = Struct(">i")
_XERIAL_HEADER = _XERIAL_MAGIC + _VERSIONS.pack(1, 1)
# The decompressed size of one block that is written; snappy-java's default.
_BLOCK_BYTES = 32 * 1024
# The densest element is a copy of 64 bytes in 3 (2 bytes encode at most 11): a block that claims
# more is invalid, and no memory is allocated for it.
_MAX_RATIO = 22


def compress(data: Buffer) -> bytes:
    """`data` in xerial's framing."""
    import cramjam

    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def decompress(data: Buffer, *, max_bytes: int) -> memoryview:
    """The payload of either format, at most `max_bytes` long."""
    view = memoryview(data)
    blocks = _xerial_blocks(view) if view[:8] == _XERIAL_MAGIC else [view]
    lengths = [_unpacked_length(block) for block in blocks]
    total = sum(lengths)
    if total > max_bytes:
        raise DecompressedTooLarge(max_bytes)
    output = memoryview(bytearray(total))
    pos = 0
    for block, length in zip(blocks, lengths, strict=True):
        _unpack_block(block, output[pos : pos + length])
        pos += length
    return output


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    blocks = []
    pos = 0
    while pos < len(view):
        # There may be several streams, each with its own header.
        if view[pos : pos + 8] == _XERIAL_MAGIC:
            pos += len(_XERIAL_HEADER)
            continue
        try:
            (length,) = _LENGTH.unpack_from(view, pos)
        except error:
            raise CorruptCompression("snappy frame ends inside a block's length") from None
        pos += _LENGTH.size
        if not 0 <= length <= len(view) - pos:
            raise CorruptCompression(
                f"snappy block announces {length} bytes, {len(view) - pos} remain"
            )
        blocks.append(view[pos : pos + length])
        pos += length
    return blocks


def _unpacked_length(block: memoryview) -> int:
    """The decompressed length at the start of a raw block, an unsigned varint of 32 bits."""
    length = 0
    for index in range(min(len(block), 5)):
        byte = block[index]
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if length > len(block) * _MAX_RATIO:
                raise CorruptCompression(
                    f"snappy block of {len(block)} bytes cannot decompress to {length}"
                )
            return length
    raise CorruptCompression("snappy block has no valid length")


def _unpack_block(block: memoryview, output: memoryview) -> None:
    if not len(output):
        if len(block) > 1:
            raise CorruptCompression("an empty snappy block is followed by data")
        return
    import cramjam

    try:
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as failure:
        raise CorruptCompression(f"records cannot be decompressed: {failure}") from None
    if written != len(output):
        raise CorruptCompression(f"snappy block decompressed to {written} bytes, not {len(output)}")
