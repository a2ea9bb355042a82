"""One member of a classic group."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.coordinator.common.result import Deferred, SetTimer
from headrace.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupResponse

NO_ASSIGNMENT = b""


class MemberProtocol(NamedTuple):
    """An assignment protocol that a member supports, with its metadata for the leader."""

    name: str
    metadata: bytes


def protocols_of(listed: Sequence[JoinGroupRequestProtocol]) -> tuple[MemberProtocol, ...]:
    """A join request's protocols, in the member's order of preference."""
    return tuple(MemberProtocol(one.name, bytes(one.metadata)) for one in listed)


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member and its waiting requests."""

    group_id: str
    member_id: str
    instance_id: str | None
    """Set for a static member (KIP-345)."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    joining: Deferred[JoinGroupResponse] | None = None
    """The JoinGroup that waits for the others; `ClassicGroup` counts these, so set it there."""
    syncing: Deferred[SyncGroupResponse] | None = None
    """The SyncGroup that waits for the leader's assignment."""
    is_new: bool = False
    """The member has not completed a join phase: it does not know its id and cannot heartbeat."""

    session_timer: Hashable = field(init=False)
    _session: tuple[SetTimer] = field(init=False)

    def __post_init__(self) -> None:
        self.session_timer = session_timer(self.group_id, self.member_id)
        self._session = (SetTimer(self.session_timer, self.session_timeout_ms),)

    @property
    def session(self) -> tuple[SetTimer]:
        """The session timer that every heartbeat and commit sets."""
        if self._session[0].delay_ms != self.session_timeout_ms:
            self._session = (SetTimer(self.session_timer, self.session_timeout_ms),)
        return self._session

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_alive_by_waiting(self) -> bool:
        """A member with a waiting request need not heartbeat, unless it is new: a client that timed
        out and returned under another id must not stay in the group."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for that protocol, which it must support."""
        for one in self.protocols:
            if one.name == protocol:
                return one.metadata
        msg = f"member {self.member_id} does not know the protocol {protocol}"
        raise LookupError(msg)

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it prefers; it must support one of them."""
        return next(one.name for one in self.protocols if one.name in candidates)


def session_timer(group_id: str, member_id: str) -> Hashable:
    """The key of the session timer of a member, also of a pending one."""
    return ("classic", "session", group_id, member_id)
