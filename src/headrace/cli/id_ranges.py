"""Parses lists of ids and ranges, such as `0,2-4`. Pure."""

from typing import Final

from headrace.cli.error_messages import usage

MAX_IDS: Final = 100_000
"""More brokers or partitions than a cluster has; a typing error must not exhaust the memory."""


def parse_ids(text: str | None, noun: str) -> list[int] | None:
    """`0,2-4` as numbers, each once; None if `text` is None."""
    if text is None:
        return None
    chosen: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise usage(f"{noun} are numbers and ranges such as 0,2-4, not {text!r}")
        low, high = int(first), int(last or first)
        if high < low:
            raise usage(f"{noun}: {part.strip()!r} goes backwards; write {high}-{low}")
        if high - low >= MAX_IDS:
            raise usage(f"{noun}: {part.strip()!r} is more than {MAX_IDS} numbers")
        chosen.update(dict.fromkeys(range(low, high + 1)))
    return list(chosen)
