"""Members of a group under churn: clients that behave like real ones.

They poll, process, commit and maintain their membership in small steps, with one membership request
at a time. Processed records count as delivered, and only processed records are committed.
"""

from collections.abc import Callable
from typing import TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.group_shard import GroupShard
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from headrace.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from support.groups.churn import (
    COMMIT_VERSION,
    SESSION_MS,
    Partition,
    World,
    accepted_partitions,
    commit_request,
)
from support.groups.churn_assignors import (
    EAGER,
    Named,
    read_claim,
    read_share,
    share_out,
    write_share,
    write_subscription,
)
from support.groups.classic_groups import GROUP

R = TypeVar("R")

STEP_MS = 500
HEARTBEAT_MS = 3_000
COMMIT_EVERY_MS = 2_000
REBALANCE_MS = 20_000
GIVES_UP_MS = 12_000
"""After this time without an answer, a client sends its request again."""
POLL_RECORDS = 20
LATE_MS = (1_000, 60_000)
TOPICS = ("t1", "t2", "t3")

TRY_AGAIN = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
LOST = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS}
COMMIT_REFUSALS = (
    LOST
    | REJOIN
    | {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class Reading:
    """One owned partition; its position is unknown at first."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.committed = -1
        self.asked = False


class Client:
    """The common part of the clients of both protocols."""

    def __init__(self, world: World, name: str, instance_id: str | None = None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.identity = instance_id or name
        self.member_id = ""
        self.epoch = -1
        self.owned: dict[Partition, Reading] = {}
        self.lives = True
        self.locked_out = False
        """Whether another process continues with its instance id."""
        self.paused_until_ms = 0
        self.slow_until_ms = 0
        self.sent_until_ms = 0
        self._awaited: object | None = None
        """The membership request that is in flight."""
        self._asked_ms = 0
        self._heartbeat_ms = 0
        self._commit_ms = 0
        self._committing: object | None = None
        world.members.append(self)
        world.every(STEP_MS, self.step)

    # Lifecycle

    def step(self) -> bool:
        """Does the actions that are due; false if the client is dead."""
        if not self.lives:
            return False
        now_ms = self.world.now_ms
        if now_ms >= self.paused_until_ms:
            self.poll()
            if now_ms >= self._commit_ms + COMMIT_EVERY_MS:
                self._commit_ms = now_ms
                self.commit()
            if self._awaited is None or now_ms >= self._asked_ms + GIVES_UP_MS:
                if self._awaited is not None:
                    self.no_answer()
                self._awaited = None
                self.keep_up()
        return True

    def keep_up(self) -> None:
        """The next step of its membership, if there is one."""
        raise NotImplementedError

    def no_answer(self) -> None:
        """The request timed out; the coordinator may have handled it."""

    def die(self) -> None:
        """Ends without a request to the coordinator."""
        self.lives = False
        self.owned = {}
        self.world.members.remove(self)

    def leave(self) -> None:
        raise NotImplementedError

    def lose_all(self) -> None:
        """The client learns that it has lost its membership."""
        self.owned = {}

    # Records

    def poll(self) -> None:
        for partition, reading in self.owned.items():
            log = self.world.logs.get(partition)
            if log is None:
                continue
            if reading.position is None:
                if not reading.asked:
                    self._fetch_position(partition, reading)
                continue
            end = min(log.end, reading.position + self.world.random.randrange(POLL_RECORDS))
            log.deliver(reading.position, max(end, reading.position))
            reading.position = max(end, reading.position)

    def _fetch_position(self, partition: Partition, reading: Reading) -> None:
        reading.asked = True
        asked = OffsetFetchRequestTopics(topic_id=partition[0], partition_indexes=[partition[1]])
        member_id, epoch = self.fetches_as()
        request = OffsetFetchRequestGroup(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=[asked]
        )

        def fetch(shard: GroupShard, now_ms: int) -> CoordinatorResult[OffsetFetchResponseGroup]:
            return CoordinatorResult(shard.offsets.fetch(COMMIT_VERSION, request, stable=True))

        def answered(outcome: OffsetFetchResponseGroup | CoordinatorError) -> None:
            reading.asked = False
            if isinstance(outcome, CoordinatorError):
                return
            found = outcome.topics[0].partitions[0]
            if found.error_code == 0 and reading.position is None:
                reading.position = max(found.committed_offset, 0)
                reading.committed = found.committed_offset

        self.world.send(self, fetch, lambda answer: None, answered)
        self.world.later(GIVES_UP_MS, lambda: setattr(reading, "asked", False))

    def fetches_as(self) -> tuple[str | None, int]:
        return None, -1

    def commit(self, *, last: bool = False) -> None:
        """Commits the processed records, one commit at a time; the last one does not wait."""
        if self._committing is not None and not last:
            return
        offsets = {
            partition: reading.position
            for partition, reading in self.owned.items()
            if reading.position is not None and reading.position > reading.committed
        }
        if not offsets or self.epoch < 0:
            return
        request = commit_request(offsets, member_id=self.member_id, epoch=self.epoch)
        request.group_instance_id = self.instance_id
        ticket = self._committing = object()
        self.world.later(GIVES_UP_MS, lambda: self._end_commit(ticket))
        readings = {partition: self.owned[partition] for partition in offsets}

        def answered(outcome: OffsetCommitResponse | CoordinatorError) -> None:
            self._end_commit(ticket)
            if isinstance(outcome, CoordinatorError):
                assert outcome.code in TRY_AGAIN, outcome
                return
            for partition in accepted_partitions(outcome):
                readings[partition].committed = offsets[partition]
            codes = {one.error_code for topic in outcome.topics for one in topic.partitions}
            assert codes <= COMMIT_REFUSALS | {ErrorCode.NONE}, codes

        def served(outcome: OffsetCommitResponse) -> None:
            self._served_commit(request, outcome)

        self.world.send(
            self, lambda s, now: s.offsets.commit(COMMIT_VERSION, request, now), served, answered
        )
        if self.world.random.random() < 0.1:
            late = self.world.random.randrange(*LATE_MS)
            self.world.later(late, lambda: self._commit_late(request))

    def _end_commit(self, ticket: object) -> None:
        if self._committing is ticket:
            self._committing = None

    def _served_commit(self, request: OffsetCommitRequest, outcome: OffsetCommitResponse) -> None:
        accepted = set(accepted_partitions(outcome))
        for topic in request.topics:
            for one in topic.partitions:
                if (topic.topic_id, one.partition_index) in accepted:
                    self.world.committed(
                        self, (topic.topic_id, one.partition_index), one.committed_offset
                    )

    def _commit_late(self, request: OffsetCommitRequest) -> None:
        """A delayed copy of the request arrives much later.
        Connections keep the order of requests. So this only happens if the client cannot have sent
        another valid commit since then.
        """
        partitions = [
            (topic.topic_id, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
        ]
        if any(self.may_still_commit(partition, request) for partition in partitions):
            return
        self.world.happened["late commit"] += 1
        self.world.send(
            self,
            lambda s, now: s.offsets.commit(COMMIT_VERSION, request, now),
            lambda outcome: self._served_commit(request, outcome),
            lambda outcome: None,
        )

    def may_still_commit(self, partition: Partition, request: OffsetCommitRequest) -> bool:
        return self.world.is_owner(self, partition)


class ModernClient(Client):
    """A client of the consumer protocol (KIP-848)."""

    def __init__(self, world: World, name: str, instance_id: str | None = None) -> None:
        super().__init__(world, name, instance_id)
        self.member_id = name
        self.epoch = 0
        self._says_all = True
        self._must_report = True

    def fetches_as(self) -> tuple[str | None, int]:
        return self.member_id, self.epoch

    def keep_up(self) -> None:
        now_ms = self.world.now_ms
        if self._must_report or self._says_all or now_ms >= self._heartbeat_ms + HEARTBEAT_MS:
            self._heartbeat_ms = now_ms
            self._beat()

    def no_answer(self) -> None:
        self._says_all = True

    def _beat(self) -> None:
        everything = self._says_all or self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if everything else -1,
            subscribed_topic_names=list(TOPICS) if everything else None,
            topic_partitions=self._report() if everything or self._must_report else None,
        )
        self._says_all = self._must_report = False
        ticket = self._awaited = object()
        self._asked_ms = self.world.now_ms

        def answered(outcome: ConsumerGroupHeartbeatResponse | CoordinatorError) -> None:
            if self._awaited is not ticket or not self.lives:
                return
            self._awaited = None
            if isinstance(outcome, CoordinatorError):
                self._refused(outcome.code)
            else:
                self._take(outcome)

        self.world.send(self, _heartbeat(request), self._served, answered)

    def _report(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        topics: dict[bytes, list[int]] = {}
        for topic_id, number in self.owned:
            topics.setdefault(topic_id, []).append(number)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=id_, partitions=numbers)
            for id_, numbers in topics.items()
        ]

    def _served(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.assignment is not None:
            named = [self.world.name(one) for one in _assigned(answer)]
            self.world.granted(self, answer.member_epoch, [one for one in named if one is not None])

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = answer.member_epoch
        self.locked_out = False
        if answer.assignment is None:
            return
        assigned = _assigned(answer)
        if assigned != set(self.owned):
            self.commit(last=True)
            self._must_report = True
        self.owned = {one: self.owned.get(one) or Reading() for one in sorted(assigned)}

    def _refused(self, code: ErrorCode) -> None:
        self._says_all = True
        self.locked_out = code is ErrorCode.UNRELEASED_INSTANCE_ID
        if code in LOST:
            self.world.happened["fenced"] += 1
            self.lose_all()
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        else:
            assert self.locked_out or code in TRY_AGAIN, code

    def lose_all(self) -> None:
        super().lose_all()
        self.epoch = 0

    def leave(self) -> None:
        self.commit(last=True)
        epoch = -1 if self.instance_id is None else -2
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )
        self.world.send(self, _heartbeat(request), lambda answer: None, lambda outcome: None)
        self.die()


def _heartbeat(
    request: ConsumerGroupHeartbeatRequest,
) -> Callable[[GroupShard, int], CoordinatorResult[ConsumerGroupHeartbeatResponse]]:
    context = RequestContext(1, "app", "/10.0.0.1")
    return lambda shard, now_ms: shard.consumer.heartbeat(context, request, now_ms)


def _assigned(answer: ConsumerGroupHeartbeatResponse) -> set[Partition]:
    assert answer.assignment is not None
    return {
        (one.topic_id, number)
        for one in answer.assignment.topic_partitions
        for number in one.partitions
    }


class ClassicClient(Client):
    """A client of the classic protocol.
    Before it joins again, an eager client gives up all partitions. A cooperative client gives up
    only those that are not in its new assignment.
    """

    def __init__(
        self,
        world: World,
        name: str,
        instance_id: str | None = None,
        *,
        protocol: str = EAGER,
    ) -> None:
        super().__init__(world, name, instance_id)
        self.protocol = protocol
        self._share: set[Named] = set()
        self._joined = False
        """Whether it has a generation whose assignment it knows or must still request."""
        self._synced = False
        self._leads: dict[str, bytes] | None = None
        """The members to assign partitions to, if it is the leader."""
        self._watched: dict[str, tuple[bytes, int]] | None = None
        """The topics at the time of its assignment, if it is the leader."""
        self._is_leader = False

    def _topics(self) -> dict[str, tuple[bytes, int]]:
        topics = self.world.driver.cluster.image.topics
        return {
            name: (topics[name].topic_id, len(topics[name].partitions))
            for name in TOPICS
            if name in topics
        }

    def _resolve(self, share: set[Named]) -> list[Partition]:
        topics = self._topics()
        return [
            (topics[name][0], number)
            for name, number in sorted(share)
            if name in topics and number < topics[name][1]
        ]

    def keep_up(self) -> None:
        now_ms = self.world.now_ms
        if not self._joined:
            self._join()
        elif not self._synced:
            self._sync()
        elif self._is_leader and self._watched != self._topics():
            self._give_up_generation()
            self._join()
        elif now_ms >= self._heartbeat_ms + HEARTBEAT_MS:
            self._heartbeat_ms = now_ms
            self._beat()

    def lose_all(self) -> None:
        super().lose_all()
        self._share = set()
        self.epoch = -1
        self._joined = self._synced = False

    def _give_up_generation(self) -> None:
        """A new generation will follow: an eager member first gives up all partitions."""
        self._joined = self._synced = False
        if self.protocol == EAGER:
            self.commit(last=True)
            self._share = set()
            self.owned = {}

    # Requests

    def _ask(
        self,
        decide: Callable[[GroupShard, int], CoordinatorResult[R]],
        served: Callable[[R], None],
        take: Callable[[R], None],
    ) -> None:
        ticket = self._awaited = object()
        self._asked_ms = self.world.now_ms

        def answered(outcome: R | CoordinatorError) -> None:
            if self._awaited is not ticket or not self.lives:
                return
            self._awaited = None
            if isinstance(outcome, CoordinatorError):
                self._refused(outcome.code)
            else:
                take(outcome)

        self.world.send(self, decide, served, answered)

    def _join(self) -> None:
        metadata = write_subscription(TOPICS, self._share, self.epoch)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=metadata)],
        )
        context = RequestContext(9, "app", "/10.0.0.1")
        self._ask(
            lambda shard, now_ms: shard.classic.join(context, request, now_ms),
            lambda answer: None,
            self._take_join,
        )
        self._asked_ms += REBALANCE_MS  # it may have to wait for the other members

    def _take_join(self, answer: JoinGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
            return
        if code:
            self._refused(code)
            return
        self.member_id = answer.member_id
        self.epoch = answer.generation_id
        self._joined = True
        self._is_leader = answer.leader == answer.member_id
        self._watched = None  # a leader that does not assign: it will request a rebalance
        self._leads = None
        if self._is_leader and not answer.skip_assignment:
            self._leads = {one.member_id: bytes(one.metadata) for one in answer.members}
        self._sync()

    def _sync(self) -> None:
        assignments: list[SyncGroupRequestAssignment] = []
        if self._leads is not None:
            self._watched = self._topics()
            claims = {one: read_claim(data) for one, data in self._leads.items()}
            sizes = {name: size for name, (_, size) in self._watched.items()}
            shares = share_out(self.protocol, claims, sizes)
            assignments = [
                SyncGroupRequestAssignment(member_id=one, assignment=write_share(share))
                for one, share in shares.items()
            ]
        epoch = self.epoch
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=assignments,
        )
        context = RequestContext(5, "app", "/10.0.0.1")

        partitions: list[Partition] = []

        def served(answer: SyncGroupResponse) -> None:
            if answer.error_code == 0:
                share = read_share(bytes(answer.assignment))
                partitions.extend(self._resolve(share))
                self.world.granted(self, epoch, share)

        self._ask(
            lambda shard, now_ms: shard.classic.sync(context, request, now_ms),
            served,
            lambda answer: self._take_sync(answer, partitions),
        )
        self._asked_ms += REBALANCE_MS

    def _take_sync(self, answer: SyncGroupResponse, partitions: list[Partition]) -> None:
        if answer.error_code:
            self._refused(ErrorCode(answer.error_code))
            return
        share = read_share(bytes(answer.assignment))
        self._synced = True
        back = self._share - share
        if back:
            self.commit(last=True)
        self._share = share
        self.owned = {one: self.owned.get(one) or Reading() for one in partitions}
        if back:
            self._joined = self._synced = False  # so that other members get its partitions

    def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        context = RequestContext(4, "app", "/10.0.0.1")

        def take(answer: HeartbeatResponse) -> None:
            if answer.error_code:
                self._refused(ErrorCode(answer.error_code))

        self._ask(
            lambda shard, now_ms: shard.classic.heartbeat(context, request, now_ms),
            lambda answer: None,
            take,
        )

    def _refused(self, code: ErrorCode) -> None:
        if code in REJOIN:
            self._give_up_generation()
            self._join()
        elif code in LOST:
            self.world.happened["fenced"] += 1
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.lose_all()
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        else:
            assert code in TRY_AGAIN, code

    def leave(self) -> None:
        self.commit(last=True)
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
        )
        context = RequestContext(5, "app", "/10.0.0.1")

        def decide(shard: GroupShard, now_ms: int) -> CoordinatorResult[LeaveGroupResponse]:
            return shard.classic.leave(context, request, now_ms)

        if self.instance_id is None:  # static members come back within their session timeout
            self.world.send(self, decide, lambda answer: None, lambda outcome: None)
        self.die()
