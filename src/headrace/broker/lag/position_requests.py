"""ListOffsets with positions of consumers: one request for many partitions of a leader.

A request of Headrace's own would be an unknown API for an older broker of the cluster, which then
closes the connection. Tagged fields of a Kafka request are ignored by every broker that does not
know them: its answers have no next records, and the lag of these partitions is unknown. Clients can
send the same request.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from headrace.broker.lag.positions import (
    OpenTransaction,
    PartitionKey,
    PartitionState,
    Position,
)
from headrace.protocol.messages.list_offsets import (
    ConsumerPosition,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    NextRecordOfPosition,
)
from headrace.storage.log.next_record import NextRecord

LATEST = -1
NO_OFFSET = -1
_CONSUMER = -1  # the end of the log is the high watermark, as for a consumer

Wanted = Mapping[PartitionKey, Collection[Position]]


def request_of(
    wanted: Wanted, name_of: Callable[[bytes], str], timeout_ms: int
) -> ListOffsetsRequest:
    topics: dict[bytes, list[ListOffsetsPartition]] = {}
    for (topic_id, index), positions in wanted.items():
        topics.setdefault(topic_id, []).append(
            ListOffsetsPartition(
                partition_index=index,
                timestamp=LATEST,
                positions=[
                    ConsumerPosition(offset=offset, skip_aborted=skip_aborted)
                    for offset, skip_aborted in positions
                ],
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[
            ListOffsetsTopic(name=name_of(topic_id), partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        timeout_ms=timeout_ms,
    )


def fill_response(
    answer: ListOffsetsPartitionResponse, positions: Collection[Position], state: PartitionState
) -> None:
    """Adds the state of a partition to its answer."""
    answer.log_start_offset = state.log_start_offset
    answer.high_watermark = state.end_offset
    answer.last_stable_offset = state.last_stable_offset
    if state.open_transaction is not None:
        answer.open_producer_id, answer.open_since_ms = state.open_transaction
    if all(position in state.next_records for position in positions):
        answer.next_records = [_encoded(state.next_records[position]) for position in positions]


def _encoded(record: NextRecord | None) -> NextRecordOfPosition:
    if record is None:
        return NextRecordOfPosition()
    return NextRecordOfPosition(offset=record.offset, timestamp=record.timestamp)


def states_in(
    response: ListOffsetsResponse, wanted: Wanted, id_of: Callable[[str], bytes]
) -> Iterator[tuple[PartitionKey, PartitionState]]:
    """The states of the partitions that the leader knows."""
    for topic in response.topics:
        topic_id = id_of(topic.name)
        for answer in topic.partitions:
            partition = PartitionKey(topic_id, answer.partition_index)
            positions = wanted.get(partition)
            if not answer.error_code and answer.high_watermark >= 0 and positions is not None:
                yield partition, _decoded(answer, positions)


def _decoded(
    answer: ListOffsetsPartitionResponse, positions: Collection[Position]
) -> PartitionState:
    found: dict[Position, NextRecord | None] = {}
    if len(answer.next_records) == len(positions):
        for position, record in zip(positions, answer.next_records, strict=True):
            is_there = record.offset != NO_OFFSET
            found[position] = NextRecord(record.offset, record.timestamp) if is_there else None
    transaction = None
    if answer.open_producer_id >= 0:
        transaction = OpenTransaction(answer.open_producer_id, answer.open_since_ms)
    return PartitionState(
        answer.log_start_offset,
        answer.high_watermark,
        answer.last_stable_offset,
        found,
        transaction,
    )
