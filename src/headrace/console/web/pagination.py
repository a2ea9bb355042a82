"""Pages of a sorted list. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

PAGE_SIZES: Final = (25, 50, 100, 250)
DEFAULT_PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """The rows of one page; numbers begin at 1."""

    rows: Sequence[T]
    number: int
    size: int
    total: int

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def first_row(self) -> int:
        return 0 if not self.total else (self.number - 1) * self.size + 1

    @property
    def last_row(self) -> int:
        return min(self.number * self.size, self.total)

    @property
    def links(self) -> list[int | None]:
        """The page numbers to link: both ends and those around this one; None is a gap."""
        near = {1, self.last, self.number - 1, self.number, self.number + 1}
        shown = sorted(number for number in near if 1 <= number <= self.last)
        links: list[int | None] = []
        for number in shown:
            before = links[-1] if links else None
            if before is not None and number - before > 1:
                links.append(None)
            links.append(number)
        return links


def paged(items: Sequence[T], number: int, size: int) -> Paged[T]:
    """The page with this number, or the last one if there are fewer."""
    size = size if size in PAGE_SIZES else DEFAULT_PAGE_SIZE
    last = max(1, -(-len(items) // size))
    number = min(max(number, 1), last)
    return Paged(items[(number - 1) * size : number * size], number, size, len(items))
