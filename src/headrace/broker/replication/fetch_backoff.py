"""How long a fetcher waits after trouble: longer each time, up to the setting. Pure."""

from typing import Final

FIRST_BACKOFF_S: Final = 0.02  # who leads now may hear of it a moment later than who follows


def longer_backoff_s(before_s: float, longest_s: float) -> float:
    """The pause after one of `before_s`, which is 0 if all was well."""
    return min(max(2 * before_s, FIRST_BACKOFF_S), longest_s)
