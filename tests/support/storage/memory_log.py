"""Shared helpers of the storage tests: logs in memory files, batches, reading back."""

from random import Random

from headrace.records.batch_header import check_batch, headers
from headrace.records.codec import Codec
from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch, iter_records
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import AppendResult, Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin
from headrace.testing.memory_files import MemoryFileSystem

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class ManualClock:
    """A clock that only moves when the test moves it."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms


def open_manager(
    fs: MemoryFileSystem,
    *,
    dirs: tuple[str, ...] = ("data",),
    config: LogConfig | None = None,
    max_open_files: int = 64,
    clock: ManualClock | None = None,
) -> LogManager:
    ids = Random(1)
    manager = LogManager(
        dirs,
        fs,
        clock or ManualClock(),
        new_id=lambda: ids.randbytes(16),
        max_open_files=max_open_files,
    )
    manager.open(lambda _topic: config or LogConfig())
    return manager


def open_log(
    fs: MemoryFileSystem | None = None, config: LogConfig | None = None
) -> tuple[LogManager, Log]:
    config = config or LogConfig()
    manager = open_manager(fs or MemoryFileSystem(), config=config)
    return manager, manager.get_or_create("t", 0, TOPIC_ID, config)


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"k",
) -> bytearray:
    records = [Record(n, timestamp, key, value) for n, value in enumerate(values)]
    return bytearray(
        build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            is_transactional=transactional,
        )
    )


def append(
    log: Log,
    data: bytearray,
    *,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
    origin: BatchOrigin = BatchOrigin.CLIENT,
) -> AppendResult:
    return log.append(data, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator: int = 0) -> bytearray:
    return bytearray(
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator,
            timestamp_ms=NOW_MS,
        )
    )


def values(log: Log, *, max_bytes: int = 300) -> dict[int, bytes]:
    """Every data record by offset, read as a consumer reads; each batch's CRC is checked."""
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, _ = log.read(offset, max_bytes=max_bytes)
        assert data
        for pos, header in headers(data, partial_tail=True):
            check_batch(data, pos, header)
            offset = header.next_offset
            for record in iter_records(data[pos : pos + header.size], max_bytes=1 << 20):
                if record.offset >= log.log_start_offset and not header.is_control:
                    found[record.offset] = record.value or b""
    return found


def file_in(fs: MemoryFileSystem, path: str) -> bytearray:
    """A file's bytes, for a test to inspect or damage."""
    node = fs.root
    for part in path.split("/"):
        node = node.names[part]  # type: ignore[union-attr,assignment]
    return node.data  # type: ignore[attr-defined,no-any-return]
