"""The session timer of a member: the coordinator removes the member when the timer expires."""

from typing import NamedTuple


class SessionTimer(NamedTuple):
    """The key of the timer; it starts with the name of the `GroupManager`."""

    manager: str
    group_id: str
    member_id: str


def session_timer(group_id: str, member_id: str) -> SessionTimer:
    return SessionTimer("share", group_id, member_id)
