"""On a full disk writes get a retriable error until there is space; reads continue."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from support.brokers.processes import BrokerProcess, is_root
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce, records_of
from support.wire.connection import Wire
from support.wire.topics import create_topic

DISK_BYTES = 16 << 20
FILLER_BYTES = 8 << 20
RECORD_BYTES = 100_000
MOUNT = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && exec "$@"'


def _can_mount() -> bool:
    """Whether this machine allows mounts in a private namespace."""
    if not is_root() or shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    if not _can_mount():
        pytest.skip("needs root and mount namespaces for a small disk of its own")
    disk = tmp_path / "disk"
    disk.mkdir()
    before = ["unshare", "-m", "sh", "-c", MOUNT, str(disk)]
    settings = {"headrace.log.level": "INFO"}
    home = tmp_path / "broker"
    with BrokerProcess(home, before=before, data=disk / "data", settings=settings) as started:
        yield started


@pytest.fixture
def filler(broker: BrokerProcess) -> Path:
    """A file that uses half of the broker's disk, seen through its mount namespace."""
    disk = Path(f"/proc/{broker.pid}/root{broker.data.parent}")
    path = disk / "filler"
    path.write_bytes(bytes(FILLER_BYTES))
    return path


def test_a_full_disk_rejects_writes_serves_reads_and_recovers(
    broker: BrokerProcess, filler: Path
) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "full")
        create_topic(wire, "other")
        acknowledged: list[bytes] = []
        refused = ErrorCode.NONE
        while not refused:
            value = b"%08d" % len(acknowledged) * (RECORD_BYTES // 8)
            result = produce(wire, "full", batch(value))
            refused = ErrorCode(result.error_code)
            if not refused:
                assert result.base_offset == len(acknowledged)
                acknowledged.append(value)
            assert len(acknowledged) * RECORD_BYTES < DISK_BYTES
        assert refused.retriable, refused
        assert acknowledged
        assert _read(wire) == acknowledged

        # Another connection and another topic are served too.
        with Wire(broker.bootstrap_servers) as neighbour:
            assert fetch(neighbour, fetch_request("other")).error_code == 0

        full = "WARN log directory full: it refuses appends until there is space"
        wait_for(lambda: broker.lines_since_mark(full), "the full directory is logged")
        (line,) = broker.lines_since_mark(full)
        assert f" dir={broker.data} free_bytes=" in line
        assert line.endswith(" refused_appends=1 logs=1 examples=full-0")

        filler.unlink()

        def accepted() -> bool:
            return produce(wire, "full", batch(b"room again")).error_code == 0

        wait_for(accepted, "writes work again without a restart")
        assert _read(wire)[: len(acknowledged) + 1] == [*acknowledged, b"room again"]
        again = f"INFO log directory has space again dir={broker.data} free_bytes="
        wait_for(lambda: broker.lines_since_mark(again), "the recovery is logged")
        assert broker.running


def _read(wire: Wire) -> list[bytes | None]:
    values: list[bytes | None] = []
    while True:
        data = fetch(wire, fetch_request("full", len(values)))
        assert data.error_code == 0
        found = records_of(data.records)
        if not found:
            return values
        assert [record.offset for record in found] == list(
            range(len(values), len(values) + len(found))
        )
        values += [record.value for record in found]


def test_metadata_writes_to_a_full_disk_are_rejected_without_closing_connections(
    broker: BrokerProcess, filler: Path
) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "before")
        with (
            contextlib.suppress(OSError),
            (filler.parent / "more").open("wb", buffering=0) as more,
        ):
            while True:
                more.write(bytes(4096))
        new = CreatableTopic(name="large", num_partitions=2000, replication_factor=1)
        answer = wire.call(CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
        code = ErrorCode(answer.topics[0].error_code)
        assert code is ErrorCode.KAFKA_STORAGE_ERROR and code.retriable
        assert "full" in (answer.topics[0].error_message or "")
        key = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
        found = wire.call(key, FindCoordinatorResponse)
        assert ErrorCode(found.coordinators[0].error_code).retriable
        filler.unlink()

        def created() -> bool:
            answer = wire.call(CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
            return answer.topics[0].error_code == 0

        wait_for(created, "topics are created again without a restart")
