"""Topics: searched, sorted and paged on the server, from the background snapshot."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from starlette.responses import Response

from headrace.client.admin.topics import NewTopic, create_topics
from headrace.console.cluster.snapshot import TopicState
from headrace.console.screens.settings_form import settings_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post

SORTS: Final[Mapping[str, Callable[[TopicState], Any]]] = {
    "name": lambda topic: topic.name,
    "partitions": lambda topic: len(topic.partitions),
    "replicas": lambda topic: topic.replication_factor,
    "records": lambda topic: topic.records or 0,
    "size": lambda topic: topic.bytes or 0,
    "rate": lambda topic: topic.records_per_s or 0.0,
    "bytes": lambda topic: topic.bytes_per_s or 0.0,
    "lag": lambda topic: -1 if topic.lag is None else topic.lag,
    "health": lambda topic: (topic.offline, topic.under_replicated),
}
STATES: Final[Mapping[str, Callable[[TopicState], bool]]] = {
    "offline": lambda topic: topic.offline > 0,
    "under-replicated": lambda topic: topic.under_replicated > 0,
    "empty": lambda topic: topic.records == 0,
    "unread": lambda topic: not topic.groups,
}


async def show(page: Page) -> Response:
    snapshot = await page.snapshot()
    sort = page.query("sort", "name")
    sort = sort if sort in SORTS else "name"
    descending = page.query("order") == "desc"
    internal, state, search = page.flag("internal"), page.query("state"), page.query("q")
    found = select(snapshot.topics.values(), search=search, state=state, internal=internal)
    found.sort(key=lambda topic: topic.name)
    if sort != "name" or descending:
        found.sort(key=SORTS[sort], reverse=descending)
    return page.render(
        "topics.html",
        snapshot=snapshot,
        topics=paged(
            found,
            page.integer("page", 1, low=1),
            page.integer("size", DEFAULT_PAGE_SIZE),
        ),
        sort=sort,
        descending=descending,
        search=search,
        state=state,
        states=tuple(STATES),
        internal=internal,
        max_brokers=max(1, sum(not broker.fenced for broker in snapshot.brokers)),
    )


def select(
    topics: Iterable[TopicState], *, search: str, state: str, internal: bool
) -> list[TopicState]:
    """The topics whose names contain every word of the search."""
    words = search.lower().split()
    has_state = STATES.get(state)
    return [
        topic
        for topic in topics
        if (internal or not topic.is_internal)
        and all(word in topic.name.lower() for word in words)
        and (has_state is None or has_state(topic))
    ]


async def create(page: Page) -> Response:
    name = page.field("name").strip()
    if not name:
        raise PageError(400, "No name", "A topic needs a name. Nothing was created.")
    topic = NewTopic(
        name,
        partitions=_number(page.field("partitions"), "partitions"),
        replication_factor=_number(page.field("replication_factor"), "replicas"),
        configs=settings_of(page.field("configs")),
    )
    refused = (await create_topics(page.client, [topic], timeout_s=page.timeout_s))[name]
    if not page.done(refused, f"Topic {name} was not created", f"Created topic {name}."):
        return page.redirect("/topics")
    await page.refreshed()
    return page.redirect(f"/topics/{name}")


def _number(text: str, what: str) -> int:
    """The number in a field; -1, the broker's default, if it is empty."""
    text = text.strip()
    if not text:
        return -1
    if not (text.isascii() and text.isdecimal()):
        raise PageError(400, "Not a number", f"{what}: {text[:40]!r} is not a whole number.")
    return min(int(text), 2**31 - 1)


SCREEN: Final = Screen("topics", (get("/topics", show), post("/topics", create)))
