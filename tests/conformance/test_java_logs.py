"""The same files for both: DumpLogSegments on a broker's log, a broker on Kafka's log."""

import re
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer

from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.brokers.processes import BrokerProcess
from support.clients.java import KafkaNode, run
from support.wire.batches import (
    batch,
    fetch,
    fetch_request,
    produce,
    records_of,
    topic_id_of,
    values_of,
)
from support.wire.connection import Wire
from support.wire.topics import create_topic

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPLAINT = re.compile(
    r"mismatch|not valid|isvalid: false|exception|non-consecutive", re.IGNORECASE
)
RECORDS_PER_CODEC = 400
SMALL_SEGMENTS = {"segment.bytes": 1_048_576, "index.interval.bytes": 1024}


def fill(bootstrap: str, topic: str) -> list[bytes]:
    """Records of every codec from idempotent producers; returns their values in order."""
    values = []
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.num.messages": 20,
            }
        )
        for number in range(RECORDS_PER_CODEC):
            value = f"{codec} {number} ".encode() * 600
            values.append(value)
            producer.produce(topic, value, key=b"k%d" % number, headers=[("codec", codec.encode())])
        assert producer.flush(30) == 0
    return values


def test_kafka_reads_a_log_that_a_broker_wrote(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "ours", 1, SMALL_SEGMENTS)
        values = fill(broker.bootstrap_servers, "ours")
        assert broker.stop() == 0
        logs = sorted(broker.data.rglob("ours-0/*.log"))
        assert len(logs) > 1
        out = run(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs)))
        assert not COMPLAINT.search(out), out[:2000]
        assert len(re.findall(r"^\| offset: ", out, re.MULTILINE)) == len(values)
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", out, re.MULTILINE)]
        assert offsets == list(range(len(values)))
        for kind in ("index", "timeindex", "snapshot"):
            files = sorted(broker.data.rglob(f"ours-0/*.{kind}"))
            assert files, kind
            told = run(DUMP, "--index-sanity-check", "--files", ",".join(map(str, files)))
            assert not COMPLAINT.search(told), told[:2000]
            verified = run(DUMP, "--files", ",".join(map(str, files)))
            assert not COMPLAINT.search(verified), verified[:2000]


def test_a_broker_serves_a_log_that_kafka_wrote(tmp_path: Path) -> None:
    with KafkaNode(tmp_path / "kafka") as kafka:
        with Wire(kafka.bootstrap_servers) as wire:
            create_topic(wire, "theirs", 1, SMALL_SEGMENTS)
            topic_id = topic_id_of(wire, "theirs")
        values = fill(kafka.bootstrap_servers, "theirs")
        with Wire(kafka.bootstrap_servers) as wire:
            before = _everything(wire, "theirs")
        kafka.stop()
        assert [value for _, _, value in before] == values
        with (
            BrokerProcess(
                tmp_path / "broker", data=kafka.data, settings=_node_of(kafka.data)
            ) as broker,
            Wire(broker.bootstrap_servers) as wire,
        ):
            told = wire.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
            assert "theirs" in {topic.name for topic in told}
            assert "__cluster_metadata" not in {topic.name for topic in told}
            assert topic_id_of(wire, "theirs") == topic_id
            assert _everything(wire, "theirs") == before
            # The broker appends after the last offset that Kafka wrote.
            assert produce(wire, "theirs", batch(b"ours")).base_offset == len(values)
            tail = fetch(wire, fetch_request("theirs", len(values)))
            assert values_of(tail.records) == [b"ours"]


def _node_of(data: Path) -> Mapping[str, object]:
    """The node id that Kafka noted in its directory; a broker must not take another's."""
    lines = (data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("node.id="))


def _everything(wire: Wire, topic: str) -> list[tuple[int, int, bytes | None]]:
    found: list[tuple[int, int, bytes | None]] = []
    while True:
        offset = len(found)
        data = fetch(wire, fetch_request(topic, offset))
        records = [record for record in records_of(data.records) if record.offset >= offset]
        if not records:
            return found
        found += [(record.offset, record.timestamp, record.value) for record in records]
