"""Log directories that refuse appends for lack of space, as events for the log. Pure.

A directory has one line when it becomes full, one a minute while it refuses appends, and one when
it has taken appends again for a moment.
"""

from collections.abc import Iterable, Iterator, Sequence
from logging import INFO, WARNING
from typing import Final, NamedTuple

from headrace.log_event import LogEvent, examples

REMINDER_S: Final = 60.0
QUIET_CHECKS: Final = 2
"""Checks without refused appends before a directory counts as recovered: at the last free bytes,
small appends succeed between large ones that fail."""


class DirectoryState(NamedTuple):
    """What a directory has refused so far, and the logs whose last append it refused."""

    path: str
    refused: int
    full_logs: Sequence[str]
    free_bytes: int | None


class _FullDirectory:
    """A directory that was full at an earlier check."""

    __slots__ = ("at_s", "began_s", "first", "quiet_checks", "refused")

    def __init__(self, first: int, refused: int, now_s: float) -> None:
        self.first = first  # refused before it was full
        self.refused = refused
        self.began_s = self.at_s = now_s
        self.quiet_checks = 0


class FullDirectoryLog:
    """Called periodically with the state of each directory."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._full: dict[str, _FullDirectory] = {}

    def update(self, directories: Iterable[DirectoryState], now_s: float) -> Iterator[LogEvent]:
        """The lines about changes since the last call."""
        for state in directories:
            before = self._known.get(state.path, 0)
            self._known[state.path] = state.refused
            full = self._full.get(state.path)
            if full is None:
                if state.refused > before:
                    self._full[state.path] = _FullDirectory(before, state.refused, now_s)
                    yield _full_event(state, state.refused - before)
                continue
            if state.refused > before or state.full_logs:
                full.quiet_checks = 0
                if now_s - full.at_s >= REMINDER_S and state.refused > full.refused:
                    yield _full_event(state, state.refused - full.refused)
                    full.at_s, full.refused = now_s, state.refused
                continue
            full.quiet_checks += 1
            if full.quiet_checks >= QUIET_CHECKS:
                del self._full[state.path]
                yield _recovered_event(state, full, now_s)


def _full_event(state: DirectoryState, refused: int) -> LogEvent:
    fields = {
        "dir": state.path,
        "free_bytes": state.free_bytes,
        "refused_appends": refused,
        "logs": len(state.full_logs),
        "examples": examples(state.full_logs),
    }
    return LogEvent(WARNING, "log directory full: it refuses appends until there is space", fields)


def _recovered_event(state: DirectoryState, full: _FullDirectory, now_s: float) -> LogEvent:
    fields = {
        "dir": state.path,
        "free_bytes": state.free_bytes,
        "refused_appends": state.refused - full.first,
        "s": round(now_s - full.began_s),
    }
    return LogEvent(INFO, "log directory has space again", fields)
