"""Old segments are deleted whole, oldest first, by size and by time."""

import pytest

from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from support.brokers.processes import BrokerProcess, Spawn
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, now_ms, produce
from support.wire.connection import Wire
from support.wire.topics import create_topic

SEGMENT_BYTES = 1_048_576
RECORD_BYTES = 100_000
HOUR_MS = 3_600_000
EARLIEST = -2


@pytest.fixture
def broker(spawn: Spawn) -> BrokerProcess:
    return spawn({"log.retention.check.interval.ms": 50, "log.segment.delete.delay.ms": 50})


def fill(wire: Wire, topic: str, count: int, *, timestamp: int | None = None) -> None:
    for _ in range(count):
        assert produce(wire, topic, batch(b"x" * RECORD_BYTES, timestamp=timestamp)).error_code == 0


def log_start(wire: Wire, topic: str) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    (answer,) = wire.call(request, ListOffsetsResponse).topics
    return answer.partitions[0].offset


def test_old_segments_are_deleted_by_size(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(
            wire, "sized", 1, {"segment.bytes": SEGMENT_BYTES, "retention.bytes": 2 * SEGMENT_BYTES}
        )
        fill(wire, "sized", 60)
        # Ten records a segment; one more would leave less than retention.bytes.
        wait_for(lambda: log_start(wire, "sized") == 30, "the three oldest segments are gone")
        last = fetch(wire, fetch_request("sized", 59))
        assert (last.error_code, last.high_watermark) == (0, 60)
        assert produce(wire, "sized", batch(b"next")).base_offset == 60


def test_old_segments_are_deleted_by_age(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "aged", 1, {"segment.bytes": SEGMENT_BYTES, "retention.ms": HOUR_MS})
        fill(wire, "aged", 30, timestamp=now_ms() - 2 * HOUR_MS)
        fill(wire, "aged", 2)
        wait_for(lambda: log_start(wire, "aged") > 0, "the old segments are gone")
        data = fetch(wire, fetch_request("aged", 31))
        assert (data.error_code, data.high_watermark) == (0, 32)


def test_segments_within_both_limits_are_kept(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "young", 1, {"segment.bytes": SEGMENT_BYTES})
        create_topic(
            wire, "doomed", 1, {"segment.bytes": SEGMENT_BYTES, "retention.bytes": SEGMENT_BYTES}
        )
        fill(wire, "young", 30)
        fill(wire, "doomed", 30)
        wait_for(lambda: log_start(wire, "doomed") > 0, "retention has run")
        assert log_start(wire, "young") == 0


def test_files_of_deleted_topics_are_removed(spawn: Spawn) -> None:
    broker = spawn({"log.segment.delete.delay.ms": 50}, ephemeral=False)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "gone", 3)
        produce(wire, "gone", batch(b"a"))
        assert list(broker.data.glob("gone-*"))
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=5000)
        assert wire.call(request, DeleteTopicsResponse).responses[0].error_code == 0
        wait_for(lambda: not list(broker.data.glob("gone*")), "its files are gone", deadline_s=60)
