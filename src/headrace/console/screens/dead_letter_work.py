"""Reads and replays dead letters with the pipelines' code. Its functions block: call them in
threads."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.client.login.security import Security
from headrace.console.web.errors import PageError
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_reader import Letter, letter_ranges, read_letters
from headrace.pipeline.dead_letters.error_groups import ErrorGroup, grouped
from headrace.pipeline.dead_letters.replay import Replay, ReplayResult, Request
from headrace.pipeline.dead_letters.replay_ledger import (
    ReplayEntry,
    ReplayLedger,
    read_entries,
    read_ledger,
)
from headrace.pipeline.producer import ProducerFailed, ProducerSettings
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.settings import ReadFailed, ReadSettings

CLIENT_ID: Final = "headrace-console"
PAGE_TIMEOUT_S: Final = 10.0
MAX_SCANNED: Final = 50_000
"""The newest letters that are grouped. A replay is not limited by it."""
AUDIT_ENTRIES: Final = 50
MAX_LISTED: Final = 200
MAX_LISTED_BYTES: Final = 16 << 20
"""A page of letters must not fill the memory: one value may have many megabytes."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The groups of a topic, and the latest replays."""

    groups: Sequence[ErrorGroup]
    scanned: int
    skipped: int
    """Older records that were not read."""
    other: int
    """Records that are no dead letters."""
    audit: Sequence[ReplayEntry]


@contextmanager
def pipeline_errors() -> Iterator[None]:
    """Turns the errors of pipelines' code into `PageError`."""
    try:
        yield
    except (ProducerFailed, ReadFailed) as error:
        text = str(error)
        if "AUTHORIZATION_FAILED" in text:
            raise PageError(403, "Not permitted", text) from error
        raise PageError(502, "The dead letters cannot be read", text, retry=True) from error


def settings_of(servers: str, security: Security) -> ProducerSettings:
    return ProducerSettings(servers, security=security, client_id=CLIENT_ID)


def reading_of(servers: str, security: Security) -> ReadSettings:
    """For pages, which must not wait as long as pipelines do."""
    settings = settings_of(servers, security).reading()
    return settings._replace(api_timeout_s=PAGE_TIMEOUT_S, request_timeout_s=PAGE_TIMEOUT_S)


def scan(servers: str, security: Security, topic: str) -> Findings:
    """Groups the newest letters of the topic."""
    with pipeline_errors():
        settings = reading_of(servers, security)
        admin = LogAdmin(settings)
        layout = admin.topics(lambda name: name == topic).get(topic)
        if layout is None:
            raise PageError(404, "No such topic", f"There is no topic {topic!r}.")
        entries = list(read_entries(settings, topic, layout, to_the_end=False))
        ledger = ReplayLedger.of(entries)
        ranges = letter_ranges(admin, topic)
        share = max(1, MAX_SCANNED // len(ranges))
        newest = [each._replace(start=max(each.start, each.end - share)) for each in ranges]
        counts = {"scanned": 0, "other": 0}

        def letters() -> Iterator[Letter]:
            for letter in read_letters(settings, newest):
                counts["scanned"] += 1
                if is_letter(letter):
                    yield letter
                else:
                    counts["other"] += 1

        groups = grouped(letters(), lambda letter: letter in ledger, samples=0)
        skipped = sum(new.start - old.start for new, old in zip(newest, ranges, strict=True))
        audit = list(deque(entries, AUDIT_ENTRIES))
        return Findings(groups, counts["scanned"], skipped, counts["other"], audit[::-1])


def is_letter(letter: Letter) -> bool:
    facts = letter.facts
    return bool(facts.topic or facts.file or facts.error)


def list_letters(
    servers: str,
    security: Security,
    topic: str,
    wanted: Callable[[Letter], bool],
    limit: int = MAX_LISTED,
) -> list[tuple[Letter, bool]]:
    """The first letters that are wanted, and whether each was replayed."""
    with pipeline_errors():
        settings = reading_of(servers, security)
        admin = LogAdmin(settings)
        layout = admin.topics(lambda name: name == topic).get(topic)
        if layout is None:
            raise PageError(404, "No such topic", f"There is no topic {topic!r}.")
        ledger = read_ledger(settings, topic, layout, to_the_end=False)
        found = (
            each for each in read_letters(settings, letter_ranges(admin, topic)) if wanted(each)
        )
        return [(each, each in ledger) for each in islice(found, limit)]


def one_letter(
    servers: str, security: Security, topic: str, partition: int, offset: int
) -> tuple[Letter, bool]:
    """The letter at this position; raises `PageError` if there is none."""
    with pipeline_errors():
        settings = reading_of(servers, security)
        admin = LogAdmin(settings)
        layout = admin.topics(lambda name: name == topic).get(topic)
        known = {each.partition: each for each in letter_ranges(admin, topic)} if layout else {}
        span = known.get(partition)
        if layout is None or span is None or not span.start <= offset < span.end:
            raise PageError(404, "No such record", f"{topic}-{partition} has no offset {offset}.")
        ledger = read_ledger(settings, topic, layout, to_the_end=False)
        for letter in read_letters(settings, [OffsetRange(topic, partition, offset, offset + 1)]):
            if letter.offset == offset:
                return letter, letter in ledger
        raise PageError(404, "No such record", f"{topic}-{partition} has no record at {offset}.")


def dry_run(servers: str, security: Security, request: Request) -> ReplayResult:
    """What a replay would send now."""
    with pipeline_errors():
        return Replay(request, settings_of(servers, security)).dry_run()


def execute(
    servers: str,
    security: Security,
    request: Request,
    report_progress: Callable[[ReplayResult], None],
) -> ReplayResult:
    """Sends the letters, each exactly once, with an entry in the ledger in each transaction."""
    with pipeline_errors():
        return Replay(request, settings_of(servers, security)).execute(report_progress)
