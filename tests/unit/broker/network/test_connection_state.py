"""The table of a connection's states is complete, and nothing else is allowed."""

import pytest

from headrace.broker.network.connection_state import (
    BLOCKED_STATES,
    MUTED_STATES,
    TRANSITIONS,
    ConnectionEvent,
    ConnectionState,
    IllegalConnectionTransition,
)

S, E = ConnectionState, ConnectionEvent


def after(state: ConnectionState, *events: ConnectionEvent) -> ConnectionState:
    for event in events:
        state = TRANSITIONS[event][state]
    return state


def test_every_event_has_transitions_and_every_state_is_reached() -> None:
    assert set(TRANSITIONS) == set(E)
    reached = {S.READY}
    for _ in S:
        reached |= {after for table in TRANSITIONS.values() for before, after in table.items()}
    assert reached == set(S)


def test_a_lost_connection_is_closed_from_every_state_and_stays_so() -> None:
    assert {after(state, E.LOSE) for state in S} == {S.CLOSED}
    assert set(TRANSITIONS[E.LOSE]) == set(S)
    for event in E:
        assert TRANSITIONS[event].get(S.CLOSED, S.CLOSED) is S.CLOSED


def test_blocking_and_congestion_are_independent() -> None:
    both = after(S.READY, E.BLOCK, E.PAUSE_WRITING)
    assert both is after(S.READY, E.PAUSE_WRITING, E.BLOCK) is S.BLOCKED_CONGESTED
    assert after(both, E.UNBLOCK, E.RESUME_WRITING) is after(both, E.RESUME_WRITING, E.UNBLOCK)
    assert after(both, E.UNBLOCK, E.RESUME_WRITING) is S.READY


def test_a_mute_is_independent_of_blocking_and_congestion() -> None:
    for before in (S.READY, S.BLOCKED, S.CONGESTED, S.BLOCKED_CONGESTED):
        muted = after(before, E.MUTE)
        assert muted in MUTED_STATES
        assert after(muted, E.MUTE) is muted
        assert after(muted, E.UNMUTE) is before
        assert (muted in BLOCKED_STATES) is (before in BLOCKED_STATES)
    all_three = S.BLOCKED_CONGESTED_MUTED
    assert after(S.READY, E.MUTE, E.PAUSE_WRITING, E.BLOCK) is all_three
    assert after(all_three, E.UNBLOCK, E.RESUME_WRITING, E.UNMUTE) is S.READY


def test_a_muted_connection_drains_as_any_other_and_is_not_muted_then() -> None:
    for muted in MUTED_STATES:
        expected = S.DRAINING_BLOCKED if muted in BLOCKED_STATES else S.DRAINING
        assert after(muted, E.DRAIN) is expected
        assert after(muted, E.DRAIN, E.MUTE) is expected


def test_only_a_ready_connection_becomes_ready_again_and_never_after_draining() -> None:
    for state in (S.DRAINING, S.DRAINING_BLOCKED, S.LINGERING, S.CLOSED):
        for event in E:
            assert TRANSITIONS[event].get(state) not in (S.READY, S.BLOCKED, S.CONGESTED)


def test_a_connection_lingers_only_when_no_request_blocks_it() -> None:
    assert list(TRANSITIONS[E.LINGER]) == [S.DRAINING]
    assert S.DRAINING not in BLOCKED_STATES


@pytest.mark.parametrize(
    ("state", "event", "reason"),
    [
        (S.BLOCKED, E.BLOCK, "a blocking request started, on a connection that is blocked"),
        (S.READY, E.UNBLOCK, "the blocking request ended, on a connection that is ready"),
        (S.READY, E.RESUME_WRITING, "the client read its responses, on a connection that is ready"),
        (S.READY, E.UNMUTE, "the throttle time is over, on a connection that is ready"),
        (S.LINGERING, E.BLOCK, "a blocking request started, on a connection that is lingering"),
    ],
)
def test_an_invalid_transition_names_its_event_and_state(
    state: ConnectionState, event: ConnectionEvent, reason: str
) -> None:
    with pytest.raises(IllegalConnectionTransition, match=reason):
        after(state, event)
