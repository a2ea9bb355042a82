"""The partitions of many keys at once, by the rules of Kafka's Java producer."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_ROTATION: Final = np.uint32(24)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_WORD_BYTES: Final = 4


def partitions_for_keys(keys: pa.Array, partitions: int, *, without_key: int) -> NDArray[np.int32]:
    """The partition of each key in a binary array; `without_key` for null keys."""
    chosen = np.full(len(keys), without_key, np.int32)
    sizes = pc.binary_length(keys)
    for size in pc.unique(sizes.drop_null()).to_pylist():
        at = np.flatnonzero(pc.fill_null(pc.equal(sizes, size), False).to_numpy(False))
        hashed = _murmur2(keys.take(pa.array(at)), size) & _POSITIVE
        chosen[at] = (hashed % np.uint32(partitions)).astype(np.int32)
    return chosen


def _murmur2(keys: pa.Array, size: int) -> Words:
    """Kafka's murmur2 of keys that all have the same size."""
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)[: size * len(keys)]
    table = data.reshape(len(keys), size)
    hashed = np.full(len(keys), _SEED ^ size, np.uint32)
    whole = size - size % _WORD_BYTES
    for at in range(0, whole, _WORD_BYTES):
        word = _word(table[:, at : at + _WORD_BYTES]) * _MULTIPLIER
        word ^= word >> _ROTATION
        hashed = hashed * _MULTIPLIER ^ word * _MULTIPLIER
    if whole < size:
        hashed = (hashed ^ _word(table[:, whole:])) * _MULTIPLIER
    hashed ^= hashed >> np.uint32(13)
    hashed *= _MULTIPLIER
    return hashed ^ hashed >> np.uint32(15)


def _word(table: NDArray[np.uint8]) -> Words:
    """Up to four bytes of each row as a little-endian number."""
    word = np.zeros(len(table), np.uint32)
    for at in range(table.shape[1]):
        word |= table[:, at].astype(np.uint32) << np.uint32(8 * at)
    return word
