"""Logs on a real disk: concurrent flushes and appends, many partitions, few descriptors."""

import os
import threading
from pathlib import Path

import pytest

from headrace.clock import SystemClock
from headrace.records.batch_header import headers
from headrace.records.record import Record, build_batch
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.files.filesystem import RealFileSystem
from headrace.storage.state.log_config import LogConfig

TOPIC_ID = bytes(range(16))
MAX_BYTES_PER_IDLE_LOG = 8 * 1024


def open_manager(path: Path, **options: int) -> LogManager:
    manager = LogManager(
        [str(path)], RealFileSystem(), SystemClock(), new_id=lambda: os.urandom(16), **options
    )
    manager.open()
    return manager


def batch(value: bytes) -> bytearray:
    now_ms = SystemClock().wall_ms()
    return bytearray(build_batch([Record(0, now_ms, b"k", value)]))


def test_a_flush_in_a_thread_covers_all_earlier_appends(tmp_path: Path) -> None:
    """The owner appends and rolls without a pause while another thread flushes."""
    manager = open_manager(tmp_path / "data", max_open_files=16)
    config = LogConfig(segment_bytes=4096)
    log = manager.get_or_create("t", 0, TOPIC_ID, config)
    others = [manager.get_or_create("o", n, TOPIC_ID, config) for n in range(40)]
    stop = threading.Event()
    problems: list[BaseException] = []
    flushes = 0

    def flush() -> None:
        nonlocal flushes
        try:
            while not stop.is_set():
                before = log.log_end_offset
                log.flush()
                # A concurrent roll may delay the recovery point by one offset, never by more.
                assert log.recovery_point >= before - 1
                flushes += 1
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=flush)
    thread.start()
    now_ms = SystemClock().wall_ms()
    appended = 0
    while (appended < 1500 or flushes < 20) and not problems:
        log.append(batch(b"%d" % appended * 10), leader_epoch=0, now_ms=now_ms)
        others[appended % 40].append(batch(b"x"), leader_epoch=0, now_ms=now_ms)
        appended += 1
        if appended % 300 == 0:
            log.delete_before(log.log_end_offset - 50)
            log.delete_old_segments(now_ms)
    stop.set()
    thread.join()
    assert problems == []
    log.flush()
    assert log.recovery_point == log.log_end_offset == appended
    manager.close()
    manager = open_manager(tmp_path / "data")
    again = manager.get("t", 0)
    assert again is not None and again.log_end_offset == appended
    data = again.read(appended - 1, max_bytes=1000).data
    assert [header.base_offset for _, header in headers(data)] == [appended - 1]
    manager.close()


def test_thousands_of_partitions_use_few_file_descriptors(tmp_path: Path) -> None:
    manager = open_manager(tmp_path / "data", max_open_files=64)
    config = LogConfig()
    for partition in range(2000):
        manager.get_or_create("many", partition, TOPIC_ID, config)
    before = len(list(Path("/proc/self/fd").iterdir()))
    now_ms = SystemClock().wall_ms()
    for log in manager:
        log.append(batch(b"x"), leader_epoch=0, now_ms=now_ms)
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 70
    manager.close(clean=False)
    manager = open_manager(tmp_path / "data", max_open_files=64)
    assert sum(log.log_end_offset for log in manager) == 2000
    manager.close()
    manager = open_manager(tmp_path / "data", max_open_files=64)
    assert not any(log.is_loaded for log in manager)
    assert sum(log.log_end_offset for log in manager) == 2000
    manager.close()


def test_an_idle_log_uses_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    manager = open_manager(tmp_path / "data")
    config = LogConfig()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for partition in range(500):
            manager.get_or_create("many", partition, TOPIC_ID, config)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    manager.close(clean=False)
    assert used / 500 < MAX_BYTES_PER_IDLE_LOG


def test_the_number_of_disk_reads_does_not_depend_on_log_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {"pread": 0, "pwrite": 0}

    class Counting(RealFileSystem):
        def pread(self, fd: int, size: int, offset: int, /) -> bytes:  # type: ignore[override]
            calls["pread"] += 1
            return os.pread(fd, size, offset)

        def pwrite(self, fd: int, data: bytes, offset: int, /) -> int:  # type: ignore[override]
            calls["pwrite"] += 1
            return os.pwrite(fd, data, offset)

    manager = LogManager(
        [str(tmp_path / "data")], Counting(), SystemClock(), new_id=lambda: os.urandom(16)
    )
    manager.open()
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(segment_bytes=1 << 20))
    now_ms = SystemClock().wall_ms()
    costs = []
    for _ in range(2):
        for _ in range(400):
            log.append(batch(b"x" * 5000), leader_epoch=0, now_ms=now_ms)
        calls.update(pread=0, pwrite=0)
        for _ in range(10):
            log.append(batch(b"x" * 5000), leader_epoch=0, now_ms=now_ms)
            log.read(log.log_end_offset - 1, max_bytes=1 << 20)
        costs.append(dict(calls))
    manager.close()
    assert costs[0] == costs[1] == {"pread": 20, "pwrite": 10}


def test_checkpoint_writes_of_two_threads_do_not_conflict(tmp_path: Path) -> None:
    """A truncation writes recovery points at once, even while a background task writes them."""
    manager = open_manager(tmp_path / "data")
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig())
    log.append(batch(b"value"), leader_epoch=0, now_ms=SystemClock().wall_ms())
    stop = threading.Event()

    def checkpoint() -> None:
        while not stop.is_set() and manager.failure is None:
            manager.checkpoint({"t-0": 1})

    chore = threading.Thread(target=checkpoint)
    chore.start()
    try:
        for _ in range(200):
            log.directory.save_recovery_points()
    finally:
        stop.set()
        chore.join()
    assert manager.failure is None
    manager.close()
