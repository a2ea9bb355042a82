"""Idempotent producers: retries, gaps, epochs, wrap-around, transactions."""

import pytest

from headrace.records.batch_header import crc_of, pack_header, read_header
from headrace.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
)
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producer_snapshot import CorruptSnapshot, decode, encode
from headrace.storage.state.producers import BatchMetadata, BatchOrigin, ProducerEntry
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import NOW_MS, append, batch, marker, open_log, values


def send(log: Log, sequence: int, count: int = 1, *, epoch: int = 0) -> tuple[int, bool]:
    data = batch(*[b"%d" % n for n in range(count)], producer_id=7, epoch=epoch, sequence=sequence)
    result = append(log, data)
    return result.first_offset, result.duplicate


def test_each_of_the_last_five_batches_is_recognised_as_a_retry() -> None:
    _, log = open_log()
    for sequence in range(0, 12, 2):
        send(log, sequence, 2)
    end = log.log_end_offset
    for sequence in range(2, 12, 2):
        assert send(log, sequence, 2) == (sequence, True)
    assert log.log_end_offset == end
    with pytest.raises(OutOfOrderSequence) as refused:  # the sixth is forgotten
        send(log, 0, 2)
    assert not refused.value.is_ahead


def test_a_batch_with_other_sequences_is_not_a_retry() -> None:
    _, log = open_log()
    send(log, 0, 4)
    for sequence, count in ((0, 3), (1, 3), (0, 5)):
        with pytest.raises(OutOfOrderSequence):
            send(log, sequence, count)


def test_a_gap_is_refused() -> None:
    _, log = open_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence) as refused:
        send(log, 2)
    assert (refused.value.producer_id, refused.value.is_ahead) == (7, True)
    assert send(log, 1) == (1, False)


def test_an_unknown_producer_may_start_anywhere() -> None:
    _, log = open_log()
    assert send(log, 40) == (0, False)
    assert send(log, 41) == (1, False)


def test_a_new_epoch_starts_at_sequence_zero_and_fences_the_old() -> None:
    _, log = open_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 1, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        send(log, 1, epoch=0)


def test_sequences_wrap_after_the_largest_int() -> None:
    _, log = open_log()
    last = 2**31 - 1
    send(log, last - 1, 3)  # last - 1, last, 0
    assert send(log, last - 1, 3) == (0, True)
    assert send(log, 1) == (3, False)


def test_one_append_may_hold_several_batches_of_a_producer() -> None:
    _, log = open_log()
    two = batch(b"a", producer_id=7, sequence=0) + batch(b"b", producer_id=7, sequence=1)
    append(log, two)
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"c", producer_id=7, sequence=2) + batch(b"e", producer_id=7, sequence=4))
    assert log.log_end_offset == 2
    assert send(log, 2) == (2, False)


def test_expired_producers_are_forgotten_but_not_in_a_transaction() -> None:
    _, log = open_log()
    send(log, 0)
    append(log, batch(b"x", producer_id=8, transactional=True))
    assert log.expire_producers(NOW_MS + 999, 1000) == 0
    assert log.expire_producers(NOW_MS + 1000, 1000) == 1
    assert set(log.producers) == {8}
    assert send(log, 50) == (2, False)


def test_a_retry_waits_for_the_flush_of_the_first_attempt() -> None:
    _, log = open_log(config=LogConfig(flush_messages=1))
    assert append(log, batch(b"x", producer_id=7)).needs_flush
    again = append(log, batch(b"x", producer_id=7))
    assert again.duplicate and again.needs_flush
    log.flush()
    assert not append(log, batch(b"x", producer_id=7)).needs_flush


def test_retries_are_recognised_after_a_restart_and_after_rolls() -> None:
    """Kafka's snapshots hold one batch a producer; the log gives the others back."""
    fs = MemoryFileSystem()
    manager, log = open_log(fs, LogConfig(segment_bytes=250))
    for sequence in range(8):
        send(log, sequence)
    manager.close()
    _, log = open_log(fs.after_kill(), LogConfig(segment_bytes=250))
    for sequence in range(3, 8):
        assert send(log, sequence) == (sequence, True)
    assert send(log, 8) == (8, False)


