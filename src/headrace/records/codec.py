"""The compression codecs of a record batch."""

from enum import IntEnum


class Codec(IntEnum):
    """Codec ids as the low three bits of a batch's attributes carry them."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
