"""Hostile bytes: a message or `MalformedMessage`, never another exception, never much memory."""

import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headrace.protocol.api import APIS
from headrace.protocol.errors import MalformedMessage
from headrace.protocol.header import read_request_header
from headrace.protocol.struct import Struct
from support.wire.protocol_values import Maker, every_message, every_version, label

MAX_BYTES = 4 << 20
"""What reading a frame of a few kB may allocate at most."""
MUTATIONS = 60
LONGEST_PREFIXED = 400
"""Bytes up to which every single prefix of a message is tried."""

GREED = (
    b"\xff\xff\xff\xff\x0f",  # the varint 2**32 - 1
    b"\xff\xff\xff\xff\x07",  # the varint 2**31 - 1
    b"\x80\xda\xc4\x09",  # the varint 20 million
    b"\xff\xff\xff\xff\xff\xff\x01",  # a varint of seven bytes
    b"\x80\x80\x80\x80\x80\x80\x80",  # a varint without an end
    b"\x7f\xff\xff\xff",  # the largest int32
    b"\x7f\xff",  # the largest int16
    b"\x80\x00\x00\x00",  # the smallest int32
    b"\xff\xff\xff\xfe",  # -2
    b"\x00",
    b"\xff",
)

per_version = pytest.mark.parametrize(("cls", "version"), every_version(), ids=label)


def attempt(cls: type[Struct], data: bytes, version: int) -> bool:
    """Whether `data` is a message; any error but the named one fails the test."""
    try:
        message = cls.decode(data, version)
    except MalformedMessage:
        return False
    # What could be read can be written, and is read the same again (bytes, since NaN != NaN).
    again = message.encode(version)
    assert cls.decode(again, version).encode(version) == again
    return True


def mutated(rng: random.Random, data: bytes) -> Iterator[bytes]:
    for _ in range(MUTATIONS):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            yield data[:at] + rng.choice(GREED) + data[at:]
        elif kind == 1:
            greed = rng.choice(GREED)
            yield data[:at] + greed + data[at + len(greed) :]
        elif kind == 2:
            yield data[:at] + rng.randbytes(rng.randrange(1, 4)) + data[at + 2 :]
        else:
            yield data[:at] + data[at + rng.randrange(1, 9) :]


@per_version
def test_a_truncated_message_is_malformed(cls: type[Struct], version: int) -> None:
    data = Maker(random.Random(1), version).struct(cls).encode(version)
    step = max(1, len(data) // LONGEST_PREFIXED)
    for end in range(0, len(data), step):
        with pytest.raises(MalformedMessage):
            cls.decode(data[:end], version)


@per_version
def test_a_message_with_trailing_bytes_is_malformed(cls: type[Struct], version: int) -> None:
    data = Maker(random.Random(2), version).struct(cls).encode(version)
    with pytest.raises(MalformedMessage, match="more follow"):
        cls.decode(data + b"\0", version)


@per_version
def test_mutated_and_random_bytes_decode_or_are_malformed(cls: type[Struct], version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    data = Maker(rng, version).struct(cls).encode(version)
    for bad in mutated(rng, data):
        attempt(cls, bad, version)
    for _ in range(MUTATIONS):
        attempt(cls, rng.randbytes(rng.randrange(64)), version)


def greedy(data: bytes) -> Iterator[bytes]:
    step = max(1, len(data) // 10)
    for at in range(0, len(data) + 1, step):
        for greed in GREED[:4]:
            yield data[:at] + greed + data[at + len(greed) :]


def test_huge_counts_and_lengths_use_little_memory() -> None:
    # The readers are compiled before, so that only reading is measured; of each message its oldest
    # and newest version, since tracing is slow.
    frames = []
    for cls in every_message():
        assert cls.versions is not None
        for version in set(cls.versions):
            data = Maker(random.Random(3), version).struct(cls).encode(version)[:2000]
            attempt(cls, data, version)
            frames.append((cls, version, data))
    tracemalloc.start()
    try:
        for cls, version, data in frames:
            for bad in greedy(data):
                with suppress(MalformedMessage):
                    cls.decode(bad, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_BYTES


@pytest.mark.parametrize("key", sorted(APIS))
def test_any_request_header_decodes_or_is_malformed(key: int) -> None:
    rng = random.Random(key)
    for _ in range(300):
        start = key.to_bytes(2, "big") if rng.random() < 0.8 else rng.randbytes(2)
        data = start + rng.randbytes(rng.randrange(40))
        try:
            header, pos = read_request_header(data, 0, len(data))
        except MalformedMessage:
            continue
        assert header.request_api_key in APIS
        assert pos <= len(data)
