"""The changes of one partition: leader, in-sync replicas, eligible leaders, reassignment."""

from headrace.cluster.topology import NO_LEADER, Partition
from headrace.controller.leader_election import Election, ElectionContext
from headrace.controller.partition_change import PartitionChange

FULL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=9)


def settled(
    partition: Partition,
    live: set[int],
    *,
    min_isr: int = 1,
    unclean: bool = False,
    election: Election = Election.ONLINE,
) -> Partition:
    change = PartitionChange(partition, ElectionContext(live, min_isr, unclean))
    return change.result(election) or partition


def returned_unclean(
    partition: Partition, broker_id: int, live: set[int], min_isr: int = 1
) -> Partition:
    change = PartitionChange(partition, ElectionContext(live, min_isr))
    change.mark_unclean(broker_id)
    return change.result() or partition


def test_no_event_is_no_change() -> None:
    assert PartitionChange(FULL, ElectionContext({1, 2, 3})).result() is None


def test_a_dead_leader_is_replaced_by_the_first_live_in_sync_replica() -> None:
    after = settled(FULL, {2, 3})
    assert (after.leader, after.isr) == (2, (2, 3))
    assert (after.leader_epoch, after.partition_epoch) == (6, 10)


def test_a_dead_follower_leaves_the_in_sync_set_without_a_new_leader_epoch() -> None:
    after = settled(FULL, {1, 2})
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 2), 5)
    assert after.partition_epoch == 10


def test_the_last_in_sync_replica_stays_in_the_set_when_it_dies() -> None:
    alone = FULL._replace(isr=(1,))
    after = settled(alone, {2, 3})
    assert (after.leader, after.isr) == (NO_LEADER, (1,))


def test_an_out_of_sync_replica_leads_only_with_unclean_elections_enabled() -> None:
    alone = FULL._replace(isr=(1,))
    assert settled(alone, {2, 3}).leader == NO_LEADER
    unclean = settled(alone, {2, 3}, unclean=True)
    assert (unclean.leader, unclean.isr) == (2, (2,))


def test_when_all_replicas_die_at_once_the_first_to_return_leads() -> None:
    dark = settled(FULL, set())
    assert (dark.leader, dark.isr) == (NO_LEADER, (1, 2, 3))
    after = settled(dark, {3})
    assert (after.leader, after.isr) == (3, (3,))


def test_last_replica_standing_that_lost_its_page_cache_does_not_lead() -> None:
    # KIP-966: 3 and 2 went while the set was too small to acknowledge; then 1 lost its power.
    after = settled(settled(FULL, {1, 2}, min_isr=2), {1}, min_isr=2)
    assert (after.isr, after.eligible_leaders) == ((1,), (2,))
    dark = settled(after, set(), min_isr=2)
    back = returned_unclean(dark, 1, {1}, min_isr=2)
    assert (back.leader, back.isr, back.eligible_leaders) == (NO_LEADER, (), (2,))
    whole = settled(back, {1, 2}, min_isr=2)
    assert (whole.leader, whole.isr) == (2, (2,))


def test_eligible_leaders_are_cleared_once_enough_replicas_are_in_sync() -> None:
    small = FULL._replace(isr=(1,), eligible_leaders=(2,))
    change = PartitionChange(small, ElectionContext({1, 2, 3}, 2))
    change.set_isr((1, 3))
    after = change.result()
    assert after is not None
    assert after.eligible_leaders == ()


def test_an_only_replica_leads_again_after_a_power_loss() -> None:
    only = Partition(replicas=(1,), isr=(1,), leader=NO_LEADER)
    assert returned_unclean(only, 1, {1}).leader == 1


def test_after_a_power_loss_of_all_replicas_the_last_in_sync_one_leads() -> None:
    dark = settled(FULL, set(), min_isr=2)
    first = returned_unclean(dark, 1, {1}, min_isr=2)
    assert first.leader == NO_LEADER
    second = returned_unclean(first, 2, {1, 2}, min_isr=2)
    third = returned_unclean(second, 3, {1, 2, 3}, min_isr=2)
    assert third.leader == 3


def test_a_preferred_leader_out_of_sync_is_not_elected() -> None:
    moved = FULL._replace(leader=2, isr=(2, 3))
    assert settled(moved, {1, 2, 3}, election=Election.PREFERRED).leader == 2
    assert settled(FULL._replace(leader=2), {1, 2, 3}, election=Election.PREFERRED).leader == 1


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    change = PartitionChange(FULL, ElectionContext({1, 2, 3, 4, 5}))
    change.reassign((4, 5, 1))
    moving = change.result()
    assert moving is not None
    assert moving.replicas == (4, 5, 1, 2, 3)
    assert (moving.adding, moving.removing, moving.leader_epoch) == ((4, 5), (2, 3), 5)
    halfway = PartitionChange(moving, ElectionContext({1, 2, 3, 4, 5}))
    halfway.set_isr((1, 2, 3, 4))
    still = halfway.result()
    assert still is not None
    assert still.adding == (4, 5)
    last = PartitionChange(still, ElectionContext({1, 2, 3, 4, 5}))
    last.set_isr((1, 2, 3, 4, 5))
    done = last.result()
    assert done is not None
    assert (done.replicas, set(done.isr), done.adding, done.removing) == (
        (4, 5, 1),
        {1, 4, 5},
        (),
        (),
    )
    assert (done.leader, done.leader_epoch) == (1, 6), "a removed replica is fenced by the epoch"


def test_a_leader_that_is_moved_away_hands_over_at_the_end() -> None:
    change = PartitionChange(FULL, ElectionContext({1, 2, 3, 4}))
    change.reassign((4,))
    moving = change.result()
    assert moving is not None
    assert moving.leader == 1
    caught_up = PartitionChange(moving, ElectionContext({1, 2, 3, 4}))
    caught_up.set_isr((1, 2, 3, 4))
    done = caught_up.result()
    assert done is not None
    assert (done.leader, done.isr, done.replicas) == (4, (4,), (4,))


def test_a_cancelled_reassignment_goes_back_to_the_old_replicas() -> None:
    change = PartitionChange(FULL, ElectionContext({1, 2, 3, 4}))
    change.reassign((4, 1, 2))
    moving = change.result()
    assert moving is not None
    cancel = PartitionChange(moving, ElectionContext({1, 2, 3, 4}))
    cancel.cancel_reassignment()
    back = cancel.result()
    assert back is not None
    assert set(back.replicas) == {1, 2, 3}
    assert (back.adding, back.removing) == ((), ())
