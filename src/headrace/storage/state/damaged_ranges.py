"""The damaged ranges of one log. Pure.

The ranges are remembered so that each is logged once, and so that the log can be truncated before
them.
"""

from collections.abc import Callable
from typing import Final

from headrace.storage.state.damage import Damage

MAX_DAMAGES: Final = 1000  # ranges of one log; further ranges are refused, too, but not remembered


class DamagedRanges:
    """The ranges that were found; true if there are any."""

    __slots__ = ("_by_place", "holes")

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], Damage] = {}
        self.holes: list[Damage] = []  # missing or short segments, found at opening

    def __bool__(self) -> bool:
        return bool(self._by_place)

    @property
    def first(self) -> Damage:
        """The range with the lowest offset; there must be one."""
        return min(self._by_place.values(), key=lambda each: each.first_offset)

    def add(self, damage: Damage) -> bool:
        """Remembers the range; returns whether it is new."""
        place = (damage.path, damage.position)
        if place in self._by_place or len(self._by_place) >= MAX_DAMAGES:
            return False
        self._by_place[place] = damage
        return True

    def hole_between(self, offset: int, found: int) -> Damage | None:
        """A missing segment at `offset`, or between it and `found`."""
        for hole in self.holes:
            if hole.first_offset < max(offset + 1, found) and hole.next_offset > offset:
                return hole
        return None

    def keep(self, is_kept: Callable[[Damage], bool]) -> None:
        """Forgets damage in records that are no longer part of the log."""
        self._by_place = {at: each for at, each in self._by_place.items() if is_kept(each)}
        self.holes = [each for each in self.holes if is_kept(each)]
