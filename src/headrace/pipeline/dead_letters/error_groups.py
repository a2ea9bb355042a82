"""Groups dead letters by error, with counts, times and samples. Pure.

Messages for the same error differ in numbers, names and values. They are therefore grouped by
pattern: the message without quoted texts and without words that contain digits.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.headers import Facts

SAMPLES: Final = 3
MAX_PATTERN: Final = 160
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_NUMBER: Final = re.compile(r"\b\w*\d\w*(?:[.:+-]\w+)*")


@dataclass(slots=True)
class ErrorGroup:
    """Letters of one pipeline and source (a topic or a directory) with the same error."""

    pipeline: str
    source: str
    error: str
    pattern: str
    count: int = 0
    replayed: int = 0
    first_ms: int = 0
    last_ms: int = 0
    most_attempts: int = 0
    samples: list[Letter] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The `group_key` of its letters."""
        return (self.pipeline, self.source, self.error, self.pattern)


def pattern_of(message: str) -> str:
    """The message without the parts that differ from record to record."""
    text = _NUMBER.sub("#", _QUOTED.sub("…", " ".join(message.split())))
    return text if len(text) <= MAX_PATTERN else text[: MAX_PATTERN - 1] + "…"


def group_key(facts: Facts) -> tuple[str, str, str, str]:
    """Pipeline, source, error and pattern: letters with the same key are in one group."""
    return (facts.pipeline, facts.source, facts.error, pattern_of(facts.message))


def grouped(
    letters: Iterable[Letter], is_replayed: Callable[[Letter], bool], samples: int = SAMPLES
) -> list[ErrorGroup]:
    """The groups, largest first."""
    groups: dict[tuple[str, str, str, str], ErrorGroup] = {}
    for letter in letters:
        facts = letter.facts
        key = group_key(facts)
        group = groups.get(key)
        if group is None:
            group = groups[key] = ErrorGroup(*key, first_ms=letter.record.timestamp)
        group.count += 1
        group.replayed += is_replayed(letter)
        group.first_ms = min(group.first_ms, letter.record.timestamp)
        group.last_ms = max(group.last_ms, letter.record.timestamp)
        group.most_attempts = max(group.most_attempts, facts.attempts)
        if len(group.samples) < samples:
            group.samples.append(letter)
    return sorted(groups.values(), key=lambda each: (-each.count, each.error, each.pattern))
