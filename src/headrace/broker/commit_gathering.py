"""Offset commits that arrive in one turn of the loop, stored together.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit that is gathered is held until its answer: nothing that its client sends behind it
overtakes it. A commit that cannot be stored with the others is handled by itself, like any request.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.connection import Connection
from headrace.broker.coordinator_seat import Seat
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import Deferred
from headrace.groups.offsets.recommitting import Recommit, commit_again

if TYPE_CHECKING:
    from headrace.broker.coordinator import Coordinator
    from headrace.groups.shard import GroupShard

# One batch has a largest size, and one turn of a shard a longest time.
MAX_COMMITS_A_BATCH: Final = 500
_CORRELATION_ID: Final = slice(4, 8)  # of a request

# The bytes of an answer before and behind the correlation id.
Answer = tuple[bytes, bytes]


class _Gathered(NamedTuple):
    """A commit, the request that it came in, and who waits for it."""

    connection: Connection
    commit: Recommit[Answer]
    frame: bytes


class CommitGathering:
    """The commits that this turn of the loop has brought so far."""

    def __init__(self, loop: asyncio.AbstractEventLoop, groups: "Coordinator[GroupShard]") -> None:
        self._loop = loop
        self._groups = groups
        self._gathered: list[_Gathered] = []

    def add(self, connection: Connection, commit: Recommit[Answer], frame: bytes) -> None:
        """The caller holds the connection; it is released when `commit` has an answer."""
        if not self._gathered:
            self._loop.call_soon(self._store)
        self._gathered.append(_Gathered(connection, commit, frame))

    def _store(self) -> None:
        gathered, self._gathered = self._gathered, []
        by_seat: dict[Seat[GroupShard], list[_Gathered]] = {}
        for one in gathered:
            try:
                seat = self._groups.seat(one.commit.group_id)
            except CoordinatorError:
                one.connection.start_again(one.frame)
                continue
            others = by_seat.get(seat)
            if others is None:
                by_seat[seat] = [one]
            else:
                others.append(one)
        for seat, ones in by_seat.items():
            for start in range(0, len(ones), MAX_COMMITS_A_BATCH):
                _store_in(seat, ones[start : start + MAX_COMMITS_A_BATCH])


def _store_in(seat: "Seat[GroupShard]", ones: Sequence[_Gathered]) -> None:
    commits = [one.commit for one in ones]
    outcome = seat.run(lambda shard, now_ms: commit_again(commits, shard, now_ms))
    if isinstance(outcome, Deferred):
        outcome.listen(lambda answers: _answer(ones, answers))
    else:
        _answer(ones, outcome)


def _answer(ones: Sequence[_Gathered], answers: list[Answer | None] | CoordinatorError) -> None:
    if isinstance(answers, CoordinatorError):
        answers = [None] * len(ones)
    for (connection, _, frame), answer in zip(ones, answers, strict=True):
        if answer is None:
            connection.start_again(frame)
        else:
            before, behind = answer
            connection.answer_held(before + frame[_CORRELATION_ID] + behind)
