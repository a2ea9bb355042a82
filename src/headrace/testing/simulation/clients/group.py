"""Members of a consumer group (KIP-848). `committed_offsets` has the invariants of their group."""

import asyncio
from random import Random
from typing import Final

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import ClientError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from headrace.testing.simulation.checks.history import Place
from headrace.testing.simulation.clients.committed_offsets import (
    API_TIMEOUT_S,
    CommitLedger,
    commit,
    fetch_commit,
)

GROUP: Final = "group"
JOINING: Final = 0
LEAVING: Final = -1
REBALANCE_TIMEOUT_MS: Final = 5_000
RETRY_S: Final = 0.3
MEAN_BEAT_S: Final = 0.7
LEAVES: Final = 0.03  # share of the beats


class GroupMember:
    """Joins, owns its assigned partitions, commits, sometimes leaves and joins again."""

    def __init__(
        self,
        client: ClusterClient,
        ledger: CommitLedger,
        topics: dict[bytes, str],
        chance: Random,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._topics = topics
        self._random = chance
        self._id = ""
        self._epoch = JOINING
        self._owned: dict[Place, int] = {}  # the owned partitions, and the next offset of each
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            self._id = f"{self._random.getrandbits(128):032x}"
            self._epoch = JOINING
            self._owned = {}
            try:
                while not self.stopping and await self._beat():
                    await asyncio.sleep(self._random.expovariate(1 / MEAN_BEAT_S))
                    if self._random.random() < LEAVES:
                        await self._leave()
                        break
            except ClientError:
                await asyncio.sleep(RETRY_S)

    async def _beat(self) -> bool:
        """Sends a heartbeat and handles the response; False if the group does not know the
        member."""
        joining = self._epoch == JOINING
        answer = await self._heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self._id,
                member_epoch=self._epoch,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joining else -1,
                subscribed_topic_names=sorted(self._topics.values()) if joining else None,
                topic_partitions=self._reported(),
            )
        )
        if answer.error_code:
            return False
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            given = [
                Place(self._topics[each.topic_id], index)
                for each in answer.assignment.topic_partitions
                for index in each.partitions
            ]
            for place in [each for each in self._owned if each not in given]:
                del self._owned[place]
            for place in given:
                self._ledger.owns(place, self._epoch, self._id)
                if place not in self._owned:
                    await self._begin(place)
        for place in list(self._owned):
            if not await self._commit(place):
                return False
        return True

    def _reported(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._topics.items()}
        partitions: dict[str, list[int]] = {}
        for place in self._owned:
            partitions.setdefault(place.topic, []).append(place.partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=ids[name], partitions=indexes)
            for name, indexes in partitions.items()
        ]

    async def _begin(self, place: Place) -> None:
        offset = await fetch_commit(self._client, self._ledger, GROUP, place)
        if offset is not None:
            self._owned[place] = offset

    async def _commit(self, place: Place) -> bool:
        offset = self._owned[place] + self._random.randint(1, 5)
        member = (self._id, self._epoch)
        code = await commit(self._client, self._ledger, GROUP, member, place, offset)
        if code is ErrorCode.NONE:
            self._owned[place] = offset
        return code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

    async def _leave(self) -> None:
        await self._heartbeat(
            ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self._id, member_epoch=LEAVING)
        )

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        return await self._client.send(
            request,
            ConsumerGroupHeartbeatResponse,
            to=CoordinatorNode(GROUP),
            timeout_s=API_TIMEOUT_S,
        )
