"""A broker compacts its logs in a separate process while clients continue."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.maintenance.cleaner_worker import answers_of
from headrace.broker.maintenance.log_cleaner import LogCleaner
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.offload import Offload
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.storage.cleaning.cleaner_messages import CleaningFailed, CleaningJob, encode_report
from headrace.storage.cleaning.swap import Swap
from headrace.storage.files.filesystem import RealFileSystem
from headrace.storage.log.log import Log
from headrace.testing import Broker
from support.brokers.processes import BrokerProcess, Spawn
from support.waiting import wait_for
from support.wire.batches import fetch, fetch_request, produce, records_of, whole_batches
from support.wire.connection import Wire
from support.wire.topics import create_topic

START_MS = 1_700_000_000_000
CLEANING = {"log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "0"}
# Records of different seconds are in different segments.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0",
}
DEADLINE_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=CLEANING) as started:
        yield started


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def cleaner_of(broker: Broker) -> LogCleaner:
    assert broker._running is not None
    return broker._running.broker.cleaner


def log_of(broker: Broker, topic: str) -> Log:
    assert broker._running is not None
    found = broker._running.broker.logs.get(topic, 0)
    assert found is not None
    return found


def put(
    wire: Wire,
    topic: str,
    second: int,
    *pairs: tuple[bytes, bytes | None],
    codec: Codec = Codec.NONE,
) -> int:
    """Appends one batch with its own second as timestamp; returns its first offset."""
    timestamp = START_MS + second * 2000
    records = [Record(n, timestamp, key, value) for n, (key, value) in enumerate(pairs)]
    answer = produce(wire, topic, build_batch(records, codec=codec))
    assert answer.error_code == 0
    return answer.base_offset


def read_all(wire: Wire, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """As a consumer does: from each batch to the offset after it."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = 0
    while True:
        data = fetch(wire, fetch_request(topic, offset))
        assert data.error_code == 0
        if offset >= data.high_watermark:
            return found
        batches = whole_batches(data.records)
        assert batches, f"nothing at offset {offset}"
        found += [(each.offset, each.key, each.value) for each in records_of(data.records)]
        last = batches[-1]
        offset = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1


