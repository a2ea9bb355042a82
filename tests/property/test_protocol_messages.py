"""Every message in every version survives a round trip, and its bytes are kio's bytes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.api import APIS
from headrace.protocol.layout import least_size
from headrace.protocol.struct import Struct
from support.wire import kio_oracle
from support.wire.protocol_values import Maker, every_message, every_version, label

FIRST_OWN_KEY = 10_000
EXAMPLES = settings(max_examples=4, derandomize=True, database=None, deadline=None)
UNKNOWN_TO_KIO: set[tuple[str, int]] = {
    (f"{spec.name}{suffix}", 0)
    for spec in APIS.values()
    if spec.key >= FIRST_OWN_KEY
    for suffix in ("Request", "Response")
}
"""Message versions that kio does not have, (name, version): Headrace's own since kio 0.6.5."""

per_version = pytest.mark.parametrize(("cls", "version"), every_version(), ids=label)
seeds = st.integers(0, 2**32)


@per_version
@EXAMPLES
@given(seed=seeds)
def test_an_encoded_message_is_decoded_at_any_position(
    cls: type[Struct], version: int, seed: int
) -> None:
    message = Maker(random.Random(seed), version).struct(cls)
    data = message.encode(version)
    assert cls.decode(data, version) == message
    # A frame lies inside a larger receive buffer: what surrounds it must not matter.
    around = memoryview(bytearray(b"\xff\x01" + data + b"\xff\x01"))
    assert cls.read(around, 2, 2 + len(data), version) == (message, 2 + len(data))
    assert len(data) >= least_size(cls, version, version >= cls.flexible_since)


@per_version
@EXAMPLES
@given(seed=seeds)
def test_bytes_and_values_match_kio(cls: type[Struct], version: int, seed: int) -> None:
    twin = kio_oracle.twin_class(cls, version)
    if twin is None:
        assert (cls.__name__, version) in UNKNOWN_TO_KIO
        return
    message = kio_oracle.TwinMaker(random.Random(seed), version).struct(cls, twin)
    entity = kio_oracle.converted(message, twin, version)
    theirs = kio_oracle.twin_bytes(entity)
    ours = message.encode(version)
    assert ours == theirs
    assert cls.decode(theirs, version) == message
    assert kio_oracle.twin_read(twin, ours) == entity


@pytest.mark.parametrize("cls", every_message(), ids=label)
def test_chunks_make_up_the_encoded_message_and_record_sets_are_not_copied(
    cls: type[Struct],
) -> None:
    assert cls.versions is not None
    version = cls.versions[1]
    message = Maker(random.Random(7), version).struct(cls)
    out: list[bytes | bytearray | memoryview] = []
    message.write(version, out)
    assert b"".join(out) == message.encode(version)
