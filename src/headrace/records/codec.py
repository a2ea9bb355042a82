"""The compression codecs of a record batch, with a limit on the decompressed size.

A client may send a decompression bomb: a few kilobytes that decompress to gigabytes. So
`decompress` has a limit, and never holds more than that (plus a codec's own window) in memory:
streams are decompressed into a buffer that grows only with real output, and block formats state
their length, which is checked before anything is allocated.

cramjam is imported on first use: a broker that only moves batches does not need it.
"""

from collections.abc import Callable
from enum import IntEnum

from headrace.records import snappy
from headrace.records.buffer import Buffer
from headrace.records.errors import CorruptCompression, DecompressedTooLarge

# The broker's limit for the decompressed size of one batch.
MAX_DECOMPRESSED_BYTES = 64 << 20

# The first buffer, as a multiple of the stream's size; most batches need no second attempt.
_FIRST_GUESS_RATIO = 6
_SMALLEST_OUTPUT_BYTES = 4096
# Each further buffer is this many times larger, so that retries add at most a third.
_GROWTH = 4
# The error of cramjam's stream decoders if the output buffer is full.
_OUTPUT_FULL = "failed to write whole buffer"


class Codec(IntEnum):
    """Codec ids, as in the low three bits of a batch's attributes."""

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
    # Java clients reject frames whose blocks depend on each other.
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))
    return bytes(frame.finish())


def decompress(codec: Codec, data: Buffer, *, max_bytes: int) -> memoryview:
    """The payload, at most `max_bytes` long.

    Raises `DecompressedTooLarge` above the limit and `CorruptCompression` for invalid bytes.
    Without a codec, the result is a view of `data` itself.
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
    """Tries a small buffer first, and larger ones while the output fills them."""
    room = min(max(len(data) * _FIRST_GUESS_RATIO, _SMALLEST_OUTPUT_BYTES), max_bytes)
    while True:
        output = bytearray(room)
        try:
            written = decompress_into(data, output)
        except failure as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptCompression(f"records cannot be decompressed: {error}") from None
        else:
            return memoryview(output)[:written]
        if room >= max_bytes:
            raise DecompressedTooLarge(max_bytes)
        # Free the full buffer before the next is allocated: the limit holds for their sum.
        del output
        room = min(room * _GROWTH, max_bytes)
