"""Quotas in words: entities, limits and byte rates. Pure."""

from typing import Final

from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

BYTE_RATES: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
_LABELS: Final = {USER: "user", CLIENT_ID: "client", IP: "ip"}
_UNITS: Final = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30,
}  # fmt: skip
_SHOWN: Final = ("GiB", 2**30), ("MiB", 2**20), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)


def read_byte_rate(text: str) -> int | None:
    """`50M` as bytes per second; the units are k, M and G, and ki, Mi and Gi. None if invalid."""
    lowered = text.strip().lower().removesuffix("/s").removesuffix("b")
    number = lowered.rstrip("kmgi")
    try:
        rate = int(float(number) * _UNITS[lowered[len(number) :]])
    except (ValueError, KeyError, OverflowError):
        return None
    return rate if rate > 0 else None


def show_byte_rate(rate: float) -> str:
    """`1MB/s`: a whole number in the largest unit that fits, so that no digit is lost."""
    for unit, factor in _SHOWN:
        if rate >= factor and not rate % factor:
            return f"{rate / factor:.0f}{unit}/s"
    return f"{rate:.0f}B/s"


def show_entity(entity: QuotaEntity) -> str:
    """`user alice, client app`, with the user first."""
    return ", ".join(
        f"default {_LABELS[type_]}" if name is None else f"{_LABELS[type_]} {name}"
        for type_, name in sorted(entity.parts, reverse=True)
    )


def show_limit(key: str, value: float) -> str:
    if key in BYTE_RATES:
        return show_byte_rate(value)
    return f"{value:g}%" if key == REQUEST_PERCENTAGE else f"{value:g}/s"
