"""A classic group changes its state along Kafka's table, and in no other way."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import (
    VALID_PREVIOUS_STATES,
    ClassicState,
    IllegalGroupTransition,
    can_become,
)
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP, ClassicDriver

S = ClassicState
KAFKA = {
    (S.PREPARING_REBALANCE, S.EMPTY),
    (S.EMPTY, S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE),
    (S.STABLE, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE),
    (S.COMPLETING_REBALANCE, S.STABLE),
} | {(state, S.DEAD) for state in S}
PAIRS = [(state, target) for state in S for target in S]


def test_every_state_has_its_previous_states() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(S)


@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_a_group_takes_the_transitions_of_kafka_and_refuses_the_others(
    state: ClassicState, target: ClassicState
) -> None:
    group = ClassicGroup(GROUP, 1, state)
    assert can_become(state, target) is ((state, target) in KAFKA)
    if (state, target) in KAFKA:
        group.transition_to(target, 7)
        assert (group.state, group.state_since_ms) == (target, 7)
    else:
        with pytest.raises(
            IllegalGroupTransition, match=f"{GROUP} cannot go from {state.value} to"
        ):
            group.transition_to(target, 7)
        assert (group.state, group.state_since_ms) == (state, 1)


@pytest.mark.parametrize("state", S)
def test_a_rebalance_starts_unless_one_is_in_its_join_phase(state: ClassicState) -> None:
    expected = state not in (S.PREPARING_REBALANCE, S.DEAD)
    assert ClassicGroup(GROUP, 1, state).can_rebalance is expected


def test_a_deleted_group_and_a_group_of_an_unloaded_shard_are_dead() -> None:
    deleted = ClassicDriver()
    member_id, _ = deleted.enter()
    deleted.advance(0)
    deleted.leave(member_id)
    group = deleted.group
    assert group.state is S.EMPTY
    deleted.start(lambda shard, _: shard.listing.delete(GROUP))
    assert group.state is S.DEAD
    unloaded = ClassicDriver()
    unloaded.enter()
    group = unloaded.group
    unloaded.shard.unload(CoordinatorError(ErrorCode.NOT_COORDINATOR))
    assert group.state is S.DEAD
