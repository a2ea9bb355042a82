"""Share groups (KIP-932): members, start offsets, lag, locks, delivery counts, moves.

A share group is listed with the other groups; this list has what only share groups have.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from headrace.client.admin.groups import SHARE, GroupDescription, delete_groups
from headrace.client.admin.share_locks import ShareLock, ShareLocks, UnheldRecords
from headrace.client.admin.share_states import (
    DeliveryState,
    ShareState,
    read_share_states,
)
from headrace.client.admin.shares import (
    SharePosition,
    alter_share_offsets,
    delete_share_offsets,
    describe_share_group,
    share_offsets,
    share_offsets_of_groups,
)
from headrace.client.errors import ClientError, UnsupportedByBroker
from headrace.client.results import Refusal, TopicPartition
from headrace.console.cluster.snapshot import GroupState
from headrace.console.screens.group_list import level_of, select_groups, sorted_groups
from headrace.console.screens.groups import (
    bounds_or_error,
    group_path,
    render_preview,
    report_partitions,
    submitted_seek,
    targets_or_error,
)
from headrace.console.screens.seek_form import from_text, goal_of, partitions_of
from headrace.console.screens.topic_partitions import indexes_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.group_moves import requested_offsets
from headrace.protocol.errors import ErrorCode

FOLDER: Final = "share-groups"
CACHE_S: Final = 2.0
LIST_CACHE_S: Final = 5.0
STATES_READ: Final = 100
"""The stored delivery states need one request for each partition; only the first ones are read."""
RANGES_SHOWN: Final = 200


async def show_list(page: Page) -> Response:
    snapshot = await page.snapshot()
    search, state = page.query("q"), page.query("state")
    found = select_groups(snapshot.groups.values(), search=search, kind=SHARE, state=state)
    shown = paged(
        sorted_groups(found, "name", descending=False),
        page.integer("page", 1, low=1),
        page.integer("size", DEFAULT_PAGE_SIZE),
    )
    totals = await _sums_of(page, shown.rows)
    return page.render(
        "share_groups.html",
        groups=shown,
        sums=totals,
        states=sorted({group.state for group in snapshot.groups.values() if group.kind == SHARE}),
        state=state,
        search=search,
        level_of=level_of,
        group_path=group_path,
    )


class ShareSums(NamedTuple):
    """A share group's partitions in one line."""

    topics: int
    partitions: int
    lag: int | None


async def _sums_of(page: Page, groups: Sequence[GroupState]) -> Mapping[str, ShareSums]:
    """The sums of the groups that can be read, with one request for each coordinator."""
    by_coordinator: dict[int, list[str]] = {}
    for group in groups:
        by_coordinator.setdefault(group.coordinator, []).append(group.id)

    async def ask(coordinator: int) -> Mapping[str, ShareSums]:
        names = tuple(by_coordinator[coordinator])

        async def load() -> dict[str, dict[TopicPartition, SharePosition] | Refusal]:
            return await share_offsets_of_groups(
                page.client, names, coordinator, timeout_s=page.timeout_s
            )

        try:
            found = await page.cluster.cached(("share-offsets", names), LIST_CACHE_S, load)
        except ClientError:
            return {}
        return {name: sums_of(of) for name, of in found.items() if not isinstance(of, Refusal)}

    answers = await asyncio.gather(*map(ask, by_coordinator))
    return {name: of for answer in answers for name, of in answer.items()}


def sums_of(positions: Mapping[TopicPartition, SharePosition]) -> ShareSums:
    known = [each.lag for each in positions.values() if each.lag >= 0]
    topics = {each.topic for each in positions}
    return ShareSums(len(topics), len(positions), sum(known) if known else None)


class ShareRow(NamedTuple):
    """One partition of a share group; unknown numbers are None."""

    partition: TopicPartition
    start: int | None
    lag: int | None
    state: ShareState | None
    problem: str | None
    locks: ShareLocks | None
    """None if the cluster does not tell, or the leader did not answer."""

    @property
    def to_redeliver(self) -> int | None:
        return self._records(lambda unheld: unheld.available, DeliveryState.AVAILABLE)

    @property
    def acknowledged(self) -> int | None:
        return self._records(lambda unheld: unheld.acknowledged, DeliveryState.ACKNOWLEDGED)

    @property
    def archived(self) -> int | None:
        """Including records whose dead letters are not written yet."""
        return self._records(
            lambda unheld: unheld.archived + unheld.archiving,
            DeliveryState.ARCHIVED,
            DeliveryState.ARCHIVING,
        )

    def _records(
        self, of_leader: Callable[[UnheldRecords], int], *stored: DeliveryState
    ) -> int | None:
        """What the leader says; otherwise the stored state, in which locked records count too."""
        if self.locks is not None and self.locks.unheld is not None:
            return of_leader(self.locks.unheld)
        if self.state is None:
            return None
        return sum(each.records for each in self.state.ranges if each.state in stored)

    @property
    def most_deliveries(self) -> int | None:
        """Of a record that is locked now, or whose state is stored."""
        known = [] if self.state is None else [self.state.most_deliveries]
        if self.locks is not None:
            known += [lock.deliveries for lock in self.locks.locks]
        return max(known, default=None)


class HeldRecords(NamedTuple):
    """The locks of a share group."""

    records: int | None
    """None if no leader tells."""
    locks: list[tuple[TopicPartition, ShareLock]]
    omitted: int
    unknown: int
    """Partitions whose leader did not tell."""

    @property
    def members(self) -> int:
        return len({lock.member for _, lock in self.locks})


