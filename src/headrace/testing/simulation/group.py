"""Members of a consumer group (KIP-848), and what must hold of their group.

No partition has two owners in one epoch of the group. A commit that was accepted is not lost, and
not overwritten by an earlier one: who was put out of the group, and does not know it yet, commits
nothing.
"""

import asyncio
from random import Random
from typing import Final

from headrace.client.client import ClusterClient
from headrace.client.coordinators import Coordinator
from headrace.client.errors import ClientError, code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.testing.simulation.history import Place, Violation

GROUP: Final = "group"
JOINING: Final = 0
LEAVING: Final = -1
BY_NAME: Final = 9
"""The newest version of commits and their fetches that names topics by their names."""

REBALANCE_TIMEOUT_MS: Final = 5_000
PATIENCE_S: Final = 10.0
RETRY_S: Final = 0.3
MEAN_BEAT_S: Final = 0.7
LEAVES: Final = 0.03  # of the beats

OWNED_ONCE: Final = "no partition is owned twice"
COMMITS_STAY: Final = "commits of a group are not lost and do not go back"


class Ledger:
    """What all members were told."""

    def __init__(self) -> None:
        self._owners: dict[tuple[Place, int], str] = {}
        self._floors: dict[Place, int] = {}
        self.commits = 0

    def owns(self, place: Place, epoch: int, member_id: str) -> None:
        known = self._owners.setdefault((place, epoch), member_id)
        if known != member_id:
            raise Violation(OWNED_ONCE, f"{place} in epoch {epoch}: {known} and {member_id}")

    def floor(self, place: Place) -> int:
        """No answer to a question that is asked from now on may be below."""
        return self._floors.get(place, -1)

    def committed(self, place: Place, offset: int, floor: int) -> None:
        """A commit was accepted; when it was sent, others had come as far as `floor`."""
        if offset < floor:
            raise Violation(COMMITS_STAY, f"{place}: {offset} was accepted after {floor}")
        self._floors[place] = max(offset, self._floors.get(place, -1))
        self.commits += 1

    def fetched(self, place: Place, offset: int, floor: int) -> None:
        if offset < floor:
            raise Violation(COMMITS_STAY, f"{place}: {offset} is stored, {floor} was accepted")


class GroupMember:
    """Joins, owns what it is given, commits, leaves at times, and begins again."""

    def __init__(
        self,
        client: ClusterClient,
        ledger: Ledger,
        topics: dict[bytes, str],
        chance: Random,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._topics = topics
        self._random = chance
        self._id = ""
        self._epoch = JOINING
        self._owned: dict[Place, int] = {}  # and the offset it has come to
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
        """One heartbeat and what follows from it; False if the group does not know us."""
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
        floor = self._ledger.floor(place)
        wanted = OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])
        answer = await self._client.send(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])]),
            OffsetFetchResponse,
            to=Coordinator(GROUP),
            timeout_s=PATIENCE_S,
            at_most=BY_NAME,
            code_of=lambda got: got.groups[0].error_code,
        )
        found = answer.groups[0].topics[0].partitions[0]
        if not answer.groups[0].error_code and not found.error_code:
            self._ledger.fetched(place, found.committed_offset, floor)
            self._owned[place] = found.committed_offset

    async def _commit(self, place: Place) -> bool:
        offset = self._owned[place] + self._random.randint(1, 5)
        floor = self._ledger.floor(place)
        wanted = OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset
        )
        answer = await self._client.send(
            OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self._epoch,
                member_id=self._id,
                topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[wanted])],
            ),
            OffsetCommitResponse,
            to=Coordinator(GROUP),
            timeout_s=PATIENCE_S,
            at_most=BY_NAME,
            code_of=_code_of_commit,
        )
        code = code_of_number(_code_of_commit(answer))
        if code is ErrorCode.NONE:
            self._ledger.committed(place, offset, floor)
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
            request, ConsumerGroupHeartbeatResponse, to=Coordinator(GROUP), timeout_s=PATIENCE_S
        )


def _code_of_commit(answer: OffsetCommitResponse) -> int:
    return answer.topics[0].partitions[0].error_code
