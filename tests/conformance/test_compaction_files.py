"""Compaction beside Apache Kafka's: the same log, cleaned by both, is the same log.

Needs Java and the directory of Kafka's jars in HEADRACE_KAFKA_LIB.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.clock import SystemClock
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.files.filesystem import RealFileSystem
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from support.clients.java import KafkaNode, run
from support.storage.cleaning import LogCleaner, batches_of
from support.waiting import wait_for

TOPIC = "compacted"
ROUNDS = 8
DEADLINE_S = 90.0
COMPLAINTS = ("mismatch", "Mismatch", "out of order", "not valid", "isvalid: false", "Exception")
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    index_interval_bytes=512,
    segment_ms=1000,
)

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (os.environ.get("HEADRACE_KAFKA_LIB") and shutil.which("java")),
        reason="needs java and HEADRACE_KAFKA_LIB, the directory of Apache Kafka's jars",
    ),
]


class Shape(NamedTuple):
    """The fields of two cleaned batches that must be equal: all but the cleaning time."""

    offsets: tuple[int, int]
    producer: tuple[int, int, int]
    attributes: int
    max_timestamp: int
    leader_epoch: int
    records: tuple[tuple[int, int, bytes | None, bytes | None], ...]


def shapes_of(log: Log) -> list[Shape]:
    return [
        Shape(
            (header.base_offset, header.last_offset),
            (header.producer_id, header.producer_epoch, header.base_sequence),
            header.attributes,
            header.max_timestamp,
            header.partition_leader_epoch,
            tuple((each.offset, each.timestamp, each.key, each.value) for each in records),
        )
        for header, records in batches_of(log)
    ]


def open_log(directory: Path) -> tuple[LogManager, Log]:
    manager = LogManager(
        [str(directory)],
        RealFileSystem(),
        SystemClock(),
        new_id=lambda: os.urandom(16),
        node_id=1,
    )
    manager.open(lambda _topic: CONFIG)
    found = manager.get(TOPIC, 0)
    assert found is not None
    found.load()
    return manager, found


def create(admin: AdminClient) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "index.interval.bytes": "512",
        "min.cleanable.dirty.ratio": "0.0",
        # Nothing is cleaned before we say so.
        "min.compaction.lag.ms": str(2**62),
    }
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)


def fill(bootstrap: str) -> dict[bytes, bytes | None]:
    """Writes keys repeatedly; returns the last committed value of each."""
    last: dict[bytes, bytes | None] = {}
    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    plain = [
        Producer({**common, "compression.type": codec, "enable.idempotence": codec != "none"})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ]
    txn = Producer({**common, "transactional.id": "t", "compression.type": "lz4"})
    txn.init_transactions(60)
    start_ms = SystemClock().wall_ms()
    for number in range(ROUNDS):
        timestamp = start_ms + number * 5000  # a segment of its own
        for which, producer in enumerate(plain):
            for n in range(12):
                key = b"k%d" % ((number * 7 + which * 3 + n) % 40)
                value = None if (number + n) % 9 == 0 else b"%d-%d-%d" % (number, which, n) * 5
                producer.produce(TOPIC, value, key, timestamp=timestamp + n)
                last[key] = value
            assert producer.flush(60) == 0
        commit = number % 3 != 1
        txn.begin_transaction()
        for n in range(6):
            key, value = b"t%d" % ((number + n) % 9), b"txn-%d-%d" % (number, n)
            txn.produce(TOPIC, value, key, timestamp=timestamp + 20 + n)
            if commit:
                last[key] = value
        if commit:
            txn.commit_transaction(60)
        else:
            txn.abort_transaction(60)
    return last


def let_kafka_clean(admin: AdminClient, data: Path) -> None:
    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    checkpoint = data / "cleaner-offset-checkpoint"
    wait_for(
        lambda: checkpoint.exists() and f"\n{TOPIC} 0 " in checkpoint.read_text(),
        "Kafka has cleaned",
        deadline_s=DEADLINE_S,
    )


def consume(bootstrap: str) -> dict[bytes, bytes | None]:
    """The last value of each key, as a read_committed consumer of Kafka's broker sees it."""
    last: dict[bytes, bytes | None] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        give_up = time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up:
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                last[message.key() or b""] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return last
        raise AssertionError("the end of the partition did not come")
    finally:
        consumer.close()


