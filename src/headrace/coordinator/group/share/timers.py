"""The one timer of a member: it is out if it is not heard of for a session timeout."""

from typing import NamedTuple


class SessionTimer(NamedTuple):
    """A key starts with the name of this part of the shard."""

    part: str
    group_id: str
    member_id: str


def session_timer(group_id: str, member_id: str) -> SessionTimer:
    return SessionTimer("share", group_id, member_id)
