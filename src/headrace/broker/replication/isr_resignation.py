"""Removes this broker from the ISR and ELR of partitions whose records it cannot store.

A follower on a failed disk stops fetching, and its leader would wait for it until it lags. The
follower knows of the failure at once, so it asks the controller, like a leader that resigns. The
caller repeats the request until the metadata shows the change: no state is kept between calls.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.replication.alter_partition_manager import (
    AskController,
    alter_partition_request,
)
from headrace.client.errors import ClientError, code_of_number
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import Partition
from headrace.failure_log import FailureLog
from headrace.log_event import examples
from headrace.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    BrokerState,
)
from headrace.replication.follower import Follower

log = logging.getLogger(__package__)


class IsrResignationHost(Protocol):
    """The part of the broker that a resignation uses."""

    loop: asyncio.AbstractEventLoop
    node_id: int

    @property
    def broker_epoch(self) -> int: ...

    @property
    def metadata(self) -> MetadataView: ...


class IsrResignation:
    """Sends resignations, at most one request at a time."""

    def __init__(self, host: IsrResignationHost, ask: AskController) -> None:
        self._host = host
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None
        self._failures = FailureLog(log)
        self._asked: Sequence[str] = ()  # the partitions of the last line

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def leave(self, followers: Sequence[Follower]) -> None:
        """Requests removal where this broker is still in the ISR or ELR."""
        request = self._request(followers)
        if request.topics and self._asking is None:
            topics = self._host.metadata.image.topics_by_id
            names = [
                f"{topics[topic.topic_id].name}-{each.partition_index}"
                for topic in request.topics
                for each in topic.partitions
            ]
            self._asking = self._host.loop.create_task(self._send(request, names))

    def _request(self, followers: Sequence[Follower]) -> AlterPartitionRequest:
        node_id, image = self._host.node_id, self._host.metadata.image
        changes: list[tuple[bytes, AlterPartitionData]] = []
        for follower in followers:
            partition = follower_partition(image, follower)
            if partition is None or partition.leader == node_id:
                continue
            if node_id not in (*partition.isr, *partition.eligible_leaders):
                continue
            others = [id_ for id_ in partition.isr if id_ != node_id]
            if not others:
                continue  # no other replica has the acknowledged records
            change = AlterPartitionData(
                partition_index=follower.index,
                leader_epoch=partition.leader_epoch,
                # Only their leader knows their current epochs.
                new_isr_with_epochs=[BrokerState(broker_id=id_) for id_ in others],
                partition_epoch=partition.partition_epoch,
            )
            changes.append((follower.topic_id, change))
        return alter_partition_request(node_id, self._host.broker_epoch, changes)

    async def _send(self, request: AlterPartitionRequest, names: Sequence[str]) -> None:
        partitions = len(names)
        try:
            answer = await self._ask(request)
            name = code_of_number(answer.error_code).name
            self._failures.reset()
            # The request is repeated until the metadata shows the change.
            level, self._asked = logging.DEBUG if names == self._asked else logging.WARNING, names
            log.log(
                level,
                "asked the controller to leave the ISR of partitions on a full or failed disk",
                extra={
                    "broker": self._host.node_id,
                    "partitions": partitions,
                    "examples": examples(names),
                    "answer": name,
                },
            )
        except ClientError as error:
            self._failures.failed(
                logging.WARNING,
                "cannot leave the ISR of partitions on a full or failed disk yet, retrying",
                reason=str(error),
                fields={"broker": self._host.node_id, "partitions": partitions},
            )
        finally:
            self._asking = None


def follower_partition(image: MetadataImage, follower: Follower) -> Partition | None:
    """The partition of this replica in the metadata; None if it was deleted."""
    topic = image.topics_by_id.get(follower.topic_id)
    return topic.partition(follower.index) if topic is not None else None
