"""The final check after all faults have ended: what readers find, and whether replicas agree."""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.peers.cluster import Cluster
from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos.clients import PARTITIONS, TOPIC, found_in
from chaos.history import Found

FINAL_POLLS_S = 200.0
ANSWER_S = 10.0
POLL_S = 0.2
CHUNK_BYTES = 1 << 20


def read_all(
    bootstrap: str, timeout_s: float = FINAL_POLLS_S
) -> tuple[Mapping[int, Sequence[Found]], bool]:
    """Every committed record from the beginning, and whether all ends were reached.

    The ends are those of the logs: a transaction that a client left open must be aborted before a
    reader sees the records after it.
    """
    deadline = time.monotonic() + timeout_s
    ends = _ends(bootstrap, deadline)
    found: dict[int, list[Found]] = defaultdict(list)
    consumer = _consumer(bootstrap, "read_committed")
    try:
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        left = {index for index, end in ends.items() if end > 0}
        while left and time.monotonic() < deadline:
            for message in consumer.consume(1000, POLL_S):
                if message.error() is None:
                    record = found_in(message)
                    found[record.partition].append(record)
            positions = consumer.position([TopicPartition(TOPIC, index) for index in left])
            left -= {each.partition for each in positions if each.offset >= ends[each.partition]}
    finally:
        consumer.close()
    return dict(found), len(ends) == PARTITIONS and not left


def _ends(bootstrap: str, deadline: float) -> dict[int, int]:
    ends: dict[int, int] = {}
    consumer = _consumer(bootstrap, "read_uncommitted")
    try:
        while len(ends) < PARTITIONS and time.monotonic() < deadline:
            for index in range(PARTITIONS):
                with suppress(KafkaException):
                    place = TopicPartition(TOPIC, index)
                    _, ends[index] = consumer.get_watermark_offsets(place, ANSWER_S)
    finally:
        consumer.close()
    return ends


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "final",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def differing(cluster: Cluster) -> list[str]:
    """Partitions whose files differ between brokers; no writes may be in progress."""
    differences = []
    for index in range(PARTITIONS):
        folder = f"{TOPIC}-{index}"
        digests = {broker.number: _digest(broker.data / folder) for broker in cluster.brokers}
        if len(set(digests.values())) > 1:
            differences.append(f"{folder}: {digests}")
    return differences


def _digest(folder: Path) -> str:
    """A digest of all bytes of the log; segments may start at different offsets."""
    digest, size = hashlib.sha256(), 0
    for part in _parts(folder):
        digest.update(part)
        size += len(part)
    return f"{size} bytes, {digest.hexdigest()[:12]}"


def _parts(folder: Path) -> Iterator[bytes]:
    for segment in sorted(folder.glob("*.log")):
        with segment.open("rb") as file:
            while part := file.read(CHUNK_BYTES):
                yield part
