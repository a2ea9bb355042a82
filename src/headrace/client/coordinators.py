"""FindCoordinator: which broker coordinates a group or a transactional id. Pure."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from headrace.client.errors import BadResponse, check_error_code
from headrace.client.network.connection import Address
from headrace.client.network.versions import VersionRanges
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_FIRST_VERSION_WITH_MANY_KEYS: Final = 4


class CoordinatorKind(IntEnum):
    """FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """The broker that coordinates this group, transactional id or share partition."""

    key: str
    kind: CoordinatorKind = CoordinatorKind.GROUP

    def __str__(self) -> str:
        return f"the coordinator of {self.key!r}"


CoordinatorCache: TypeAlias = dict[CoordinatorNode, Address]


def find_coordinator(wanted: CoordinatorNode, versions: VersionRanges) -> FindCoordinatorRequest:
    """The request in the form that this broker's version needs."""
    version = versions.pick(APIS[ApiKey.FIND_COORDINATOR])
    if version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorRequest(key_type=wanted.kind, coordinator_keys=[wanted.key])
    return FindCoordinatorRequest(key=wanted.key, key_type=wanted.kind)


def coordinator_of(wanted: CoordinatorNode, answer: FindCoordinatorResponse) -> Address:
    """The coordinator's address; raises `RequestRefused`, retriable while it is being set up."""
    code, host, port = answer.error_code, answer.host, answer.port
    for found in answer.coordinators:
        if found.key == wanted.key:
            code, host, port = found.error_code, found.host, found.port
    check_error_code(code, f"cannot find the coordinator of {wanted.key!r}")
    if not host:
        raise BadResponse(f"the FindCoordinator response does not contain {wanted.key!r}")
    return Address(host, port)
