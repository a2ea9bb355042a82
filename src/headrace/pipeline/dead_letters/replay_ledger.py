"""The ledger of replayed dead letters: the topic `<topic>.replayed`.

A replay writes its entries in the transaction that sends the records, so an entry exists if and
only if its records do. Entries list individual offsets, because a replay may select some letters
only. Unlike a group's offsets, they do not expire. They also contain the id of the dead-letter
topic: in a topic that was deleted and created again, the same offset is another letter.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.source.admin import LogAdmin, TopicLayout, all_partitions
from headrace.pipeline.source.plain_records import read_records
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.records.record import Record

TOPIC_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "delete", "retention.ms": "-1"}
PARTITIONS: Final = 1

Span = tuple[int, int]
"""The first and the last of consecutive offsets."""


def ledger_topic(topic: str) -> str:
    return f"{topic}.replayed"


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same offsets in as few spans as possible, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


class ReplayLedger:
    """The replayed letters of one topic."""

    def __init__(self, spans: Mapping[int, Iterable[Span]] | None = None) -> None:
        self._spans = {partition: joined(of) for partition, of in (spans or {}).items()}

    @classmethod
    def of(cls, entries: "Iterable[ReplayEntry]") -> "ReplayLedger":
        spans: dict[int, list[Span]] = {}
        for entry in entries:
            spans.setdefault(entry.partition, []).extend(entry.spans)
        return cls(spans)

    def __contains__(self, letter: Letter) -> bool:
        spans = self._spans.get(letter.at.partition, ())
        at = bisect_right(spans, letter.offset, key=lambda span: span[0]) - 1
        return at >= 0 and letter.offset <= spans[at][1]


class ReplayEntry(NamedTuple):
    """What one transaction of a replay has sent: the audit record of its letters."""

    time_ms: int
    by: str
    """The user or program; empty for releases that did not say."""
    partition: int
    spans: tuple[Span, ...]

    @property
    def letters(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)


def entries(topic_id: bytes, letters: Sequence[Letter], now_ms: int, by: str = "") -> list[Record]:
    """The ledger's records for the letters that a transaction sends."""
    by_partition: dict[int, list[Span]] = {}
    for letter in letters:
        by_partition.setdefault(letter.at.partition, []).append((letter.offset, letter.offset))
    return [
        Record(
            0,
            now_ms,
            str(partition).encode(),
            json.dumps(
                {
                    "topic_id": topic_id.hex(),
                    "partition": partition,
                    "offsets": joined(spans),
                    **({"by": by} if by else {}),
                }
            ).encode(),
        )
        for partition, spans in sorted(by_partition.items())
    ]


def read_ledger(
    settings: ReadSettings, topic: str, layout: TopicLayout, *, to_the_end: bool
) -> ReplayLedger:
    """Reads the ledger. `to_the_end` waits until transactions that write to it have ended."""
    return ReplayLedger.of(read_entries(settings, topic, layout, to_the_end=to_the_end))


def read_entries(
    settings: ReadSettings, topic: str, layout: TopicLayout, *, to_the_end: bool
) -> Iterator[ReplayEntry]:
    """The ledger's entries, oldest first; those of an earlier topic of the same name are left
    out."""
    admin = LogAdmin(settings._replace(read_committed=not to_the_end))
    name = ledger_topic(topic)
    partitions = all_partitions(admin.topics(lambda each: each == name))
    if not partitions:
        return
    first, last = admin.earliest(partitions), admin.latest(partitions)
    ranges = [OffsetRange(*each, first[each], last[each]) for each in partitions]
    for at, record in read_records(ranges, settings._replace(read_committed=True)):
        entry = _entry(at, record.timestamp, record.value, layout.topic_id)
        if entry is not None:
            yield entry


def _entry(
    at: TopicPartition, time_ms: int, value: bytes | None, topic_id: bytes
) -> ReplayEntry | None:
    try:
        entry = json.loads(value or b"")
        if entry["topic_id"] != topic_id.hex():
            return None
        spans = tuple((int(first), int(last)) for first, last in entry["offsets"])
        return ReplayEntry(time_ms, str(entry.get("by", "")), int(entry["partition"]), spans)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadFailed(
            f"{at} holds a record that no replay has written ({error}). Nothing is sent again "
            "while it is unclear what was: delete that record, or replay from a copy"
        ) from None
