"""Parses positions in a partition: beginning, end, an offset, the last N records, a time. Pure.

    beginning, start, earliest      the first available record
    end, latest                     after the last record
    1234                            this offset
    -5                              the last 5 records of each partition
    s@2026-01-31T12:00:00Z          the first record at or after this time
    e@2026-01-31T13:00:00Z          stop before the first record at or after this time

A time is milliseconds since 1970, an ISO 8601 date or time (in UTC if it has no time zone), or
relative to now: `-90s`, `-15m`, `-2h`, `-7d`.
"""

import re
from datetime import UTC, datetime
from typing import Final

from headrace.cli.error_messages import usage
from headrace.operations.positions import (
    AtOffset,
    FromBeginning,
    FromEnd,
    LastRecords,
    SinceTime,
    Start,
    UntilTime,
)

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO: Final = re.compile(r"-(\d+)([smhdw])")
_HELP: Final = "beginning, end, OFFSET, -N, s@TIME or e@TIME"


def parse_start(text: str, now_ms: int, *, flag: str = "-o") -> Start:
    """A position to start from. `parse_range` also accepts a position to stop at."""
    parsed = _parse_position(text, now_ms, flag)
    if isinstance(parsed, UntilTime):
        raise usage(f"{flag} {text} is an end position; this command takes only a start position")
    return parsed


def parse_range(texts: list[str], now_ms: int, default: Start) -> tuple[Start, UntilTime | None]:
    """The start and the end position, from any number of -o options."""
    start: Start | None = None
    until: UntilTime | None = None
    for text in texts:
        parsed = _parse_position(text, now_ms, "-o")
        if isinstance(parsed, UntilTime):
            if until is not None:
                raise usage("-o is given with two end positions; use e@TIME once")
            until = parsed
        elif start is not None:
            raise usage("-o is given with two start positions; use one, and e@TIME for the end")
        else:
            start = parsed
    return start or default, until


def _parse_position(text: str, now_ms: int, flag: str) -> Start | UntilTime:
    word = text.strip().lower()
    if word in {"beginning", "start", "earliest", "oldest"}:
        return FromBeginning()
    if word in {"end", "latest", "newest"}:
        return FromEnd()
    if word.isascii() and word.isdecimal():
        return AtOffset(int(word))
    if word[:1] == "-" and word[1:].isascii() and word[1:].isdecimal():
        return LastRecords(int(word[1:]))
    if word.startswith("s@"):
        return SinceTime(parse_time(text.strip()[2:], now_ms, flag))
    if word.startswith("e@"):
        return UntilTime(parse_time(text.strip()[2:], now_ms, flag))
    if word.startswith("@"):
        return SinceTime(parse_time(text.strip()[1:], now_ms, flag))
    raise usage(f"{flag} takes {_HELP}, not {text!r}")


def parse_time(text: str, now_ms: int, flag: str) -> int:
    """The time in milliseconds since 1970."""
    if text.isascii() and text.isdecimal():
        return int(text)
    ago = _AGO.fullmatch(text.lower())
    if ago:
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    if text.lower() == "now":
        return now_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise usage(
            f"{flag}: a time is milliseconds since 1970, a date such as 2026-01-31T12:00:00Z, "
            f"or relative to now such as -2h, not {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_duration_ms(text: str, flag: str) -> int:
    """The milliseconds of `90s`, `15m`, `2h` or `7d`; a number without a unit is seconds."""
    matched = re.fullmatch(r"(\d+)([smhdw]?)", text.strip().lower())
    if matched is None:
        raise usage(f"{flag} takes a duration such as 90s, 15m, 2h or 7d, not {text!r}")
    return int(matched[1]) * _UNIT_MS[matched[2] or "s"]
