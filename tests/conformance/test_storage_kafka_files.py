"""Our files against Apache Kafka's own code, both ways.

Needs Java and the directory of Kafka's jars in HEADRACE_KAFKA_LIB.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.clock import SystemClock
from headrace.records.batch_header import check_batch, headers
from headrace.records.codec import Codec
from headrace.records.control import end_txn_marker
from headrace.records.record import Record, build_batch, iter_records
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.files.filesystem import RealFileSystem
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin

KAFKA_LIB = os.environ.get("HEADRACE_KAFKA_LIB", "")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TOPIC_ID = bytes(range(16))
START_TIMEOUT_S = 60
COMPLAINTS = (
    "mismatch",
    "Mismatch",
    "out of order",
    "not valid",
    "isvalid: false",
    "Exception",
    "corrupt",
    "on-consecutive",
    "Found ",
)

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (KAFKA_LIB and shutil.which("java")),
        reason="needs java and HEADRACE_KAFKA_LIB, the directory of Apache Kafka's jars",
    ),
]


def java(main: str, *arguments: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{KAFKA_LIB}/*", main, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def open_manager(directory: Path) -> LogManager:
    manager = LogManager(
        [str(directory)],
        RealFileSystem(),
        SystemClock(),
        new_id=lambda: os.urandom(16),
        node_id=1,
        cluster_id=CLUSTER_ID,
    )
    manager.open()
    return manager


def read_all(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Every data record of the log: offset, key, value; each batch's CRC is checked."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, _ = log.read(offset, max_bytes=1 << 20)
        for pos, header in headers(data, partial_tail=True):
            check_batch(data, pos, header)
            offset = header.next_offset
            if not header.is_control:
                records = iter_records(data[pos : pos + header.size], max_bytes=1 << 26)
                found.extend((record.offset, record.key, record.value) for record in records)
    return found


def write_with_us(directory: Path) -> Path:
    """A log with several segments, codecs, producers, transactions and leader epochs."""
    manager = open_manager(directory)
    config = LogConfig(segment_bytes=200_000, index_interval_bytes=4096)
    log = manager.get_or_create("ours", 0, TOPIC_ID, config)
    rng = random.Random(3)
    now_ms = SystemClock().wall_ms()
    for number in range(300):
        records = [
            Record(n, now_ms + number, b"k%d" % n, rng.randbytes(rng.randint(0, 300)))
            for n in range(rng.randint(1, 20))
        ]
        producer_id = rng.choice((-1, 5, 6))
        entry = log.producers.get(producer_id)
        batch = build_batch(
            records,
            codec=Codec(number % 5),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=(entry.last_sequence + 1 if entry else 0) if producer_id >= 0 else -1,
            is_transactional=producer_id == 6,
        )
        log.append(bytearray(batch), leader_epoch=number // 100, now_ms=now_ms)
        if number % 25 == 24 and log.producers.get(6):
            marker = end_txn_marker(
                commit=number % 2 == 0,
                producer_id=6,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=now_ms + number,
            )
            log.append(
                bytearray(marker),
                leader_epoch=number // 100,
                now_ms=now_ms,
                origin=BatchOrigin.COORDINATOR,
            )
    manager.close()
    return directory / "ours-0"


def test_dump_log_segments_reads_our_files_without_complaint(tmp_path: Path) -> None:
    partition = write_with_us(tmp_path / "data")
    files = sorted(
        str(path)
        for path in partition.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    )
    assert {Path(name).suffix for name in files} == {
        ".log",
        ".index",
        ".timeindex",
        ".txnindex",
        ".snapshot",
    }
    output = java(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--files",
        ",".join(files),
    )
    complaints = [line for line in output.splitlines() if any(c in line for c in COMPLAINTS)]
    assert complaints == []
    assert output.count("isvalid: true") >= 300
    for suffix in (".index", ".timeindex"):
        output = java(
            "org.apache.kafka.tools.DumpLogSegments",
            "--index-sanity-check",
            "--files",
            ",".join(name for name in files if name.endswith(suffix)),
        )
        assert output.count("passed sanity check") == sum(n.endswith(suffix) for n in files)


class Kafka:
    """Apache Kafka with one node on a directory."""

    def __init__(self, directory: Path, port: int, controller_port: int) -> None:
        self.directory = directory
        self.bootstrap = f"127.0.0.1:{port}"
        self._config = directory.parent / "kafka.properties"
        self._config.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={directory}\nmetadata.log.dir={directory.parent / 'metadata'}\n"
            "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ntransaction.state.log.num.partitions=2\n"
            "log.initial.task.delay.ms=100\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        java(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(self._config),
            "--ignore-formatted",
        )

    def start(self) -> None:
        out = (self.directory.parent / "kafka.out").open("ab")
        with out:
            self._process = subprocess.Popen(
                ["java", "-Xmx512m", "-cp", f"{KAFKA_LIB}/*", "kafka.Kafka", str(self._config)],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except Exception:
                assert self._process.poll() is None, (
                    self.directory.parent / "kafka.out"
                ).read_text()
        raise AssertionError("Apache Kafka did not start")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    ports = []
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for each in sockets:
        ports.append(each.getsockname()[1])
        each.close()
    broker = Kafka(tmp_path / "kafka", *ports)
    broker.format()
    broker.start()
    try:
        yield broker
    finally:
        broker.stop(signal.SIGKILL)


def produce(kafka: Kafka, topic: str, segment_bytes: int) -> list[tuple[bytes, bytes]]:
    """Idempotent, compressed and transactional records; returns the committed ones."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    config = {"segment.bytes": str(segment_bytes), "index.interval.bytes": "1024"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    sent = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "batch.num.messages": 50,
        }
    )
    for number in range(5000):
        pair = (b"k%d" % number, b"v%d" % number * 20)
        producer.produce(topic, key=pair[0], value=pair[1])
        sent.append(pair)
        if number % 500 == 0:
            producer.flush()
    producer.flush()
    txn = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t1"})
    txn.init_transactions()
    for number in range(7):
        txn.begin_transaction()
        for record in range(10):
            pair = (b"txn", b"%d-%d" % (number, record))
            txn.produce(topic, key=pair[0], value=pair[1])
            sent.append(pair)
        txn.flush()
        if number % 2:
            txn.abort_transaction()
        else:
            txn.commit_transaction()
    return sent


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_directory_that_kafka_wrote_opens_and_accepts_appends(
    kafka: Kafka, tmp_path: Path, how: signal.Signals
) -> None:
    """Kafka -> us -> Kafka: all records are readable, and Kafka's tools accept the files."""
    sent = produce(kafka, "theirs", 65_536 * 16)
    kafka.stop(how)
    manager = open_manager(kafka.directory)
    log = manager.get("theirs", 0)
    assert log is not None and log.failure is None
    assert [(key, value) for _, key, value in read_all(log)] == sent
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 3
    # Kafka writes the last marker after its client has been answered.
    assert log.last_stable_offset in (log.log_end_offset, log.log_end_offset - 10)
    assert log.latest_epoch >= 0
    first = log.log_end_offset
    batch = build_batch([Record(0, SystemClock().wall_ms(), b"ours", b"x")])
    log.append(bytearray(batch), leader_epoch=log.latest_epoch, now_ms=SystemClock().wall_ms())
    manager.close()
    assert (kafka.directory / ".kafka_cleanshutdown").exists()
    kafka.start()
    # Uncommitted: Kafka may still owe the marker of the transaction that it was killed in.
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        consumer.assign([TopicPartition("theirs", 0, first)])
        deadline = time.monotonic() + START_TIMEOUT_S
        message = consumer.poll(1)
        while (message is None or message.error()) and time.monotonic() < deadline:
            message = consumer.poll(1)
        assert message is not None and message.error() is None
        assert (message.offset(), message.key()) == (first, b"ours")
    finally:
        consumer.close()
    kafka.stop()
    out = (tmp_path / "kafka.out").read_text()
    assert "theirs-0" in out
