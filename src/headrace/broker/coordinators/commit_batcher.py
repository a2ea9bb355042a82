"""Offset commits that arrive in one turn of the loop, stored together.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit that is gathered is held until its answer: nothing that its client sends behind it
overtakes it. A commit that cannot be stored with the others is handled by itself, like any request.

Answers leave when all appends are done, one behind the other. Each would wake its client from its
sleep otherwise, and to wake a process costs as much as an append: a client of many connections now
has work until the last answer is there.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.broker.coordinators.shard_runner import ShardRunner, coordinator_error
from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.offsets.fast_commit import commit_again

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator import Coordinator
    from headrace.coordinator.group.group_shard import GroupShard

# One batch has a largest size, and one turn of a shard a longest time.
MAX_COMMITS_A_BATCH: Final = 500


class CommitBatcher:
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
        self._gathered: list[CommitFastPath] = []
        self._stored: list[CommitFastPath] = []  # and not answered yet

    def add(self, commit: CommitFastPath) -> None:
        """The caller holds the connection; it is released when `commit` has an answer."""
        if not self._gathered:
            self._loop.call_soon(self._store)
        self._gathered.append(commit)

    def _store(self) -> None:
        gathered, self._gathered = self._gathered, []
        by_seat: dict[ShardRunner[GroupShard], list[CommitFastPath]] = {}
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
        now_ms = self._groups.now_ms()
        for seat, commits in by_seat.items():
            while len(commits) > MAX_COMMITS_A_BATCH:
                self._store_in(seat, commits[:MAX_COMMITS_A_BATCH], topics, now_ms)
                commits = commits[MAX_COMMITS_A_BATCH:]
            self._store_in(seat, commits, topics, now_ms)
        self._answer()

    def _store_in(
        self,
        seat: "ShardRunner[GroupShard]",
        commits: Sequence[CommitFastPath],
        topics: Mapping[str, Topic],
        now_ms: int,
    ) -> None:
        try:
            records, timers, refused = commit_again(commits, topics, seat.shard, now_ms)
        except Exception as error:
            coordinator_error(error)  # into the log; whoever asked is told when it happens again
            _start_again(commits)
            return
        if refused:
            commits = [commit for commit in commits if commit not in refused]
        outcome = None if records is None else seat.store(records, timers, now_ms)
        if outcome is None:
            self._stored += commits
        elif isinstance(outcome, Deferred):
            outcome.listen(partial(self._committed_later, commits))
        else:
            _start_again(commits)
        if refused:
            _start_again(refused)

    def _committed_later(
        self, commits: Sequence[CommitFastPath], error: CoordinatorError | None
    ) -> None:
        """Replicas have the records. One answer of theirs often tells this of many partitions."""
        if error is not None:
            _start_again(commits)
            return
        if not self._stored:
            self._loop.call_soon(self._answer)
        self._stored += commits

    def _answer(self) -> None:
        stored, self._stored = self._stored, []
        for commit in stored:
            commit.answer()


def _start_again(commits: Iterable[CommitFastPath]) -> None:
    for commit in commits:
        commit.start_again()