def test_a_compacted_topic_keeps_the_last_value_of_each_key(broker: Broker, wire: Wire) -> None:
    create_topic(wire, "compacted", 1, COMPACTED)
    for second in range(30):
        pairs = [(b"k%d" % n, b"%d-%d" % (second, n)) for n in range(5)]
        put(wire, "compacted", second, *pairs, codec=Codec(second % 5))
    wait_for(
        lambda: len(read_all(wire, "compacted")) <= 10,
        "only the last values are left, and the active segment",
        deadline_s=DEADLINE_S,
    )
    assert read_all(wire, "compacted") == [
        (offset, b"k%d" % (offset % 5), b"%d-%d" % (offset // 5, offset % 5))
        for offset in range(140, 150)
    ]
    assert put(wire, "compacted", 40, (b"new", b"x")) == 150
    cleaner = cleaner_of(broker)
    wait_for(
        lambda: cleaner.status.bytes_read > cleaner.status.bytes_written > 0,
        "the status says what was done",
        deadline_s=DEADLINE_S,
    )
    assert cleaner.status.uncleanable == ()
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    wait_for(
        lambda: checkpoint.read_text() == "0\n1\ncompacted 0 150\n",
        "the checkpoint says how far the log is clean",
        deadline_s=DEADLINE_S,
    )


def test_a_compacted_log_is_the_same_after_a_restart(broker: Broker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "kept", 1, COMPACTED)
        for second in range(12):
            put(wire, "kept", second, (b"a", b"%d" % second), (b"b%d" % second, b"once"))
        wait_for(lambda: len(read_all(wire, "kept")) == 14, "compacted", deadline_s=DEADLINE_S)
        before = read_all(wire, "kept")
    broker.restart()
    with Wire(broker.bootstrap_servers) as wire:
        assert read_all(wire, "kept") == before
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert read_all(wire, "kept") == before
        assert put(wire, "kept", 20, (b"c", b"x")) == 24


def test_a_damaged_log_is_skipped_and_reported(broker: Broker, wire: Wire) -> None:
    create_topic(wire, "damaged", 1, COMPACTED)
    create_topic(wire, "sound", 1, COMPACTED)
    put(wire, "damaged", 0, (b"a", b"0"))
    path = Path(log_of(broker, "damaged").path) / "00000000000000000000.log"
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    size = path.stat().st_size
    for second in range(1, 4):
        put(wire, "damaged", second, (b"a", b"%d" % second))
        put(wire, "sound", second, (b"a", b"%d" % second))
    cleaner = cleaner_of(broker)
    wait_for(lambda: cleaner.status.uncleanable, "it is given up", deadline_s=DEADLINE_S)
    (left,) = cleaner.status.uncleanable
    assert (left.topic, left.partition) == ("damaged", 0)
    assert left.until_repaired
    assert "the checksum is wrong" in left.reason
    assert path.stat().st_size == size
    wait_for(
        lambda: [offset for offset, _, _ in read_all(wire, "sound")] == [1, 2],
        "the other log is compacted",
        deadline_s=DEADLINE_S,
    )


class ShortOfRoom:
    """Compacts in a thread and reports no space for the topic named large."""

    pid = 0

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._answers: list[bytes] = []

    async def send(self, line: bytes) -> None:
        self._answers += await self._offload(self._work, line)

    def _work(self, line: bytes) -> list[bytes]:
        if CleaningJob.decode(line).path.endswith("/large-0"):
            return [encode_report(CleaningFailed("No space left on device", is_transient=True))]
        return [encode_report(answer) for answer in answers_of(line, RealFileSystem())]

    async def receive(self) -> bytes:
        return self._answers.pop(0)

    def close(self) -> None:
        """There is no process."""


def test_a_log_without_disk_space_does_not_block_compaction_of_other_logs() -> None:
    """Other logs may need less space, and free some."""
    world = Environment(worker=lambda _loop, offload, _module: ShortOfRoom(offload))
    with (
        Broker(settings=CLEANING, world=world) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        for topic in ("large", "small"):
            create_topic(wire, topic, 1, COMPACTED)
            for second in range(10):
                put(wire, topic, second, (b"k", b"%d" % second))
        wait_for(
            lambda: len(read_all(wire, "small")) <= 2, "it is compacted", deadline_s=DEADLINE_S
        )
        assert len(read_all(wire, "large")) == 10


def test_the_worker_exits_when_idle(broker: Broker, wire: Wire) -> None:
    create_topic(wire, "brief", 1, COMPACTED)
    for second in range(4):
        put(wire, "brief", second, (b"a", b"%d" % second))
    cleaner = cleaner_of(broker)
    wait_for(
        lambda: cleaner.status.logs_cleaned and cleaner.worker_pid is None,
        "the work is done",
        deadline_s=DEADLINE_S,
    )


class Held:
    """A step of the swap that waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self.reached, self.released = threading.Event(), threading.Event()
        done = getattr(Swap, step)

        def held(swap: Swap) -> None:
            self.reached.set()
            assert self.released.wait(DEADLINE_S)
            done(swap)

        monkeypatch.setattr(Swap, step, held)


@pytest.mark.parametrize("step", ["prepare", "sync"])
def test_a_topic_can_be_deleted_during_a_segment_swap(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    held = Held(monkeypatch, step)
    create_topic(wire, "goes", 1, COMPACTED)
    for second in range(4):
        put(wire, "goes", second, (b"a", b"%d" % second))
    assert held.reached.wait(DEADLINE_S)
    log = log_of(broker, "goes")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="goes")], timeout_ms=5000)
    assert wire.call(request, DeleteTopicsResponse).responses[0].error_code == 0
    held.released.set()
    create_topic(wire, "stays", 1, COMPACTED)
    for second in range(4):
        put(wire, "stays", second, (b"a", b"%d" % second))
    wait_for(lambda: len(read_all(wire, "stays")) == 2, "compacted", deadline_s=DEADLINE_S)
    assert log.directory.failure is None
    assert cleaner_of(broker).status.uncleanable == ()


@pytest.mark.parametrize("step", ["prepare", "sync"])
def test_reads_continue_during_a_swap_and_a_stop_completes_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    held = Held(monkeypatch, step)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "held", 1, COMPACTED)
        for second in range(6):
            put(wire, "held", second, (b"a", b"%d" % second), (b"b%d" % second, b"once"))
        assert held.reached.wait(DEADLINE_S)
        found = {key: value for _, key, value in read_all(wire, "held")}
        assert found == {b"a": b"5", **{b"b%d" % second: b"once" for second in range(6)}}
        assert put(wire, "held", 6, (b"a", b"6")) == 12
    threading.Timer(0.05, held.released.set).start()
    broker.stop()
    assert not list(broker.data.glob("held-0/*.swap"))
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        found = {key: value for _, key, value in read_all(wire, "held")}
        assert found == {b"a": b"6", **{b"b%d" % second: b"once" for second in range(6)}}


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def slow_broker(spawn: Spawn) -> BrokerProcess:
    """A broker whose cleaner needs an hour for a log."""
    return spawn(
        {
            "log.cleaner.backoff.ms": 20,
            "log.segment.delete.delay.ms": 0,
            "log.cleaner.io.max.bytes.per.second": 1,
        },
        ephemeral=False,
    )


def start_cleaning(broker: BrokerProcess) -> int:
    """Returns the worker's process id."""
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "slow", 1, COMPACTED)
        for second in range(10):
            put(wire, "slow", second, (b"a", b"%d" % second), (b"b%d" % second, b"once"))
    return wait_for(
        lambda: next(iter(children_of(broker.pid)), None), "a worker", deadline_s=DEADLINE_S
    )


def test_the_worker_exits_when_the_broker_is_killed(spawn: Spawn) -> None:
    broker = slow_broker(spawn)
    worker = start_cleaning(broker)
    broker.kill()
    wait_for(lambda: not is_alive(worker), "the worker is gone", deadline_s=DEADLINE_S)
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        found = read_all(wire, "slow")
        assert [value for _, key, value in found if key == b"a"][-1] == b"9"
        assert {key for _, key, _ in found} >= {b"b%d" % n for n in range(10)}
        assert put(wire, "slow", 20, (b"c", b"x")) == 20


def test_a_stop_does_not_wait_for_the_worker(spawn: Spawn) -> None:
    broker = slow_broker(spawn)
    worker = start_cleaning(broker)
    wait_for(
        lambda: os.getpriority(os.PRIO_PROCESS, worker) == 19,
        "the lowest priority",
        deadline_s=DEADLINE_S,
    )
    assert broker.stop() == 0
    assert not is_alive(worker)


def test_the_broker_survives_a_killed_worker(spawn: Spawn) -> None:
    broker = slow_broker(spawn)
    worker = start_cleaning(broker)
    os.kill(worker, signal.SIGKILL)
    wait_for(
        lambda: [pid for pid in children_of(broker.pid) if pid != worker and is_alive(pid)],
        "another worker tries again",
        deadline_s=DEADLINE_S,
    )
    with Wire(broker.bootstrap_servers) as wire:
        assert len(read_all(wire, "slow")) == 20


def test_the_cleaner_checkpoint_is_on_disk_before_a_segment_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash in between, gaps left by compaction must not count as missing segments."""
    known: list[bool] = []
    prepare = Swap.prepare

    def prepared(swap: Swap) -> None:
        checkpoint = tmp_path / "cleaner-offset-checkpoint"
        known.append(checkpoint.exists() and "\nt 0 " in checkpoint.read_text())
        prepare(swap)

    monkeypatch.setattr(Swap, "prepare", prepared)
    with Broker(data=tmp_path, settings=CLEANING) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "t", configs=COMPACTED)
        for second in range(4):
            put(wire, "t", second, (b"k", b"%d" % second))
        wait_for(lambda: known, "a segment is replaced")
    assert known[0]
