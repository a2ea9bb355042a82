"""One partition's fetch state: truncations that make progress, and pauses after errors."""

from types import SimpleNamespace
from typing import cast

from headrace.broker.replication.fetch_backoff import FIRST_BACKOFF_S, longer_backoff_s
from headrace.broker.replication.partition_fetch_state import NEVER, PartitionFetchState
from headrace.replication.follower import Follower

LONGEST_S = 8 * FIRST_BACKOFF_S


def a_state() -> PartitionFetchState:
    return PartitionFetchState((b"t" * 16, 0), cast("Follower", SimpleNamespace()))


def test_pauses_double_from_the_first_up_to_the_longest() -> None:
    pauses_s = [0.0]
    for _ in range(5):
        pauses_s.append(longer_backoff_s(pauses_s[-1], LONGEST_S))
    assert [each / FIRST_BACKOFF_S for each in pauses_s] == [0, 1, 2, 4, 8, 8]


def test_a_maximum_pause_below_the_first_pause_is_respected() -> None:
    assert longer_backoff_s(0.0, FIRST_BACKOFF_S / 2) == FIRST_BACKOFF_S / 2


def test_truncations_continue_while_each_goes_further_back() -> None:
    state = a_state()
    assert all(state.record_progress(before, end) for before, end in [(9, 7), (7, 5), (5, 3)])


def test_a_truncation_that_changes_nothing_is_not_progress() -> None:
    assert not a_state().record_progress(9, 9)


def test_a_truncation_that_only_undoes_the_last_copy_is_not_progress() -> None:
    state = a_state()
    assert state.record_progress(9, 7)
    assert not state.record_progress(8, 7)
    assert not state.record_progress(20, 8)
    assert state.record_progress(8, 6)


def test_a_log_restarted_at_a_later_offset_is_not_a_truncation() -> None:
    state = a_state()
    assert state.record_progress(9, 50)
    assert state.record_progress(60, 50)  # otherwise this one would not be progress
    assert state.record_progress(9, 70)


def test_a_paused_partition_is_in_no_fetch() -> None:
    state = a_state()
    state.named_in = 5
    state.back_off(LONGEST_S)
    assert state.named_in == NEVER


def test_reaching_the_longest_pause_is_reported() -> None:
    # It is logged as a warning once.
    state = a_state()
    assert [state.back_off(LONGEST_S) for _ in range(6)] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert state.backoff_s == LONGEST_S


def test_pauses_after_truncations_grow_despite_successes_between_them() -> None:
    state = a_state()
    pauses_s = []
    for _ in range(4):
        state.back_off(LONGEST_S, by_truncations=True)
        pauses_s.append(state.backoff_s)
        state.backoff_s = 0.0  # as after records that were taken
    assert [each / FIRST_BACKOFF_S for each in pauses_s] == [1, 2, 4, 8]


def test_other_errors_do_not_lengthen_pauses_after_truncations() -> None:
    state = a_state()
    for _ in range(3):
        state.back_off(LONGEST_S)
    state.back_off(LONGEST_S, by_truncations=True)
    assert state.backoff_s == FIRST_BACKOFF_S
    state.back_off(LONGEST_S)
    assert state.backoff_s == 2 * FIRST_BACKOFF_S


def test_a_new_epoch_clears_truncations_and_pauses() -> None:
    state = a_state()
    assert state.record_progress(9, 7)
    for _ in range(3):
        state.back_off(LONGEST_S, by_truncations=True)
    state.begin_epoch()
    assert state.record_progress(9, 8)
    state.back_off(LONGEST_S, by_truncations=True)
    assert state.backoff_s == FIRST_BACKOFF_S
