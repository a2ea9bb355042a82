"""The metric names in PromQL expressions and in the exposition of a scrape."""

import re
from collections.abc import Iterable

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
LABELS = re.compile(r"\{[^}]*\}|\[[^\]]*\]")
CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
NAME = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*(?!\s*\()(?![\w:])")
KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset"})
TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


def names_in(expression: str) -> set[str]:
    """The metrics that an expression reads."""
    text = CLAUSE.sub(" ", LABELS.sub(" ", STRING.sub('""', expression)))
    return set(NAME.findall(text)) - KEYWORDS


def names_of(scrapes: Iterable[str]) -> set[str]:
    """The series names of scrapes in Prometheus' text format."""
    found = set()
    for scrape in scrapes:
        for name, kind in TYPE.findall(scrape):
            found.update(name + part for part in PARTS.get(kind, ("",)))
    return found
