"""What is known to be damaged in one log. Pure.

Places are remembered so that each is told once, and so that the log can be cut back to what holds.
"""

from collections.abc import Callable
from typing import Final

from headrace.storage.state.damage import Damage

MAX_DAMAGES: Final = 1000  # of one log; more are refused to readers, but not remembered


class DamagedRanges:
    """The places that were found; true if there are any."""

    __slots__ = ("_by_place", "holes")

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], Damage] = {}
        self.holes: list[Damage] = []  # segments that are gone or too short, found at the opening

    def __bool__(self) -> bool:
        return bool(self._by_place)

    @property
    def first(self) -> Damage:
        """The one with the lowest offset; there must be one."""
        return min(self._by_place.values(), key=lambda each: each.first_offset)

    def add(self, damage: Damage) -> bool:
        """Whether it is news, and is remembered."""
        place = (damage.path, damage.position)
        if place in self._by_place or len(self._by_place) >= MAX_DAMAGES:
            return False
        self._by_place[place] = damage
        return True

    def hole_between(self, offset: int, found: int) -> Damage | None:
        """A segment that is gone at `offset`, or between it and `found`."""
        for hole in self.holes:
            if hole.first_offset < max(offset + 1, found) and hole.next_offset > offset:
                return hole
        return None

    def keep(self, is_kept: Callable[[Damage], bool]) -> None:
        """Forgets damage in what is not part of the log any more."""
        self._by_place = {at: each for at, each in self._by_place.items() if is_kept(each)}
        self.holes = [each for each in self.holes if is_kept(each)]
