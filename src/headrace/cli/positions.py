"""Where to read from, as people write it: beginning, end, the last N, an offset, a time. Pure.

    beginning, start, earliest      the first record that is kept
    end, latest                     after the last record
    1234                            this offset
    -5                              the last 5 records of each partition
    s@2026-01-31T12:00:00Z          the first record at or after this time
    e@2026-01-31T13:00:00Z          stop before the first record at or after this time

A time is milliseconds since 1970, an ISO 8601 date or time (UTC where it names no zone), or a
time ago as `-90s`, `-15m`, `-2h`, `-7d`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from headrace.cli.exits import usage

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO: Final = re.compile(r"-(\d+)([smhdw])")
_HELP: Final = "beginning, end, OFFSET, -N, s@TIME or e@TIME"


@dataclass(frozen=True, slots=True)
class FromBeginning:
    """The first record that is kept."""


@dataclass(frozen=True, slots=True)
class FromEnd:
    """After the last record."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """This offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRecords:
    """This many records before the end."""

    count: int


@dataclass(frozen=True, slots=True)
class SinceTime:
    """The first record at or after this time."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class UntilTime:
    """Stop at this time."""

    timestamp_ms: int


Start: TypeAlias = FromBeginning | FromEnd | AtOffset | LastRecords | SinceTime


def parse_start(text: str, now_ms: int, *, flag: str = "-o") -> Start:
    """A place to start from; whoever wants to stop somewhere uses `parse_range`."""
    parsed = _parse(text, now_ms, flag)
    if isinstance(parsed, UntilTime):
        raise usage(f"{flag} {text} says where to stop, which has no meaning here")
    return parsed


def parse_range(texts: list[str], now_ms: int, default: Start) -> tuple[Start, UntilTime | None]:
    """Where to start and where to stop, from any number of -o options."""
    start: Start | None = None
    until: UntilTime | None = None
    for text in texts:
        parsed = _parse(text, now_ms, "-o")
        if isinstance(parsed, UntilTime):
            if until is not None:
                raise usage("-o names two ends; give one e@TIME")
            until = parsed
        elif start is not None:
            raise usage("-o names two starts; give one, and e@TIME for the end")
        else:
            start = parsed
    return start or default, until


def _parse(text: str, now_ms: int, flag: str) -> Start | UntilTime:
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
    """Milliseconds since 1970."""
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
            f"{flag}: a time is milliseconds since 1970, a date as 2026-01-31T12:00:00Z, "
            f"or a time ago as -2h, not {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_duration_ms(text: str, flag: str) -> int:
    """`90s`, `15m`, `2h`, `7d`; a bare number is seconds."""
    matched = re.fullmatch(r"(\d+)([smhdw]?)", text.strip().lower())
    if matched is None:
        raise usage(f"{flag} takes a duration as 90s, 15m, 2h or 7d, not {text!r}")
    return int(matched[1]) * _UNIT_MS[matched[2] or "s"]
