"""A coordinator: runs the shards of one internal topic and routes each request to its shard.

A shard with an empty log is created when it is first needed. A shard with records loads in the
background; meanwhile its requests get COORDINATOR_LOAD_IN_PROGRESS. Deleting the topic unloads its
shards.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar, cast

from headrace.broker.coordinators.load_log import LoadLog
from headrace.broker.coordinators.shard_loader import ShardLoader
from headrace.broker.coordinators.shard_runner import ShardRunner, coordinator_error
from headrace.broker.metadata.internal_topics import new_topic
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.runtime.timers import Timers
from headrace.clock import Clock
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import NO_LEADER
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.partition_of_key import partition_for
from headrace.coordinator.common.result import CoordinatorResult, Deferred, ProducerIdentity
from headrace.coordinator.common.shard import Shard
from headrace.protocol.errors import ErrorCode
from headrace.records.codec import Codec
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import DiskError

log = logging.getLogger(__package__)

S = TypeVar("S", bound=Shard)
R = TypeVar("R")
E = TypeVar("E")

RETRY_LOAD_S: Final = 1.0  # after a temporary error, such as too few file handles
MAX_ROUTES: Final = 100_000  # keys whose shard is cached; hashing a long key is slow


class CoordinatorHost(Protocol):
    """The part of the broker that a coordinator uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    flusher: Flusher
    settings: BrokerSettings
    node_id: int
    metadata: Metadata
    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...


