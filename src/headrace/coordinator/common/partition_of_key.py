"""The partition of an internal topic that a group, a transactional id or a share key belongs to."""

from typing import Final

_INT32: Final = 1 << 32
_INT32_MAX: Final = (1 << 31) - 1


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _INT32
    return value - _INT32 if value > _INT32_MAX else value


def partition_for(key: str, partitions: int) -> int:
    """The partition, by Kafka's formula `Utils.abs(key.hashCode()) % partitions`."""
    value = java_hash(key)
    positive = 0 if value == -_INT32_MAX - 1 else abs(value)
    return positive % partitions
