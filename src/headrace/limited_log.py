"""Bounds the lines that clients and peers can cause in a log, and counts what was left out.

Each source (a principal at a host, or a message about a host) has a bucket of lines, and all
sources share another one. A source that floods the log does not silence the others until the shared
bucket is empty. `LineLimit` is pure; `LimitedLog` applies it to a logger.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

BURST_LINES: Final = 50
"""The lines of one source before the limit applies: enough to see what a client tries to do."""
LINES_PER_S: Final = 1.0
"""The lines of one source afterwards."""
TOTAL_BURST_LINES: Final = 1_000
TOTAL_LINES_PER_S: Final = 50.0
"""The lines of all sources: about 1 GB a day at worst."""
MAX_SOURCES: Final = 1_000
"""Sources that are remembered; the one that was quiet for longest is forgotten first."""

MAX_ABOUT_CHARS: Final = 200
"""Of what a line is about, which clients may choose: the sources stay below a megabyte."""

Source = tuple[str, str]
"""A principal and a host, or a sentence and what it is about."""


class _Bucket:
    """A number of lines that grows with time."""

    __slots__ = ("_at_s", "_burst", "_lines", "_per_s")

    def __init__(self, burst: float, per_s: float, now_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._lines, self._at_s = burst, now_s

    def refill(self, now_s: float) -> bool:
        """Adds the lines of the time since the last call; returns whether there is one."""
        self._lines = min(self._burst, self._lines + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._lines >= 1

    def take(self) -> None:
        self._lines -= 1


class _Source:
    """The bucket of one source, and its lines that were left out since the last one."""

    __slots__ = ("bucket", "left_out")

    def __init__(self, burst: float, per_s: float, now_s: float) -> None:
        self.bucket = _Bucket(burst, per_s, now_s)
        self.left_out = 0


class LineLimit:
    """The limit of one log."""

    def __init__(
        self, now_s: float, *, burst: float = BURST_LINES, per_s: float = LINES_PER_S
    ) -> None:
        """`burst` and `per_s` are the lines of one source."""
        self._burst, self._per_s = burst, per_s
        self._sources: OrderedDict[Source, _Source] = OrderedDict()
        self._total = _Bucket(TOTAL_BURST_LINES, TOTAL_LINES_PER_S, now_s)
        self._forgotten = 0

    def admit(self, source: Source, now_s: float) -> int | None:
        """None if the line must be left out; else how many lines of the source were left out
        since its last one."""
        found = self._sources.get(source)
        if found is None:
            found = self._sources[source] = _Source(self._burst, self._per_s, now_s)
            if len(self._sources) > MAX_SOURCES:
                self._forgotten += self._sources.popitem(last=False)[1].left_out
        else:
            self._sources.move_to_end(source)
        has_own, has_shared = found.bucket.refill(now_s), self._total.refill(now_s)
        if not (has_own and has_shared):
            found.left_out += 1
            return None
        found.bucket.take()
        self._total.take()
        left_out, found.left_out = found.left_out, 0
        return left_out

    def take_left_out(self) -> Iterator[tuple[Source | None, int]]:
        """The sources with lines that were left out and not reported yet, with their numbers;
        the source is None for forgotten ones."""
        for source, state in self._sources.items():
            if state.left_out:
                number, state.left_out = state.left_out, 0
                yield source, number
        if self._forgotten:
            number, self._forgotten = self._forgotten, 0
            yield None, number


class LimitedLog:
    """A logger for lines that clients or peers can cause at will.

    A line after lines that were left out has their number in the field `left_out`.
    """

    def __init__(
        self,
        log: logging.Logger,
        monotonic: Callable[[], float],
        limit: LineLimit | None = None,
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._limit = limit or LineLimit(monotonic())

    def admit(self, source: Source) -> int | None:
        """None if a line about this source must be left out; see `LineLimit.admit`."""
        return self._limit.admit(source, self._monotonic())

    def info(self, sentence: str, about: str, **fields: object) -> None:
        """An event about `about`, usually a host."""
        self._write(logging.INFO, sentence, about, fields)

    def warning(self, sentence: str, about: str, **fields: object) -> None:
        """A problem with `about`, usually a host."""
        self._write(logging.WARNING, sentence, about, fields)

    def error(self, sentence: str, about: str, **fields: object) -> None:
        """An error about `about`."""
        self._write(logging.ERROR, sentence, about, fields)

    def _write(self, level: int, sentence: str, about: str, fields: dict[str, object]) -> None:
        if not self._log.isEnabledFor(level):
            return
        left_out = self.admit((sentence, about[:MAX_ABOUT_CHARS]))
        if left_out is None:
            return
        if left_out:
            fields["left_out"] = left_out
        self._log.log(level, sentence, extra=fields)

    def report_left_out(self) -> None:
        """Logs how many lines were left out since the last line about the same."""
        for source, number in self._limit.take_left_out():
            sentence, about = source or ("-", "-")
            self._log.info(
                "log lines were left out",
                extra={"line": sentence, "about": about, "left_out": number},
            )
