"""Offset commits that arrive in one turn of the loop, stored together.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit that is gathered is held until its answer: nothing that its client sends behind it
overtakes it. A commit that cannot be stored with the others is handled by itself, like any request.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headrace.broker.coordinator_seat import Seat
from headrace.broker.repeated_commit import RepeatedCommit
from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import Deferred
from headrace.groups.offsets.recommitting import commit_again

if TYPE_CHECKING:
    from headrace.broker.coordinator import Coordinator
    from headrace.groups.shard import GroupShard

# One batch has a largest size, and one turn of a shard a longest time.
MAX_COMMITS_A_BATCH: Final = 500


class CommitGathering:
    """The commits that this turn of the loop has brought so far."""

    __slots__ = ("_gathered", "_groups", "_image", "_loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: "Coordinator[GroupShard]",
        image: Callable[[], MetadataImage],
    ) -> None:
        self._loop = loop
        self._groups = groups
        self._image = image
        self._gathered: list[RepeatedCommit] = []

    def add(self, commit: RepeatedCommit) -> None:
        """The caller holds the connection; it is released when `commit` has an answer."""
        if not self._gathered:
            self._loop.call_soon(self._store)
        self._gathered.append(commit)

    def _store(self) -> None:
        gathered, self._gathered = self._gathered, []
        by_seat: dict[Seat[GroupShard], list[RepeatedCommit]] = {}
        for commit in gathered:
            try:
                seat = self._groups.seat(commit.group_id)
            except CoordinatorError:
                commit.start_again()
                continue
            others = by_seat.get(seat)
            if others is None:
                by_seat[seat] = [commit]
            else:
                others.append(commit)
        topics = self._image().topics
        for seat, commits in by_seat.items():
            while len(commits) > MAX_COMMITS_A_BATCH:
                _store_in(seat, commits[:MAX_COMMITS_A_BATCH], topics)
                commits = commits[MAX_COMMITS_A_BATCH:]
            _store_in(seat, commits, topics)


def _store_in(
    seat: "Seat[GroupShard]", commits: Sequence[RepeatedCommit], topics: Mapping[str, Topic]
) -> None:
    outcome = seat.run(lambda shard, now_ms: commit_again(commits, topics, shard, now_ms))
    if isinstance(outcome, Deferred):
        outcome.listen(lambda refused: _answer(commits, refused))
    else:
        _answer(commits, outcome)


def _answer(
    commits: Sequence[RepeatedCommit], refused: Sequence[RepeatedCommit] | CoordinatorError
) -> None:
    if not refused:
        for commit in commits:
            commit.answer()
        return
    if not isinstance(refused, CoordinatorError):
        for commit in commits:
            if commit not in refused:
                commit.answer()
        commits = refused
    for commit in commits:
        commit.start_again()
