"""The leader's side of the fetch session with one follower (KIP-227).

The session persists between fetches: the follower names a partition again only when its position
has changed. Each position listens to its leader, and only positions with changes are checked, so
the cost of a fetch over thousands of partitions depends only on the changes. A lagging follower is
sent slices at a rate that leaves time for other requests. Pure: waiting fetches are woken by a
call.

Guarantees: a follower's position counts only up to the offset to which its log is known to match
the leader's. A position that diverges, or that comes with another epoch, is answered but never
counted. A watermark is sent only after the leader has it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.replication_slices import BATCH_COST, slices
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import FetchEpochEndOffset, FetchPartitionData
from headrace.replication.leader import Leader
from headrace.storage.errors import OffsetOutOfRange, StorageError

UNKNOWN: Final = -1
CATCH_UP_BYTES: Final = 256 * 1024  # read at once for a lagging follower; at least one batch
MAX_EPOCH: Final = 2**31 - 1
NONE: Final = ErrorCode.NONE

Key = tuple[bytes, int]  # topic id, partition


class SendThrottle(Protocol):
    """Throttles replicas that are being moved."""

    def is_throttled(self, leader: Leader, replica_id: int) -> bool: ...

    def sent(self, leader: Leader, replica_id: int, size_bytes: int) -> None: ...


class WaitingFetch(Protocol):
    """A fetch that waits for records or errors."""

    def wake(self) -> None:
        """Checks whether there is something to send now."""
        ...

    def finish(self) -> None:
        """Answers with the records that are available."""
        ...


class FetchPosition(NamedTuple):
    """A follower's position in one partition, as its fetch states it."""

    topic_id: bytes
    partition: int
    offset: int
    last_epoch: int
    current_epoch: int
    log_start: int
    max_bytes: int


class FollowerPosition:
    """A follower's position in one partition; notified of every append there."""

    __slots__ = ("fetch", "leader", "sent_log_start", "sent_watermark", "session")

    def __init__(self, session: "FollowerFetchSession", fetch: FetchPosition) -> None:
        self.session = session
        self.fetch = fetch
        self.leader: Leader | None = None
        self.sent_watermark = UNKNOWN
        self.sent_log_start = UNKNOWN

    def advanced(self, size_bytes: int) -> None:
        self.session.appended(self, size_bytes)

    def interrupted(self) -> None:
        """Reports a moved log start or lost leadership to the follower."""
        self.session.mark_ready(self)

    def watch_leader(self, leader: Leader | None) -> None:
        if leader is not self.leader:
            if self.leader is not None:
                self.leader.unwatch_end(self)
            if leader is not None:
                leader.watch_end(self)
            self.leader = leader


