"""Members of a classic group (JoinGroup and SyncGroup), whose leader assigns the partitions.

`committed_offsets` has the invariants of their commits, with the generation as the epoch: a
partition has one owner in a generation, and a commit of an earlier generation is refused once the
next has begun. While a group prepares the next generation, the previous one is still current and
its members may commit, as consumers do before they revoke their partitions.

A member does not repeat a commit without a response; it starts again as another member. The commit
may still arrive, but only in its own generation, before another member continues from there. If it
were repeated, with later commits after it, the first copy could arrive last: in Kafka, too, a
member may overwrite its own commits.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from struct import Struct
from typing import Final

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import ClientError, code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headrace.testing.simulation.checks.history import Place
from headrace.testing.simulation.clients.committed_offsets import (
    API_TIMEOUT_S,
    CommitLedger,
    commit,
    fetch_commit,
)

GROUP: Final = "classic"
PROTOCOL_TYPE: Final = "consumer"
PROTOCOL: Final = "range"
CONSUMER_VERSION: Final = 0
SESSION_TIMEOUT_MS: Final = 6_000  # the shortest session timeout that brokers allow
REBALANCE_TIMEOUT_MS: Final = 3_000  # shorter than a client's request timeout

RETRY_S: Final = 0.3
MEAN_BEAT_S: Final = 0.9
LEAVES: Final = 0.02  # share of the beats
FALLS_SILENT: Final = 0.03  # share of the beats after which the member pauses
LONGEST_SILENCE_S: Final = 12.0

_COORDINATOR: Final = CoordinatorNode(GROUP)
_VERSION: Final = Struct(">h")


class _Removed(Exception):
    """The group has removed the member, or the member has left."""


class SimulatedClassicMember:
    """Joins, assigns partitions if it is the leader, commits; sometimes leaves or sends nothing."""

    def __init__(
        self, client: ClusterClient, ledger: CommitLedger, places: Sequence[Place], chance: Random
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._places = sorted(places)
        self._random = chance
        self._id = ""
        self._generation = -1
        self._owned: dict[Place, int] = {}  # the owned partitions, and the next offset of each
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            self._id = ""
            try:
                await self._run_as_member()
            except (ClientError, _Removed):
                await asyncio.sleep(RETRY_S)

    async def _run_as_member(self) -> None:
        """Runs as one member id, through one generation after the other."""
        while not self.stopping:
            if await self._join_generation():
                await self._run_generation()
            else:
                await asyncio.sleep(RETRY_S)
        await self._leave()  # so that the other members do not wait for it

    # --- a new generation -----------------------------------------------------------------------

    async def _join_generation(self) -> bool:
        """Joins the group; False if the member has to join again."""
        self._owned = {}
        joined = await self._join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = joined.member_id
            joined = await self._join()
        if not _check_generation(joined.error_code):
            return False
        self._id, self._generation = joined.member_id, joined.generation_id
        synced = await self._client.send(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self._generation,
                member_id=self._id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=self._assign(joined) if joined.leader == self._id else [],
            ),
            SyncGroupResponse,
            to=_COORDINATOR,
            timeout_s=API_TIMEOUT_S,
        )
        if not _check_generation(synced.error_code):
            return False
        given = _read_assignment(bytes(synced.assignment))
        for place in given:
            self._ledger.owns(place, self._generation, self._id)
        for place in given:
            offset = await fetch_commit(self._client, self._ledger, GROUP, place)
            if offset is not None:
                self._owned[place] = offset
        return True

    async def _join(self) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(topics=sorted({p.topic for p in self._places}))
        metadata = _VERSION.pack(CONSUMER_VERSION) + subscription.encode(CONSUMER_VERSION)
        return await self._client.send(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
            ),
            JoinGroupResponse,
            to=_COORDINATOR,
            timeout_s=API_TIMEOUT_S,
        )

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assigns a range of the partitions to each member."""
        ids = sorted(each.member_id for each in joined.members)
        cuts = [len(self._places) * number // len(ids) for number in range(len(ids) + 1)]
        return [
            SyncGroupRequestAssignment(
                member_id=id_, assignment=_assignment(self._places[first:end])
            )
            for id_, first, end in zip(ids, cuts, cuts[1:], strict=False)
        ]

    # --- within a generation --------------------------------------------------------------------

    async def _run_generation(self) -> None:
        """Sends heartbeats and commits until the group begins another generation."""
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_BEAT_S))
            answer = await self._client.send(
                HeartbeatRequest(
                    group_id=GROUP, generation_id=self._generation, member_id=self._id
                ),
                HeartbeatResponse,
                to=_COORDINATOR,
                timeout_s=API_TIMEOUT_S,
            )
            stays = _check_generation(answer.error_code)
            chance = self._random.random()
            if chance < LEAVES:
                await self._leave()
                raise _Removed
            if chance < LEAVES + FALLS_SILENT:
                await asyncio.sleep(self._random.random() * LONGEST_SILENCE_S)
            # Also after a heartbeat that failed or was long ago: most of these commits are refused.
            for place in list(self._owned):
                stays = await self._commit(place) and stays
            if not stays:
                return

    async def _commit(self, place: Place) -> bool:
        offset = self._owned[place] + self._random.randint(1, 5)
        member = (self._id, self._generation)
        code = await commit(self._client, self._ledger, GROUP, member, place, offset, retry=False)
        if code is ErrorCode.NONE:
            self._owned[place] = offset
        # The next heartbeat waits, or finds the coordinator, if that is necessary.
        return code.retriable or _check_generation(code)

    async def _leave(self) -> None:
        if self._id:
            await self._client.send(
                LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self._id)]),
                LeaveGroupResponse,
                to=_COORDINATOR,
                timeout_s=API_TIMEOUT_S,
            )


def _check_generation(number: int) -> bool:
    """Whether a member is in the current generation; raises `_Removed` if it is not a member."""
    code = code_of_number(number)
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        raise _Removed
    return code is ErrorCode.NONE


def _assignment(places: Sequence[Place]) -> bytes:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
    )
    return _VERSION.pack(CONSUMER_VERSION) + assignment.encode(CONSUMER_VERSION)


def _read_assignment(data: bytes) -> list[Place]:
    if not data:  # the leader did not know this member
        return []
    assignment = ConsumerProtocolAssignment.decode(data[_VERSION.size :], CONSUMER_VERSION)
    return [
        Place(each.topic, index)
        for each in assignment.assigned_partitions
        for index in each.partitions
    ]
