"""Copies what other brokers lead: one connection to each, all partitions in one session.

A fetch names only the partitions whose position has changed (KIP-227) and waits at the leader for
records. A partition that joins while a fetch waits is named in a second one, which ends the wait.

Guarantees: records are taken only in answer to the fetch that last named their partition; a log is
cut back by leader epochs, never by the watermark; records whose flush was promised are on disk
before the next fetch says that they are here. A partition in trouble waits, growing slower, and
holds up no other; so does one whose leader asks for a cut that leads nowhere. There is no task,
timer or request for each partition.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from headrace.broker.flusher import Flusher
from headrace.broker.leader_line import FIRST_BACKOFF_S, LeaderLine, Line, LineUser
from headrace.broker.replica_turns import TURN_COST, Turn, turns
from headrace.broker.timers import Timers
from headrace.client.errors import ClientError, code_of_number
from headrace.client.frames import Frame
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.header import ResponseHeader
from headrace.protocol.messages.fetch import (
    FetchEpochEndOffset,
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.buffer import Buffer
from headrace.replication.follower import Follower
from headrace.storage.errors import LogDirFailed, StorageError

log = logging.getLogger(__name__)

FETCH_VERSION: Final = 17
RESPONSE_HEADER_VERSION: Final = 1
MAX_UNDER_WAY: Final = 2  # the one that waits, and the one that ends its wait
NAMED_PER_FETCH: Final = 256  # logs may have to be opened first; others are served between fetches

NEVER: Final = -1

Key = tuple[bytes, int]
Part = tuple[bytes, FetchPartitionData, Turn, bool]  # the last: whether it is the partition's last


@dataclass(frozen=True, slots=True)
class FetchRules:
    """Named as Kafka's `replica.*` settings are."""

    fetch_max_bytes: int
    response_max_bytes: int
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    fetch_backoff_s: float
    socket_timeout_s: float


class Host(Protocol):
    """What a fetcher needs of its broker."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    flusher: Flusher
    node_id: int

    @property
    def broker_epoch(self) -> int: ...


class FetchThrottle(Protocol):
    """Holds back the copies of replicas that are being moved."""

    def fetch_wait_s(self, follower: Follower) -> float: ...

    def fetched(self, follower: Follower, size_bytes: int) -> None: ...


class _Copy:
    """One partition that is copied."""

    __slots__ = (
        "backoff_s",
        "cut_backoff_s",
        "cut_end",
        "follower",
        "gone",
        "in_session",
        "key",
        "named_in",
    )

    def __init__(self, key: Key, follower: Follower) -> None:
        self.key = key
        self.follower = follower
        self.named_in = NEVER  # the number of the fetch that last named it
        self.in_session = False
        self.gone = False
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Its leader is another, or leads anew: what went wrong before is forgotten."""
        self.backoff_s = 0.0
        self.cut_backoff_s = 0.0
        self.cut_end: int | None = None  # where its log ended when it was last cut back

    def has_moved_on(self, before: int, end: int) -> bool:
        """Whether a log that ended at `before` and now at `end` is nearer to its leader's.

        Every cut goes further back than the one before: what is copied after it is the leader's.
        """
        if end == before or (end < before and self.cut_end is not None and end >= self.cut_end):
            return False
        if end < before:
            self.cut_end = end
        return True