def held_records(locks: Mapping[TopicPartition, ShareLocks | None]) -> HeldRecords:
    """The locks of all partitions, as far as they are shown."""
    told = {each: found for each, found in locks.items() if found is not None}
    all_locks = [(each, lock) for each, found in told.items() for lock in found.locks]
    shown = all_locks[:RANGES_SHOWN]
    return HeldRecords(
        sum(found.acquired for found in told.values()) if told else None,
        shown,
        len(all_locks) - len(shown) + sum(found.omitted for found in told.values()),
        len(locks) - len(told),
    )


async def show(page: Page) -> Response:
    name = page.path("group")
    await page.snapshot()
    group, rows, problem = await page.cluster.cached(
        ("share-group", name), CACHE_S, lambda: _read_detail(page, name)
    )
    ranges = [
        (row.partition, each) for row in rows if row.state is not None for each in row.state.ranges
    ]
    known = [row.lag for row in rows if row.lag is not None]
    return page.render(
        "share_group.html",
        group=group,
        rows=paged(rows, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)),
        held=held_records({row.partition: row.locks for row in rows}),
        clients={each.member_id: each.client_id for each in group.members},
        ranges=ranges[:RANGES_SHOWN],
        range_count=len(ranges),
        total=sum(known) if known else None,
        most_deliveries=max(
            (row.state.most_deliveries for row in rows if row.state is not None), default=0
        ),
        archived=sum(row.archived or 0 for row in rows),
        to_redeliver=sum(row.to_redeliver or 0 for row in rows),
        topics=sorted({row.partition.topic for row in rows}),
        problem=problem,
        level_of=level_of,
        states=DeliveryState,
    )


async def _read_detail(
    page: Page, name: str
) -> tuple[GroupDescription, Sequence[ShareRow], str | None]:
    group = await _find_share_group(page, name)
    positions = await share_offsets(page.client, name, timeout_s=page.timeout_s, locks=True)
    partitions = sorted(positions)
    problem: str | None = None
    states: Mapping[TopicPartition, ShareState | Refusal] = {}
    try:
        if partitions:
            await page.client.refresh(
                sorted({each.topic for each in partitions}), timeout_s=page.timeout_s
            )
        states = await read_share_states(
            page.client, name, partitions[:STATES_READ], timeout_s=page.timeout_s
        )
    except ClientError as error:
        problem = str(error)
    rows = []
    for each in partitions:
        position, state = positions[each], states.get(each)
        refused = state if isinstance(state, Refusal) else None
        problem = problem or (None if refused is None else str(refused))
        rows.append(
            ShareRow(
                each,
                _known(position.start_offset),
                _known(position.lag),
                state if isinstance(state, ShareState) else None,
                None if refused is None else str(refused),
                position.locks,
            )
        )
    return group, rows, problem


def _known(number: int) -> int | None:
    return None if number < 0 else number


async def _find_share_group(page: Page, name: str) -> GroupDescription:
    try:
        found = await describe_share_group(page.client, name, timeout_s=page.timeout_s)
    except UnsupportedByBroker:
        raise PageError(
            501,
            "The cluster does not support share groups",
            "Share groups need Kafka 4.1 or newer.",
        ) from None
    if not isinstance(found, Refusal):
        return found
    if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
        raise PageError(404, "No such share group", f"There is no share group {name!r}.")
    status = 403 if found.code is ErrorCode.GROUP_AUTHORIZATION_FAILED else 502
    raise PageError(status, "The share group cannot be described", str(found))


async def preview_seek(page: Page) -> Response:
    """Shows each partition's present and new start offset; changes nothing."""
    name = page.field("group")
    form = submitted_seek(page)
    goal = goal_of(form)
    snapshot = await page.snapshot()
    group = await _find_share_group(page, name)
    positions = await share_offsets(page.client, name, timeout_s=page.timeout_s)
    current = {each: at.start_offset for each, at in positions.items() if at.start_offset >= 0}
    topics = {topic.name: indexes_of(topic) for topic in snapshot.topics.values()}
    partitions = partitions_of(form, list(positions), topics)
    bounds = await bounds_or_error(page, partitions)
    requested = await requested_offsets(
        page.client, goal, bounds, current, {}, timeout_s=page.timeout_s
    )
    targets = targets_or_error(requested, bounds)
    return render_preview(page, name, FOLDER, len(group.members), current, targets)


async def seek(page: Page) -> Response:
    name = page.field("group")
    page.require_name(name)
    offsets = from_text(page.field("offsets"))
    done = await alter_share_offsets(page.client, name, offsets, timeout_s=page.timeout_s)
    report_partitions(page, done, f"Share group {name}", "start offsets reset")
    return page.redirect(group_path(name, SHARE))


async def delete(page: Page) -> Response:
    name = page.field("group")
    page.require_name(name)
    refused = (await delete_groups(page.client, [name], timeout_s=page.timeout_s))[name]
    if page.done(refused, f"Share group {name} was not deleted", f"Deleted share group {name}."):
        await page.refreshed()
        return page.redirect("/share-groups")
    return page.redirect(group_path(name, SHARE))


async def delete_topic_offsets(page: Page) -> Response:
    name, topic = page.field("group"), page.field("topic")
    page.require_name(topic)
    done = await delete_share_offsets(page.client, name, [topic], timeout_s=page.timeout_s)
    page.done(
        done.get(topic),
        f"The state of {name} in {topic} was not deleted",
        f"Deleted the state of {name} in {topic}.",
    )
    return page.redirect(group_path(name, SHARE))


SCREEN: Final = Screen(
    "share_groups",
    (
        get("/share-groups", show_list),
        post("/share-groups/actions/seek-preview", preview_seek, changes=False),
        post("/share-groups/actions/seek", seek),
        post("/share-groups/actions/delete", delete),
        post("/share-groups/actions/delete-offsets", delete_topic_offsets),
        get("/share-groups/{group:path}", show),
    ),
)
