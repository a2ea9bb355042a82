"""A digest of all events of a simulation: two runs with the same digest are the same run."""

from collections import deque
from hashlib import blake2b
from typing import Final

KEPT_EVENTS: Final = 400
"""The number of last events that are kept as text, to analyse a failure."""


class Trace:
    """Records every event, in order: loop iterations, deliveries, file changes, faults."""

    def __init__(self, *, keep: int = KEPT_EVENTS) -> None:
        self._hash = blake2b(digest_size=16)
        self.events = 0
        self.recent: deque[str] = deque(maxlen=keep)

    def note(self, event: str) -> None:
        """Records a rare event; it is also kept as a line of text."""
        self.events += 1
        self._hash.update(event.encode())
        self.recent.append(event)

    def count(self, now: float, what: str, size: int) -> None:
        """Records a frequent event: it enters the digest, but no line is kept."""
        self.events += 1
        self._hash.update(b"%s %r %d\n" % (what.encode(), now, size))

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
