"""Dead letters: topics, error groups with samples, edits, and replays exactly once.

A replay sends records and writes its entry into the ledger in one transaction: the entry is the
audit record, with the time, the user and the offsets.
"""

import asyncio
import json
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from headrace.console.screens import dead_letter_work as work
from headrace.console.screens.dead_letter_form import (
    bad,
    bytes_of,
    content_of,
    digest_of,
    group_key_of,
    headers_of,
    letter_topics,
    pretty,
)
from headrace.console.web.errors import PageError
from headrace.console.web.jobs import AlreadyRunning, Job
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get, post
from headrace.pipeline.dead_letters.error_groups import group_key
from headrace.pipeline.dead_letters.headers import own_headers
from headrace.pipeline.dead_letters.letter_selection import (
    EditedRecord,
    Edits,
    LetterPlace,
    LetterSelection,
)
from headrace.pipeline.dead_letters.python_fix import unchanged
from headrace.pipeline.dead_letters.replay import ReplayResult, Request

SCAN_CACHE_S: Final = 10.0
SHORT_REPLAY_S: Final = 1.0
ANONYMOUS: Final = "anonymous"
SENT_FIELDS: Final = (
    "group", "place", "to", "limit", "edited",
    "key", "key_encoding", "value", "value_encoding", "headers",
)  # fmt: skip


async def show_topics(page: Page) -> Response:
    snapshot = await page.snapshot()
    chosen = page.query("topic")
    if chosen:
        if chosen not in snapshot.topics:
            raise PageError(404, "No such topic", f"There is no topic {chosen!r}.")
        return page.redirect(topic_path(chosen))
    return page.render(
        "dead_letters.html",
        found=letter_topics(snapshot.topics.values()),
        names=[topic.name for topic in snapshot.topics.values() if not topic.is_internal][:2000],
        topic_path=topic_path,
    )


def topic_path(topic: str) -> str:
    return f"/dead-letters/{quote(topic, safe='')}"


def _key(topic: str) -> tuple[str, str]:
    return ("replay", topic)


async def _scan(page: Page, topic: str) -> work.Findings:
    return await page.cluster.cached(
        ("letters", topic),
        SCAN_CACHE_S,
        lambda: asyncio.to_thread(work.scan, page.settings.servers, page.cluster.security, topic),
    )


async def _check_connection(page: Page) -> None:
    """Fails at once if the cluster does not answer: pipelines wait for a minute."""
    await page.snapshot()
    problem = page.cluster.poller.view.problem
    if problem is not None:
        raise PageError(504, "The cluster does not answer", problem, retry=True)


async def show_topic(page: Page) -> Response:
    topic = page.path("topic")
    await _check_connection(page)
    findings = await _scan(page, topic)
    return page.render(
        "dead_letter_topic.html",
        topic=topic,
        findings=findings,
        letters=sum(group.count for group in findings.groups),
        replayed=sum(group.replayed for group in findings.groups),
        digest_of=digest_of,
        topic_path=topic_path,
        job=page.console.jobs.find(_key(topic)),
        to_json=json.dumps,
    )


async def show_group(page: Page) -> Response:
    """The letters of one error group."""
    topic, digest = page.path("topic"), page.path("digest")
    await _check_connection(page)
    findings = await _scan(page, topic)
    group = next((each for each in findings.groups if digest_of(each.key) == digest), None)
    if group is None:
        raise PageError(404, "No such error", "No dead letter has this error any more.")
    letters = await page.cluster.cached(
        ("letters", topic, digest),
        SCAN_CACHE_S,
        lambda: asyncio.to_thread(
            work.list_letters,
            page.settings.servers,
            page.cluster.security,
            topic,
            LetterSelection(group.key),
        ),
    )
    return page.render(
        "dead_letter_group.html",
        topic=topic,
        group=group,
        letters=letters,
        pretty=pretty,
        topic_path=topic_path,
        to_json=json.dumps,
    )


async def show_letter(page: Page) -> Response:
    """One letter in full, with a form to edit its record."""
    topic = page.path("topic")
    partition, offset = page.path("partition"), page.path("offset")
    if not (partition.isdecimal() and offset.isdecimal() and len(offset) < 20):
        raise PageError(404, "No such record", f"{topic}-{partition} has no offset {offset}.")
    await _check_connection(page)
    letter, is_replayed = await asyncio.to_thread(
        work.one_letter,
        page.settings.servers,
        page.cluster.security,
        topic,
        int(partition),
        int(offset),
    )
    return page.render(
        "dead_letter.html",
        topic=topic,
        letter=letter,
        facts=letter.facts,
        is_replayed=is_replayed,
        key=content_of(letter.record.key),
        value=content_of(letter.record.value),
        value_shown=pretty(letter.record.value),
        headers=[(name, content_of(value)) for name, value in own_headers(letter.record.headers)],
        topic_path=topic_path,
        digest=digest_of(group_key(letter.facts)),
    )


