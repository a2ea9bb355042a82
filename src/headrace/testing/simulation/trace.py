"""What happened in a simulation, as one number: two runs with the same number were the same run."""

from collections import deque
from hashlib import blake2b
from typing import Final

KEPT_EVENTS: Final = 400
"""The last events stay readable, for whoever asks how it came to this."""


class Trace:
    """Takes in every event, in order: turns of loops, deliveries, changes of files, faults."""

    def __init__(self, *, keep: int = KEPT_EVENTS) -> None:
        self._hash = blake2b(digest_size=16)
        self.events = 0
        self.recent: deque[str] = deque(maxlen=keep)

    def note(self, event: str) -> None:
        """A rare event, worth a line."""
        self.events += 1
        self._hash.update(event.encode())
        self.recent.append(event)

    def count(self, now: float, what: str, size: int) -> None:
        """One of the very many: it goes into the number, and not into the lines."""
        self.events += 1
        self._hash.update(b"%s %r %d\n" % (what.encode(), now, size))

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
