"""A group under churn with manual time: the environment of its members.

The coordinator is the real one. The environment has a network that delays requests and loses
responses, a log for each partition that records only deliveries, and the history: the last owner of
each partition, and all commits. One seed determines everything.

The following invariants are always checked. In the coordinator, a partition never has two members.
No two clients own a partition in the same generation. Every member has a session timer. Only the
last owner of a partition may commit for it. A commit never goes back, never exceeds the delivered
records, and survives a restart.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from random import Random
from typing import Protocol, TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.timers import TimerKind, timer
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_shard import GroupShard
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import ConsumerDriver
from support.groups.shards import Pending

R = TypeVar("R")
Partition = tuple[bytes, int]
"""A topic id and a partition number."""

SESSION_MS = 10_000
RETRY_TIMER_MS = 500
LATENCY_MS = (1, 40)
SLOW_LATENCY_MS = (1_000, 9_000)
DUPLICATED = 0.02
NO_SESSION = "a member would stay for ever if it were dead"
COMMIT_VERSION = 10  # by topic id: a commit for a deleted topic does not affect its successor

CONFIG = GroupConfig(
    consumer_session_timeout_ms=SESSION_MS,
    consumer_heartbeat_interval_ms=3_000,
    classic_min_session_timeout_ms=SESSION_MS,
)


class ChurnDriver(ConsumerDriver):
    """Appends fail for a while if the test asks for it. A timer whose write failed runs again, as
    in the broker."""

    def __init__(self, random: Random, **topics: int) -> None:
        self._random = random
        self.failing_until_ms = 0
        super().__init__(CONFIG, **topics)

    def _perform(self, turn: CoordinatorResult[R]) -> CoordinatorError | None:
        if turn.changes and self.now_ms < self.failing_until_ms and self._random.random() < 0.5:
            self.fail_next_append = CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return super()._perform(turn)

    def restart(self) -> None:
        """Loads a compacted log: the last record of each key, without tombstones."""
        latest = {}
        for record in self.log:
            latest.pop(record[0], None)
            latest[record[0]] = record
        self.log = [record for record in latest.values() if record[1] is not None]
        super().restart()

    def next_timer_ms(self) -> int | None:
        return min(self.timers.values(), default=None)

    def fire(self) -> None:
        """Runs the timer that is due first."""
        key, at = min(self.timers.items(), key=lambda item: item[1])
        del self.timers[key]
        self.now_ms = max(self.now_ms, at)
        if self._perform(self.shard.on_timeout(key, self.now_ms)) is not None:
            self.timers[key] = self.now_ms + RETRY_TIMER_MS


class PartitionLog:
    """Records are numbers. The log tracks which of them were delivered to a member."""

    def __init__(self) -> None:
        self.end = 0
        self.committed = -1
        self._delivered = bytearray()
        self._prefix = 0

    def append(self, records: int) -> None:
        self.end += records
        self._delivered.extend(bytes(records))

    def deliver(self, start: int, end: int) -> None:
        self._delivered[start:end] = b"\1" * (end - start)

    @property
    def delivered(self) -> int:
        """All records before this one were delivered."""
        while self._prefix < self.end and self._delivered[self._prefix]:
            self._prefix += 1
        return self._prefix


class Member(Protocol):
    """The environment's view of a client."""

    name: str
    identity: str
    """Its instance id if it has one: the next process with it counts as the same owner."""
    member_id: str
    epoch: int
    """The epoch or the generation."""
    owned: Mapping[Partition, object]
    lives: bool
    slow_until_ms: int
    sent_until_ms: int
    """Its connection keeps the order: no request arrives before an earlier one."""


