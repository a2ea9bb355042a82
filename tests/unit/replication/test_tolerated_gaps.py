"""Gaps in sequence numbers: which are excused, and for how long."""

from headrace.replication.tolerated_gaps import (
    GRACE_S,
    LONGEST_CLIENT_WAIT_S,
    MAX_PRODUCERS,
    NEVER,
    ToleratedGaps,
)

ONE, OTHER = 7, 8


def test_a_gap_is_an_error_without_a_refusal_or_a_new_leader() -> None:
    assert not ToleratedGaps().is_excused(ONE, 100.0, is_new_here=False)


def test_after_a_refusal_gaps_are_excused_for_some_seconds() -> None:
    gaps = ToleratedGaps()
    gaps.refused(100.0)
    assert gaps.is_excused(ONE, 100.0 + GRACE_S - 0.1, is_new_here=False)
    assert not gaps.is_excused(ONE, 100.0 + GRACE_S, is_new_here=False)


def test_a_producers_first_gap_at_a_new_leader_is_excused_at_any_time() -> None:
    # Seed 50001 of the chaos runs: it had waited ten seconds for the leader before.
    gaps = ToleratedGaps()
    gaps.began(100.0, is_first=False)
    late = 100.0 + 60.0
    assert gaps.is_excused(ONE, late, is_new_here=True)
    assert gaps.is_excused(ONE, late + GRACE_S - 0.1, is_new_here=True)
    assert not gaps.is_excused(OTHER, late, is_new_here=False)


def test_a_gap_that_lasts_becomes_an_error() -> None:
    gaps = ToleratedGaps()
    gaps.began(100.0, is_first=False)
    assert gaps.is_excused(ONE, 101.0, is_new_here=True)
    assert not gaps.is_excused(ONE, 101.0 + GRACE_S, is_new_here=True)
    assert gaps.is_excused(OTHER, 101.0 + GRACE_S, is_new_here=True)  # each for itself


def test_first_batches_are_doubted_for_as_long_as_producers_wait_for_a_leader() -> None:
    gaps = ToleratedGaps()
    assert gaps.starts_doubted_until == NEVER
    gaps.began(100.0, is_first=True)
    assert gaps.starts_doubted_until == 100.0 + GRACE_S
    gaps.began(100.0, is_first=False)
    gaps.refused(101.0)
    assert gaps.starts_doubted_until == 100.0 + LONGEST_CLIENT_WAIT_S


def test_the_number_of_remembered_producers_is_bounded() -> None:
    gaps = ToleratedGaps()
    for producer_id in range(3 * MAX_PRODUCERS):
        assert gaps.is_excused(producer_id, 1.0, is_new_here=True)
    assert gaps._seen is not None and len(gaps._seen) == MAX_PRODUCERS
