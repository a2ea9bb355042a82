"""Drives a group shard with members of the classic protocol."""

import struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from random import Random

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_shard import GroupShard
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.protocol.messages.heartbeat import HeartbeatRequest
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
from support.groups.shards import Pending, ShardDriver

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
NEWEST_JOIN = 9


def subscription(*topics: str) -> bytes:
    """A consumer's subscription in JoinGroup."""
    return struct.pack(">h", 0) + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


class ClassicDriver(ShardDriver[GroupShard]):
    """Joins, syncs and leaves, with defaults for the fields that a test does not set."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        seed: int = 1,
        image: Callable[[], MetadataImage] = MetadataImage,
    ) -> None:
        self.config = config or GroupConfig(classic_initial_rebalance_delay_ms=0)
        random = Random(seed)
        super().__init__(lambda: GroupShard(0, image, lambda group_id: self.config, random))

    def configure(self, **changes: int) -> None:
        self.config = replace(self.config, **changes)

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def classic_timers(self) -> set[Hashable]:
        return {key for key in self.timers if isinstance(key, tuple) and key[0] == "classic"}

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = NEWEST_JOIN,
        group_id: str = GROUP,
    ) -> Pending[JoinGroupResponse]:
        if protocols is None:
            protocols = {"range": subscription("t")}
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ],
        )
        context = RequestContext(version, "app", "/10.0.0.1")
        return self.start(lambda shard, now_ms: shard.classic.join(context, request, now_ms))

    def new_id(self, **options: object) -> str:
        """The member id that the coordinator assigns to a new member."""
        answer = self.join(**options).value  # type: ignore[arg-type]
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def enter(self, **options: object) -> tuple[str, Pending[JoinGroupResponse]]:
        """A new member that has its id and waits in JoinGroup."""
        member_id = self.new_id(**options)
        return member_id, self.join(member_id, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Pending[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=assignment)
                for one, assignment in (assignments or {}).items()
            ],
        )
        context = RequestContext(5, "app", "/10.0.0.1")
        return self.start(lambda shard, now_ms: shard.classic.sync(context, request, now_ms))

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        context = RequestContext(4)
        answer = self.run(lambda shard, now_ms: shard.classic.heartbeat(context, request, now_ms))
        return ErrorCode(answer.error_code)

    def leave(self, *members: str, instances: Iterable[str] = ()) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[
                *(MemberIdentity(member_id=one) for one in members),
                *(MemberIdentity(group_instance_id=one) for one in instances),
            ],
        )
        context = RequestContext(5, "app", "/10.0.0.1")
        return self.run(lambda shard, now_ms: shard.classic.leave(context, request, now_ms))

    def form(self, size: int, **options: object) -> list[str]:
        """A stable group of `size` new dynamic members; the first one leads it. Every member is
        assigned its own id."""
        entered = [self.enter(**options) for _ in range(size)]
        self.advance(self.config.classic_initial_rebalance_delay_ms)
        return self.settle([member_id for member_id, _ in entered])

    def settle(self, members: list[str]) -> list[str]:
        """Ends the sync phase; returns the members with the leader first."""
        leader = self.group.leader
        assert leader is not None
        generation = self.group.generation
        self.sync(leader, generation, {one: one.encode() for one in self.group.members})
        for one in members:
            assert self.sync(one, generation).value.assignment == one.encode()
        return sorted(members, key=lambda one: one != leader)