class ReplicaFetcher:
    """Everything that is copied from one broker."""

    def __init__(
        self,
        host: Host,
        source_id: int,
        connect: Callable[[], Coroutine[Any, Any, Line]],
        out_of_range: Callable[[Follower], Coroutine[Any, Any, None]],
        rules: FetchRules,
        throttle: FetchThrottle,
    ) -> None:
        self._throttle = throttle
        self._host = host
        self._source_id = source_id
        self._out_of_range = out_of_range
        self._rules = rules
        self._copies: dict[Key, _Copy] = {}
        self._due: dict[Key, _Copy] = {}
        self._forgotten: list[Key] = []
        # Those whose end the leader may not know yet, by the number of the fetch that tells it.
        self._parting: dict[Key, int] = {}
        self._line = LeaderLine(
            host,
            source_id,
            connect,
            LineUser(self._opened, self._poke, self._waits_since),
            backoff_s=rules.fetch_backoff_s,
            timeout_s=rules.socket_timeout_s,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._session_id = 0
        self._session_epoch = 0
        self._number = 0
        self._session_began = 0  # the number of the fetch that began the session
        self._under_way = 0
        self._sent_at = 0.0
        self._poked = False
        self._closed = False
        self.heard_at = host.clock.monotonic()  # when the leader last answered

    def __len__(self) -> int:
        return len(self._copies)

    # --- what is copied -------------------------------------------------------------------------

    def add(self, follower: Follower) -> None:
        """Copies this partition from now on, also if its epoch has changed."""
        key = (follower.topic_id, follower.index)
        copy = self._copies.get(key)
        if copy is None or copy.follower is not follower:
            if copy is not None:
                self._drop(copy)
            copy = self._copies[key] = _Copy(key, follower)
        copy.begin_epoch()
        self._name(copy)

    def remove(self, follower: Follower, *, is_parting: bool = False) -> None:
        key = (follower.topic_id, follower.index)
        if not is_parting:  # its next leader's epoch is another, and that fences what comes late
            self._parting.pop(key, None)
        copy = self._copies.get(key)
        if copy is not None and copy.follower is follower:
            del self._copies[key]
            self._drop(copy)
            self._poke()

    def _drop(self, copy: _Copy) -> None:
        copy.gone = True
        self._due.pop(copy.key, None)
        if copy.in_session:
            self._forgotten.append(copy.key)

    def part_from(self, follower: Follower) -> None:
        """Removes it; `has_parted_from` tells when its leader knows."""
        copy = self._copies.get((follower.topic_id, follower.index))
        if copy is not None and copy.in_session:
            self._parting[copy.key] = self._number + 1
        self.remove(follower, is_parting=True)

    def has_parted_from(self, key: Key) -> bool:
        """Whether the leader counts no fetch of that partition any more, however late it comes.

        An answer to a later fetch says so: fetches of a session come in order, and a new session
        ends the one before.
        """
        copy = self._copies.get(key)
        return key not in self._parting and (copy is None or not copy.in_session)

    def _name(self, copy: _Copy) -> None:
        """Its position is told with the next fetch."""
        if not copy.gone:
            self._due[copy.key] = copy
            self._poke()

    def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._line.close()

    # --- fetching -------------------------------------------------------------------------------

    def _poke(self) -> None:
        """Fetches in the loop's next turn, with all that this one brings."""
        if not self._poked and not self._closed:
            self._poked = True
            self._host.loop.call_soon(self._fetch)

    def _fetch(self) -> None:
        self._poked = False
        if self._closed or not (self._copies or self._forgotten or self._parting):
            return
        line = self._line.current
        if line is None or not line.is_open:
            self._line.open()
            return
        if self._under_way >= MAX_UNDER_WAY:
            return
        if self._under_way and not (self._session_id and (self._due or self._forgotten)):
            return
        request = self._request()
        try:
            answered = line.start(request, version=FETCH_VERSION)
        except ClientError as error:
            self._line.lost(line, error)
            return
        self._under_way += 1
        self._sent_at = self._host.clock.monotonic()
        answered.add_done_callback(partial(self._answered, line, self._number))

    def _request(self) -> FetchRequest:
        rules = self._rules
        self._number += 1
        if not self._session_epoch:
            self._session_began = self._number
        request = FetchRequest(
            replica_state=FetchReplicaState(
                replica_id=self._host.node_id, replica_epoch=self._host.broker_epoch
            ),
            # The first one comes back at once: until then the session has no id to go on with.
            max_wait_ms=rules.fetch_wait_max_ms if self._session_epoch else 0,
            min_bytes=rules.fetch_min_bytes,
            max_bytes=rules.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(self._named()),
            forgotten_topics_data=[
                FetchForgottenTopic(topic_id=topic_id, partitions=[index])
                for topic_id, index in self._forgotten
                if (topic_id, index) not in self._copies
            ],
        )
        self._forgotten.clear()
        self._session_epoch += 1
        return request

    def _named(self) -> Iterator[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        named = 0
        for copy in list(self._due.values()):
            if named == NAMED_PER_FETCH:
                self._poke()
                break
            del self._due[copy.key]
            follower = copy.follower
            wait_s = self._throttle.fetch_wait_s(follower)
            if wait_s:
                self._host.timers.call_later(wait_s, partial(self._name, copy))
                continue
            try:
                if follower.log.owes_flush:
                    self._flush(copy)  # left by an earlier role or life: it must not count yet
                    continue
                position = follower.position()
            except LogDirFailed as error:
                self._give_up(copy, error)
                continue
            except StorageError as error:
                self._hold(copy, f"its log does not open: {error}")
                continue
            named += 1
            copy.named_in = self._number
            copy.in_session = True
            topic = topics.get(follower.topic_id)
            if topic is None:
                topic = topics[follower.topic_id] = FetchTopic(
                    topic_id=follower.topic_id, partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=follower.index,
                    current_leader_epoch=follower.epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.log_start,
                    partition_max_bytes=self._rules.fetch_max_bytes,
                )
            )
        yield from topics.values()

    def _opened(self) -> None:
        self._under_way = 0
        self._begin_session()

    def _waits_since(self) -> float | None:
        return self._sent_at if self._under_way else None

    # --- answers --------------------------------------------------------------------------------

    def _answered(self, line: Line, number: int, done: "asyncio.Future[Frame]") -> None:
        error = None if done.cancelled() else done.exception()
        if self._closed or line is not self._line.current or done.cancelled():
            return
        if error is not None:
            self._line.lost(line, error)
            return
        try:
            frame = done.result()
            _, body = ResponseHeader.read(frame, 0, len(frame), RESPONSE_HEADER_VERSION)
            answer = FetchResponse.decode(memoryview(frame)[body:], FETCH_VERSION)
        except MalformedMessage as malformed:
            self._line.lost(line, malformed)
            return
        self._line.works()
        self.heard_at = self._host.clock.monotonic()
        if number < self._session_began:
            self._under_way -= 1  # of a session that is over; the new one may have waited for it
            self._poke()
            return
        if answer.error_code:
            self._under_way -= 1
            self._begin_session()
            return
        self._session_id = answer.session_id
        if self._parting:
            self._parting = {key: last for key, last in self._parting.items() if last > number}
        parts: list[Part] = []
        for topic in answer.responses:
            for data in topic.partitions:
                *more, last = turns(data.records or b"")
                parts += [(topic.topic_id, data, turn, False) for turn in more]
                parts.append((topic.topic_id, data, last, True))
        self._take_slice(line, number, parts, 0)

    def _begin_session(self) -> None:
        """The leader does not know the session: everything is named again."""
        self._session_id = self._session_epoch = 0
        self._session_began = self._number + 1
        self._forgotten.clear()
        for copy in self._copies.values():
            copy.in_session = False
            self._due[copy.key] = copy
        self._poke()

    def _take_slice(self, line: Line, number: int, parts: list[Part], first: int) -> None:
        """Takes what was fetched; if it is much, in turns, so that others are served between."""
        if self._closed or line is not self._line.current:
            return
        cost = 0
        for at in range(first, len(parts)):
            topic_id, data, turn, is_last = parts[at]
            copy = self._copies.get((topic_id, data.partition_index))
            if copy is None or copy.named_in > number or copy.named_in < self._session_began:
                continue  # the role has changed, or the position has, since it was asked
            if cost + turn.cost > TURN_COST and cost:
                self._host.loop.call_soon(self._take_slice, line, number, parts, at)
                return
            cost += turn.cost
            self._take(copy, data, turn.records, is_last=is_last)
        self._under_way -= 1
        if not self._poked:
            self._fetch()

    def _take(
        self, copy: _Copy, data: FetchPartitionData, records: Buffer, *, is_last: bool
    ) -> None:
        follower = copy.follower
        if follower.closed:
            return
        if data.error_code:
            self._refused(copy, code_of_number(data.error_code))
            return
        diverging = data.diverging_epoch
        try:
            if diverging.end_offset >= 0:
                self._cut_back(copy, diverging)
                return
            copy.backoff_s = 0.0
            start = follower.log.log_start_offset
            result = follower.take(
                records, data.high_watermark, data.log_start_offset, self._host.clock.wall_ms()
            )
            moved = follower.log.log_start_offset != start
            self._throttle.fetched(follower, len(records))
        except LogDirFailed as error:
            self._give_up(copy, error)
            return
        except StorageError as error:
            self._hold(copy, str(error))
            return
        if not is_last:
            return
        if result is not None and result.needs_flush:
            self._flush(copy)
        elif records or moved:
            self._due[copy.key] = copy

    def _cut_back(self, copy: _Copy, diverging: FetchEpochEndOffset) -> None:
        follower = copy.follower
        before = follower.log.log_end_offset
        end = follower.cut_back(diverging.epoch, diverging.end_offset)
        if end < before:
            self._log_cut(follower, diverging.epoch, end)
        self._go_on(copy, before, f"epoch {diverging.epoch} ends at {diverging.end_offset}")

    def _go_on(self, copy: _Copy, before: int, said: str) -> None:
        """After a change of the log that its leader has asked for.

        If that has led nowhere, the leader would ask for the same again, and so on for ever: its
        epochs contradict its records, or this log cannot be cut.
        """
        end = copy.follower.log.log_end_offset
        if copy.has_moved_on(before, end):
            self._name(copy)
            return
        copy.backoff_s = copy.cut_backoff_s  # grows, whatever is copied between two cuts
        reason = f"its leader says that {said}, and no cut settles it: the log ends at {end} here"
        self._hold(copy, reason)
        copy.cut_backoff_s = copy.backoff_s

    def _flush(self, copy: _Copy) -> None:
        self._host.flusher.flush(copy.follower).add_done_callback(partial(self._flushed, copy))

    def _flushed(self, copy: _Copy, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is None:
            self._name(copy)
        else:
            self._hold(copy, f"its records did not reach the disk: {error}")

    # --- trouble --------------------------------------------------------------------------------

    def _refused(self, copy: _Copy, code: ErrorCode) -> None:
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self._hold(copy, f"its leader answers {code.name}")
            return
        follower = copy.follower
        before, epoch = follower.log.log_end_offset, follower.epoch
        task = self._host.loop.create_task(self._out_of_range(follower))
        self._tasks.add(task)
        task.add_done_callback(partial(self._in_range, copy, before, epoch))

    def _in_range(self, copy: _Copy, before: int, epoch: int, done: "asyncio.Task[None]") -> None:
        self._tasks.discard(done)
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, ClientError | StorageError):
            self._hold(copy, str(error))
        elif error is not None:
            log.error("a partition is not copied", exc_info=error)
        elif copy.follower.closed or copy.follower.epoch != epoch:
            self._name(copy)  # another leader answers for the log now
        else:
            self._go_on(copy, before, f"offset {before} is out of range")

    def _give_up(self, copy: _Copy, error: LogDirFailed) -> None:
        """Its disk is offline until a restart, and has said so: nothing can be copied there."""
        if self._copies.get(copy.key) is copy:
            del self._copies[copy.key]
            self._drop(copy)
        follower = copy.follower
        log.error(
            "a partition is not copied any more",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "reason": str(error),
            },
        )

    def _hold(self, copy: _Copy, reason: str) -> None:
        """Names the partition again after a pause that grows; until then nothing of it is taken."""
        copy.named_in = NEVER
        if copy.gone:
            return
        most_s = self._rules.fetch_backoff_s
        before_s = copy.backoff_s
        copy.backoff_s = min(max(2 * before_s, FIRST_BACKOFF_S), most_s)
        follower = copy.follower
        log.log(
            logging.WARNING if before_s < copy.backoff_s == most_s else logging.DEBUG,
            "a partition is not copied for a while",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "leader": self._source_id,
                "reason": reason,
            },
        )
        epoch = follower.epoch

        def again() -> None:
            if follower.epoch == epoch:  # else it was named with its new epoch
                self._name(copy)

        self._host.timers.call_later(copy.backoff_s, again)

    @staticmethod
    def _log_cut(follower: Follower, epoch: int, end: int) -> None:
        log.info(
            "cut a log back to what its leader has",
            extra={
                "topic": follower.topic,
                "partition": follower.index,
                "epoch": epoch,
                "end": end,
            },
        )
