"""The compression codecs of a record batch, with output that is capped while it is produced.

What a client sends may be a bomb: a few kilobytes that unpack to gigabytes. `decompress` therefore
takes a cap, and never holds more than the cap (plus a codec's own window) in memory: streams are
unpacked into a buffer of limited size, which grows only as far as real output fills it, and block
formats state their length, which is checked before anything is allocated.

cramjam is imported on first use. A broker that only moves batches never pays for it.
"""

from collections.abc import Callable
from enum import IntEnum

from headrace.records import snappy
from headrace.records.buffer import Buffer
from headrace.records.errors import CorruptCompression, DecompressedTooLarge

# The first guess at a stream's output, as a multiple of its input; most batches need no second try.
_FIRST_GUESS_RATIO = 6
_SMALLEST_OUTPUT_BYTES = 4096
# Each further try has this many times the room, so that retries cost at most a third on top.
_GROWTH = 4
# How cramjam's stream decoders say that the output buffer is full.
_OUTPUT_FULL = "failed to write whole buffer"


class Codec(IntEnum):
    """Codec ids as the low three bits of a batch's attributes carry them."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, *, level: int | None = None) -> bytes:
    """`data` as Kafka's own clients would write it with this codec; `level` None is its default.

    Snappy has no levels.
    """
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.SNAPPY:
        return snappy.compress(data)
    import cramjam

    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    # Java clients refuse frames whose blocks depend on each other.
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))
    return bytes(frame.finish())


def decompress(codec: Codec, data: Buffer, *, max_bytes: int) -> memoryview:
    """The payload, at most `max_bytes` long.

    Raises `DecompressedTooLarge` past the cap and `CorruptCompression` for bytes that are no such
    stream. Without a codec, the result is a view of `data` itself.
    """
    if codec is Codec.NONE:
        if len(data) > max_bytes:
            raise DecompressedTooLarge(max_bytes)
        return memoryview(data)
    if codec is Codec.SNAPPY:
        return snappy.decompress(data, max_bytes=max_bytes)
    import cramjam

    stream = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    return _unpack(stream.decompress_into, cramjam.DecompressionError, data, max_bytes)


def _unpack(
    decompress_into: Callable[[Buffer, bytearray], int],
    failure: type[Exception],
    data: Buffer,
    max_bytes: int,
) -> memoryview:
    """Try with a modest buffer, and again with a larger one for as long as it was filled."""
    room = min(max(len(data) * _FIRST_GUESS_RATIO, _SMALLEST_OUTPUT_BYTES), max_bytes)
    while True:
        output = bytearray(room)
        try:
            written = decompress_into(data, output)
        except failure as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptCompression(f"records do not decompress: {error}") from None
        else:
            return memoryview(output)[:written]
        if room >= max_bytes:
            raise DecompressedTooLarge(max_bytes)
        # The full buffer goes before its successor comes: the cap holds for their sum.
        del output
        room = min(room * _GROWTH, max_bytes)