def test_open_transactions_hold_the_stable_offset_back() -> None:
    _, log = open_log()
    append(log, batch(b"plain"))
    append(log, batch(b"a", producer_id=1, transactional=True))
    append(log, batch(b"b", producer_id=2, transactional=True))
    assert (log.first_unstable_offset, log.last_stable_offset) == (1, 1)
    append(log, marker(1, commit=True), origin=BatchOrigin.COORDINATOR)
    assert log.last_stable_offset == 2
    append(log, marker(2, commit=False), origin=BatchOrigin.COORDINATOR)
    assert log.last_stable_offset == log.log_end_offset == 5
    assert log.stable_offset(4) == 2  # the marker at 4 is not below the high watermark
    assert log.stable_offset(5) == 5
    ((aborted),) = log.aborted_transactions(0, 5)
    assert tuple(aborted) == (2, 2, 4, 5)
    assert log.aborted_transactions(0, 2) == []
    assert log.aborted_transactions(5, 9) == []


def test_writes_outside_an_open_transaction_are_refused() -> None:
    _, log = open_log()
    append(log, batch(b"a", producer_id=1, transactional=True))
    with pytest.raises(InvalidTxnState):
        append(log, batch(b"b", producer_id=1, sequence=1))


def test_markers_of_a_replaced_coordinator_or_producer_are_refused() -> None:
    _, log = open_log()
    append(log, batch(b"a", producer_id=1, epoch=3, transactional=True))
    append(log, marker(1, commit=True, epoch=3, coordinator=5), origin=BatchOrigin.COORDINATOR)
    with pytest.raises(CoordinatorFenced):
        append(log, marker(1, commit=True, epoch=3, coordinator=4), origin=BatchOrigin.COORDINATOR)
    with pytest.raises(InvalidProducerEpoch):
        append(log, marker(1, commit=True, epoch=2, coordinator=5), origin=BatchOrigin.COORDINATOR)


def test_a_marker_that_bumps_the_epoch_restarts_the_sequence() -> None:
    _, log = open_log()
    append(log, batch(b"a", producer_id=1, transactional=True))
    append(log, marker(1, commit=False, epoch=1), origin=BatchOrigin.COORDINATOR)
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(b"b", producer_id=1, epoch=1, sequence=1, transactional=True))
    append(log, batch(b"b", producer_id=1, epoch=1, sequence=0, transactional=True))


def test_a_batch_with_a_producer_but_no_sequence_is_refused() -> None:
    from headrace.storage.errors import InvalidRecord

    data = batch(b"x", producer_id=4)
    header = read_header(data)._replace(base_sequence=-1)
    pack_header(data, 0, header)
    pack_header(data, 0, header._replace(crc=crc_of(data, 0, len(data))))
    _, log = open_log()
    with pytest.raises(InvalidRecord):
        append(log, data)
    assert values(log) == {}


def test_snapshots_round_trip_and_damage_is_detected() -> None:
    entries = [
        ProducerEntry(1, 2, 3, NOW_MS, 44, [BatchMetadata(9, 50, 4, NOW_MS)]),
        ProducerEntry(2**40, 0, -1, -1, -1, []),
    ]
    data = encode(entries)
    decoded = decode(data)
    assert [
        (
            e.producer_id,
            e.epoch,
            e.coordinator_epoch,
            e.last_timestamp,
            e.txn_first_offset,
            e.batches,
        )
        for e in decoded
    ] == [
        (
            e.producer_id,
            e.epoch,
            e.coordinator_epoch,
            e.last_timestamp,
            e.txn_first_offset,
            e.batches,
        )
        for e in entries
    ]
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            decode(bytes(damaged))
        with pytest.raises(CorruptSnapshot):
            decode(data[:position])
