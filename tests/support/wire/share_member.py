"""A member of a share group over the raw wire, and the state that a coordinator initializes."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartitionData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
)
from headrace.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryPartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)
from headrace.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeAcknowledgementBatch,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from headrace.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchFetchPartition,
    ShareFetchFetchTopic,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.records.batch_header import headers
from headrace.records.record import iter_records
from support.waiting import wait_for
from support.wire.batches import MAX_DECOMPRESSED_BYTES
from support.wire.connection import Wire

GROUP_RESOURCE = 32
JOIN_DEADLINE_S = 60.0
LEAVING = -1
SHARE_KEY = 2
SET = 0

Said = tuple[int, int, Sequence[int]]
"""First offset, last offset, acknowledge types."""


def set_group_config(wire: Wire, group: str, **configs: str) -> None:
    """Sets configs of the group; underscores in the names become dots."""
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[
            IncrementalAlterConfigsAlterableConfig(
                name=name.replace("_", "."), config_operation=SET, value=value
            )
            for name, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = wire.call(request, IncrementalAlterConfigsResponse).responses
    assert answer.error_code == 0, answer.error_message


def start_state(
    wire: Wire,
    group: str,
    topic_id: bytes,
    *,
    start: int = 0,
    epoch: int = 0,
    partitions: Iterable[int] = (0,),
) -> None:
    """Initializes the state, like a group coordinator when it first assigns the partitions."""
    indexes = list(partitions)
    keys = [SharePartitionKey(group, topic_id, index).coordinator_key for index in indexes]
    found = wire.call(
        FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=keys), FindCoordinatorResponse
    )
    assert all(one.error_code == 0 for one in found.coordinators)
    request = InitializeShareGroupStateRequest(
        group_id=group,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    InitializeShareGroupStatePartitionData(
                        partition=index, state_epoch=epoch, start_offset=start
                    )
                    for index in indexes
                ],
            )
        ],
    )

    def started() -> bool:
        (topic,) = wire.call(request, InitializeShareGroupStateResponse).results
        codes = {result.error_code for result in topic.partitions}
        assert codes <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, codes
        return codes == {ErrorCode.NONE}

    wait_for(started, "the state of the share partitions is there")


def summary(
    wire: Wire, group: str, topic_id: bytes, index: int = 0
) -> ReadShareGroupStateSummaryPartitionResult:
    """The group's start offset in the partition."""
    request = ReadShareGroupStateSummaryRequest(
        group_id=group,
        topics=[
            ReadStateSummaryData(
                topic_id=topic_id,
                partitions=[ReadShareGroupStateSummaryPartitionData(partition=index)],
            )
        ],
    )
    (topic,) = wire.call(request, ReadShareGroupStateSummaryResponse).results
    return topic.partitions[0]


@dataclass
class ShareMember:
    """Tracks the epoch of a share session on one connection."""

    wire: Wire
    group: str
    topic_id: bytes
    member: str
    partitions: tuple[int, ...] = (0,)
    version: int = 2
    max_wait_ms: int = 500
    epoch: int = 0
    last: ShareFetchResponse = field(default_factory=ShareFetchResponse)

    def fetch(
        self,
        *said: Said,
        index: int = 0,
        max_records: int = 500,
        max_wait_ms: int | None = None,
        strict: bool = False,
        min_bytes: int = 1,
        epoch: int | None = None,
    ) -> dict[int, ShareFetchPartitionData]:
        """Sends one ShareFetch; returns the data of each partition in the response."""
        request = self.request(
            *said,
            index=index,
            max_records=max_records,
            max_wait_ms=max_wait_ms,
            strict=strict,
            min_bytes=min_bytes,
            epoch=epoch,
        )
        self.last = self.wire.call(request, ShareFetchResponse, self.version)
        return self.took(self.last)

    def request(
        self,
        *said: Said,
        index: int = 0,
        max_records: int = 500,
        max_wait_ms: int | None = None,
        strict: bool = False,
        min_bytes: int = 1,
        epoch: int | None = None,
    ) -> ShareFetchRequest:
        named = self.partitions if self.epoch == 0 else ((index,) if said else ())
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=self.max_wait_ms if max_wait_ms is None else max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=int(strict),
            topics=[
                ShareFetchFetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        ShareFetchFetchPartition(
                            partition_index=one,
                            acknowledgement_batches=[
                                ShareFetchAcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=list(types),
                                )
                                for first, last, types in (said if one == index else ())
                            ],
                        )
                        for one in named
                    ],
                )
            ]
            if named
            else [],
        )

    def took(self, response: ShareFetchResponse) -> dict[int, ShareFetchPartitionData]:
        """Advances the session epoch after a response."""
        if response.error_code == 0:
            self.epoch += 1
        return {
            data.partition_index: data for topic in response.responses for data in topic.partitions
        }

    def acquire(self, **options: int | bool) -> list[tuple[int, int, int]]:
        """The acquired ranges of partition 0: first and last offset, and the delivery count."""
        data = self.fetch(**options).get(0)  # type: ignore[arg-type]
        if data is None:
            return []
        assert data.error_code == 0, data.error_message
        return [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records]

    def acknowledge(
        self, *said: Said, index: int = 0, renew: bool = False, epoch: int | None = None
    ) -> ShareAcknowledgePartitionData | int:
        """Sends one ShareAcknowledge; returns the partition's result, or the top-level error."""
        batches = [
            ShareAcknowledgeAcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in said
        ]
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renew,
            topics=[
                AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
                    ],
                )
            ]
            if said
            else [],
        )
        response = self.wire.call(request, ShareAcknowledgeResponse, self.version)
        if response.error_code:
            return response.error_code
        self.epoch += 1
        if not response.responses:
            return 0
        return response.responses[0].partitions[0]


def values(data: ShareFetchPartitionData) -> dict[int, bytes | None]:
    """The records by offset, including those that were not acquired."""
    records = memoryview(bytes(data.records or b""))
    found = {}
    for at, header in headers(records):
        batch = records[at : at + header.size]
        if not header.is_control:
            for record in iter_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES):
                found[record.offset] = record.value
    return found


def join_share_group(wire: Wire, group: str, topic: str) -> str:
    """Joins until the member has partitions; returns its id."""
    member = str(uuid.uuid4())
    wire.call(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse, 6)

    def joined() -> bool:
        answer = wire.call(
            ShareGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
            ),
            ShareGroupHeartbeatResponse,
        )
        return answer.error_code == ErrorCode.NONE and answer.assignment is not None

    wait_for(joined, "the member has an assignment", deadline_s=JOIN_DEADLINE_S)
    return member


def leave_share_group(wire: Wire, group: str, member: str) -> None:
    request = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=LEAVING)
    assert wire.call(request, ShareGroupHeartbeatResponse).error_code == 0
