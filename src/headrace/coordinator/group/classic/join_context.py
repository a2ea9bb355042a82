"""One JoinGroup while it is being decided."""

from dataclasses import dataclass
from typing import Final

from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.member import ClassicMember, MemberProtocol
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1

JoinAnswer = JoinGroupResponse | Deferred[JoinGroupResponse]


@dataclass(frozen=True, slots=True)
class JoinContext:
    """The request, its group, and the result so far."""

    group: ClassicGroup
    context: RequestContext
    request: JoinGroupRequest
    result: ResultBuilder
    now_ms: int
    protocols: tuple[MemberProtocol, ...]

    @property
    def rebalance_timeout_ms(self) -> int:
        if self.context.version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms

    def member(self, member_id: str) -> ClassicMember:
        """The member as the request describes it."""
        return ClassicMember(
            group_id=self.group.group_id,
            member_id=member_id,
            instance_id=self.request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocol_type=self.request.protocol_type,
            protocols=self.protocols,
        )
