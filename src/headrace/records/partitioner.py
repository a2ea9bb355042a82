"""Which partition a record goes to, as Kafka's Java producer decides it.

Keyed records hash, so that every client which follows the rule sends a key to the same partition.
Records without a key stick to one partition until a batch is full: fewer, larger requests.
"""

from collections.abc import Sequence
from random import Random

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_ROTATION = 24
# The Java producer's `batch.size`.
DEFAULT_STICKY_BYTES = 16 * 1024


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of `data`, as an unsigned integer."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for pos in range(0, whole, 4):
        word = int.from_bytes(data[pos : pos + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> _ROTATION
        hashed = (hashed * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    if whole < length:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of `key` among `partitions`; the hash loses its sign bit first, as in Java."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Picks partitions for one topic's records without keys (KIP-480, KIP-794).

    It stays with a partition until `sticky_bytes` went there, then moves to another at random. The
    switch counts bytes, not batches sent: a slow broker then gets no more than its share.
    """

    __slots__ = ("_current", "_random", "_sticky_bytes", "_written_bytes")

    def __init__(self, random: Random, *, sticky_bytes: int = DEFAULT_STICKY_BYTES) -> None:
        if sticky_bytes < 1:
            raise ValueError(f"sticky_bytes must be at least 1, not {sticky_bytes}")
        self._random = random
        self._sticky_bytes = sticky_bytes
        self._current: int | None = None
        self._written_bytes = 0

    def partition(self, available: Sequence[int], record_bytes: int) -> int:
        """Where the next record goes; `available` are the partitions that have a leader now."""
        if not available:
            raise ValueError("no partition is available")
        chosen = self._current
        if chosen is None or chosen not in available or self._written_bytes >= self._sticky_bytes:
            others = [partition for partition in available if partition != chosen]
            chosen = self._current = self._random.choice(others or available)
            self._written_bytes = 0
        self._written_bytes += record_bytes
        return chosen
