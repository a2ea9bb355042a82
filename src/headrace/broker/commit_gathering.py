"""Offset commits that arrive in one turn of the loop, stored together.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit that is gathered is held until its answer: nothing that its client sends behind it
overtakes it. A commit that cannot be stored with the others is handled by itself, like any request.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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
_CORRELATION_ID: Final = slice(4, 8)  # of a request, and of an answer behind its size


class Committer:
    """A connection that commits again and again; it is held while a commit is under way."""

    __slots__ = ("_answer_end", "_answer_start", "_connection", "frame")

    def __init__(self, connection: Connection, answer: bytes) -> None:
        """`answer` is what every commit gets, but for the correlation id."""
        self.frame = b""  # the request that holds the connection
        self._connection = connection
        self._answer_start = answer[: _CORRELATION_ID.start]
        self._answer_end = answer[_CORRELATION_ID.stop :]

    def answer(self) -> None:
        self._connection.answer_held(
            self._answer_start + self.frame[_CORRELATION_ID] + self._answer_end
        )

    def start_again(self) -> None:
        """The commit needs a closer look."""
        self._connection.start_again(self.frame)


Commit = Recommit[Committer]


class CommitGathering:
    """The commits that this turn of the loop has brought so far."""

    def __init__(self, loop: asyncio.AbstractEventLoop, groups: "Coordinator[GroupShard]") -> None:
        self._loop = loop
        self._groups = groups
        self._gathered: list[Commit] = []

    def add(self, commit: Commit) -> None:
        """The caller holds the connection; it is released when `commit` has an answer."""
        if not self._gathered:
            self._loop.call_soon(self._store)
        self._gathered.append(commit)

    def _store(self) -> None:
        gathered, self._gathered = self._gathered, []
        by_seat: dict[Seat[GroupShard], list[Commit]] = {}
        for commit in gathered:
            try:
                seat = self._groups.seat(commit.group_id)
            except CoordinatorError:
                commit.caller.start_again()
                continue
            others = by_seat.get(seat)
            if others is None:
                by_seat[seat] = [commit]
            else:
                others.append(commit)
        for seat, commits in by_seat.items():
            while len(commits) > MAX_COMMITS_A_BATCH:
                _store_in(seat, commits[:MAX_COMMITS_A_BATCH])
                commits = commits[MAX_COMMITS_A_BATCH:]
            _store_in(seat, commits)


def _store_in(seat: "Seat[GroupShard]", commits: Sequence[Commit]) -> None:
    outcome = seat.run(lambda shard, now_ms: commit_again(commits, shard, now_ms))
    if isinstance(outcome, Deferred):
        outcome.listen(lambda refused: _answer(commits, refused))
    else:
        _answer(commits, outcome)


def _answer(commits: Sequence[Commit], refused: Sequence[Commit] | CoordinatorError) -> None:
    if not isinstance(refused, CoordinatorError):
        for commit in commits:
            if not refused or commit not in refused:
                commit.caller.answer()
        commits = refused
    for commit in commits:
        commit.caller.start_again()
