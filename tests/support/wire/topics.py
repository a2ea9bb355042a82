"""Creates topics over the raw wire; defines the type of fixtures that create topics."""

from collections.abc import Mapping
from typing import Protocol

from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from support.waiting import wait_for
from support.wire.batches import FETCH_BY_NAME
from support.wire.connection import Wire

TIMEOUT_MS = 10_000


class MakeTopic(Protocol):
    """Creates a topic with a unique name on the shared broker."""

    def __call__(self, partitions: int = 1, configs: Mapping[str, object] | None = None) -> str: ...


def create_topic(
    wire: Wire, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None
) -> None:
    """Creates a topic and returns when it is usable; fails with the broker's message."""
    request = CreateTopicsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key, value=str(value))
                    for key, value in (configs or {}).items()
                ],
            )
        ],
    )
    (result,) = wire.call(request, CreateTopicsResponse).topics
    assert result.error_code == 0, result.error_message
    # Apache Kafka responds before its broker role has the metadata from its controller role.
    wait_for(lambda: _is_led(wire, name, partitions), f"topic {name} is there")


def _is_led(wire: Wire, name: str, partitions: int) -> bool:
    asked = [FetchPartition(partition=index) for index in range(partitions)]
    request = FetchRequest(topics=[FetchTopic(topic=name, partitions=asked)])
    (answer,) = wire.call(request, FetchResponse, FETCH_BY_NAME).responses
    return all(data.error_code == 0 for data in answer.partitions)