class CoordinatorRuntime(Generic[S]):
    """Runs requests in the shard that their key belongs to."""

    def __init__(
        self,
        host: CoordinatorHost,
        topic: str,
        new_shard: Callable[[int], S],
        loader: ShardLoader,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.topic = topic
        self.codec = codec
        self.timers = host.timers
        self.flusher = host.flusher
        self.commit_timeout_s = host.settings.integer("offsets.commit.timeout.ms") / 1000
        self.clock = host.clock
        self.now_ms = host.clock.wall_ms
        self._host = host
        self._loop = host.loop
        self._new_shard = new_shard
        self._loader = loader
        self._runners: dict[int, ShardRunner[S]] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._failed: set[int] = set()
        self._routes: dict[str, ShardRunner[S]] = {}
        self._effects: dict[type, Callable[[int, object], None]] = {}
        self._topic_id: bytes | None = None
        self._creation: asyncio.Task[None] | None = None
        self._stopped = False
        self._load_log = LoadLog(topic, host.clock.monotonic)

    # --- requests -------------------------------------------------------------------------------

    def answer(
        self,
        key: str,
        decide: Callable[[S, int], CoordinatorResult[R]],
        refuse: Callable[[CoordinatorError], R],
    ) -> "R | asyncio.Future[R]":
        """The answer if it is available at once; otherwise a future.

        `refuse` turns errors into answers, so neither this call nor the future raises them.
        """
        runner = self._routes.get(key)
        if runner is None:
            try:
                runner = self._route_key(key)
            except CoordinatorError as error:
                return refuse(error)
        outcome = runner.run(decide)
        if isinstance(outcome, CoordinatorError):
            return refuse(outcome)
        if isinstance(outcome, Deferred):
            return self._deferred_future(cast("Deferred[R]", outcome), refuse)
        return outcome

    def runner_of(self, key: str) -> ShardRunner[S]:
        """The runner of the key's shard, valid for this iteration of the loop; raises
        CoordinatorError."""
        return self._routes.get(key) or self._route_key(key)

    def run(
        self, key: str, decide: Callable[[S, int], CoordinatorResult[R]]
    ) -> "asyncio.Future[R]":
        """The answer after its commit, or the CoordinatorError."""
        try:
            return self._run_in_shard(self._routes.get(key) or self._route_key(key), decide)
        except CoordinatorError as error:
            return self._failed_future(error)

    def run_partition(
        self, index: int, decide: Callable[[S, int], CoordinatorResult[R]]
    ) -> "asyncio.Future[R]":
        """Like `run`, in the shard of that partition."""
        try:
            return self._run_in_shard(self._active_runner(index), decide)
        except CoordinatorError as error:
            return self._failed_future(error)

    def read(self, key: str, query: Callable[[S, int], R]) -> R:
        """Queries the shard's current state, which includes uncommitted records; a caller that must
        not see those uses `run` with a result without changes. Raises CoordinatorError."""
        return self._query_shard(self._routes.get(key) or self._route_key(key), query)

    def read_all(self, query: Callable[[S, int], R]) -> list[R]:
        """Queries every shard with records; raises CoordinatorError while one is loading."""
        for index in self._indexes_with_records():
            if index not in self._runners and index not in self._failed:
                self._active_runner(index)
        return [self._query_shard(runner, query) for _, runner in sorted(self._runners.items())]

    def shards(self) -> tuple[S, ...]:
        """The active shards."""
        return tuple(runner.shard for runner in self._runners.values())

    @property
    def loading(self) -> tuple[int, ...]:
        """The partitions whose shards are loading."""
        return tuple(self._loads)

    def run_all(self, decide: Callable[[S, int], CoordinatorResult[None]]) -> None:
        """Runs `decide` in every active shard, for example after a change of the metadata."""
        for runner in tuple(self._runners.values()):
            runner.run(decide)

    def end_transaction(self, index: int, producer: ProducerIdentity, *, committed: bool) -> None:
        """Called after a marker was appended to the partition. A shard that is still loading will
        read it."""
        runner = self._runners.get(index)
        if runner is not None:
            runner.end_transaction(producer, committed=committed)

    def on_effect(self, kind: type[E], perform: Callable[[int, E], None]) -> None:
        """Calls `perform(partition index, effect)` for every committed effect of that type."""
        self._effects[kind] = cast("Callable[[int, object], None]", perform)

    def partition_of(self, key: str) -> int:
        """The partition of the key; raises CoordinatorError while the topic does not exist."""
        topic = self._host.metadata.image.topics.get(self.topic)
        if topic is None:
            raise CoordinatorError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} does not exist yet"
            )
        return partition_for(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """The id of the broker that leads the key's partition; CoordinatorError if none does."""
        index = self.partition_of(key)
        partition = self._host.metadata.image.partition(self.topic, index)
        if partition is None or partition.leader == NO_LEADER:
            raise CoordinatorError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic}-{index} has no leader"
            )
        return partition.leader

    def remote_leader_of(self, key: str) -> int | None:
        """The id of the broker that leads the key's partition, if it is another one."""
        try:
            leader_id = self.leader_of(key)
        except CoordinatorError:
            return None  # a request to this broker gets the error
        return leader_id if leader_id != self._host.node_id else None

    # --- inside a request -----------------------------------------------------------------------

    def _run_in_shard(
        self, runner: ShardRunner[S], decide: Callable[[S, int], CoordinatorResult[R]]
    ) -> "asyncio.Future[R]":
        outcome = runner.run(decide)
        if isinstance(outcome, CoordinatorError):
            return self._failed_future(outcome)
        if isinstance(outcome, Deferred):
            return self._deferred_future(cast("Deferred[R]", outcome), None)
        future: asyncio.Future[R] = self._loop.create_future()
        future.set_result(outcome)
        return future

    def _failed_future(self, error: CoordinatorError) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = self._loop.create_future()
        future.set_exception(error)
        return future

    def _deferred_future(
        self, answer: Deferred[R], refuse: Callable[[CoordinatorError], R] | None
    ) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = self._loop.create_future()

        def complete_future(outcome: R | CoordinatorError) -> None:
            if future.done():
                return
            if not isinstance(outcome, CoordinatorError):
                future.set_result(outcome)
            elif refuse is not None:
                future.set_result(refuse(outcome))
            else:
                future.set_exception(outcome)

        def note_cancellation(done: "asyncio.Future[R]") -> None:
            if done.cancelled():
                answer.abandoned = True  # the client has disconnected

        future.add_done_callback(note_cancellation)
        answer.listen(complete_future)
        return future

    def _query_shard(self, runner: ShardRunner[S], query: Callable[[S, int], R]) -> R:
        try:
            return query(runner.shard, self.now_ms())
        except Exception as error:
            raise coordinator_error(error) from error

    # --- shards ---------------------------------------------------------------------------------

    def _route_key(self, key: str) -> ShardRunner[S]:
        runner = self._active_runner(self.partition_of(key))
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[key] = runner
        return runner

    def _active_runner(self, index: int) -> ShardRunner[S]:
        """The runner of an active shard; raises CoordinatorError, and starts loading if
        necessary."""
        runner = self._runners.get(index)
        if runner is not None:
            return runner
        hosted = self._host.partitions.by_name.get(self.topic)
        leader = hosted.leader(index) if hosted is not None else None
        if self._stopped or not self.has_topic:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if hosted is None or leader is None or index in self._failed:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        self._topic_id = hosted.topic_id
        if index not in self._loads:
            try:
                empty = leader.log.log_start_offset == leader.log.log_end_offset
                if empty:
                    return self._activate(leader, self._new_shard(index))
            except Exception as error:
                raise coordinator_error(error) from error
            self._start_loading(leader)
        raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _activate(self, leader: SoleLeader, shard: S) -> ShardRunner[S]:
        runner = ShardRunner(shard, leader, self)
        self._runners[leader.index] = runner
        runner.defer_until_log_committed()
        outcome = runner.run(lambda shard, now_ms: shard.loaded(now_ms))
        if isinstance(outcome, CoordinatorError):
            log.error(
                "cannot write the first records of a coordinator shard; it works without them",
                extra={"topic": self.topic, "partition": leader.index, "error": str(outcome)},
            )
        return runner

    def _start_loading(self, leader: SoleLeader) -> None:
        self._load_log.began(is_first=not self._loads)
        task = self._loop.create_task(self._load_in_slices(leader))
        self._loads[leader.index] = task
        task.add_done_callback(lambda _: self._load_ended(leader.index, task))

    def _load_ended(self, index: int, task: "asyncio.Task[None]") -> None:
        if self._loads.get(index) is task:
            del self._loads[index]
        if not self._loads:
            self._load_log.ended()

    async def _load_in_slices(self, leader: SoleLeader) -> None:
        try:
            shard = self._new_shard(leader.index)
            await self._loader.load(leader, shard)
            # No await here: the shard would miss a record that is appended after the last replayed
            # one.
            if not leader.closed:
                del self._loads[leader.index]
                self._activate(leader, shard)
                self._load_log.loaded(leader.index, shard.entries)
        except Exception as error:
            if leader.closed:
                return
            if isinstance(error, DiskError) and error.is_transient:
                # A temporary error. Load again without waiting for a request: sessions and
                # transactions of the shard must time out.
                log.warning(
                    "cannot load coordinator shard, retrying in %g s",
                    RETRY_LOAD_S,
                    extra={
                        "topic": self.topic,
                        "partition": leader.index,
                        "reason": str(error),
                    },
                )
                self.timers.call_later(RETRY_LOAD_S, lambda: self._retry_load(leader))
                return
            # As in Kafka: a shard that lacks records would give wrong answers.
            self._failed.add(leader.index)
            log.exception(
                "coordinator shard did not load; requests for its keys fail",
                extra={"topic": self.topic, "partition": leader.index},
            )

    def _retry_load(self, leader: SoleLeader) -> None:
        index = leader.index
        is_there = index in self._runners or index in self._loads
        if not (is_there or leader.closed or self._stopped):
            self._start_loading(leader)

    def _indexes_with_records(self) -> list[int]:
        """The partitions with records that this broker leads."""
        hosted = self._host.partitions.by_name.get(self.topic)
        leaders = hosted.leaders if hosted is not None else []
        return [leader.index for leader in leaders if leader and self._has_records(leader)]

    def _has_records(self, leader: SoleLeader) -> bool:
        """Whether the log has records; does not open the log."""
        stored = self._host.logs.get(self.topic, leader.index)
        return stored is not None and stored.log_start_offset < stored.log_end_offset

    # --- called by shard runners ----------------------------------------------------------------

    def perform(self, index: int, effect: object) -> None:
        """Starts one effect; an error in it is logged and does not affect the shard."""
        perform = self._effects.get(type(effect))
        if perform is None:
            log.error(
                "no executor registered for coordinator effect %s",
                type(effect).__name__,
                extra={"topic": self.topic, "partition": index},
            )
            return
        try:
            perform(index, effect)
        except Exception:
            log.exception(
                "coordinator effect %s failed",
                type(effect).__name__,
                extra={"topic": self.topic, "partition": index},
            )

    def reload_shard(self, index: int) -> None:
        """Reloads the shard: its state differs from its log."""
        runner = self._unload(index, CoordinatorError(ErrorCode.NOT_COORDINATOR))
        if runner is not None and not self._stopped:
            self._start_loading(runner.leader)

    def _unload(self, index: int, error: CoordinatorError) -> ShardRunner[S] | None:
        runner = self._runners.pop(index, None)
        if runner is not None:
            self._routes.clear()
            runner.unload(error)
            if self._load_log.unloaded(index):
                self._loop.call_soon(self._load_log.report_unloaded)
        return runner

    # --- start and stop
    # -----------------------------------------------------------------------------------

    def load(self) -> None:
        """Starts loading every shard that has records."""
        for index in self._indexes_with_records():
            try:
                self._active_runner(index)
            except CoordinatorError:
                continue  # it is loading now

    def topic_changed(self) -> None:
        """Called after the internal topic was created, extended or deleted."""
        self._routes.clear()
        hosted = self._host.partitions.by_name.get(self.topic)
        if self._topic_id is None or (hosted is not None and hosted.topic_id == self._topic_id):
            return
        self._topic_id = None
        self._failed.clear()
        for task in tuple(self._loads.values()):
            task.cancel()
        self._loads.clear()
        for index in tuple(self._runners):
            self._unload(index, CoordinatorError(ErrorCode.NOT_COORDINATOR))

    def role_changed(self, index: int) -> None:
        """Called when this broker starts or stops leading the partition, or leads it in a new
        epoch. The shard has the state of the old epoch, so the new leader loads it from the log.
        """
        load = self._loads.pop(index, None)
        if load is not None:
            load.cancel()
        self._failed.discard(index)
        self._unload(index, CoordinatorError(ErrorCode.NOT_COORDINATOR))
        self._routes.clear()
        leader = self._host.partitions.find(self.topic, index)
        if isinstance(leader, SoleLeader) and not self._stopped and self._has_records(leader):
            with suppress(CoordinatorError):  # it is loading now
                self._active_runner(index)  # sessions and transactions time out without a request

    def stop(self) -> None:
        """Answers requests that wait for other clients; those that wait for a commit still wait."""
        self._stopped = True
        self._routes.clear()
        for task in (*self._loads.values(), *((self._creation,) if self._creation else ())):
            task.cancel()
        runners, self._runners = self._runners, {}
        for runner in runners.values():
            runner.retire(CoordinatorError(ErrorCode.NOT_COORDINATOR))

    @property
    def has_topic(self) -> bool:
        return self.topic in self._host.metadata.image.topics

    async def ensure_topic(self) -> None:
        """Creates the internal topic if it does not exist; concurrent callers share one attempt.

        Raises CoordinatorError if it cannot be created.
        """
        if self.has_topic:
            return
        if self._creation is None:
            self._creation = self._loop.create_task(self._create_topic())
            self._creation.add_done_callback(self._topic_creation_ended)
        # A client that disconnects must not cancel the creation for the others.
        await asyncio.shield(self._creation)

    def _topic_creation_ended(self, task: "asyncio.Task[None]") -> None:
        self._creation = None
        if not task.cancelled():
            task.exception()  # the callers got the error

    async def _create_topic(self) -> None:
        live = len(self._host.metadata.image.live_brokers())
        new = new_topic(self.topic, self._host.settings, live)
        results = await self._host.metadata.create_topics([new])
        error = results[0].error
        if error.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or "")
