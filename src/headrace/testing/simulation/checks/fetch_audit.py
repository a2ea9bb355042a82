"""Checks the leader epoch of each fetch at the moment when a broker serves it.

A leader serves only fetches with its own epoch: a client with an earlier epoch has old metadata, a
client with a later one knows that this leader was replaced (KIP-320). Brokers also follow other
rules, such as comparing the epochs of records, that would hide a violation of this one. So the
check is made inside the broker, not on the results.
"""
# ruff: noqa: ANN401 - observers take what they observe

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from headrace.broker.fetch import fetch_reader
from headrace.broker.replication.fetch_session_at_leader import (
    FollowerFetchSession,
    FollowerPosition,
)
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.testing.simulation.checks.history import Violation

SERVED: Final = "fetches are served only in their own epoch"
ANY_EPOCH: Final = -1


class FetchAudit:
    """Records violations inside brokers, which continue; `check` raises the first of them."""

    def __init__(self) -> None:
        self._found: Violation | None = None

    def check(self) -> None:
        if self._found is not None:
            raise self._found

    def served(self, replica: Replica, named: int, client: str) -> None:
        """Called when a fetch with this epoch was served, or counted, without an error."""
        if named not in (ANY_EPOCH, replica.epoch) and self._found is None:
            where = f"{replica.topic}-{replica.index} in epoch {replica.epoch}"
            self._found = Violation(SERVED, f"{where}: epoch {named} of {client}")


@contextmanager
def auditing() -> Iterator[FetchAudit]:
    """Patches the brokers for the duration of the context."""
    witness = FetchAudit()
    with ExitStack() as stack:
        for target, name, make in (
            (FollowerFetchSession, "_count_position", _counting),
            (FollowerFetchSession, "_read_position", _reading),
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
            witness.served(leader, position.fetch.current_epoch, f"follower {session.replica_id}")
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
            witness.served(leader, position.fetch.current_epoch, f"follower {session.replica_id}")
        return data

    return read


def _consuming(witness: FetchAudit, original: Any) -> Callable[..., Any]:
    def read(table: Any, wanted: Any, limits: Any, remaining: int, fetched: Any) -> Any:
        data = original(table, wanted, limits, remaining, fetched)
        if not data.error_code:
            witness.served(fetched.replicas[-1], wanted.current_leader_epoch, "a consumer")
        return data

    return read