class World:
    """One group, its coordinator, its topics and the time."""

    def __init__(self, seed: int, **topics: int) -> None:
        self.random = Random(seed)
        self.driver = ChurnDriver(self.random, **topics)
        self.members: list[Member] = []
        self.logs: dict[Partition, PartitionLog] = {}
        self.lossy_until_ms = 0
        self.happened: Counter[str] = Counter()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._waiting: list[tuple[Pending[object], Callable[[], None]]] = []
        self._granted: dict[tuple[str, int], Member] = {}
        self._owners: dict[tuple[int, str, int], str] = {}
        self.topics_changed()

    # Time

    @property
    def now_ms(self) -> int:
        return self.driver.now_ms

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), act))

    def every(self, period_ms: int, act: Callable[[], bool]) -> None:
        """Repeats `act` until it returns false."""

        def again() -> None:
            if act():
                self.later(period_ms, again)

        self.later(self.random.randrange(1, period_ms), again)

    def run(self, ms: int) -> None:
        until = self.now_ms + ms
        while True:
            timer_ms = self.driver.next_timer_ms()
            event_ms = self._events[0][0] if self._events else until + 1
            if timer_ms is not None and timer_ms < event_ms and timer_ms <= until:
                self.driver.fire()
                self._take_answers()
                self.check()
            elif event_ms <= until:
                _, _, act = heapq.heappop(self._events)
                self.driver.now_ms = event_ms
                act()
            else:
                break
        self.driver.now_ms = until

    # The network

    def send(
        self,
        member: Member,
        decide: Callable[[GroupShard, int], CoordinatorResult[R]],
        served: Callable[[R], None],
        answered: Callable[[R | CoordinatorError], None],
    ) -> None:
        """Sends a request to the coordinator.
        `served` is called when the coordinator has answered without an internal error. `answered`
        is called when the answer arrives, if it is not lost.
        """

        def arrive(*, duplicate: bool = False) -> None:
            pending = self.driver.start(decide)

            def done() -> None:
                outcome = pending.outcome
                assert outcome is not None
                if not isinstance(outcome, CoordinatorError):
                    served(outcome)
                if duplicate:
                    return
                if self.now_ms < self.lossy_until_ms and self.random.random() < 0.3:
                    self.happened["answer lost"] += 1
                    return
                self.later(self._latency(member), lambda: self._answer(answered, outcome))

            self._waiting.append((pending, done))
            self._take_answers()
            self.check()

        at = max(member.sent_until_ms, self.now_ms + self._latency(member))
        member.sent_until_ms = at + 1
        if self.random.random() < DUPLICATED:
            self.happened["duplicate"] += 1
            self.later(at - self.now_ms + 1, lambda: arrive(duplicate=True))
        self.later(at - self.now_ms, arrive)

    def _answer(
        self, answered: Callable[[R | CoordinatorError], None], outcome: R | CoordinatorError
    ) -> None:
        answered(outcome)
        self.check()

    def _latency(self, member: Member) -> int:
        slow = self.now_ms < member.slow_until_ms
        return self.random.randrange(*(SLOW_LATENCY_MS if slow else LATENCY_MS))

    def _take_answers(self) -> None:
        done = [act for pending, act in self._waiting if pending.done]
        self._waiting = [one for one in self._waiting if not one[0].done]
        for act in done:
            act()

    # Topics

    def topics_changed(self, *names: str) -> None:
        """Creates and deletes the partitions' logs, and updates the coordinator's metadata."""
        partitions = [
            (topic.topic_id, number)
            for topic in self.driver.cluster.image.topics.values()
            for number in range(len(topic.partitions))
        ]
        self.logs = {one: self.logs.get(one) or PartitionLog() for one in partitions}
        if names:
            self.driver.topics_changed(*names)
            self._take_answers()

    def name(self, partition: Partition) -> tuple[str, int] | None:
        topic = self.driver.cluster.image.topics_by_id.get(partition[0])
        return None if topic is None else (topic.name, partition[1])

    def produce(self) -> None:
        for log in self.logs.values():
            log.append(self.random.randrange(4))

    # The history

    def granted(self, member: Member, epoch: int, partitions: Iterable[tuple[str, int]]) -> None:
        """The coordinator has assigned these to the member, in that generation or epoch."""
        for name, number in partitions:
            self._granted[name, number] = member
            owner = self._owners.setdefault((epoch, name, number), member.identity)
            assert owner == member.identity, (
                f"{name}-{number} belongs to {owner} and to {member.identity} in {epoch}"
            )

    def is_owner(self, member: Member, partition: Partition) -> bool:
        """Whether the partition was not assigned to another member since then."""
        name = self.name(partition)
        return name is not None and self._granted.get(name) is member

    def committed(self, member: Member, partition: Partition, offset: int) -> None:
        """The coordinator has accepted a commit."""
        log = self.logs[partition]
        what = f"{member.name} committed {offset} for {self.name(partition)}"
        assert self.is_owner(member, partition), f"{what}, which was given to another"
        assert offset >= log.committed, f"{what}, after {log.committed}"
        assert offset <= log.delivered, f"{what}, but only {log.delivered} were delivered"
        log.committed = offset
        self.happened["commit"] += 1

    def reset(self, partition: Partition, offset: int) -> None:
        """A tool resets the offset. The coordinator must reject it while the group has members."""
        group = self.driver.shard.groups.get(GROUP)
        used = group is not None and not group.is_empty
        request = commit_request({partition: offset})
        pending = self.driver.start(
            lambda shard, now_ms: shard.offsets.commit(COMMIT_VERSION, request, now_ms)
        )
        if isinstance(pending.outcome, CoordinatorError):
            return
        accepted = bool(accepted_partitions(pending.value))
        assert accepted != used, "a tool may reset offsets if, and only if, nobody is there"
        if accepted:
            self.logs[partition].committed = offset
        self.happened["offset reset" if accepted else "offset reset refused"] += 1

    def restart(self) -> None:
        """The coordinator moves; the next one must have the same state."""
        before = self.driver.shard.groups.get(GROUP)
        self.driver.restart()
        self._take_answers()
        if isinstance(before, ConsumerGroup):
            after = self.driver.shard.groups.get(GROUP)
            for field in ("members", "target", "epoch", "assignment_epoch"):
                assert getattr(after, field) == getattr(before, field), f"{field} changed in a move"
        kept = self.driver.shard.offsets.state.committed.topics(GROUP)
        for partition, log in self.logs.items():
            name, number = self.name(partition) or ("", 0)
            found = kept.get(name, {}).get(number)
            offset = -1 if found is None else found.value.offset
            assert offset == log.committed, f"{name}-{number} had {log.committed}, now {offset}"
        self.check()

    # Invariants

    def check(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        if group is None or group.is_empty:
            self._owners.clear()  # the next group may start at generation 0
        if isinstance(group, ConsumerGroup):
            self._check_consumer_group(group)
        elif isinstance(group, ClassicGroup):
            self._check_classic_group(group)

    def _check_consumer_group(self, group: ConsumerGroup) -> None:
        """Checks the coordinator's state, and the state of clients that are not fenced."""
        held: dict[Partition, str] = {}
        for member_id, member in group.members.items():
            assert timer(TimerKind.SESSION, GROUP, member_id) in self.driver.timers, NO_SESSION
            for owned in (member.assigned, member.revoking):
                for topic_id, numbers in owned.items():
                    for number in numbers:
                        other = held.setdefault((topic_id, number), member_id)
                        assert other == member_id, f"{other} and {member_id} both have a partition"
        for client in self.members:
            known = group.members.get(client.member_id)
            if known is None or not client.lives:
                continue
            if client.epoch not in (known.epoch, known.previous_epoch):
                continue
            for partition in client.owned:
                assert held.get(partition) == client.member_id or partition not in self.logs, (
                    f"{client.name} reads what may be given to another"
                )

    def _check_classic_group(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            assert member.session_timer in self.driver.timers, NO_SESSION
        owners: dict[Partition, str] = {}
        for client in self.members:
            if client.lives and client.epoch == group.generation:
                if client.member_id not in group.members:
                    continue
                for partition in client.owned:
                    other = owners.setdefault(partition, client.name)
                    assert other == client.name, f"{other} and {client.name} own the same"


def commit_request(
    offsets: Mapping[Partition, int], *, member_id: str = "", epoch: int = -1
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                ],
            )
            for (topic_id, number), offset in offsets.items()
        ],
    )


def accepted_partitions(answer: OffsetCommitResponse) -> list[Partition]:
    return [
        (topic.topic_id, one.partition_index)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == 0
    ]
