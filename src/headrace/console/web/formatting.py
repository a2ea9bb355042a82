"""Numbers, sizes and times as the pages show them. Pure."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

UNKNOWN: Final = "–"
_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHORT_STEP: Final = 1000
_SHORT: Final = ("", "k", "M", "G", "T")
_TEN: Final = 10
_HUNDRED: Final = 100
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def count(value: float | None) -> str:
    """A whole number with separators: 1,234,567."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes with a binary unit: 1.5 MiB."""
    if value is None:
        return UNKNOWN
    amount, unit = float(value), 0
    while abs(amount) >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{_digits(amount) if unit else format(amount, '.0f')} {_UNITS[unit]}"


def short(value: float | None) -> str:
    """A number in a few characters: 12.3k."""
    if value is None:
        return UNKNOWN
    amount, unit = float(value), 0
    while abs(amount) >= _SHORT_STEP and unit < len(_SHORT) - 1:
        amount, unit = amount / _SHORT_STEP, unit + 1
    text = _digits(amount) if unit or amount != int(amount) else f"{amount:.0f}"
    return text + _SHORT[unit]


def rate(value: float | None) -> str:
    """Events a second: 12.3k/s."""
    return UNKNOWN if value is None else f"{short(value)}/s"


def byte_rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{size(value)}/s"


def percent(part: float | None, whole: float | None) -> str:
    return UNKNOWN if part is None or not whole else f"{part * _HUNDRED / whole:.0f} %"


def timestamp(ms: int | None) -> str:
    """Unix milliseconds in UTC with milliseconds; numbers outside the calendar as they are."""
    if ms is None or ms < 0:
        return UNKNOWN
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def iso(ms: int) -> str:
    """For the datetime attribute of a <time>; the script shows the local time with it."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""


def clock_time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S} UTC"


def duration(seconds: float | None) -> str:
    """A time span in one or two units: 2 h 5 min."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{_digits(seconds)} s"
    if seconds < _HOUR_S:
        return _two(seconds, _MINUTE_S, "min", 1, "s")
    if seconds < _DAY_S:
        return _two(seconds, _HOUR_S, "h", _MINUTE_S, "min")
    return _two(seconds, _DAY_S, "d", _HOUR_S, "h")


def setting_duration(ms: str | int | None) -> str:
    """A setting in milliseconds in words, empty if it is none."""
    try:
        value = int(ms or "")
    except ValueError:
        return ""
    return duration(value / 1000) if 0 <= value < 2**62 else ""


def _two(seconds: float, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(int(seconds), large)
    part = rest // small
    return f"{whole} {large_name} {part} {small_name}" if part else f"{whole} {large_name}"


def _digits(amount: float) -> str:
    if abs(amount) >= _HUNDRED:
        return f"{amount:.0f}"
    return f"{amount:.1f}" if abs(amount) >= _TEN else f"{amount:.2f}".rstrip("0").rstrip(".")


def path_segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(text, safe="")


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def compact_json(value: object) -> str:
    """For a data attribute; the template escapes it."""
    return json.dumps(value, separators=(",", ":"))


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "count": count,
    "size": size,
    "short": short,
    "rate": rate,
    "byte_rate": byte_rate,
    "timestamp": timestamp,
    "iso": iso,
    "clock_time": clock_time,
    "duration": duration,
    "setting_duration": setting_duration,
    "path": path_segment,
    "plural": plural,
    "data_json": compact_json,
}
