"""The timers of a member. A key starts with the name of the groups' manager."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from headrace.coordinator.common.result import CancelTimer


class TimerKind(StrEnum):
    """Each deadline removes the member that misses it."""

    SESSION = "session"
    """The member has not sent a heartbeat."""
    REBALANCE = "rebalance"
    """The member has not released its partitions."""
    JOIN = "join"
    """A classic member has not rejoined."""
    SYNC = "sync"
    """A classic member has joined but has not fetched its assignment."""


class TimerKey(NamedTuple):
    manager: str
    deadline: TimerKind
    group_id: str
    member_id: str


def timer(deadline: TimerKind, group_id: str, member_id: str) -> TimerKey:
    return TimerKey("consumer", deadline, group_id, member_id)


def cancel_all(group_id: str, member_id: str) -> Sequence[CancelTimer]:
    return [CancelTimer(timer(deadline, group_id, member_id)) for deadline in TimerKind]
