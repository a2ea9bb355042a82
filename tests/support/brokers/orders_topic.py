"""A topic with one partition, `orders`, on several brokers: create it, write it, read a replica."""

from collections.abc import Mapping, Sequence

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from support.brokers.members import Members, until
from support.wire.batches import batch, values_of

ORDERS = "orders"
PATIENCE_MS = 10_000
MAX_BYTES = 1 << 24


async def create(
    members: Members,
    replicas: Sequence[int] = (1, 2, 3),
    configs: Mapping[str, str] | None = None,
    *,
    name: str = ORDERS,
) -> None:
    """Returns when all brokers have the topic in their metadata."""
    new = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
    at = next(iter(members.brokers))
    answer = await members.ask(at, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    await until(members.agree, "everybody knows")


async def produce(
    members: Members,
    at: int,
    value: bytes,
    *,
    patience_ms: int = PATIENCE_MS,
    name: str = ORDERS,
) -> PartitionProduceResponse:
    """Produces with acks=all; the response may be an error."""
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(records=batch(value))])
    request = ProduceRequest(acks=-1, timeout_ms=patience_ms, topic_data=[data])
    answer = await members.ask(at, request, ProduceResponse, version=12)
    return answer.responses[0].partition_responses[0]


def values(members: Members, id_: int, *, name: str = ORDERS) -> list[bytes | None]:
    """All values in one replica, committed or not."""
    replica = members.brokers[id_].partitions.replica(name, 0)
    assert replica is not None
    return values_of(replica.log.read(0, max_bytes=MAX_BYTES).data)
