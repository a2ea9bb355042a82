"""A follower that is not in sync, as its leader knows it. Pure."""

from typing import NamedTuple


class OutOfSyncFollower(NamedTuple):
    """A follower that is not in the in-sync set."""

    broker_id: int
    log_end: int
    """Its log end offset at its last fetch; -1 if it has not fetched from this leader."""
    out_of_sync_s: float
    since_takeover: bool
    """Whether it left the set before this leader took over: the time is then a minimum."""
