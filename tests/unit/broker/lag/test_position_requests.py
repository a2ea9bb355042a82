"""Positions in ListOffsets: what a leader answers is what the coordinator reads."""

from headrace.broker.lag.position_requests import fill_response, request_of, states_in
from headrace.broker.lag.positions import (
    OpenTransaction,
    PartitionKey,
    PartitionState,
    Position,
)
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.storage.log.next_record import NextRecord

TOPIC_ID = bytes(range(16))
KEY = PartitionKey(TOPIC_ID, 3)
FIRST, SECOND = Position(5), Position(9, skip_aborted=False)
VERSION = 11


def exchanged(answer: ListOffsetsPartitionResponse) -> list[tuple[PartitionKey, PartitionState]]:
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])
    data = response.encode(VERSION)
    read = ListOffsetsResponse.decode(data, VERSION)
    return list(states_in(read, {KEY: [FIRST, SECOND]}, lambda _: TOPIC_ID))


def test_a_state_survives_the_exchange() -> None:
    found = {FIRST: NextRecord(6, 1234), SECOND: None}
    state = PartitionState(2, 9, 8, found, OpenTransaction(77, 1000))
    answer = ListOffsetsPartitionResponse(partition_index=3, offset=9)
    fill_response(answer, [FIRST, SECOND], state)
    assert exchanged(answer) == [(KEY, state)]


def test_a_log_that_could_not_be_read_has_bounds_only() -> None:
    state = PartitionState(2, 9, 9, {SECOND: None})
    answer = ListOffsetsPartitionResponse(partition_index=3, offset=9)
    fill_response(answer, [FIRST, SECOND], state)
    assert exchanged(answer) == [(KEY, PartitionState(2, 9, 9, {}))]


def test_a_broker_that_does_not_know_positions_leaves_the_state_unknown() -> None:
    assert exchanged(ListOffsetsPartitionResponse(partition_index=3, offset=9)) == []


def test_an_error_leaves_the_state_unknown() -> None:
    answer = ListOffsetsPartitionResponse(partition_index=3, error_code=6, high_watermark=9)
    assert exchanged(answer) == []


def test_positions_are_ignored_by_versions_without_tagged_fields() -> None:
    request = request_of({KEY: [FIRST, SECOND]}, lambda _: "t", 1000)
    data = request.encode(5)
    read = ListOffsetsRequest.decode(data, 5)
    assert read.topics[0].partitions[0].positions == []
    data = request.encode(VERSION)
    read = ListOffsetsRequest.decode(data, VERSION)
    assert [each.offset for each in read.topics[0].partitions[0].positions] == [5, 9]
