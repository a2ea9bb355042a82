"""Messages: the search form, and the stream of its results."""

from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response

from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.console.cluster.snapshot import TopicState
from headrace.console.messages.decoding import Coding, Decoder, preview
from headrace.console.messages.query import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    POSITIONS,
    BadQuery,
    JsonFilter,
    Position,
    Query,
    header_filter,
    key_of,
    time_of,
)
from headrace.console.messages.registry import SchemaRegistry
from headrace.console.messages.search import (
    Ended,
    Found,
    Problem,
    Progress,
    Search,
    SearchEvent,
)
from headrace.console.screens.topic_lookup import topic_of
from headrace.console.web.errors import PageError
from headrace.console.web.events import Event, event_stream
from headrace.console.web.formatting import iso, size, timestamp
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get
from headrace.console.web.sessions import Session

MAX_SEARCHES: Final = 3
"""Of one session at the same time."""
MAX_HEADERS_SHOWN: Final = 8
CODINGS: Final = (Coding.AUTO, Coding.JSON, Coding.TEXT, Coding.HEX, Coding.REGISTRY)


async def show(page: Page) -> Response:
    topic = await topic_of(page)
    problem = ""
    try:
        query_of(page, topic)
    except BadQuery as error:
        problem = str(error)
    return page.render(
        "messages.html",
        topic=topic,
        positions=POSITIONS,
        codings=CODINGS,
        problem=problem,
        stream=f"/topics/{topic.name}/messages/stream?{page.request.url.query}",
        max_limit=MAX_LIMIT,
        default_limit=DEFAULT_LIMIT,
    )


async def stream(page: Page) -> Response:
    topic = await topic_of(page)
    try:
        query = query_of(page, topic)
    except BadQuery as error:
        raise PageError(400, "The search cannot run", str(error)) from None
    if page.session.running_searches >= MAX_SEARCHES:
        raise PageError(
            429,
            "Too many searches",
            f"{MAX_SEARCHES} searches of this session are running; stop one of them first.",
        )
    events = _events(page, topic.name, _partitions_of(query, topic), query)
    return event_stream(events, page.console.streams)


def query_of(page: Page, topic: TopicState) -> Query:
    """The query of the address; raises `BadQuery`."""
    kind = page.query("from", "newest")
    position = Position(kind if kind in POSITIONS else "newest")
    if position.kind == "offset":
        position = Position("offset", page.integer("offset", 0))
    elif position.kind == "time":
        position = Position("time", time_of(page.query("time")))
    partition: int | None = None
    if page.query("partition") not in ("", "all"):
        partition = page.integer("partition", -1, low=-1)
        if not 0 <= partition < len(topic.partitions):
            raise BadQuery(f"partition {page.query('partition')!r} does not exist")
    key_coding = page.query("key_as", "text")
    coding = page.query("as", "auto")
    where = page.query("where")
    return Query(
        position,
        partition,
        page.integer("limit", DEFAULT_LIMIT, low=1, high=MAX_LIMIT),
        page.request.query_params.get("text", "").encode("utf-8", "surrogateescape"),
        page.flag("any_case"),
        key_of(page.query("key"), key_coding if key_coding in ("hex", "base64") else "text"),
        header_filter(page.query("header")),
        JsonFilter(where) if where else None,
        not page.flag("uncommitted"),
        Coding(coding) if coding in CODINGS else Coding.AUTO,
    )


def _partitions_of(query: Query, topic: TopicState) -> list[int]:
    """The partitions to read. A key is looked for in all: a producer may have its own rule."""
    if query.partition is not None:
        return [query.partition]
    return [each.partition for each in topic.partitions]


def decoder_of(page: Page) -> Decoder:
    url = page.settings.schema_registry
    return Decoder(SchemaRegistry(url) if url else None)


async def _events(
    page: Page, topic: str, partitions: list[int], query: Query
) -> AsyncGenerator[Event, None]:
    session = page.session
    session.running_searches += 1
    try:
        async with page.cluster.new_client() as client:
            async for event in _search_events(page, client, topic, partitions, query, session):
                yield event
    finally:
        session.running_searches -= 1


async def _search_events(
    page: Page,
    client: ClusterClient,
    topic: str,
    partitions: list[int],
    query: Query,
    session: Session,
) -> AsyncGenerator[Event, None]:
    decoder = decoder_of(page)
    clock = page.console.clock
    search = Search(
        client, topic, partitions, query, decoder, clock=clock, timeout_s=page.timeout_s
    )
    events = search.events()
    try:
        async for event in events:
            if not page.console.is_open(session):
                yield Event("ended", {"reason": "logout"})
                return
            yield event_of(event, query, decoder)
    except ClientError as error:
        yield Event("problem", {"text": str(error)})
        yield Event("ended", {"reason": "error"})
    finally:
        await events.aclose()


def event_of(event: SearchEvent, query: Query, decoder: Decoder) -> Event:
    """What the browser gets."""
    match event:
        case Found():
            return Event("record", row_of(event, query, decoder))
        case Progress():
            rate = event.log_bytes / event.elapsed_s if event.elapsed_s else 0.0
            return Event(
                "progress",
                {
                    "records": event.records,
                    "bytes": size(event.log_bytes),
                    "rate": f"{size(rate)}/s",
                    "matched": event.matched,
                    "done": event.done_offsets,
                    "all": event.all_offsets,
                    "seconds": round(event.elapsed_s, 2),
                },
            )
        case Problem():
            return Event("problem", {"text": event.text})
        case Ended():
            return Event("ended", {"reason": event.reason})


def row_of(found: Found, query: Query, decoder: Decoder) -> dict[str, object]:
    """One row of the list: short texts only, whatever the size of the record."""
    record = found.match.record
    value = decoder.summarise(record.value, query.value_coding)
    key = decoder.summarise(record.key, Coding.AUTO)
    return {
        "partition": found.partition,
        "offset": record.offset,
        "ms": record.timestamp,
        "time": timestamp(record.timestamp),
        "iso": iso(record.timestamp),
        "key": None if record.key is None else preview(key, record.key),
        "value": None if record.value is None else preview(value, record.value),
        "kind": value.kind,
        "size": size(0 if record.value is None else len(record.value)),
        "headers": [name for name, _ in record.headers[:MAX_HEADERS_SHOWN]],
        "header_count": len(record.headers),
    }


SCREEN: Final = Screen(
    "topics",
    (
        get("/topics/{topic}/messages", show),
        get("/topics/{topic}/messages/stream", stream),
    ),
)
