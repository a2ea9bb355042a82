"""Topic administration: list, create, add partitions, delete records, delete topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.client.client import ClusterClient, ToBroker, ToController
from headrace.client.leader_requests import Answers, send_to_leaders
from headrace.client.metadata import TopicInfo, metadata_request
from headrace.client.results import Refusal, TopicPartition, moved, refusal, refused
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse

BROKER_DEFAULT = -1
_BY_NAME = 5  # the last version of DeleteTopics with topic names only


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; the broker chooses the values that are not set."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """The replicas of each partition, instead of the two numbers."""


async def list_topics(client: ClusterClient, *, timeout_s: float) -> list[TopicInfo]:
    """All topics sorted by name, including internal ones."""
    answer = await client.send(metadata_request(None), MetadataResponse, timeout_s=timeout_s)
    client.metadata.update(answer)
    named = {topic.name for topic in answer.topics if not topic.error_code}
    found = [topic for topic in client.metadata.topics() if topic.name in named]
    return sorted(found, key=lambda topic: topic.name)


async def ask_for_topic(client: ClusterClient, name: str, *, timeout_s: float) -> Refusal | None:
    """Requests a topic's metadata as a producer does, so that the broker may auto-create it."""
    request = metadata_request([name])
    request = MetadataRequest(topics=request.topics, allow_auto_topic_creation=True)
    answer = await client.send(request, MetadataResponse, timeout_s=timeout_s)
    client.metadata.update(answer)
    return next((refusal(topic.error_code) for topic in answer.topics if topic.name == name), None)


async def create_topics(
    client: ClusterClient,
    topics: Sequence[NewTopic],
    *,
    timeout_s: float,
    validate_only: bool = False,
) -> dict[str, Refusal | None]:
    """Creates the topics in one request; a refused topic does not affect the others."""
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=int(timeout_s * 1000),
        validate_only=validate_only,
    )
    answer = await client.send(
        request,
        CreateTopicsResponse,
        to=ToController(),
        timeout_s=timeout_s,
        code_of=lambda got: moved(topic.error_code for topic in got.topics),
    )
    return {topic.name: refusal(topic.error_code, topic.error_message) for topic in answer.topics}


def _creatable(topic: NewTopic) -> CreatableTopic:
    placed = bool(topic.assignment)
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if placed else topic.partitions,
        replication_factor=BROKER_DEFAULT if placed else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(topic.assignment)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


async def add_partitions(
    client: ClusterClient,
    totals: Mapping[str, int],
    *,
    timeout_s: float,
    assignment: Sequence[Sequence[int]] = (),
    validate_only: bool = False,
) -> dict[str, Refusal | None]:
    """Adds partitions up to each topic's new total; `assignment` places the added ones."""
    placed = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignment]
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=total, assignments=placed or None)
            for name, total in totals.items()
        ],
        timeout_ms=int(timeout_s * 1000),
        validate_only=validate_only,
    )
    answer = await client.send(
        request,
        CreatePartitionsResponse,
        to=ToController(),
        timeout_s=timeout_s,
        code_of=lambda got: moved(topic.error_code for topic in got.results),
    )
    return {topic.name: refusal(topic.error_code, topic.error_message) for topic in answer.results}


async def delete_topics(
    client: ClusterClient, names: Sequence[str], *, timeout_s: float
) -> dict[str, Refusal | None]:
    """Deletes topics with all their records."""
    answer = await client.send(
        DeleteTopicsRequest(topic_names=list(names), timeout_ms=int(timeout_s * 1000)),
        DeleteTopicsResponse,
        to=ToController(),
        timeout_s=timeout_s,
        at_most=_BY_NAME,
        code_of=lambda got: moved(topic.error_code for topic in got.responses),
    )
    for name in names:
        client.metadata.forget(name)
    return {
        topic.name or "": refusal(topic.error_code, topic.error_message)
        for topic in answer.responses
    }


async def delete_records(
    client: ClusterClient, before: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, int | Refusal]:
    """Deletes the records before these offsets (-1: all); returns the new log start offsets."""

    async def send(leader: int, partitions: Sequence[TopicPartition]) -> Answers[int]:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for topic, index in partitions:
            offset = before[TopicPartition(topic, index)]
            wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
            topics.setdefault(topic, []).append(wanted)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=of) for name, of in topics.items()],
            timeout_ms=int(timeout_s * 1000),
        )
        answer = await client.send(
            request, DeleteRecordsResponse, to=ToBroker(leader), timeout_s=timeout_s, retry=False
        )
        return {
            TopicPartition(topic.name, each.partition_index): (
                refused(each.error_code) if each.error_code else each.low_watermark
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return await send_to_leaders(client, list(before), send, timeout_s=timeout_s)
