"""Files left by a crash or changed by hand: the data is still served."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from support.brokers.processes import BrokerProcess
from support.wire.batches import batch, fetch, fetch_request, produce, records_of
from support.wire.connection import Wire
from support.wire.topics import create_topic

pytestmark = pytest.mark.slow

RECORDS = 40
RECORD_BYTES = 80_000
BASE_MS = 1_700_000_000_000
CONFIGS = {"segment.bytes": 1_048_576, "index.interval.bytes": 1024}

Damage = Callable[[Path], object]


def _files(data: Path, *patterns: str) -> list[Path]:
    found = sorted(path for pattern in patterns for path in data.rglob(pattern) if path.is_file())
    assert found, patterns
    return found


def _remove(*patterns: str) -> Damage:
    return lambda data: [path.unlink() for path in _files(data, *patterns)]


def _garble(*patterns: str) -> Damage:
    return lambda data: [path.write_bytes(b"\xff" * 99) for path in _files(data, *patterns)]


def _lengthen(tail: bytes) -> Damage:
    def append(data: Path) -> None:
        with _files(data, "t-0/*.log")[-1].open("ab") as log:
            log.write(tail)

    return append


def _litter(data: Path) -> None:
    for name in ("lost+found", "gone-0.0123456789abcdef-delete", "odd", "t-1x"):
        (data / name).mkdir()
    for name in ("notes.txt", "00000000000000000005.log.deleted", "abc.log"):
        (data / "t-0" / name).write_bytes(b"x")


INDEXES = ("t-0/*.index", "t-0/*.timeindex")
DAMAGES: dict[str, Damage] = {
    "no indexes": _remove(*INDEXES),
    "indexes of noise": _garble(*INDEXES),
    "snapshots of noise": _garble("t-0/*.snapshot"),
    "no checkpoints": _remove("*checkpoint*"),
    "checkpoints of noise": _garble("*checkpoint*"),
    "no partition.metadata": _remove("t-0/partition.metadata"),
    "noise after the last batch": _lengthen(b"\xff" * 500),
    "zeros after the last batch": _lengthen(bytes(5000)),
    "strange files and directories": _litter,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as started:
        with Wire(started.bootstrap_servers) as wire:
            create_topic(wire, "t", 1, CONFIGS)
            _fill(wire, range(RECORDS // 2))
        assert started.stop() == 0  # writes every checkpoint
        started.start()
        with Wire(started.bootstrap_servers) as wire:
            _fill(wire, range(RECORDS // 2, RECORDS))
        yield started


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_records_are_served_after_a_crash_with(damage: str, broker: BrokerProcess) -> None:
    broker.kill()
    DAMAGES[damage](broker.data)
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert _values(wire) == [b"%04d" % number for number in range(RECORDS)]
        assert _offset_at(wire, BASE_MS + 20_500) == 21
        assert produce(wire, "t", _numbered(RECORDS - 1)).base_offset == RECORDS - 1  # duplicate
        assert produce(wire, "t", _numbered(RECORDS)).base_offset == RECORDS


def test_a_torn_batch_is_truncated_after_a_crash(broker: BrokerProcess) -> None:
    broker.kill()
    last = _files(broker.data, "t-0/*.log")[-1]
    os.truncate(last, last.stat().st_size - 100)
    broker.mark_log()
    broker.start()
    begins = "WARN the last stop was not clean; recovering the logs of a directory"
    assert broker.lines_since_mark(f"{begins} dir={broker.data} logs=1")
    assert broker.lines_since_mark("WARN truncated a log before a damaged batch")
    with Wire(broker.bootstrap_servers) as wire:
        assert len(_values(wire)) == RECORDS - 1
        assert produce(wire, "t", _numbered(RECORDS - 1)).base_offset == RECORDS - 1


def test_a_torn_batch_after_a_clean_stop_is_reported(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    last = _files(broker.data, "t-0/*.log")[-1]
    os.truncate(last, last.stat().st_size - 100)
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        lost = fetch(wire, fetch_request("t", RECORDS - 1))
        assert lost.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "t-0" in broker.log_text()


def _fill(wire: Wire, numbers: range) -> None:
    for number in numbers:
        assert produce(wire, "t", _numbered(number)).base_offset == number


def _numbered(number: int) -> bytes:
    return batch(
        b"%04d" % number * (RECORD_BYTES // 4),
        timestamp=BASE_MS + number * 1000,
        producer_id=9,
        producer_epoch=0,
        base_sequence=number,
    )


def _values(wire: Wire) -> list[bytes]:
    found: list[bytes] = []
    while True:
        data = fetch(wire, fetch_request("t", len(found)))
        assert data.error_code == 0
        records = records_of(data.records)
        if not records:
            return found
        found += [(record.value or b"")[:4] for record in records]


def _offset_at(wire: Wire, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
    )
    (answer,) = wire.call(request, ListOffsetsResponse).topics
    return answer.partitions[0].offset
