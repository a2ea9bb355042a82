"""Leader elections that an administrator requests."""

from collections.abc import Sequence
from enum import IntEnum

from headrace.client.client import ClusterClient, ToController
from headrace.client.errors import check_error_code
from headrace.client.results import Refusal, TopicPartition, indexes_by_topic, moved, refusal
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)


class ElectionType(IntEnum):
    """Kafka's codes for election types."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, if no in-sync one is left. Records that only those had are lost."""


async def elect_leaders(
    client: ClusterClient,
    election: ElectionType,
    partitions: Sequence[TopicPartition] | None,
    *,
    timeout_s: float,
) -> dict[TopicPartition, Refusal | None]:
    """Elects leaders and returns a result for each partition; a refusal can be ELECTION_NOT_NEEDED.

    `partitions` of None means all; then only partitions that changed or failed are in the result.
    """
    topics = indexes_by_topic(partitions or ())
    request = ElectLeadersRequest(
        election_type=election,
        topic_partitions=None
        if partitions is None
        else [
            ElectLeadersTopicPartitions(topic=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
        timeout_ms=int(timeout_s * 1000),
    )
    answer = await client.send(
        request,
        ElectLeadersResponse,
        to=ToController(),
        timeout_s=timeout_s,
        # A broker that supports only version 0 would run a preferred election instead.
        at_least=0 if election is ElectionType.PREFERRED else 1,
        code_of=lambda got: moved([got.error_code]),
    )
    check_error_code(answer.error_code, "cannot elect leaders")
    return {
        TopicPartition(topic.topic, each.partition_id): refusal(each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
