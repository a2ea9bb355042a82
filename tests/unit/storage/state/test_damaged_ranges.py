"""The damaged ranges of a log: each is remembered once, while it is part of the log."""

from headrace.storage.state.damage import Damage
from headrace.storage.state.damaged_ranges import MAX_DAMAGES, DamagedRanges


def damage(first: int, after: int, *, position: int = 0) -> Damage:
    return Damage(f"{first:020}.log", position, first, after, "a reason")


def test_a_damaged_range_is_new_once() -> None:
    damages = DamagedRanges()
    assert not damages
    assert damages.add(damage(5, 10))
    assert damages
    assert not damages.add(damage(5, 8))
    assert damages.add(damage(5, 10, position=100))


def test_at_most_the_limit_of_damaged_ranges_is_remembered() -> None:
    damages = DamagedRanges()
    assert all(damages.add(damage(offset, offset + 1)) for offset in range(MAX_DAMAGES))
    assert not damages.add(damage(MAX_DAMAGES, MAX_DAMAGES + 1))


def test_the_first_is_the_one_with_the_lowest_offset() -> None:
    damages = DamagedRanges()
    for first in (20, 5, 10):
        damages.add(damage(first, first + 1))
    assert damages.first == damage(5, 6)


def test_a_hole_is_found_by_a_read_that_begins_in_it_or_skips_it() -> None:
    damages = DamagedRanges()
    hole = damage(10, 20)
    damages.holes = [hole]
    assert damages.hole_between(9, 10) is None  # the last record before it
    assert damages.hole_between(9, 20) is hole
    assert damages.hole_between(10, 10) is hole
    assert damages.hole_between(19, 20) is hole
    assert damages.hole_between(20, 20) is None


def test_damage_is_forgotten_with_its_part_of_the_log() -> None:
    damages = DamagedRanges()
    early, late = damage(10, 20), damage(30, 40)
    damages.holes = [early, late]
    assert damages.add(early)
    assert damages.add(late)
    damages.keep(lambda each: each.next_offset > 20)
    assert damages.holes == [late]
    assert damages.first == late
    damages.keep(lambda each: each.first_offset < 30)
    assert not damages
    assert damages.holes == []
    assert damages.add(late)  # which is news again
