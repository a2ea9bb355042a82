"""Timestamps in milliseconds since 1970, printed in UTC. Pure."""

from datetime import UTC, datetime


def utc_time(timestamp_ms: int) -> datetime:
    """The time in UTC, exact to the millisecond."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)


def iso_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, as 2026-01-31T12:00:00.000Z."""
    return utc_time(timestamp_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
