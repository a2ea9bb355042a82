"""A leader's high watermark only grows and never passes a promised flush."""

from pathlib import Path
from random import Random

import pytest

from headrace.clock import SystemClock
from headrace.protocol.errors import ErrorCode
from headrace.records.record import Record, build_batch
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.files.filesystem import RealFileSystem
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig

TOPIC_ID = b"t" * 16
NOW_MS = 1_700_000_000_000


class Bell:
    """Counts the notifications that a waiter gets."""

    def __init__(self) -> None:
        self.advances: list[int] = []
        self.interruptions = 0

    def advanced(self, size_bytes: int) -> None:
        self.advances.append(size_bytes)

    def interrupted(self) -> None:
        self.interruptions += 1


def batch(count: int = 1) -> memoryview:
    records = [Record(offset, NOW_MS, None, b"value", ()) for offset in range(count)]
    return memoryview(bytearray(build_batch(records)))


def make(tmp_path: Path, config: LogConfig) -> SoleLeader:
    logs = LogManager(
        [str(tmp_path)], RealFileSystem(), SystemClock(), new_id=lambda: Random(1).randbytes(16)
    )
    logs.open()

    def open_log(leader: SoleLeader) -> Log:
        return logs.get_or_create(leader.topic, leader.index, leader.topic_id, config)

    return SoleLeader("orders", TOPIC_ID, 0, 3, open_log)


@pytest.fixture
def leader(tmp_path: Path) -> SoleLeader:
    return make(tmp_path, LogConfig())


@pytest.fixture
def flushing(tmp_path: Path) -> SoleLeader:
    return make(tmp_path, LogConfig(flush_messages=1))


def test_what_was_appended_can_be_read(leader: SoleLeader) -> None:
    assert leader.append(batch(3), NOW_MS).first_offset == 0
    assert leader.append(batch(2), NOW_MS).first_offset == 3
    assert leader.high_watermark == 5
    assert not leader.flush_pending


def test_a_waiter_is_notified_of_the_number_of_new_bytes(leader: SoleLeader) -> None:
    bell = Bell()
    leader.watch(bell)
    data = batch(3)
    leader.append(data, NOW_MS)
    leader.unwatch(bell)
    leader.append(batch(), NOW_MS)
    assert bell.advances == [len(data)]


def test_the_watermark_waits_for_a_promised_flush(flushing: SoleLeader) -> None:
    bell = Bell()
    flushing.watch(bell)
    flushing.append(batch(), NOW_MS)
    flushing.append(batch(), NOW_MS)
    assert flushing.flush_pending
    assert (flushing.high_watermark, bell.advances) == (0, [])
    flushing.flushed(1)
    assert (flushing.high_watermark, len(bell.advances)) == (1, 1)
    assert flushing.flush_pending, "the second batch came after the flush began"
    flushing.flushed(2)
    assert (flushing.high_watermark, len(bell.advances)) == (2, 2)
    assert not flushing.flush_pending


def test_an_old_flush_does_not_move_the_watermark_back(flushing: SoleLeader) -> None:
    flushing.append(batch(2), NOW_MS)
    flushing.flushed(2)
    flushing.flushed(1)
    assert flushing.high_watermark == 2


def test_a_duplicate_waits_for_the_flush_of_its_first_copy(flushing: SoleLeader) -> None:
    data = build_batch(
        [Record(0, NOW_MS, None, b"value", ())], producer_id=7, producer_epoch=0, base_sequence=0
    )
    flushing.append(memoryview(bytearray(data)), NOW_MS)
    repeated = flushing.append(memoryview(bytearray(data)), NOW_MS)
    assert repeated.duplicate
    assert flushing.flush_pending
    flushing.flushed(1)
    assert not flushing.flush_pending
    assert flushing.high_watermark == 1


def test_closing_wakes_waiters(leader: SoleLeader) -> None:
    bell = Bell()
    leader.watch(bell)
    leader.close()
    assert leader.closed
    assert bell.interruptions == 1


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_clients_with_another_epoch_are_fenced(
    leader: SoleLeader, epoch: int, error: ErrorCode
) -> None:
    assert leader.check_epoch(epoch) == error
