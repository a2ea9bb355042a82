"""Reading: what is returned, and what is never returned."""

import pytest

from headrace.records.batch_header import headers
from headrace.storage.errors import OffsetOutOfRange
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import append, batch, open_log, values

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)


def filled(count: int = 40) -> Log:
    _, log = open_log(config=SMALL)
    for number in range(count):
        append(log, batch(b"%d" % number, b"x" * (number * 7 % 60)))
    return log


def test_every_offset_is_found_whatever_the_segment_and_index() -> None:
    log = filled()
    for offset in range(log.log_end_offset):
        data, first = log.read(offset, max_bytes=1)
        ((_, header),) = headers(data)
        assert header.base_offset == first
        assert header.base_offset <= offset <= header.last_offset


def test_at_least_one_batch_is_returned_unless_asked_otherwise() -> None:
    log = filled()
    assert len(list(headers(log.read(3, max_bytes=0).data))) == 1
    assert log.read(3, max_bytes=10, min_one_message=False).data == b""
    assert len(log.read(0, max_bytes=300, min_one_message=False).data) == 300


def test_nothing_at_or_past_the_bound_is_returned() -> None:
    log = filled()
    for bound in range(0, log.log_end_offset + 1, 2):
        for offset in range(0, bound + 1, 3):
            data = log.read(offset, max_bytes=1 << 20, max_offset=bound).data
            assert all(header.last_offset < bound for _, header in headers(data))
            assert bool(data) == (offset < bound)
    assert log.read(10, max_bytes=100, max_offset=5).data == b""


def test_offsets_outside_the_log_are_refused() -> None:
    log = filled()
    log.delete_before(7)
    for offset in (-1, 6, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=100)
    assert values(log)[7] == b"x" * 21


def test_the_end_of_the_log_is_read_without_touching_a_file() -> None:
    fs = MemoryFileSystem()
    manager, log = open_log(fs)
    append(log, batch(b"x"))
    manager.close()
    _, log = open_log(fs.after_kill())
    assert log.read(1, max_bytes=100).data == b""
    assert not log.is_loaded
    assert log.read(0, max_bytes=100).data
    assert log.is_loaded


def test_the_bytes_from_an_offset_on_are_known_to_one_interval_of_the_index() -> None:
    log = filled()
    assert log.bytes_from(log.log_start_offset) == log.size_bytes
    assert log.bytes_from(log.log_end_offset) == 0
    sizes = [log.bytes_from(offset) for offset in range(log.log_end_offset + 1)]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sizes[20] < log.size_bytes