class FollowerFetchSession:
    """One follower's positions, and those of them that have changes to send."""

    def __init__(
        self,
        session_id: int,
        replica_id: int,
        broker_epoch: int,
        throttle: SendThrottle,
        catch_up: CatchUpThrottle,
    ) -> None:
        self._throttle = throttle
        self._catch_up = catch_up
        self.session_id = session_id
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.epoch = 1  # session epoch of the next request
        self.last_fetch_at = float("-inf")
        self._positions: dict[Key, FollowerPosition] = {}
        self._ready: dict[FollowerPosition, None] = {}
        # Positions of a lagging follower, which wait for their next slice.
        self._lagging: dict[FollowerPosition, None] = {}
        self._next_lagging: FollowerPosition | None = None
        # Positions whose last sent high watermark is behind the log end; the next response that
        # finds a higher watermark includes it.
        self._watermark_behind: dict[FollowerPosition, None] = {}
        self.waiting: WaitingFetch | None = None  # the waiting fetch

    def __len__(self) -> int:
        return len(self._positions)

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def appended(self, position: FollowerPosition, size_bytes: int) -> None:
        if position in self._lagging:
            self._catch_up.appended(size_bytes + BATCH_COST)
        else:
            self.mark_ready(position)

    def mark_ready(self, position: FollowerPosition) -> None:
        self._lagging.pop(position, None)
        self._ready[position] = None
        if self.waiting is not None:
            self.waiting.wake()

    def has(self, key: Key) -> bool:
        return key in self._positions

    def forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            position = self._positions.pop(key, None)
            if position is not None:
                position.watch_leader(None)
                self._ready.pop(position, None)
                self._lagging.pop(position, None)
                self._watermark_behind.pop(position, None)

    def finish(self) -> None:
        """Answers the waiting fetch, for example because the follower sends another."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.finish()

    def close(self) -> None:
        self.forget(list(self._positions))

    # --- requests -------------------------------------------------------------------------------

    def apply_positions(
        self, table: PartitionTable, wanted: Iterable[FetchPosition], now: float
    ) -> list[Leader]:
        """Stores the follower's positions; returns the leaders that count them."""
        self.last_fetch_at = now
        counted = []
        for fetch in wanted:
            key = (fetch.topic_id, fetch.partition)
            position = self._positions.get(key)
            if position is None:
                position = self._positions[key] = FollowerPosition(self, fetch)
            else:
                position.fetch = fetch
            self._lagging.pop(position, None)
            self._ready[position] = None
            leader = self._count_position(table, position, now)
            if leader is not None:
                counted.append(leader)
        return counted

    def _count_position(
        self, table: PartitionTable, position: FollowerPosition, now: float
    ) -> Leader | None:
        leader = _find_leader(table, position)
        fetch = position.fetch
        if not isinstance(leader, Leader):
            return None
        try:
            log = leader.log
            if (
                leader.check_epoch(fetch.current_epoch) is NONE
                and log.log_start_offset <= fetch.offset <= log.log_end_offset
                and _divergence(leader, fetch) is None
                and leader.fetched(
                    self.replica_id, self.broker_epoch, fetch.offset, fetch.log_start, now
                )
            ):
                return leader
        except StorageError:
            return None  # the response reports the error
        return None

    # --- responses ------------------------------------------------------------------------------

    def catch_up_wait_s(self, now: float) -> float | None:
        """The time until a lagging follower may be sent more; None if nothing waits."""
        return self._catch_up.wait_s(now) if self._lagging else None

    def _resume_lagging(self, now: float) -> None:
        """Resumes the position that has waited longest, as soon as the throttle allows."""
        if self._lagging and not self._catch_up.wait_s(now):
            self._next_lagging = position = next(iter(self._lagging))
            del self._lagging[position]
            self._ready[position] = None

    def _defer_lagging(self, position: FollowerPosition, leader: Leader, now: float) -> bool:
        """Defers the position of a lagging follower that has used its rate; True if it did."""
        if leader.awaits(self.replica_id):
            return False
        is_next = position is self._next_lagging or not self._lagging
        if is_next and not self._catch_up.wait_s(now):
            return False
        del self._ready[position]
        self._lagging[position] = None
        return True

    def check_ready(self, table: PartitionTable, now: float) -> bool:
        """Whether a response now would contain records or an error, and not only watermarks.

        Removes positions without changes from the ready ones.
        """
        self._resume_lagging(now)
        for position in list(self._ready):
            leader = _find_leader(table, position)
            if not isinstance(leader, Leader):
                return True
            fetch = position.fetch
            try:
                if (
                    leader.check_epoch(fetch.current_epoch) is not NONE
                    or self.replica_id not in leader.progress
                    or _divergence(leader, fetch) is not None
                ):
                    return True
                if fetch.offset != leader.log.log_end_offset:
                    if self._throttle.is_throttled(leader, self.replica_id):
                        continue
                    if self._defer_lagging(position, leader, now):
                        continue
                    return True
            except StorageError:
                return True
            start = leader.log.log_start_offset
            if position.sent_log_start == start:
                # Nothing to send; the leader notifies the position of the next change.
                self._mark_idle(position, leader)
            elif start > fetch.log_start and position.sent_log_start != UNKNOWN:
                return True  # a DeleteRecords request may wait for this replica
        return False

    def _mark_idle(self, position: FollowerPosition, leader: Leader) -> None:
        del self._ready[position]
        if position.sent_watermark != leader.log.log_end_offset:
            self._watermark_behind[position] = None

    def answer(
        self, table: PartitionTable, max_bytes: int, now: float
    ) -> list[tuple[bytes, FetchPartitionData]]:
        """The contents of the response, by topic id."""
        self._resume_lagging(now)
        sent: list[tuple[bytes, FetchPartitionData]] = []
        remaining = max_bytes
        for position in list(self._ready):
            if remaining <= 0:
                break  # the other positions are first in the next response
            leader = _find_leader(table, position)
            if not isinstance(leader, Leader):
                data = _error_data(position, leader)
            elif self._throttle.is_throttled(leader, self.replica_id):
                continue
            else:
                first = remaining == max_bytes
                read = self._read_position(position, leader, remaining, now, first=first)
                if read is None:
                    continue
                data = read
            size = len(data.records or b"")
            remaining -= size
            if size and isinstance(leader, Leader):
                self._throttle.sent(leader, self.replica_id, size)
                if leader.traffic is not None:
                    leader.traffic.replication_bytes_out += size
            if data.error_code or size or data.diverging_epoch.epoch != UNKNOWN:
                self._ready.pop(position, None)
            if size or data.error_code or self._has_changed(position, data):
                sent.append((position.fetch.topic_id, data))
            self._record_sent(position, data)
        for position in list(self._watermark_behind):
            followed = position.leader
            if position in self._ready or followed is None or followed.closed:
                continue
            if followed.high_watermark != position.sent_watermark:
                data = _watermark_data(position, followed)
                sent.append((position.fetch.topic_id, data))
                self._record_sent(position, data)
        return sent

    def _read_position(
        self,
        position: FollowerPosition,
        leader: Leader,
        remaining: int,
        now: float,
        *,
        first: bool,
    ) -> FetchPartitionData | None:
        """Reads the records for one position; None if the follower must wait."""
        fetch = position.fetch
        fenced = leader.check_epoch(fetch.current_epoch)
        if fenced:
            return _error_data(position, fenced)
        if self.replica_id not in leader.progress:
            return _error_data(position, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            diverging = _divergence(leader, fetch)
            data = _watermark_data(position, leader)
            if diverging is not None:
                data.diverging_epoch = diverging
                return data
            end = leader.log.log_end_offset
            if fetch.offset == end:
                self._ready.pop(position, None)
            elif leader.awaits(self.replica_id):
                read = leader.log.read(
                    fetch.offset,
                    max_bytes=max(0, min(fetch.max_bytes, remaining)),
                    min_one_message=first,
                )
                data.records = read.data
            elif self._defer_lagging(position, leader, now):
                return None
            else:
                most = min(fetch.max_bytes, CATCH_UP_BYTES)
                read = leader.log.read(fetch.offset, max_bytes=most, min_one_message=True)
                slice_ = next(slices(read.data))
                self._catch_up.spend(slice_.cost, now)
                data.records = slice_.records
        except StorageError as error:
            return _error_data(position, error.code)
        position.watch_leader(leader)
        return data

    @staticmethod
    def _has_changed(position: FollowerPosition, data: FetchPartitionData) -> bool:
        return (
            data.high_watermark != position.sent_watermark
            or data.log_start_offset != position.sent_log_start
            or data.diverging_epoch.epoch != UNKNOWN
        )

    def _record_sent(self, position: FollowerPosition, data: FetchPartitionData) -> None:
        position.sent_watermark = data.high_watermark
        position.sent_log_start = data.log_start_offset
        leader = position.leader
        if (
            leader is None
            or data.error_code  # gets no notification until the follower sends it again
            or data.high_watermark == leader.log.log_end_offset
        ):
            self._watermark_behind.pop(position, None)
        else:
            self._watermark_behind[position] = None


def _find_leader(table: PartitionTable, position: FollowerPosition) -> Leader | ErrorCode:
    """The partition's leader, which the position listens to from now on."""
    fetch = position.fetch
    topic = table.by_id.get(fetch.topic_id)
    if topic is None:
        position.watch_leader(None)
        return ErrorCode.UNKNOWN_TOPIC_ID
    leader = topic.find(fetch.partition)
    if isinstance(leader, Leader):
        position.watch_leader(leader)
        return leader
    position.watch_leader(None)
    # A partition without followers accepts no follower fetches.
    return leader if isinstance(leader, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _divergence(leader: Leader, fetch: FetchPosition) -> FetchEpochEndOffset | None:
    """The point at which the follower's log diverges from the leader's; None if it does not."""
    if fetch.last_epoch < 0:
        return None
    if fetch.last_epoch == leader.epoch and fetch.offset <= leader.log.log_end_offset:
        return None  # the usual case: records of this leader's epoch
    epoch, end_offset = leader.log.end_offset_for_epoch(fetch.last_epoch)
    if epoch == UNKNOWN:
        # The follower knows an epoch that this log never had, so the logs cannot be compared.
        log = leader.log
        raise OffsetOutOfRange(log.name, fetch.offset, log.log_start_offset, log.log_end_offset)
    if epoch < fetch.last_epoch or end_offset < fetch.offset:
        return FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _watermark_data(position: FollowerPosition, leader: Leader) -> FetchPartitionData:
    return FetchPartitionData(
        partition_index=position.fetch.partition,
        high_watermark=leader.high_watermark,
        last_stable_offset=UNKNOWN,
        log_start_offset=leader.log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def _error_data(position: FollowerPosition, error: ErrorCode) -> FetchPartitionData:
    return FetchPartitionData(
        partition_index=position.fetch.partition,
        error_code=error,
        high_watermark=UNKNOWN,
        last_stable_offset=UNKNOWN,
        log_start_offset=UNKNOWN,
        aborted_transactions=None,
        records=b"",
    )
