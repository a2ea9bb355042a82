"""A leader from a clean election has every acknowledged record."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.cluster.topology import NO_LEADER, Partition
from headrace.controller.leader_election import ElectionContext
from headrace.controller.partition_change import PartitionChange

BROKERS = (1, 2, 3)


class OnePartition(RuleBasedStateMachine):
    """A model of one partition: `held` says how many acknowledged records each replica has."""

    @initialize(min_isr=st.integers(1, 3))
    def begin(self, min_isr: int) -> None:
        self.min_isr = min_isr
        self.live = set(BROKERS)
        self.partition = Partition(replicas=BROKERS, isr=BROKERS, leader=1)
        self.acknowledged = 0
        self.held = dict.fromkeys(BROKERS, 0)

    def change(self) -> PartitionChange:
        return PartitionChange(self.partition, ElectionContext(frozenset(self.live), self.min_isr))

    def settle(self, change: PartitionChange) -> None:
        before = self.partition
        after = change.result() or before
        if after is not before:
            assert after.partition_epoch == before.partition_epoch + 1
            assert (after.leader_epoch > before.leader_epoch) == (after.leader != before.leader)
        self.partition = after
        if after.leader not in (NO_LEADER, before.leader):
            # Replicas follow the new leader's log: records missing there are lost.
            lost = self.held[after.leader] < self.acknowledged
            assert not lost or not self.others_could_know(before, after.leader)
            self.acknowledged = self.held[after.leader]
            self.held = {id_: min(n, self.acknowledged) for id_, n in self.held.items()}

    def others_could_know(self, before: Partition, leader: int) -> bool:
        known = {*before.isr, *before.eligible_leaders} - {leader}
        return any(self.held[id_] >= self.acknowledged for id_ in known)

    @rule()
    def append(self) -> None:
        partition = self.partition
        if partition.leader != NO_LEADER and len(partition.isr) >= self.min_isr:
            self.acknowledged += 1
            for id_ in partition.isr:
                self.held[id_] = self.acknowledged

    @rule(broker_id=st.sampled_from(BROKERS))
    def stop(self, broker_id: int) -> None:
        self.live.discard(broker_id)
        self.settle(self.change())

    @rule()
    def stop_all(self) -> None:
        self.live.clear()
        self.settle(self.change())

    @rule(broker_id=st.sampled_from(BROKERS))
    def come_back(self, broker_id: int) -> None:
        self.live.add(broker_id)
        self.settle(self.change())

    @rule(broker_id=st.sampled_from(BROKERS), lost=st.integers(0, 3))
    def come_back_after_a_power_loss(self, broker_id: int, lost: int) -> None:
        if broker_id in self.live:
            return
        self.live.add(broker_id)
        self.held[broker_id] = max(0, self.held[broker_id] - lost)
        change = self.change()
        change.mark_unclean(broker_id)
        self.settle(change)

    @rule(broker_id=st.sampled_from(BROKERS))
    def catch_up(self, broker_id: int) -> None:
        partition = self.partition
        if partition.leader == NO_LEADER or broker_id not in self.live:
            return
        self.held[broker_id] = self.held[partition.leader]
        change = self.change()
        change.set_isr(dict.fromkeys((*partition.isr, broker_id)))
        self.settle(change)

    @rule(broker_id=st.sampled_from(BROKERS))
    def fall_behind(self, broker_id: int) -> None:
        partition = self.partition
        if partition.leader in (NO_LEADER, broker_id) or broker_id not in partition.isr:
            return
        change = self.change()
        change.set_isr(id_ for id_ in partition.isr if id_ != broker_id)
        self.settle(change)

    @invariant()
    def a_leader_is_live_and_in_sync(self) -> None:
        partition = getattr(self, "partition", None)
        if partition is not None and partition.leader != NO_LEADER:
            assert partition.leader in self.live
            assert partition.leader in partition.isr
            assert set(partition.isr) <= self.live


TestOnePartition = OnePartition.TestCase
TestOnePartition.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
