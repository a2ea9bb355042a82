"""Bytes per second, as people write and read them. Pure."""

from typing import Final

from headrace.cli.error_messages import usage

_FACTORS: Final = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30,
}  # fmt: skip
_SHOWN: Final = ("GiB", 2**30), ("MiB", 2**20), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)


def parse_byte_rate(text: str, option: str) -> int:
    """`50M` as bytes per second; the units are k, M and G, and ki, Mi and Gi."""
    lowered = text.strip().lower().removesuffix("/s").removesuffix("b")
    number = lowered.rstrip("kmgi")
    unit = lowered[len(number) :]
    try:
        rate = int(float(number) * _FACTORS[unit])
    except (ValueError, KeyError, OverflowError):
        rate = 0
    if rate <= 0:
        raise usage(f"{option} takes bytes per second, such as 50M or 800k, not {text!r}")
    return rate


def show_byte_rate(rate: float) -> str:
    """`1MB/s`: a whole number in the largest unit that fits, so that no digit is lost."""
    for unit, factor in _SHOWN:
        if rate >= factor and not rate % factor:
            return f"{rate / factor:.0f}{unit}/s"
    return f"{rate:.0f}B/s"
