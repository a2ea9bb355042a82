"""Incremental fetch sessions (KIP-227). Pure.

A session remembers which partitions a consumer wants, so that a request and a response contain only
partitions that have changed. The cache is bounded; when it is full of sessions that are in use, a
client gets session id 0 and keeps sending full requests.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from headrace.protocol.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
MAX_SESSION_ID = 2**31 - 1

PartitionKey = tuple[str | bytes, int]  # topic name or, from Fetch v13 on, topic id


@dataclass(slots=True)
class WantedPartition:
    """One partition that a consumer wants, and the offsets last sent for it."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    sent_high_watermark: int = -1
    sent_log_start: int = -1


@dataclass(slots=True)
class FetchSession:
    """The partitions of one consumer, in the order in which they are served."""

    session_id: int
    uses_topic_ids: bool
    created: float
    last_used: float
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionKey, WantedPartition] = field(default_factory=dict)

    def want(self, key: PartitionKey, wanted: WantedPartition) -> None:
        """Adds a partition, or moves its position; keeps the offsets last sent."""
        known = self.partitions.get(key)
        if known is not None:
            wanted.sent_high_watermark = known.sent_high_watermark
            wanted.sent_log_start = known.sent_log_start
        self.partitions[key] = wanted

    def update_response_data(
        self,
        key: PartitionKey,
        *,
        error: bool,
        has_records: bool,
        high_watermark: int,
        log_start: int,
        diverged: bool,
    ) -> bool:
        """Whether an incremental response must include this partition; remembers the offsets
        sent."""
        wanted = self.partitions.get(key)
        if wanted is None:
            return True
        changed = (
            has_records
            or diverged
            or wanted.sent_high_watermark != high_watermark
            or wanted.sent_log_start != log_start
        )
        wanted.sent_log_start = log_start
        # After an error the watermark counts as not sent, so that the recovery is sent, too.
        wanted.sent_high_watermark = -1 if error else high_watermark
        if has_records:
            # Moved to the end, so that one busy partition cannot starve the others.
            self.partitions[key] = self.partitions.pop(key)
        return changed or error


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """The partitions to read for one request, and the form of the response."""

    wanted: list[WantedPartition]
    session: FetchSession | None = None
    incremental: bool = False

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION


class FetchSessions:
    """All sessions of one broker, bounded by `slots`."""

    def __init__(self, slots: int, eviction_s: float, random: Random) -> None:
        self._slots = slots
        self._eviction_s = eviction_s
        self._random = random
        self._by_id: dict[int, FetchSession] = {}
        self.evictions = 0
        """Sessions that were replaced by new ones since the start of the broker."""

    @property
    def cached_partitions(self) -> int:
        """The partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions())

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: int) -> FetchSession | None:
        return self._by_id.get(session_id)

    def close(self, session_id: int) -> None:
        self._by_id.pop(session_id, None)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[WantedPartition],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now: float,
    ) -> FetchPlan | ErrorCode:
        """Opens, continues or closes a session for one request."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.close(session_id)
            partitions = list(wanted)
            if epoch == FINAL_EPOCH:
                return FetchPlan(partitions)
            return FetchPlan(partitions, self._open(partitions, uses_topic_ids, now))
        session = self._by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return self._continue(session, wanted, forgotten, now)

    def _continue(
        self,
        session: FetchSession,
        wanted: Iterable[WantedPartition],
        forgotten: Iterable[PartitionKey],
        now: float,
    ) -> FetchPlan:
        for partition in wanted:
            session.want(key_of(partition, session.uses_topic_ids), partition)
        for key in forgotten:
            session.partitions.pop(key, None)
        if not session.partitions:
            del self._by_id[session.session_id]
            return FetchPlan([])
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used = now
        # Least recently used first: the dict's order is the order of eviction.
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)
        return FetchPlan(list(session.partitions.values()), session, incremental=True)

    def _open(
        self, wanted: list[WantedPartition], uses_topic_ids: bool, now: float
    ) -> FetchSession | None:
        if not wanted or not self._has_room(now):
            return None
        session_id = self._random.randint(1, MAX_SESSION_ID)
        while session_id in self._by_id:
            session_id = self._random.randint(1, MAX_SESSION_ID)
        session = FetchSession(session_id, uses_topic_ids, created=now, last_used=now)
        for partition in wanted:
            session.partitions[key_of(partition, uses_topic_ids)] = partition
        self._by_id[session_id] = session
        return session

    def _has_room(self, now: float) -> bool:
        if len(self._by_id) < self._slots:
            return True
        oldest = next(self._sessions(), None)
        if oldest is None or now - oldest.last_used < self._eviction_s:
            return False
        del self._by_id[oldest.session_id]
        self.evictions += 1
        return True

    def _sessions(self) -> Iterator[FetchSession]:
        return iter(self._by_id.values())


def key_of(wanted: WantedPartition, uses_topic_ids: bool) -> PartitionKey:
    """The key of a partition in a session."""
    return (wanted.topic_id if uses_topic_ids else wanted.topic, wanted.partition)
