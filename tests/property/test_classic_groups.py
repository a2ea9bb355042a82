"""Classic groups under random joins, syncs, heartbeats, departures, crashes, failures and moves."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.records.classic import GroupMetadataValue
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupResponse
from support.groups.classic_groups import GROUP, ClassicDriver, subscription
from support.groups.shards import Pending

PARTITIONS = 3
SESSION_MS = 10_000
REBALANCE_MS = 30_000
LONGEST_WAIT_MS = 30 * 60_000
BOTH = {"range": subscription("t"), "sticky": subscription("t")}
ONE = {"range": subscription("u")}
CLIENTS = st.integers(0, 3)


@dataclass
class Client:
    """A group member: its state and its pending request."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    """Whom it must assign to; empty unless it leads."""
    joining: Pending[JoinGroupResponse] | None = None
    syncing: Pending[SyncGroupResponse] | None = None

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.members = ()


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ClassicDriver(GroupConfig(classic_max_size=4))
        self.clients = [Client("a"), Client("b"), Client(None), Client(None)]
        self.owners: dict[tuple[int, int], str] = {}
        self.waiting: list[Pending[JoinGroupResponse] | Pending[SyncGroupResponse]] = []
        self.generation = 0

    # Client actions

    @rule(one=CLIENTS, version=st.sampled_from([3, 8, 9]), protocols=st.sampled_from([BOTH, ONE]))
    def join(self, one: int, version: int, protocols: dict[str, bytes]) -> None:
        client = self.clients[one]
        if client.joining is not None:
            return
        client.joining = self.driver.join(
            client.member_id,
            instance_id=client.instance_id if version >= 5 else None,
            protocols=protocols,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=version,
        )
        self.waiting.append(client.joining)

    @rule(one=CLIENTS)
    def sync(self, one: int) -> None:
        client = self.clients[one]
        if client.generation < 0 or client.syncing is not None:
            return
        assignments = {
            member_id: bytes(range(index, PARTITIONS, len(client.members)))
            for index, member_id in enumerate(client.members)
        }
        client.syncing = self.driver.sync(client.member_id, client.generation, assignments)
        self.waiting.append(client.syncing)

    @rule(one=CLIENTS)
    def heartbeat(self, one: int) -> None:
        client = self.clients[one]
        if client.generation < 0:
            return
        try:
            self.driver.heartbeat(client.member_id, client.generation)
        except CoordinatorError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                client.forget()

    @rule(one=CLIENTS)
    def leave(self, one: int) -> None:
        client = self.clients[one]
        if client.member_id and GROUP in self.driver.shard.groups:
            try:
                self.driver.leave(client.member_id)
            except CoordinatorError:
                return  # not written; the client would try again
            client.forget()

    @rule(one=CLIENTS)
    def crash(self, one: int) -> None:
        """The process ends without leaving the group; another one replaces it."""
        self.clients[one] = Client(self.clients[one].instance_id)

    # Faults

    @rule(ms=st.sampled_from([1, 1_000, 3_000, SESSION_MS, REBALANCE_MS]))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def fail_next_append(self) -> None:
        self.driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)

    @rule()
    def move(self) -> None:
        self.driver.restart()
        written = self.written()
        self.generation = written[-1].generation if written else 0

    # Invariants

    @invariant()
    def answers_are_taken(self) -> None:
        for client in self.clients:
            self.take_join(client)
            self.take_sync(client)
        self.waiting = [one for one in self.waiting if not one.done]

    def take_join(self, client: Client) -> None:
        if client.joining is None or client.joining.outcome is None:
            return
        answer, client.joining = client.joining.outcome, None
        if isinstance(answer, CoordinatorError):
            client.forget()
        elif answer.error_code == ErrorCode.NONE:
            client.member_id = answer.member_id
            client.generation = answer.generation_id
            leads = answer.leader == answer.member_id and not answer.skip_assignment
            client.members = tuple(one.member_id for one in answer.members) if leads else ()
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            client.forget()

    def take_sync(self, client: Client) -> None:
        if client.syncing is None or client.syncing.outcome is None:
            return
        answer, client.syncing = client.syncing.outcome, None
        if isinstance(answer, CoordinatorError) or answer.error_code != ErrorCode.NONE:
            return
        owner = client.instance_id or client.member_id
        for partition in answer.assignment:
            known = self.owners.setdefault((client.generation, partition), owner)
            assert known == owner, "a partition has two owners in one generation"

    @invariant()
    def generations_grow(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        if group is not None:
            assert isinstance(group, ClassicGroup)
            assert group.generation >= self.generation
            self.generation = group.generation
        written = [value.generation for value in self.written()]
        assert written == sorted(written)

    @invariant()
    def the_books_are_right(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        members = group.members.values()
        assert group.joining == sum(member.joining is not None for member in members)
        assert not group.pending_joins & set(group.members)
        assert group.pending_syncs <= set(group.members)
        assert len(group.members) <= 4
        known = {one.instance_id: one.member_id for one in members if one.instance_id is not None}
        assert group.instances == known
        if group.members:
            assert group.leader in group.members
        if group.state is ClassicState.EMPTY:
            assert not group.members
            assert group.leader is None
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            assert group.protocol in {"range", "sticky"}
            for member in members:
                member.metadata(group.protocol)
                assert member.joining is None
        if group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            assert all(member.syncing is None for member in members)
        names = Counter(name for one in members for name in {p.name for p in one.protocols})
        assert not members or len(members) in names.values()

    @invariant()
    def every_wait_has_an_end(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        timers = self.driver.classic_timers
        for member in group.members.values():
            assert member.session_timer in timers
        for member_id in group.pending_joins:
            assert ("classic", "session", GROUP, member_id) in timers
        if group.state is ClassicState.PREPARING_REBALANCE or group.pending_syncs:
            assert group.phase_timer in timers

    def teardown(self) -> None:
        """After the last step every request is answered and the group becomes empty."""
        self.driver.fail_next_append = None
        self.driver.advance(LONGEST_WAIT_MS)
        self.answers_are_taken()
        assert self.waiting == []
        group = self.driver.shard.groups.get(GROUP)
        assert group is None or group.is_empty
        assert self.driver.classic_timers == set()

    def written(self) -> list[GroupMetadataValue]:
        values = []
        for key, value, _ in self.driver.log:
            assert isinstance(key, bytes)
            change = self.driver.shard.format.decode(key, value)
            assert change is not None
            assert isinstance(change.value, GroupMetadataValue)
            values.append(change.value)
        return values


Groups.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
