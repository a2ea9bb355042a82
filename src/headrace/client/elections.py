"""Elections of partition leaders on an administrator's word."""

from collections.abc import Sequence
from enum import IntEnum

from headrace.client.client import ClusterClient, ToController
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import Refusal, TopicPartition, moved, refusal
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)


class Election(IntEnum):
    """Whom to elect, by Kafka's numbers."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, where no one in sync is left: what only those had is lost."""


async def elect_leaders(
    client: ClusterClient,
    election: Election,
    partitions: Sequence[TopicPartition] | None,
    *,
    timeout_s: float,
) -> dict[TopicPartition, Refusal | None]:
    """What became of each partition; of all with None, where only those that changed, or could
    not, are named. ELECTION_NOT_NEEDED is a refusal too."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        topics.setdefault(topic, []).append(index)
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
        # An unclean election by a broker that knows only preferred ones would be another one.
        at_least=0 if election is Election.PREFERRED else 1,
        code_of=lambda got: moved([got.error_code]),
    )
    if answer.error_code:
        raise RequestRefused(code_of_number(answer.error_code), "the election")
    return {
        TopicPartition(topic.topic, each.partition_id): refusal(each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
