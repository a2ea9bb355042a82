"""The partition of a record, by the rules of Kafka's Java producer.

The partition of a key is its hash, so that all clients with this rule choose the same partition.
Records without a key stay with one partition until a batch is full: fewer, larger requests.
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
    """The partition of `key` among `partitions`; as in Java, the hash's sign bit is cleared."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Chooses partitions for one topic's records without keys (KIP-480, KIP-794).

    It stays with a partition for `sticky_bytes`, then moves to another one at random. It counts
    bytes, not batches: so a slow broker gets no more than its share.
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
        """The partition of the next record; `available` are the partitions that have a leader."""
        if not available:
            raise ValueError("no partition is available")
        chosen = self._current
        if chosen is None or chosen not in available or self._written_bytes >= self._sticky_bytes:
            others = [partition for partition in available if partition != chosen]
            chosen = self._current = self._random.choice(others or available)
            self._written_bytes = 0
        self._written_bytes += record_bytes
        return chosen
