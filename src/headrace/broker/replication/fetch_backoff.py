"""The pause of a fetcher after an error: it grows up to the setting. Pure."""

from typing import Final

FIRST_BACKOFF_S: Final = 0.02  # a new leader may get the metadata slightly later than its follower


def longer_backoff_s(before_s: float, longest_s: float) -> float:
    """The pause that follows one of `before_s`, which is 0 if there was no error before."""
    return min(max(2 * before_s, FIRST_BACKOFF_S), longest_s)
