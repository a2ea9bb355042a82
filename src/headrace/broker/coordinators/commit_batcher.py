"""Offset commits that arrive in one iteration of the event loop, stored as one batch per shard.

Fifty consumers of a group that commit at the same time cost one append, not fifty. The connection
of a commit is blocked until its response: nothing that its client sends later overtakes it. A
commit that cannot be stored with the others falls back to its handler, like any request.

Responses leave after all appends, one right after the other. A response between two appends would
wake its client, and waking a process costs as much as an append. This way a client with many
connections wakes up once for all its responses.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.broker.coordinators.shard_runner import ShardRunner, coordinator_error
from headrace.cluster.image import MetadataImage, Topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.offsets.fast_commit import prepare_commits
from headrace.protocol.api import ApiKey

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
    from headrace.broker.network.request_meter import RequestMeters
    from headrace.coordinator.group.group_shard import GroupShard

# Bounds the size of a batch and the time that a shard takes at once.
MAX_COMMITS_A_BATCH: Final = 500


class CommitBatcher:
    """The commits of this iteration of the loop."""

    __slots__ = ("_batch", "_groups", "_image", "_loop", "_meters", "_stored", "_times")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: "CoordinatorRuntime[GroupShard]",
        image: Callable[[], MetadataImage],
        meters: "RequestMeters | None" = None,
    ) -> None:
        """`meters` is set if the broker counts and times requests."""
        self._meters = meters
        self._times = None if meters is None else _Times(meters.monotonic)
        self._loop = loop
        self._groups = groups
        self._image = image
        self._batch: list[CommitFastPath] = []
        self._stored: list[CommitFastPath] = []  # without a response yet

    def add(self, commit: CommitFastPath) -> None:
        """The caller blocks the connection until `commit` has responded or has fallen back."""
        if not self._batch:
            self._loop.call_soon(self._store)
            if self._times is not None:
                self._times.begin()
        self._batch.append(commit)

    def _store(self) -> None:
        began = inf if self._times is None else self._times.resume()
        batch, self._batch = self._batch, []
        by_runner: dict[ShardRunner[GroupShard], list[CommitFastPath]] = {}
        for commit in batch:
            try:
                runner = self._groups.runner_of(commit.group_id)
            except CoordinatorError:
                commit.fall_back()
                continue
            others = by_runner.get(runner)
            if others is None:
                by_runner[runner] = [commit]
            else:
                others.append(commit)
        topics = self._image().topics
        now_ms = self._groups.now_ms()
        for runner, commits in by_runner.items():
            while len(commits) > MAX_COMMITS_A_BATCH:
                self._store_in_shard(runner, commits[:MAX_COMMITS_A_BATCH], topics, now_ms, began)
                commits = commits[MAX_COMMITS_A_BATCH:]
            self._store_in_shard(runner, commits, topics, now_ms, began)
        self._respond()

    def _store_in_shard(
        self,
        runner: "ShardRunner[GroupShard]",
        commits: Sequence[CommitFastPath],
        topics: Mapping[str, Topic],
        now_ms: int,
        began: float,
    ) -> None:
        try:
            records, timers, refused = prepare_commits(commits, topics, runner.shard, now_ms)
        except Exception as error:
            coordinator_error(error)  # logs it; the handler answers with the error if it recurs
            _fall_back(commits)
            return
        if refused:
            commits = [commit for commit in commits if commit not in refused]
        outcome = None if records is None else runner.store(records, timers, now_ms)
        if outcome is None:
            self._add_stored(commits, began)
        elif isinstance(outcome, Deferred):
            outcome.listen(partial(self._committed_later, commits, began))
        else:
            _fall_back(commits)
        if refused:
            _fall_back(refused)

    def _committed_later(
        self, commits: Sequence[CommitFastPath], began: float, error: CoordinatorError | None
    ) -> None:
        """The replicas have the records. One fetch of a follower often commits many partitions."""
        if error is not None:
            _fall_back(commits)
            return
        if not self._stored:
            self._loop.call_soon(self._respond)
        self._add_stored(commits, began)

    def _add_stored(self, commits: Sequence[CommitFastPath], began: float) -> None:
        self._stored += commits
        if self._times is not None and commits:
            self._times.oldest_stored = min(self._times.oldest_stored, began)

    def _respond(self) -> None:
        stored, self._stored = self._stored, []
        for commit in stored:
            commit.respond()
        if self._meters is not None and self._times is not None:
            worked_s, total_s = self._times.end()
            meter = self._meters.of(ApiKey.OFFSET_COMMIT)
            meter.work_s += 0 if stored else worked_s
            for version, count in Counter(commit.version for commit in stored).items():
                share_s = worked_s * count / len(stored)
                meter.fast_path_served(version, count, share_s, total_s)


class _Times:
    """Measures the commits of one iteration, together."""

    __slots__ = ("_began", "_resumed", "monotonic", "oldest_stored")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.oldest_stored = inf
        """When the first of the stored commits arrived."""
        self._began = inf  # the first commit of the batch arrived
        self._resumed = inf  # the event loop continued with the batch

    def begin(self) -> None:
        self._began = self.monotonic()

    def resume(self) -> float:
        """Returns when the first commit of the batch arrived."""
        self._resumed = self.monotonic()
        return self._began

    def end(self) -> tuple[float, float]:
        """The time of the event loop, and the time since the first stored commit arrived."""
        now = self.monotonic()
        worked_s = max(0.0, now - self._resumed)
        total_s = max(worked_s, now - self.oldest_stored)
        self._resumed = self.oldest_stored = inf
        return worked_s, total_s


def _fall_back(commits: Iterable[CommitFastPath]) -> None:
    for commit in commits:
        commit.fall_back()
