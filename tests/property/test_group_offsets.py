"""Offsets under any order of commits, transactions, deletions, time and restarts.

A plain model says what must be true: the last commit counts, a transaction's offsets count from
its marker on unless a later record overtook them, nothing expires while a member reads it, and a
restart changes nothing.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP, SESSION_MS, subscription
from support.groups.group_offsets import OffsetsDriver

CHECK_MS = 1_000
RETENTION_MS = 20_000
SIMPLE = "simple"
CONFIG = GroupConfig(
    classic_initial_rebalance_delay_ms=0,
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_interval_ms=CHECK_MS,
)

Place = tuple[str, int]
places = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
offsets = st.integers(0, 2**40)
producers = st.sampled_from([ProducerIdentity(1, 0), ProducerIdentity(2, 0)])


class Offsets(RuleBasedStateMachine):
    """A group with one member that reads "t", and a simple group."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = OffsetsDriver(CONFIG)
        self.model: dict[str, dict[Place, tuple[int, int]]] = {GROUP: {}, SIMPLE: {}}
        """The position in the log and the offset, by group and partition."""
        self.pending: dict[ProducerIdentity, dict[tuple[str, Place], tuple[int, int]]] = {}

    @initialize()
    def a_member_joins(self) -> None:
        (self.member,) = self.driver.form(1, protocols={"range": subscription("t")})
        self.generation = self.driver.group.generation

    @rule(place=places, offset=offsets)
    def the_member_commits(self, place: Place, offset: int) -> None:
        codes = self.driver.commit(
            {place: offset}, member_id=self.member, generation=self.generation
        )
        assert codes == {place: ErrorCode.NONE}
        self.model[GROUP][place] = (len(self.driver.log) - 1, offset)

    @rule(place=places, offset=offsets)
    def a_zombie_commits(self, place: Place, offset: int) -> None:
        """The commit of an old generation changes nothing."""
        codes = self.driver.commit(
            {place: offset}, member_id=self.member, generation=self.generation - 1
        )
        assert codes == {place: ErrorCode.ILLEGAL_GENERATION}

    @rule(place=places, offset=offsets)
    def a_simple_consumer_commits(self, place: Place, offset: int) -> None:
        self.driver.commit({place: offset}, group_id=SIMPLE)
        self.model[SIMPLE][place] = (len(self.driver.log) - 1, offset)

    @rule(place=places, offset=offsets, producer=producers, group=st.sampled_from([GROUP, SIMPLE]))
    def a_transaction_commits(
        self, place: Place, offset: int, producer: ProducerIdentity, group: str
    ) -> None:
        self.driver.commit_in_transaction({place: offset}, producer, group_id=group)
        where = self.pending.setdefault(producer, {})
        where[group, place] = (len(self.driver.log) - 1, offset)

    @rule(producer=producers, committed=st.booleans())
    def a_transaction_ends(self, producer: ProducerIdentity, committed: bool) -> None:
        self.driver.end_transaction(producer, committed=committed)
        for (group, place), entry in self.pending.pop(producer, {}).items():
            if committed and entry > self.model[group].get(place, (-1, -1)):
                self.model[group][place] = entry

    @rule(place=places)
    def an_offset_is_deleted(self, place: Place) -> None:
        if SIMPLE in self.driver.shard.groups:
            self.driver.delete_offsets([place], group_id=SIMPLE)
            self.model[SIMPLE].pop(place, None)
            for pending in self.pending.values():
                pending.pop((SIMPLE, place), None)

    @rule(ms=st.integers(1, SESSION_MS - 1))
    def time_passes(self, ms: int) -> None:
        """Only offsets that may expire are removed."""
        self.driver.heartbeat(self.member, self.generation)
        self.driver.advance(ms)
        for group, expected in self.model.items():
            kept = self.driver.offsets(group_id=group)
            for place in set(expected) - set(kept):
                assert (group, place[0]) != (GROUP, "t"), "a member reads it"
                assert not any((group, place) in entries for entries in self.pending.values())
                del expected[place]

    @rule()
    def the_coordinator_moves(self) -> None:
        self.driver.restart()
        self.driver.heartbeat(self.member, self.generation)

    @invariant()
    def offsets_are_what_the_model_says(self) -> None:
        for group, expected in self.model.items():
            assert self.driver.offsets(group_id=group) == {
                place: offset for place, (_, offset) in expected.items()
            }

    @invariant()
    def pending_offsets_are_unstable(self) -> None:
        for entries in self.pending.values():
            for group, place in entries:
                (topic,) = self.driver.fetch(place, group_id=group, stable=True).topics
                assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
