"""One topic: its partitions, settings and consumers; changes of it."""

from typing import Final

from starlette.responses import Response

from headrace.client.admin.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    ResourceKind,
    alter_configs,
    describe_configs,
)
from headrace.client.admin.topics import add_partitions, delete_records, delete_topics
from headrace.client.errors import RequestRefused, UnsupportedByBroker
from headrace.client.results import Refusal, TopicPartition
from headrace.console.cluster.snapshot import ClusterSnapshot, TopicState, lag_of
from headrace.console.screens.group_list import level_of
from headrace.console.screens.settings_form import source_name
from headrace.console.screens.topic_lookup import topic_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import paged
from headrace.console.web.screen import Screen, get, post

TABS: Final = ("partitions", "settings", "consumers")
PARTITIONS_SHOWN: Final = 100
CONFIG_TTL_S: Final = 3.0


async def show(page: Page) -> Response:
    topic = await topic_of(page)
    tab = page.query("tab")
    tab = tab if tab in TABS else "partitions"
    snapshot = await page.snapshot()
    settings: list[ConfigEntry] | Refusal = []
    if tab == "settings":
        settings = await _settings(page, topic.name)
    search = page.query("q").lower()
    return page.render(
        "topic.html",
        topic=topic,
        tab=tab,
        tabs=TABS,
        partitions=paged(topic.partitions, page.integer("page", 1), PARTITIONS_SHOWN),
        entries=_shown(settings, search, only_changed=page.flag("changed")),
        refusal=settings if isinstance(settings, Refusal) else None,
        source_name=source_name,
        search=search,
        changed=page.flag("changed"),
        consumers=_consumers(topic, snapshot),
        level_of=level_of,
    )


def _shown(
    settings: list[ConfigEntry] | Refusal, search: str, *, only_changed: bool
) -> list[ConfigEntry]:
    if isinstance(settings, Refusal):
        return []
    return [
        entry
        for entry in settings
        if (not only_changed or entry.source is ConfigSource.TOPIC)
        and (not search or search in entry.name or search in entry.documentation.lower())
    ]


async def _settings(page: Page, name: str) -> list[ConfigEntry] | Refusal:
    resource = Resource(ResourceKind.TOPIC, name)

    async def load() -> list[ConfigEntry] | Refusal:
        try:
            found = await describe_configs(
                page.client, [resource], timeout_s=page.timeout_s, explain=True
            )
        except UnsupportedByBroker:  # before Kafka 2.6, without documentation
            found = await describe_configs(page.client, [resource], timeout_s=page.timeout_s)
        return found[resource]

    return await page.cluster.cached(("topic settings", name), CONFIG_TTL_S, load)


def _consumers(topic: TopicState, snapshot: ClusterSnapshot) -> list[dict[str, object]]:
    """The groups with committed offsets in this topic, the one that is furthest behind first."""
    rows = []
    for each in topic.groups:
        group = snapshot.groups.get(each.group)
        if group is None:
            continue
        own = {key: value for key, value in group.committed.items() if key.topic == topic.name}
        lags = [
            (key.partition, offset, lag_of({key: offset}, snapshot.topics).get(topic.name))
            for key, offset in sorted(own.items())
        ]
        rows.append({"group": group, "lag": each.lag, "partitions": lags})
    return rows


async def alter(page: Page) -> Response:
    topic = await topic_of(page)
    name = page.field("name").strip()
    if not name:
        raise PageError(400, "No setting", "The form names no setting. Nothing was changed.")
    reset = page.field("reset") == "1"
    change = ConfigChange(
        name,
        Operation.DELETE if reset else Operation.SET,
        None if reset else page.field("value").strip(),
    )
    resource = Resource(ResourceKind.TOPIC, topic.name)
    done = await alter_configs(page.client, {resource: [change]}, timeout_s=page.timeout_s)
    success = f"Reset {name} to its default." if reset else f"Set {name} to {change.value}."
    page.done(done[resource], f"{name} was not changed", success)
    return page.redirect(f"/topics/{topic.name}", tab="settings", q=page.field("q") or None)


async def grow(page: Page) -> Response:
    topic = await topic_of(page)
    text = page.field("total").strip()
    if not text.isdecimal() or int(text) <= len(topic.partitions):
        raise PageError(
            400,
            "Not a larger number",
            f"The topic has {len(topic.partitions)} partitions; their number can only grow.",
        )
    total = min(int(text), 2**31 - 1)
    refused = (await add_partitions(page.client, {topic.name: total}, timeout_s=page.timeout_s))[
        topic.name
    ]
    if page.done(refused, "No partition was added", f"{topic.name} now has {total:,} partitions."):
        await page.refreshed()
    return page.redirect(f"/topics/{topic.name}")


async def delete(page: Page) -> Response:
    topic = await topic_of(page)
    page.require_name(topic.name)
    refused = (await delete_topics(page.client, [topic.name], timeout_s=page.timeout_s))[topic.name]
    if not page.done(refused, f"{topic.name} was not deleted", f"Deleted topic {topic.name}."):
        return page.redirect(f"/topics/{topic.name}")
    await page.refreshed()
    return page.redirect("/topics")


async def empty(page: Page) -> Response:
    """Deletes all records: moves the start of each partition to its end."""
    topic = await topic_of(page)
    page.require_name(topic.name)
    ends = {
        TopicPartition(topic.name, each.partition): each.end
        for each in topic.partitions
        if each.end is not None
    }
    done = await delete_records(page.client, ends, timeout_s=page.timeout_s)
    refused = [each for each in done.values() if isinstance(each, Refusal)]
    if refused:
        raise RequestRefused(refused[0].code, f"not all records of {topic.name} were deleted")
    page.done(None, "", f"Deleted the records of {topic.name}.")
    await page.refreshed()
    return page.redirect(f"/topics/{topic.name}")


SCREEN: Final = Screen(
    "topics",
    (
        get("/topics/{topic}", show),
        post("/topics/{topic}/settings", alter),
        post("/topics/{topic}/partitions", grow),
        post("/topics/{topic}/delete", delete),
        post("/topics/{topic}/empty", empty),
    ),
)
