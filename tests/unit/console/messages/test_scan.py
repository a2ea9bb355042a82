"""Batches are searched whatever their codec, and damaged ones end nothing else."""

import pytest

from headrace.console.messages.decoding import Decoder
from headrace.console.messages.query import Position, Query
from headrace.console.messages.scan import Aborted, Scanned, Scanner
from headrace.records.codec import Codec
from headrace.records.control import ControlType, end_txn_marker
from headrace.records.record import Record, build_batch

EVERYTHING = Query(Position("oldest"))


def batch(first: int, *values: bytes, codec: Codec = Codec.NONE, **fields: int | bool) -> bytes:
    records = [Record(first + i, 1000, b"key", value) for i, value in enumerate(values)]
    return build_batch(records, codec=codec, **fields)  # type: ignore[arg-type]


def scan(data: bytes, query: Query = EVERYTHING, **options: object) -> Scanned:
    given = {"start": 0, "end": 10**9, "max_matches": 100, **options}
    return Scanner(query, Decoder()).scan(memoryview(data), **given)  # type: ignore[arg-type]


def offsets(found: Scanned) -> list[int]:
    return [match.record.offset for match in found.matches]


@pytest.mark.parametrize("codec", list(Codec))
def test_text_is_found_in_every_codec(codec: Codec) -> None:
    data = batch(0, b"hay", b"needle", codec=codec) + batch(2, b"hay", codec=codec)
    found = scan(data, Query(Position("oldest"), text=b"needle"))
    assert offsets(found) == [1]
    assert found.records == 3
    assert found.next_offset == 3


def test_only_offsets_of_the_range_match() -> None:
    data = batch(0, b"a", b"b", b"c", b"d")
    found = scan(data, start=1, end=3)
    assert offsets(found) == [1, 2]


def test_the_scan_stops_at_its_limit_and_says_where_to_go_on() -> None:
    found = scan(batch(0, b"a", b"b", b"c"), max_matches=2)
    assert (offsets(found), found.next_offset) == ([0, 1], 2)


def test_a_partial_last_batch_is_left_for_the_next_fetch() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-1]
    assert scan(data).next_offset == 1


def test_a_damaged_batch_is_reported_and_passed_over() -> None:
    damaged = bytearray(batch(0, b"x" * 100, codec=Codec.ZSTD))
    damaged[64:70] = bytes(6)
    found = scan(bytes(damaged) + batch(1, b"good"))
    assert offsets(found) == [1]
    assert "offset 0" in found.problem


def test_a_damaged_header_ends_the_scan_of_its_chunk_with_a_reason() -> None:
    damaged = bytearray(batch(1, b"lost"))
    damaged[16] = 9  # the magic byte
    found = scan(batch(0, b"good") + bytes(damaged), end=5)
    assert offsets(found) == [0]
    assert "what follows offset 1" in found.problem
    assert found.next_offset == 5


def test_records_of_aborted_transactions_are_left_out_unless_asked_for() -> None:
    transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    data = (
        batch(0, b"aborted", is_transactional=True, **transaction)
        + batch(1, b"plain")
        + _marker(2, ControlType.ABORT)
        + batch(3, b"committed", is_transactional=True, **transaction)
        + _marker(4, ControlType.COMMIT)
    )
    aborted = [Aborted(7, 0)]
    assert offsets(scan(data, aborted=aborted)) == [1, 3]
    everything = Query(Position("oldest"), committed_only=False)
    assert offsets(scan(data, everything, aborted=aborted)) == [0, 1, 3]


def _marker(offset: int, kind: ControlType) -> bytes:
    return end_txn_marker(
        commit=kind is ControlType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1000,
        base_offset=offset,
    )
