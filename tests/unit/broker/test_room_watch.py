"""A full disk is given time, and only refusals that go on count."""

from headrace.broker.room_watch import PATIENCE_S, RoomWatch


def test_a_log_counts_as_full_when_it_has_refused_for_a_while() -> None:
    watch = RoomWatch()
    assert watch.look({"t-0": 1}, 0.0) == set()
    assert watch.look({"t-0": 5}, PATIENCE_S / 2) == set()
    assert watch.look({"t-0": 9}, PATIENCE_S) == {"t-0"}
    assert watch.look({}, PATIENCE_S + 1) == set()
    assert watch.look({"t-0": 20}, PATIENCE_S + 2) == set()


def test_one_that_nobody_writes_to_does_not_count() -> None:
    watch = RoomWatch()
    assert watch.look({"t-0": 1}, 0.0) == set()
    assert watch.look({"t-0": 1}, 10 * PATIENCE_S) == set()


def test_one_that_has_found_room_in_between_begins_anew() -> None:
    watch = RoomWatch()
    watch.look({"t-0": 5}, 0.0)
    assert watch.look({"t-0": 2}, PATIENCE_S) == set()
    assert watch.look({"t-0": 3}, 1.5 * PATIENCE_S) == set()
    assert watch.look({"t-0": 4}, 2 * PATIENCE_S) == {"t-0"}
