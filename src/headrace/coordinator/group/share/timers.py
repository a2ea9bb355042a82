"""The session timer of a member: the coordinator removes it when the timer expires."""

from typing import NamedTuple


class SessionTimer(NamedTuple):
    """A key starts with the name of the groups' manager."""

    manager: str
    group_id: str
    member_id: str


def session_timer(group_id: str, member_id: str) -> SessionTimer:
    return SessionTimer("share", group_id, member_id)
