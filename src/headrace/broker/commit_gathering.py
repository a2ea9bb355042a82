"""Offset commits that arrive in one turn of the loop, stored together.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit that is gathered is held until its answer: nothing that its client sends behind it
overtakes it. A commit that cannot be stored with the others is handled by itself, like any request.

Answers leave when all appends are done, one behind the other. Each would wake its client from its
sleep otherwise, and to wake a process costs as much as an append: a client of many connections now
has work until the last answer is there.
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

Refused = Sequence[RepeatedCommit]


class CommitGathering:
    """The commits that this turn of the loop has brought so far."""

    __slots__ = ("_gathered", "_groups", "_image", "_loop", "_stored")

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
        self._stored: list[RepeatedCommit] = []  # and not answered yet

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
                self._store_in(seat, commits[:MAX_COMMITS_A_BATCH], topics)
                commits = commits[MAX_COMMITS_A_BATCH:]
            self._store_in(seat, commits, topics)
        self._answer()

    def _store_in(
        self,
        seat: "Seat[GroupShard]",
        commits: Sequence[RepeatedCommit],
        topics: Mapping[str, Topic],
    ) -> None:
        outcome = seat.run(lambda shard, now_ms: commit_again(commits, topics, shard, now_ms))
        if isinstance(outcome, Deferred):
            outcome.listen(lambda refused: self._committed_later(commits, refused))
        else:
            self._done(commits, outcome)

    def _committed_later(
        self,
        commits: Sequence[RepeatedCommit],
        refused: Sequence[RepeatedCommit] | CoordinatorError,
    ) -> None:
        """Replicas have the records. One answer of theirs often tells this of many partitions."""
        if not self._stored:
            self._loop.call_soon(self._answer)
        self._done(commits, refused)

    def _done(
        self,
        commits: Sequence[RepeatedCommit],
        refused: Sequence[RepeatedCommit] | CoordinatorError,
    ) -> None:
        if not refused:
            self._stored += commits
            return
        if not isinstance(refused, CoordinatorError):
            self._stored += [commit for commit in commits if commit not in refused]
            commits = refused
        for commit in commits:
            commit.start_again()

    def _answer(self) -> None:
        stored, self._stored = self._stored, []
        for commit in stored:
            commit.answer()
