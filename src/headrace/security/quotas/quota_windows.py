"""The time that quotas are measured over."""

from typing import NamedTuple


class QuotaWindows(NamedTuple):
    """The time that a quota is measured over: `quota.window.num`, `quota.window.size.seconds`."""

    number: int = 11
    size_s: float = 1.0

    @property
    def total_s(self) -> float:
        return self.number * self.size_s
