"""Topic administration: list, create, add partitions, delete records, delete topics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headrace.client.client import ANY, ClusterClient, Target, ToBroker, ToController
from headrace.client.leader_requests import Answers, send_to_leaders
from headrace.client.metadata import TopicInfo, metadata_request
from headrace.client.results import Refusal, TopicPartition, group_by_topic, moved, refusal, refused
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
from headrace.protocol.struct import Struct

BROKER_DEFAULT = -1
_BY_NAME = 5  # the last version of DeleteTopics with topic names only

R = TypeVar("R", bound=Struct)


class _TopicResult(Protocol):
    @property
    def name(self) -> str | None: ...

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; the broker chooses the values that are not set."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """The replicas of each partition, instead of the two numbers."""


async def list_topics(
    client: ClusterClient, *, timeout_s: float, to: Target = ANY, retry: bool = True
) -> list[TopicInfo]:
    """All topics sorted by name, including internal ones."""
    answer = await client.send(
        metadata_request(None), MetadataResponse, to=to, timeout_s=timeout_s, retry=retry
    )
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
    return await _send_to_controller(
        client, request, CreateTopicsResponse, lambda got: got.topics, timeout_s=timeout_s
    )


async def _send_to_controller(
    client: ClusterClient,
    request: Struct,
    answer: type[R],
    results: Callable[[R], Sequence[_TopicResult]],
    *,
    timeout_s: float,
    at_most: int | None = None,
) -> dict[str, Refusal | None]:
    """The result of each topic; finds the new controller if it has moved."""
    got = await client.send(
        request,
        answer,
        to=ToController(),
        timeout_s=timeout_s,
        at_most=at_most,
        code_of=lambda got: moved(topic.error_code for topic in results(got)),
    )
    return {
        topic.name or "": refusal(topic.error_code, topic.error_message) for topic in results(got)
    }


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
    return await _send_to_controller(
        client, request, CreatePartitionsResponse, lambda got: got.results, timeout_s=timeout_s
    )


async def delete_topics(
    client: ClusterClient, names: Sequence[str], *, timeout_s: float
) -> dict[str, Refusal | None]:
    """Deletes topics with all their records."""
    results = await _send_to_controller(
        client,
        DeleteTopicsRequest(topic_names=list(names), timeout_ms=int(timeout_s * 1000)),
        DeleteTopicsResponse,
        lambda got: got.responses,
        timeout_s=timeout_s,
        at_most=_BY_NAME,
    )
    for name in names:
        client.metadata.forget(name)
    return results


async def delete_records(
    client: ClusterClient, before: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, int | Refusal]:
    """Deletes the records before these offsets (-1: all); returns the new log start offsets."""

    async def send(leader: int, partitions: Sequence[TopicPartition]) -> Answers[int]:
        topics = group_by_topic(
            partitions,
            lambda each: DeleteRecordsPartition(
                partition_index=each.partition, offset=before[each]
            ),
        )
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()
            ],
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
