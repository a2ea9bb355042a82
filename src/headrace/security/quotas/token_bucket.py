"""A token bucket: it limits changes of topics, where one request may be a large burst. Pure.

Kafka's rule (KIP-599): the bucket fills at the quota's rate up to a burst. Tokens may become
negative: a change is accepted if the bucket is not below zero, whatever its size, and then the
bucket has to fill up again.
"""

from typing import Final

_FULL: Final = float("inf")


class TokenBucket:
    """The tokens of one quota's user. A new bucket is full."""

    __slots__ = ("_tokens", "_updated_s")

    def __init__(self) -> None:
        self._tokens = _FULL  # the first refill limits them to the burst
        self._updated_s = 0.0

    def tokens(self, rate: float, burst: float, now_s: float) -> float:
        """The tokens at this time; they are below zero while the quota is exceeded."""
        elapsed_s = max(0.0, now_s - self._updated_s)
        self._tokens = min(burst, self._tokens + rate * elapsed_s)
        self._updated_s = now_s
        return self._tokens

    def take(self, tokens: float, rate: float, burst: float, now_s: float) -> float:
        """Takes tokens, also if there are too few; returns the rest."""
        self._tokens = self.tokens(rate, burst, now_s) - tokens
        return self._tokens

    def is_full_after(self, fill_s: float, now_s: float) -> bool:
        """Whether the bucket was at zero or above `fill_s` ago, and has not been used since."""
        return self._tokens >= 0 and now_s - self._updated_s >= fill_s
