"""Replays dead letters to their topics, each exactly once, even if the replay is killed.

Every transaction sends records and adds their dead letters to the ledger. It also commits the
offset of the first letter that is not replayed, for the group `<topic>.replay`, where any tool can
read it. A replay that starts again reads the ledger and continues with the letters that are not in
it. Two replays cannot run at the same time: the later one fences the earlier one.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_reader import Letter, letter_ranges, read_letters
from headrace.pipeline.dead_letters.filter import Condition, Filter
from headrace.pipeline.dead_letters.headers import replayed_headers
from headrace.pipeline.dead_letters.python_fix import (
    DraftRecord,
    Fix,
    NotFixed,
    as_bytes,
    checked_headers,
    unchanged,
)
from headrace.pipeline.dead_letters.replay_ledger import (
    PARTITIONS,
    TOPIC_CONFIGS,
    ReplayLedger,
    entries,
    ledger_topic,
    read_ledger,
)
from headrace.pipeline.producer import ProducerSettings, TransactionalProducer
from headrace.pipeline.producer.batch_sender import (
    TransactionIdentity,
    size_of,
    transactional_batch,
)
from headrace.pipeline.producer.internal_topics import ensure_topic
from headrace.pipeline.source.admin import LogAdmin, TopicLayout
from headrace.pipeline.source.settings import ReadFailed
from headrace.records.partitioner import partition_for_key
from headrace.records.record import Record

LETTERS_AT_A_TIME: Final = 500
"""The limit of one transaction. It bounds the repeated work after a crash, and memory."""
BYTES_AT_A_TIME: Final = 32 << 20
TRANSACTION_TIMEOUT_MS: Final = 60_000
SAMPLES: Final = 10
RETENTION: Final = "retention.ms"
SPARE_MS: Final = 86_400_000
EVERYTHING: Final = Filter()
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
NO_LIMIT: Final = 1 << 62
_NOBODY: Final = TransactionIdentity("", 0, 0, implicit=True)


@dataclass(frozen=True, slots=True)
class Request:
    """The letters to replay, and how."""

    topic: str
    where: Condition = EVERYTHING
    limit: int | None = None
    to: str | None = None
    """The topic to send to, if it is not the source topic of the record."""
    fix: Fix = unchanged
    by: str = ""
    """The user or program that replays, for the ledger."""


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay or of a dry run."""

    matched: int = 0
    done_before: int = 0
    """The number of matching letters that an earlier replay has sent."""
    sent: Counter[str] = field(default_factory=Counter)
    """The number of records sent, by topic."""
    not_fixed: int = 0
    samples: list[tuple[Letter, DraftRecord | NotFixed]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.sent.total()


class _Ready(NamedTuple):
    letter: Letter
    draft: DraftRecord
    into: TopicPartition
    record: Record


class Replay:
    """One replay of one dead-letter topic."""

    def __init__(self, request: Request, settings: ProducerSettings) -> None:
        self._request = request
        self._settings = settings._replace(transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._reading = settings.reading()
        self._admin = LogAdmin(self._reading)
        self._layouts: dict[str, TopicLayout] = {}
        self._kept: dict[str, float] = {}
        self._limits: dict[str, int] = {}
        self.outcome = ReplayResult()

    def dry_run(self) -> ReplayResult:
        """The result that `execute` would have now."""
        layout = self._layout(self._request.topic)
        ledger = read_ledger(self._reading, self._request.topic, layout, to_the_end=False)
        ranges = letter_ranges(self._admin, self._request.topic)
        for letters in self._pieces(ranges, ledger, _Waiting()):
            for ready in self._prepared(letters):
                self.outcome.sent[ready.into.topic] += 1
        return self.outcome

    def execute(
        self, report_progress: Callable[[ReplayResult], None] = lambda outcome: None
    ) -> ReplayResult:
        """Sends the letters; calls `report_progress` after each transaction."""
        topic = self._request.topic
        layout = self._layout(topic)
        with TransactionalProducer(self._settings, _group(topic)) as producer:
            # First fence other replays and end their transactions, then read the ledger.
            producer.init()
            producer.call(self._make_ledger)
            ledger = read_ledger(self._reading, topic, layout, to_the_end=True)
            waiting = _Waiting()
            ranges = letter_ranges(self._admin, topic)
            for letters in self._pieces(ranges, ledger, waiting):
                ready = self._prepared(letters)
                sent = {(each.letter.at, each.letter.offset) for each in ready}
                waiting.add_unsent(each for each in letters if (each.at, each.offset) not in sent)
                if ready:
                    self._send(producer, ready, layout, waiting)
                    report_progress(self.outcome)
        if self._request.limit is None:
            self._admin.commit(_group(topic), waiting.final_offsets(ranges))
        return self.outcome

    def _send(
        self,
        producer: TransactionalProducer,
        ready: Sequence[_Ready],
        layout: TopicLayout,
        waiting: "_Waiting",
    ) -> None:
        topic = self._request.topic
        now_ms = time.time_ns() // 1_000_000
        for each in ready:
            record = each.record
            if record.timestamp < now_ms - self._kept_ms(producer, each.into.topic):
                # Its topic would delete it before a reader gets it; a header keeps its time.
                record = record._replace(timestamp=now_ms)
            most = self._limit(each.into.topic) * 9 // 10  # a batch has a header, too
            producer.produce(*each.into, [record], batch_bytes=most)
        done = [each.letter for each in ready]
        producer.produce(
            ledger_topic(topic), 0, entries(layout.topic_id, done, now_ms, self._request.by)
        )
        producer.send_offsets(_group(topic), waiting.offsets_after(done))
        producer.commit()
        self.outcome.sent.update(each.into.topic for each in ready)

    def _kept_ms(self, producer: TransactionalProducer, topic: str) -> float:
        """The topic's retention time, less one day for consumers to read the records."""
        if topic not in self._kept:
            self._kept[topic] = producer.call(lambda client: self._retention(client, topic))
        return self._kept[topic]

    async def _retention(self, client: ClusterClient, topic: str) -> float:
        resource = Resource(ResourceKind.TOPIC, topic)
        found = await describe_configs(
            client, [resource], timeout_s=self._settings.delivery_timeout_s, names=[RETENTION]
        )
        entries = found[resource]
        if isinstance(entries, Refusal):
            return 0.0
        kept = next((int(each.value or -1) for each in entries if each.name == RETENTION), -1)
        return math.inf if kept < 0 else max(0.0, kept - SPARE_MS)

    # --- selection -------------------------------------------------------------------------------

    def _pieces(
        self, ranges: Sequence[OffsetRange], ledger: ReplayLedger, waiting: "_Waiting"
    ) -> Iterator[list[Letter]]:
        """The letters to send, in groups of one transaction each."""
        chosen = islice(self._chosen(ranges, ledger, waiting), self._request.limit)
        piece: list[Letter] = []
        size = 0
        for letter in chosen:
            piece.append(letter)
            size += len(letter.record.value or b"") + len(letter.record.key or b"")
            if len(piece) >= LETTERS_AT_A_TIME or size >= BYTES_AT_A_TIME:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece

    def _chosen(
        self, ranges: Sequence[OffsetRange], ledger: ReplayLedger, waiting: "_Waiting"
    ) -> Iterator[Letter]:
        for letter in read_letters(self._reading, ranges):
            matches = self._request.where(letter)
            self.outcome.matched += matches
            if letter in ledger:
                self.outcome.done_before += matches
            elif matches:
                yield letter
            else:
                waiting.add_unsent([letter])

    # --- records to send -------------------------------------------------------------------------

    def _prepared(self, letters: Sequence[Letter]) -> list[_Ready]:
        ready = []
        for letter, draft in zip(letters, self._request.fix(letters), strict=True):
            made: DraftRecord | NotFixed = draft
            if isinstance(draft, DraftRecord):
                try:
                    ready.append(self._ready(letter, draft))
                except NotFixed as reason:
                    made = reason
            if isinstance(made, NotFixed):
                self.outcome.not_fixed += 1
            if len(self.outcome.samples) < SAMPLES:
                self.outcome.samples.append((letter, made))
        return ready

    def _ready(self, letter: Letter, draft: DraftRecord) -> _Ready:
        facts = letter.facts
        topic = self._request.to or facts.topic
        if not topic and facts.file:
            raise NotFixed(
                f"it was in {facts.place}, not in a topic: put it into a new file of the "
                "pipeline's source, or name a topic with --to"
            )
        if not topic:
            raise NotFixed("it does not say which topic it came from: name one with --to")
        if topic == self._request.topic:
            raise NotFixed(f"{topic} is the dead-letter topic itself: name another one with --to")
        key, value = as_bytes(draft.key, "key"), as_bytes(draft.value, "value")
        count = len(self._layout(topic).partitions)
        if facts.partition in range(count) and topic == facts.topic and key == letter.record.key:
            partition = facts.partition
        elif key is not None:
            partition = partition_for_key(key, count)
        else:
            partition = max(0, facts.partition) % count
        headers = (
            *checked_headers(draft.headers),
            *replayed_headers(letter.record.headers, *letter.at, letter.offset),
        )
        stamp_ms = facts.timestamp_ms if facts.timestamp_ms >= 0 else letter.record.timestamp
        record = Record(0, stamp_ms, key, value, headers)
        self._check_size(record, topic)
        return _Ready(letter, draft, TopicPartition(topic, partition), record)

    def _check_size(self, record: Record, topic: str) -> None:
        """Raises `NotFixed` for a record that the topic would reject with its whole transaction."""
        limit = self._limit(topic)
        if size_of(record) < limit // 2:
            return
        size = len(transactional_batch([record], _NOBODY, 0, self._settings))
        if size > limit:
            raise NotFixed(
                f"with its headers it has {size} bytes, and {topic} takes {limit} "
                "(max.message.bytes): raise that for the replay, or make the record smaller"
            )

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            found = self._admin.topic_config(topic, MAX_MESSAGE_BYTES)
            self._limits[topic] = int(found) if found else NO_LIMIT
        return self._limits[topic]

    def _layout(self, topic: str) -> TopicLayout:
        if topic not in self._layouts:
            found = self._admin.topics(lambda name: name == topic)
            if topic not in found:
                raise ReadFailed(f"there is no topic {topic}")
            self._layouts.update(found)
        return self._layouts[topic]

    async def _make_ledger(self, client: ClusterClient) -> None:
        name = ledger_topic(self._request.topic)
        timeout_s = self._settings.delivery_timeout_s
        await ensure_topic(client, name, TOPIC_CONFIGS, timeout_s, partitions=PARTITIONS)


def _group(topic: str) -> str:
    return f"{topic}.replay"


class _Waiting:
    """The first letter of each partition that is not replayed."""

    def __init__(self) -> None:
        self._first: dict[TopicPartition, int] = {}

    def add_unsent(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            at = self._first.get(letter.at, letter.offset)
            self._first[letter.at] = min(at, letter.offset)

    def offsets_after(self, done: Sequence[Letter]) -> dict[TopicPartition, int]:
        """The group's offsets after these letters are sent."""
        behind: dict[TopicPartition, int] = {}
        for letter in done:
            behind[letter.at] = max(behind.get(letter.at, 0), letter.offset + 1)
        return {each: min(self._first.get(each, end), end) for each, end in behind.items()}

    def final_offsets(self, ranges: Sequence[OffsetRange]) -> dict[TopicPartition, int]:
        """The group's offsets at the end of the replay."""
        return {
            each.topic_partition: self._first.get(each.topic_partition, each.end) for each in ranges
        }