# --- replay --------------------------------------------------------------------------------------


class SampleRow(NamedTuple):
    """A letter in a preview, and what becomes of it."""

    place: str
    error: str
    result: str
    value: str
    goes: bool


def _request(page: Page, topic: str) -> Request:
    """The replay that the form describes; raises `PageError`."""
    group, place = page.field("group"), page.field("place")
    places = None
    edits: Edits | None = None
    if place:
        partition, _, offset = place.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise bad("The selection cannot be read; go back and choose again")
        at = LetterPlace(int(partition), int(offset))
        places = frozenset({at})
        if page.field("edited"):
            record = EditedRecord(
                bytes_of(page.field("key_encoding"), page.field("key"), "key"),
                bytes_of(page.field("value_encoding"), page.field("value"), "value"),
                headers_of(page.field("headers")),
            )
            edits = Edits({at: record})
    limit = page.field("limit").strip()
    if limit and not (limit.isdecimal() and 0 < int(limit) < 2**31):
        raise bad(f"The limit is a number of records, not {limit[:20]!r}")
    return Request(
        topic,
        LetterSelection(group_key_of(group) if group else None, places),
        int(limit) if limit else None,
        page.field("to").strip() or None,
        unchanged if edits is None else edits,
        by=f"console: {page.session.user or ANONYMOUS}",
    )


async def preview(page: Page) -> Response:
    """A dry run: what would be sent where, what stays, and why."""
    topic = page.path("topic")
    await _check_connection(page)
    request = _request(page, topic)
    outcome = await asyncio.to_thread(
        work.dry_run, page.settings.servers, page.cluster.security, request
    )
    return page.render(
        "dead_letter_preview.html",
        topic=topic,
        outcome=outcome,
        samples=_samples(outcome),
        fields=[(name, page.field(name)) for name in SENT_FIELDS if page.field(name)],
        edited=bool(page.field("edited")),
        topic_path=topic_path,
    )


def _samples(outcome: ReplayResult) -> list[SampleRow]:
    rows = []
    for letter, made in outcome.samples:
        if isinstance(made, Exception):
            row = SampleRow(
                f"{letter.at} offset {letter.offset}", letter.facts.error, str(made), "", False
            )
        else:
            value = made.value if isinstance(made.value, bytes | None) else str(made.value).encode()
            row = SampleRow(
                f"{letter.at} offset {letter.offset}",
                letter.facts.error,
                "is sent",
                pretty(value)[:400],
                True,
            )
        rows.append(row)
    return rows


class Progress(NamedTuple):
    """A replay so far."""

    sent: int
    by_topic: dict[str, int]
    not_fixed: int
    done_before: int


async def replay(page: Page) -> Response:
    topic = page.path("topic")
    page.require_name(topic)
    request = _request(page, topic)
    servers, security = page.settings.servers, page.cluster.security

    def run(job: Job) -> object:
        def tell(outcome: ReplayResult) -> None:
            job.progress = _progress(outcome)

        return _progress(work.execute(servers, security, request, tell))

    try:
        job = page.console.jobs.start(_key(topic), f"the replay of {topic}", run)
    except AlreadyRunning:
        page.flash("A replay of this topic is already running.", "warning")
    else:
        with suppress(TimeoutError):  # a short replay shows its result at once
            async with asyncio.timeout(SHORT_REPLAY_S):
                await job.ended.wait()
    page.cluster.forget_cached()
    return page.redirect(f"{topic_path(topic)}/replay")


def _progress(outcome: ReplayResult) -> Progress:
    return Progress(outcome.total, dict(outcome.sent), outcome.not_fixed, outcome.done_before)


async def show_replay(page: Page) -> Response:
    """The progress and the result of the latest replay from this console."""
    topic = page.path("topic")
    await _check_connection(page)
    job = page.console.jobs.find(_key(topic))
    if job is not None and not job.is_running:
        page.cluster.forget_cached()
    return page.render("dead_letter_replay.html", topic=topic, job=job, topic_path=topic_path)


SCREEN: Final = Screen(
    "dead_letters",
    (
        get("/dead-letters", show_topics),
        get("/dead-letters/{topic}", show_topic),
        get("/dead-letters/{topic}/errors/{digest}", show_group),
        get("/dead-letters/{topic}/letters/{partition}/{offset}", show_letter),
        get("/dead-letters/{topic}/replay", show_replay),
        post("/dead-letters/{topic}/preview", preview, changes=False),
        post("/dead-letters/{topic}/replay", replay),
    ),
)
