"""ListOffsets: by time and by every special timestamp, in the versions that know them."""

import pytest

from headrace.broker.lag.consumer_lag import MAX_POSITIONS_PER_REQUEST
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ConsumerPosition,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from support.wire.batches import batch, produce
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

LIST_OFFSETS = APIS[ApiKey.LIST_OFFSETS]
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
BASE_MS = 1_700_000_000_000


def ask(
    wire: Wire,
    topic: str,
    timestamp: int,
    *,
    version: int = LIST_OFFSETS.max_version,
    partition: int = 0,
    leader_epoch: int = -1,
) -> tuple[int, int, int]:
    """Error, timestamp and offset."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition,
                        timestamp=timestamp,
                        current_leader_epoch=leader_epoch,
                    )
                ],
            )
        ],
        timeout_ms=5000,
    )
    (answer,) = wire.call(request, ListOffsetsResponse, version).topics
    (found,) = answer.partitions
    return found.error_code, found.timestamp, found.offset


@pytest.fixture
def filled(wire: Wire, topic: str) -> str:
    """Four batches; the largest timestamp is in the third."""
    for delta in (0, 1000, 5000, 2000):
        produce(wire, topic, batch(b"a", b"b", timestamp=BASE_MS + delta))
    return topic


@pytest.mark.parametrize("version", range(LIST_OFFSETS.min_version, LIST_OFFSETS.max_version + 1))
def test_every_version_returns_earliest_and_latest_offsets(
    wire: Wire, filled: str, version: int
) -> None:
    assert ask(wire, filled, LATEST, version=version) == (0, -1, 8)
    assert ask(wire, filled, EARLIEST, version=version) == (0, -1, 0)
    assert ask(wire, filled, BASE_MS + 1, version=version) == (0, BASE_MS + 1000, 2)


def test_an_unused_log_has_earliest_and_latest_offsets(wire: Wire, topic: str) -> None:
    assert ask(wire, topic, LATEST) == (0, -1, 0)
    assert ask(wire, topic, EARLIEST) == (0, -1, 0)


def test_a_timestamp_finds_the_first_record_at_or_after_it(wire: Wire, filled: str) -> None:
    assert ask(wire, filled, 0) == (0, BASE_MS, 0)
    assert ask(wire, filled, BASE_MS) == (0, BASE_MS, 0)
    assert ask(wire, filled, BASE_MS + 1000) == (0, BASE_MS + 1000, 2)
    assert ask(wire, filled, BASE_MS + 1500) == (0, BASE_MS + 5000, 4)
    assert ask(wire, filled, BASE_MS + 5001) == (0, -1, -1)


def test_the_largest_timestamp_has_an_offset(wire: Wire, filled: str) -> None:
    assert ask(wire, filled, MAX_TIMESTAMP) == (0, BASE_MS + 5000, 4)


def test_without_tiered_storage_the_local_log_is_the_whole_log(wire: Wire, filled: str) -> None:
    assert ask(wire, filled, EARLIEST_LOCAL) == (0, -1, 0)
    assert ask(wire, filled, LATEST_TIERED) == (0, -1, -1)
    assert ask(wire, filled, PENDING_UPLOAD) == (0, -1, -1)


def test_an_empty_log_has_offsets_but_no_timestamps(wire: Wire, topic: str) -> None:
    assert ask(wire, topic, LATEST) == (0, -1, 0)
    assert ask(wire, topic, EARLIEST) == (0, -1, 0)
    assert ask(wire, topic, MAX_TIMESTAMP) == (0, -1, -1)
    assert ask(wire, topic, BASE_MS) == (0, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (PENDING_UPLOAD, 11)],
)
def test_a_special_timestamp_is_rejected_before_its_version(
    wire: Wire, filled: str, timestamp: int, since: int
) -> None:
    assert ask(wire, filled, timestamp, version=since - 1)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert ask(wire, filled, timestamp, version=since)[0] == 0


def test_an_undefined_negative_timestamp_is_rejected(wire: Wire, filled: str) -> None:
    assert ask(wire, filled, -99)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_unknown_partitions_and_future_epochs_are_rejected(wire: Wire, filled: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(wire, filled, LATEST, partition=5)[0] == unknown
    assert ask(wire, filled + "-not", LATEST)[0] == unknown
    assert ask(wire, filled, LATEST, leader_epoch=9)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_duplicate_partition_is_an_invalid_request(wire: Wire, filled: str) -> None:
    twice = [ListOffsetsPartition(partition_index=0, timestamp=LATEST) for _ in range(2)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=filled, partitions=twice)]
    )
    (answer,) = wire.call(request, ListOffsetsResponse).topics
    assert {found.error_code for found in answer.partitions} == {ErrorCode.INVALID_REQUEST}


def test_timestamp_lookups_work_across_many_segments(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"segment.bytes": 1_048_576, "index.interval.bytes": 4096})
    for step in range(40):
        value = bytes([step]) * 60_000
        produce(wire, topic, batch(value, timestamp=BASE_MS + step * 1000))
    for step in (0, 1, 17, 18, 39):
        assert ask(wire, topic, BASE_MS + step * 1000) == (0, BASE_MS + step * 1000, step)
        if step:
            assert ask(wire, topic, BASE_MS + step * 1000 - 999)[2] == step
    assert ask(wire, topic, MAX_TIMESTAMP) == (0, BASE_MS + 39_000, 39)


def positions_of(wire: Wire, topic: str, *offsets: int) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(
        timestamp=LATEST, positions=[ConsumerPosition(offset=offset) for offset in offsets]
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    (found,) = wire.call(request, ListOffsetsResponse).topics
    return found.partitions[0]


def test_positions_of_consumers_get_their_next_records(wire: Wire, filled: str) -> None:
    found = positions_of(wire, filled, 0, 3, 8)
    assert [(each.offset, each.timestamp) for each in found.next_records] == [
        (0, BASE_MS),
        (3, BASE_MS + 1000),
        (-1, -1),
    ]
    assert (found.offset, found.high_watermark, found.log_start_offset) == (8, 8, 0)
    assert found.last_stable_offset == 8


def test_too_many_positions_in_one_request_get_no_answer(wire: Wire, filled: str) -> None:
    found = positions_of(wire, filled, *[0] * (MAX_POSITIONS_PER_REQUEST + 1))
    assert (found.error_code, found.offset, found.next_records) == (0, 8, [])
