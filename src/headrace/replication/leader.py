"""A partition that this broker leads and other brokers follow.

Guarantees: a record is below the high watermark only when every in-sync replica has it; the
watermark does not move while fewer than `min.insync.replicas` replicas are in sync, or while an
out-of-sync replica may be elected; a follower that is joining the in-sync set counts at once; one
that is leaving counts until the controller has committed the change; only one change of the set is
in progress. Time is passed in; nothing here waits.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.cluster.topology import Partition
from headrace.metrics.topic_traffic import TopicTraffic
from headrace.replication.follower_progress import FollowerProgress
from headrace.replication.out_of_sync_follower import OutOfSyncFollower
from headrace.replication.replica import Replica, Waiter
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import Log


class IsrProposal(NamedTuple):
    """The in-sync replicas that this leader proposes to the controller, with their epochs."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id, _ in self.isr)


class Leader(SoleLeader):
    """The leader of a partition with several replicas."""

    _commits_at_append = False

    __slots__ = (
        "_began_at",
        "_broker_id",
        "_end_waiters",
        "_epoch_start",
        "_known_watermark",
        "_left_isr_at",
        "_maximal_isr",
        "_min_isr",
        "_pending",
        "_safe_end",
        "_start_waiters",
        "_unanswered",
        "_uncommitted",
        "partition",
        "progress",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        partition: Partition,
        open_log: Callable[[Replica], Log],
        *,
        broker_id: int,
        min_isr: int,
        high_watermark: int,
        now: float,
    ) -> None:
        super().__init__(topic, topic_id, index, partition.leader_epoch, open_log)
        self.partition = partition
        self.progress = {
            id_: FollowerProgress(now) if id_ in partition.isr else FollowerProgress()
            for id_ in partition.replicas
            if id_ != broker_id
        }
        self._broker_id = broker_id
        self._began_at = now
        self._left_isr_at: dict[int, float] | None = None  # by follower that left during this role
        self._min_isr = min_isr
        self._known_watermark = high_watermark
        self._maximal_isr = frozenset(partition.isr)
        self._pending: IsrProposal | None = None
        # Members of a proposal that a resignation replaced; the controller may still commit it.
        self._unanswered: frozenset[int] = frozenset()
        self._safe_end = -1
        self._epoch_start = -1
        self._uncommitted: deque[tuple[int, int]] = deque()  # (end offset, bytes)
        self._end_waiters: list[Waiter] = []
        self._start_waiters: list[Callable[[], None]] = []
        self._count_in_sync()
        self.gaps.began(now, is_first=partition.leader_epoch == 0)

    def _log_opened(self, log: Log) -> None:
        end = log.log_end_offset
        self.high_watermark = max(log.log_start_offset, min(self._known_watermark, end))
        self._safe_end = self._epoch_start = end
        if log.has_overdue_flush:
            # Records of an earlier role or run may still be in the page cache only.
            self._unflushed = [(end, 0)]
            self._safe_end = log.recovery_point
        log.begin_epoch(self.epoch)
        self._advance_high_watermark()

    def _is_new_to_this_leader(self, producer_id: int) -> bool:
        known = self.log.producers.get(producer_id)
        if known is None or not known.batches:
            return False
        return known.batches[-1].last_offset < self._epoch_start

    @property
    def known_watermark(self) -> int:
        return self.high_watermark if self.is_open else self._known_watermark

    @property
    def knows_watermark(self) -> bool:
        """Whether the watermark covers all records that were committed at the election (KIP-207).

        Until the followers have fetched, it may be behind the previous leader's watermark.
        """
        return self.high_watermark >= self._epoch_start

    def awaits(self, replica_id: int) -> bool:
        """Whether a commit waits for this replica."""
        return replica_id in self._maximal_isr

    # --- writing --------------------------------------------------------------------------------

    def _count_in_sync(self) -> None:
        partition = self.partition
        # An out-of-sync replica that the controller may elect (KIP-966) must have all committed
        # records. While there is one, nothing is committed, even with enough in-sync replicas.
        self.enough_in_sync = not partition.eligible_leaders and len(partition.isr) >= min(
            self._min_isr, len(partition.replicas)
        )

    def _record_append(self, log: Log, size_bytes: int, duplicate: bool, needs_flush: bool) -> None:
        end = log.log_end_offset
        if not duplicate:
            self._uncommitted.append((end, size_bytes))
        if needs_flush or self._unflushed:
            if self._unflushed is None:
                self._unflushed = []
            self._unflushed.append((end, 0 if duplicate else size_bytes))
        else:
            self._safe_end = end
            if len(self._maximal_isr) == 1:
                self._advance_high_watermark()
        for waiter in tuple(self._end_waiters):
            waiter.advanced(size_bytes)

    def flushed(self, up_to: int) -> None:
        if self._unflushed:
            self._unflushed = [entry for entry in self._unflushed if entry[0] > up_to]
            self._safe_end = max(self._safe_end, up_to)
            self._advance_high_watermark()

    def interrupt(self) -> None:
        super().interrupt()
        for waiter in tuple(self._end_waiters):
            waiter.interrupted()

    # --- followers ------------------------------------------------------------------------------

    def watch_end(self, waiter: Waiter) -> None:
        """Notifies a follower's session of every append, committed or not."""
        self._end_waiters.append(waiter)

    def unwatch_end(self, waiter: Waiter) -> None:
        if waiter in self._end_waiters:
            self._end_waiters.remove(waiter)

    def fetched(
        self, broker_id: int, broker_epoch: int, offset: int, log_start: int, now: float
    ) -> bool:
        """A follower fetches from `offset`: it has all records before it.

        False if the broker has no replica, or if the fetch is from an earlier incarnation of it.
        """
        progress = self.progress.get(broker_id)
        if progress is None or broker_epoch < progress.broker_epoch:
            return False
        end = self.log.log_end_offset
        moved = log_start != progress.log_start
        progress.fetched(offset, log_start, broker_epoch, end, now)
        if moved:
            for on_change in tuple(self._start_waiters):
                on_change()
        if broker_id in self._maximal_isr:
            self._advance_high_watermark()
        return True

    def low_watermark(self, live: Container[int]) -> int:
        """The lowest log start of this leader and its live followers; -1 while unknown."""
        starts = [each.log_start for id_, each in self.progress.items() if id_ in live]
        return min([self.log.log_start_offset, *starts])

    def watch_starts(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` whenever a follower's log start changes."""
        self._start_waiters.append(on_change)

    def unwatch_starts(self, on_change: Callable[[], None]) -> None:
        if on_change in self._start_waiters:
            self._start_waiters.remove(on_change)

    def _advance_high_watermark(self) -> None:
        if not self.enough_in_sync:
            return
        end = self._safe_end
        for id_ in self._maximal_isr:
            if id_ != self._broker_id:
                progress = self.progress.get(id_)
                end = min(end, progress.log_end if progress is not None else -1)
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        size = 0
        while self._uncommitted and self._uncommitted[0][0] <= end:
            size += self._uncommitted.popleft()[1]
        if self._waiters:
            self._notify_waiters(size)
        self._complete_commit_waits()

    # --- the in-sync set -------------------------------------------------------------------------

    def propose(self, live: Mapping[int, int], now: float, max_lag_s: float) -> IsrProposal | None:
        """Proposes the set without lagging followers, if there are any; `live` maps broker ids to
        epochs.

        The proposal is pending until `partition_changed` or `refused`.
        """
        if self._pending is not None or not self.is_open:
            return None
        end = self.log.log_end_offset
        for progress in self.progress.values():
            if progress.log_end == end:
                # A fetch contains only changed partitions: it may leave out one that has caught up.
                progress.caught_up_at = now
        return self._propose_isr(
            {
                id_
                for id_ in self.partition.isr
                if id_ == self._broker_id or not self.progress[id_].lags(end, now, max_lag_s)
            },
            live,
        )

    def propose_joining(
        self, joining: Iterable[int], live: Mapping[int, int]
    ) -> IsrProposal | None:
        """Proposes the set with the followers of `joining`, which have just fetched, that may join.

        An old fetch does not count: while the watermark does not move, a dead follower seems to
        have all records.
        """
        if self._pending is not None:
            return None
        may = {
            id_
            for id_ in joining
            if self.has_caught_up(id_) and live.get(id_) == self.progress[id_].broker_epoch
        }
        return self._propose_isr({*self.partition.isr, *may}, live)

    def propose_resigning(self, live: Mapping[int, int]) -> IsrProposal | None:
        """Proposes the set without this leader, whose log has failed: another replica is to lead.

        The set is empty if an eligible out-of-sync replica is to lead (KIP-966).
        """
        if self._pending is not None and self._broker_id not in self._pending.ids:
            return None
        others = {id_ for id_ in self.partition.isr if id_ != self._broker_id and id_ in live}
        if not others and live.keys().isdisjoint(self.partition.eligible_leaders):
            return None
        if self._pending is not None:
            self._unanswered |= self._pending.ids
            self._pending = None
        return self._propose_isr(others, live)

    def can_spare_itself(self, live: Mapping[int, int]) -> bool:
        """Whether enough other replicas are in sync to lead and to commit records.

        With fewer, this replica would become an eligible leader (KIP-966), and could not be
        truncated and copied again.
        """
        others = [id_ for id_ in self.partition.isr if id_ != self._broker_id and id_ in live]
        return len(others) >= max(1, self._min_isr)

    def has_caught_up(self, broker_id: int) -> bool:
        """Whether the follower has all committed records, and all from before this leader's
        epoch."""
        progress = self.progress.get(broker_id)
        return progress is not None and progress.log_end >= max(
            self.high_watermark, self._epoch_start
        )

    def _propose_isr(self, isr: set[int], live: Mapping[int, int]) -> IsrProposal | None:
        if isr == set(self.partition.isr):
            return None
        self._pending = proposal = IsrProposal(
            tuple(
                (id_, self._broker_epoch(id_, live))
                for id_ in self.partition.replicas
                if id_ in isr
            ),
            self.epoch,
            self.partition.partition_epoch,
        )
        before = self._maximal_isr
        self._maximal_isr = self._unanswered.union(isr, self.partition.isr)
        if not self._maximal_isr <= before:
            for waiter in tuple(self._end_waiters):
                waiter.interrupted()  # commits wait for the joining follower from now on
        return proposal

    def out_of_sync_followers(self, now: float) -> list[OutOfSyncFollower]:
        """The followers that are not in the in-sync set, and since when."""
        left = self._left_isr_at or {}
        return [
            OutOfSyncFollower(
                id_,
                progress.log_end,
                max(0.0, now - left.get(id_, self._began_at)),
                since_takeover=id_ not in left,
            )
            for id_, progress in self.progress.items()
            if id_ not in self.partition.isr
        ]

    def _broker_epoch(self, broker_id: int, live: Mapping[int, int]) -> int:
        return live.get(broker_id, -1)

    @property
    def pending(self) -> IsrProposal | None:
        """The proposal that the controller has neither accepted nor refused; it is sent again."""
        return self._pending

    def refused(self, proposal: IsrProposal) -> None:
        """Called when the controller has refused the proposal: the set is unchanged."""
        if self._pending is proposal:
            if self.traffic is not None:
                self.traffic.failed_isr_updates += 1
            self._pending = None
            self._maximal_isr = self._unanswered.union(self.partition.isr)
            self._advance_high_watermark()

    def partition_changed(self, partition: Partition, now: float) -> None:
        """Applies a change that the controller has committed."""
        if (
            partition.leader_epoch != self.epoch
            or partition.partition_epoch <= self.partition.partition_epoch
        ):
            return
        if self.traffic is not None:
            _count_isr_change(self.traffic, self.partition.isr, partition.isr)
        self._apply_partition(partition, now)

    def begin_leader_epoch(self, partition: Partition, now: float) -> None:
        """Remains the leader in a new epoch, for example after a replica was removed.

        Waits for commits continue: the records are in this leader's log.
        """
        if partition.leader_epoch <= self.epoch:
            return
        self.epoch = partition.leader_epoch
        if self.is_open:
            self._epoch_start = self.log.log_end_offset
        self._apply_partition(partition, now)
        if self.is_open:
            self.log.begin_epoch(self.epoch)  # last: it raises if the log has failed

    def resume(self) -> None:
        """Begins the current epoch in a log that is in use again after a failure."""
        self.log.begin_epoch(self.epoch)
        self._advance_high_watermark()

    def _apply_partition(self, partition: Partition, now: float) -> None:
        self._note_isr_change(partition, now)
        self.partition = partition
        self._count_in_sync()
        self._pending = None
        self._unanswered = frozenset()
        self._maximal_isr = frozenset(partition.isr)
        for id_ in partition.replicas:
            if id_ != self._broker_id and id_ not in self.progress:
                self.progress[id_] = FollowerProgress()
        for id_ in set(self.progress).difference(partition.replicas):
            del self.progress[id_]
        for id_ in partition.isr:
            if id_ != self._broker_id:
                # It was in sync until now: its lag is measured from now on.
                progress = self.progress[id_]
                progress.caught_up_at = max(progress.caught_up_at, now)
        if self.is_open:
            self._advance_high_watermark()

    def _note_isr_change(self, partition: Partition, now: float) -> None:
        left = self._left_isr_at or {}
        for id_ in partition.replicas:
            is_new = id_ not in self.partition.replicas
            if id_ not in partition.isr and (id_ in self.partition.isr or is_new):
                left[id_] = now
        out = set(partition.replicas).difference(partition.isr)
        self._left_isr_at = {id_: at for id_, at in left.items() if id_ in out} or None

    def require_in_sync(self, min_isr: int) -> None:
        """Applies a new value of `min.insync.replicas`."""
        self._min_isr = min_isr
        self._count_in_sync()
        if self.is_open:
            self._advance_high_watermark()


def _count_isr_change(traffic: TopicTraffic, before: Sequence[int], after: Sequence[int]) -> None:
    if not set(before) <= set(after):
        traffic.isr_shrinks += 1
    elif len(after) > len(before):
        traffic.isr_expands += 1
