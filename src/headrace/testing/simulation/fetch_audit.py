"""What only the moment shows: in which epoch a fetch was served.

A leader answers whoever names its epoch, and no other: one who names an earlier epoch has not heard
who leads, one who names a later one knows that this leader was replaced (KIP-320). A broker keeps
this rule beside others that hide when it is broken, e.g. by comparing epochs of records. So it is
looked at where it applies, and not by what comes of it.
"""
# ruff: noqa: ANN401 - observers take what they observe

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from headrace.broker.fetch import fetch_reader
from headrace.broker.replication.follower_fetch_session import (
    FollowerFetchSession,
    FollowerPosition,
)
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.testing.simulation.history import Violation

SERVED: Final = "fetches are served in the epoch that they name"
ANY_EPOCH: Final = -1


class FetchAudit:
    """Notes what it sees inside of brokers, who go on; `check` raises the first of it."""

    def __init__(self) -> None:
        self._found: Violation | None = None

    def check(self) -> None:
        if self._found is not None:
            raise self._found

    def served(self, replica: Replica, named: int, who: str) -> None:
        """A fetch that names this epoch was answered, or counted, without an error."""
        if named not in (ANY_EPOCH, replica.epoch) and self._found is None:
            where = f"{replica.topic}-{replica.index} in epoch {replica.epoch}"
            self._found = Violation(SERVED, f"{where}: epoch {named} of {who}")


@contextmanager
def witnessing() -> Iterator[FetchAudit]:
    """Looks on inside."""
    witness = FetchAudit()
    with ExitStack() as stack:
        for target, name, make in (
            (FollowerFetchSession, "_count", _counting),
            (FollowerFetchSession, "_read", _reading),
            (fetch_reader, "_read", _consuming),
        ):
            observer = make(witness, getattr(target, name))
            stack.enter_context(patch.object(target, name, observer))
        yield witness


def _counting(witness: FetchAudit, original: Any) -> Callable[..., Any]:
    def count(
        session: FollowerFetchSession, table: Any, position: FollowerPosition, now: float
    ) -> Any:
        leader = original(session, table, position, now)
        if leader is not None:
            witness.served(leader, position.where.current_epoch, f"follower {session.replica_id}")
        return leader

    return count


def _reading(witness: FetchAudit, original: Any) -> Callable[..., Any]:
    def read(
        session: FollowerFetchSession,
        position: FollowerPosition,
        leader: Leader,
        *args: Any,
        **kw: Any,
    ) -> Any:
        data = original(session, position, leader, *args, **kw)
        if data is not None and not data.error_code:
            witness.served(leader, position.where.current_epoch, f"follower {session.replica_id}")
        return data

    return read


def _consuming(witness: FetchAudit, original: Any) -> Callable[..., Any]:
    def read(table: Any, wanted: Any, limits: Any, remaining: int, fetched: Any) -> Any:
        data = original(table, wanted, limits, remaining, fetched)
        if not data.error_code:
            witness.served(fetched.replicas[-1], wanted.current_leader_epoch, "a consumer")
        return data

    return read