def dump(partition: Path) -> None:
    """Kafka's own tool reads every file without a complaint."""
    files = sorted(
        str(path)
        for path in partition.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    )
    output = run(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--files",
        ",".join(files),
    )
    assert [line for line in output.splitlines() if any(c in line for c in COMPLAINTS)] == []
    assert "deleteHorizonMs: OptionalLong[" in output
    for suffix in (".index", ".timeindex"):
        named = [name for name in files if name.endswith(suffix)]
        output = run(
            "org.apache.kafka.tools.DumpLogSegments",
            "--index-sanity-check",
            "--files",
            ",".join(named),
        )
        assert output.count("passed sanity check") == len(named)


class Cleaned(NamedTuple):
    """One log before and after Kafka cleaned it, and the last value of each key."""

    kafka: KafkaNode  # stopped
    before: Path
    after: Path
    last: dict[bytes, bytes | None]


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cleaned]:
    home = tmp_path_factory.mktemp("compaction")
    before, after = home / "before", home / "after"
    with KafkaNode(home / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        create(admin)
        last = fill(kafka.bootstrap_servers)
        kafka.stop()
        shutil.copytree(kafka.data, before)
        kafka.start()
        let_kafka_clean(admin, kafka.data)
        kafka.stop()
        shutil.copytree(kafka.data, after)
        yield Cleaned(kafka, before, after, last)


def test_both_brokers_compact_a_log_alike_and_kafka_opens_ours(
    cleaned: Cleaned, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    shutil.copytree(cleaned.before, ours)
    shutil.copytree(cleaned.after, theirs)
    manager, log = open_log(ours)
    end = log.log_end_offset
    done = LogCleaner(log, read_bytes=1 << 16).run(SystemClock().wall_ms())
    assert done.bytes_written < done.bytes_read / 2
    manager.save_cleaner_offset(log, done.next_dirty)
    shapes = shapes_of(log)
    manager.close()
    manager, log = open_log(theirs)
    assert shapes == shapes_of(log)
    assert manager.cleaner_offset(log) == done.next_dirty
    manager.close()
    dump(ours / f"{TOPIC}-0")

    # Kafka opens the log that Headrace cleaned.
    kafka = cleaned.kafka
    shutil.rmtree(kafka.data)
    shutil.copytree(ours, kafka.data)
    kafka.start()
    values = {key: value for key, value in cleaned.last.items() if value is not None}
    seen = consume(kafka.bootstrap_servers)
    assert {key: value for key, value in seen.items() if value is not None} == values
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    told: list[int | None] = []
    producer.produce(TOPIC, b"x", b"new", on_delivery=lambda _, m: told.append(m.offset()))
    assert producer.flush(60) == 0
    assert told == [end]
    kafka.stop()


def test_an_interrupted_swap_of_kafka_is_completed(cleaned: Cleaned, tmp_path: Path) -> None:
    """Kafka was killed between naming a cleaned segment `.swap` and giving it its name."""
    data, finished = tmp_path / "data", tmp_path / "finished"
    shutil.copytree(cleaned.before, data)
    shutil.copytree(cleaned.after, finished)
    # The first cleaned segment, as `.swap`, beside those it was made from.
    for path in (finished / f"{TOPIC}-0").glob("00000000000000000000.*"):
        if path.suffix != ".snapshot":
            shutil.copy(path, data / f"{TOPIC}-0" / f"{path.name}.swap")
    (data / ".kafka_cleanshutdown").unlink()
    manager, log = open_log(finished)
    expected = shapes_of(log)
    manager.close()
    manager, log = open_log(data)
    assert shapes_of(log) == expected
    assert not list((data / f"{TOPIC}-0").glob("*.swap"))
    manager.close()
