"""A reader of committed data skips the batches of aborted transactions, and all markers."""

from headrace.records.aborted_transactions import Aborted, AbortedRecords, is_hidden
from headrace.records.batch_header import BatchHeader, read_header
from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch


def data(offset: int, producer_id: int) -> bytes:
    record = Record(offset, 1, None, b"x")
    return bytes(
        build_batch(
            [record],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(offset: int, producer_id: int, *, commit: bool = False) -> bytes:
    return bytes(
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset,
        )
    )


def hidden(batch: bytes, filtering: AbortedRecords | None) -> bool:
    header: BatchHeader = read_header(batch)
    return is_hidden(memoryview(batch), header, filtering)


def test_only_the_aborted_producer_is_skipped_and_only_up_to_its_marker() -> None:
    filtering = AbortedRecords([Aborted(7, 1)])
    assert not hidden(data(0, 7), filtering)
    assert hidden(data(1, 7), filtering)
    assert not hidden(data(2, 8), filtering)
    assert hidden(marker(3, 7), filtering)
    assert not hidden(data(4, 7), filtering)


def test_a_commit_marker_ends_no_abort() -> None:
    filtering = AbortedRecords([Aborted(7, 0)])
    assert hidden(marker(0, 7, commit=True), filtering)
    assert hidden(data(1, 7), filtering)


def test_a_reader_of_uncommitted_data_sees_every_record() -> None:
    assert not hidden(data(1, 7), None)
    assert hidden(marker(2, 7), None)
