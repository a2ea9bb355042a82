"""One event for an operator, as a value: pure code returns it, and its caller logs it."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

MAX_EXAMPLES: Final = 5
"""The partitions that a summary names: enough to recognise the topic, few enough for one line."""


class LogEvent(NamedTuple):
    """A line of the log: its level, its fixed sentence and its fields."""

    level: int
    sentence: str
    fields: Mapping[str, object]


def write_events(log: logging.Logger, events: Iterable[LogEvent]) -> None:
    """Logs the events in their order."""
    for level, sentence, fields in events:
        log.log(level, sentence, extra=dict(fields))


def examples(names: Sequence[str], total: int | None = None) -> str:
    """The first of these names, and how many more there are; `total` counts also those that are
    not in `names`."""
    shown = names[:MAX_EXAMPLES]
    more = (len(names) if total is None else total) - len(shown)
    text = ", ".join(shown)
    return f"{text} and {more} more" if more > 0 else text
