"""Topics that the tool itself needs: made if they are missing."""

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.client.topics import NewTopic, create_topics
from headrace.pipeline.producer.errors import ProducerFailed
from headrace.protocol.errors import ErrorCode

BROKER_DEFAULT: Final = -1
LOOKS: Final = 50
PAUSE_S: Final = 0.1
DEAD_LETTER_CONFIGS: Final[Mapping[str, str]] = {
    # Dead letters wait for a person: they do not go away by themselves, ...
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    # ... and one with its headers is larger than the record that it was. What a broker takes in
    # one request is the limit that counts.
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
    """How many partitions the topic has, which is made if it is missing; all have leaders."""
    found = (await client.refresh([name], timeout_s=timeout_s)).topic(name)
    if found is None:
        new = NewTopic(name, partitions, configs=configs)
        refusal = (await create_topics(client, [new], timeout_s=timeout_s))[name]
        if refusal is not None and refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ProducerFailed(f"the topic {name} is missing and cannot be made: {refusal}")
        found = await _appeared(client, name, timeout_s)
    return len(found.partitions)


async def _appeared(client: ClusterClient, name: str, timeout_s: float) -> TopicInfo:
    """A new topic is known to every broker a moment later."""
    for _ in range(LOOKS):
        found = (await client.refresh([name], timeout_s=timeout_s)).topic(name)
        if found is not None and all(each.leader >= 0 for each in found.partitions.values()):
            return found
        await asyncio.sleep(PAUSE_S)
    raise ProducerFailed(f"the topic {name} was made, but no broker leads it yet: try again")
