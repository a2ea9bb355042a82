"""Creates the topics that Headrace itself needs, if they do not exist."""

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client.admin.topics import NewTopic, create_topics
from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.pipeline.producer.errors import ProducerFailed
from headrace.protocol.errors import ErrorCode

BROKER_DEFAULT: Final = -1
METADATA_ATTEMPTS: Final = 50
PAUSE_S: Final = 0.1
DEAD_LETTER_CONFIGS: Final[Mapping[str, str]] = {
    # Dead letters must stay until a person reads them, so retention must not delete them.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    # With its headers, a dead letter is larger than its record. The broker's limit for a request
    # still applies.
    "max.message.bytes": str(1 << 30),
}


async def ensure_topic(
    client: ClusterClient,
    name: str,
    configs: Mapping[str, str],
    timeout_s: float,
    *,
    partitions: int = BROKER_DEFAULT,
) -> int:
    """Creates the topic if it does not exist; returns its number of partitions.

    All partitions have leaders when the call returns.
    """
    found = (await client.refresh([name], timeout_s=timeout_s)).topic(name)
    if found is None:
        new = NewTopic(name, partitions, configs=configs)
        refusal = (await create_topics(client, [new], timeout_s=timeout_s))[name]
        if refusal is not None and refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ProducerFailed(
                f"the topic {name} does not exist and cannot be created: {refusal}"
            )
        found = await _await_leaders(client, name, timeout_s)
    return len(found.partitions)


async def _await_leaders(client: ClusterClient, name: str, timeout_s: float) -> TopicInfo:
    """Waits until the metadata contains the new topic with all of its leaders."""
    for _ in range(METADATA_ATTEMPTS):
        found = (await client.refresh([name], timeout_s=timeout_s)).topic(name)
        if found is not None and all(each.leader >= 0 for each in found.partitions.values()):
            return found
        await asyncio.sleep(PAUSE_S)
    raise ProducerFailed(
        f"the topic {name} was created, but not all of its partitions have a leader: try again"
    )
