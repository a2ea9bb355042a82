"""Groups of every kind: the list; of classic and consumer groups also members, lag and moves.

A group is described with the request for its kind, so that a KIP-848 group is never shown as dead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from headrace.client.admin.groups import (
    SHARE,
    GroupDescription,
    delete_groups,
    describe_group,
)
from headrace.client.admin.offsets import (
    EARLIEST,
    commit_offsets,
    committed_offsets,
    delete_offsets,
    list_bounds,
    list_offsets,
)
from headrace.client.admin.record_times import first_record_times
from headrace.client.results import Refusal, TopicPartition
from headrace.console.screens.group_list import (
    KINDS,
    SORTS,
    UNKNOWN_KIND,
    kind_of,
    level_of,
    select_groups,
    sorted_groups,
)
from headrace.console.screens.seek_form import (
    SeekForm,
    from_text,
    goal_of,
    partitions_of,
    to_text,
)
from headrace.console.screens.topic_partitions import indexes_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.group_lag import Lag, lags_of_group, total_lag
from headrace.operations.group_moves import Target, requested_offsets
from headrace.protocol.errors import ErrorCode

STREAMS: Final = "streams"
LAG_CACHE_S: Final = 2.0
TIMED_PARTITIONS: Final = 64
"""Where brokers do not tell the lag in seconds, it needs one small fetch for each partition."""


async def show_list(page: Page) -> Response:
    snapshot = await page.snapshot()
    sort = page.query("sort", "name")
    sort = sort if sort in SORTS else "name"
    descending = page.query("order") == "desc"
    search, kind, state = page.query("q"), page.query("kind"), page.query("state")
    found = select_groups(snapshot.groups.values(), search=search, kind=kind, state=state)
    kinds = sorted({kind_of(group) for group in snapshot.groups.values()} | set(KINDS[:3]))
    return page.render(
        "groups.html",
        groups=paged(
            sorted_groups(found, sort, descending=descending),
            page.integer("page", 1, low=1),
            page.integer("size", DEFAULT_PAGE_SIZE),
        ),
        kinds=kinds,
        states=sorted({group.state for group in snapshot.groups.values() if group.state}),
        kind=kind,
        state=state,
        search=search,
        sort=sort,
        descending=descending,
        level_of=level_of,
        kind_of=kind_of,
        group_path=group_path,
    )


def group_path(group_id: str, kind: str = "") -> str:
    """The page of a group; ids may contain slashes."""
    return f"/{'share-groups' if kind == SHARE else 'groups'}/{quote(group_id, safe='')}"


@dataclass(frozen=True, slots=True)
class _Detail:
    group: GroupDescription
    lags: Sequence[Lag]
    starts: Mapping[TopicPartition, int]
    """The first offset of each partition that has one."""
    times_ms: Mapping[TopicPartition, int]
    """The time of the first unread record, where the broker does not tell the lag in seconds."""

    def is_out_of_range(self, lag: Lag) -> bool:
        """Whether the next record of the group was deleted before it was read."""
        start = self.starts.get(lag.partition)
        return lag.committed is not None and start is not None and lag.committed < start


async def show(page: Page) -> Response:
    name = page.path("group")
    snapshot = await page.snapshot()
    listed = snapshot.groups.get(name)
    if listed is not None and listed.kind == SHARE:
        return page.redirect(group_path(name, SHARE))
    if listed is not None and listed.kind == STREAMS:
        return page.render("group_streams.html", listed=listed, level_of=level_of)
    detail = await page.cluster.cached(
        ("group", name), LAG_CACHE_S, lambda: _read_detail(page, name)
    )
    now_ms = page.console.clock.wall_ms()
    seconds = {each: max(0.0, (now_ms - at) / 1000) for each, at in detail.times_ms.items()}
    seconds |= {each.partition: each.seconds for each in detail.lags if each.seconds is not None}
    by_member: dict[str, int] = {}
    for lag in detail.lags:
        if lag.member is not None:
            known = by_member.get(lag.member.member_id, 0)
            by_member[lag.member.member_id] = known + (lag.records or 0)
    return page.render(
        "group.html",
        group=detail.group,
        kind=detail.group.kind or UNKNOWN_KIND,
        coordinator=None if listed is None else listed.coordinator,
        lags=paged(
            detail.lags, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)
        ),
        total=total_lag([each.found for each in detail.lags]).records,
        member_lags=by_member,
        seconds=seconds,
        most_seconds=max(seconds.values(), default=None),
        topics=sorted({each.partition.topic for each in detail.lags}),
        out_of_range=sum(map(detail.is_out_of_range, detail.lags)),
        is_out_of_range=detail.is_out_of_range,
        level_of=level_of,
    )


async def _read_detail(page: Page, name: str) -> _Detail:
    group = await _find_group(page, name)
    lags = await lags_of_group(page.client, group, page.timeout_s)
    partitions = [each.partition for each in lags if each.problem is None]
    found = await list_offsets(
        page.client, dict.fromkeys(partitions, EARLIEST), timeout_s=page.timeout_s
    )
    starts = {each: at.offset for each, at in found.items() if not isinstance(at, Refusal)}
    untimed = [each for each in lags if each.records and each.seconds is None]
    behind = {
        each.partition: max(each.committed or 0, starts.get(each.partition, 0))
        for each in sorted(untimed, key=lambda each: -(each.records or 0))[:TIMED_PARTITIONS]
    }
    times = await first_record_times(page.client, behind, timeout_s=page.timeout_s)
    return _Detail(group, lags, starts, times)


async def _find_group(page: Page, name: str) -> GroupDescription:
    found = await describe_group(page.client, name, timeout_s=page.timeout_s)
    if not isinstance(found, Refusal):
        return found
    if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
        raise PageError(404, "No such group", f"There is no group {name!r}.")
    status = 403 if found.code is ErrorCode.GROUP_AUTHORIZATION_FAILED else 502
    raise PageError(status, "The group cannot be described", str(found))


# --- moving a group ------------------------------------------------------------------------------


def submitted_seek(page: Page) -> SeekForm:
    return SeekForm(*(page.field(name) for name in SeekForm._fields))


async def bounds_or_error(
    page: Page, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """The start and end of each partition; raises `PageError` if one is unknown."""
    found = await list_bounds(page.client, partitions, timeout_s=page.timeout_s)
    bounds = {}
    for each, bound in found.items():
        if isinstance(bound, Refusal):
            raise PageError(
                409, "Offsets are unknown", f"{each}: {bound}. Nothing was changed.", retry=False
            )
        bounds[each] = bound
    return bounds


async def preview_seek(page: Page) -> Response:
    """Shows each partition's present and new offset; changes nothing."""
    name = page.field("group")
    form = submitted_seek(page)
    goal = goal_of(form)
    snapshot = await page.snapshot()
    found = await describe_group(page.client, name, timeout_s=page.timeout_s)
    members = 0 if isinstance(found, Refusal) else len(found.members)
    committed = await committed_offsets(page.client, name, timeout_s=page.timeout_s)
    current = {each: position.offset for each, position in committed.items()}
    topics = {topic.name: indexes_of(topic) for topic in snapshot.topics.values()}
    partitions = partitions_of(form, list(current), topics)
    bounds = await bounds_or_error(page, partitions)
    requested = await requested_offsets(
        page.client, goal, bounds, current, {}, timeout_s=page.timeout_s
    )
    targets = targets_or_error(requested, bounds)
    return render_preview(page, name, FOLDER, members, current, targets)


FOLDER: Final = "groups"


def targets_or_error(
    requested: Mapping[TopicPartition, int | Refusal],
    bounds: Mapping[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, Target]:
    targets = {}
    for each, offset in requested.items():
        if isinstance(offset, Refusal):
            raise PageError(409, "Offsets are unknown", f"{each}: {offset}. Nothing was changed.")
        targets[each] = Target(offset, *bounds[each])
    return targets


def render_preview(
    page: Page,
    name: str,
    folder: str,
    members: int,
    current: Mapping[TopicPartition, int],
    targets: Mapping[TopicPartition, Target],
) -> Response:
    """The preview page of a consumer group or a share group."""
    rows = [(each, current.get(each), target) for each, target in sorted(targets.items())]
    skipped = sum(
        max(0, target.offset - before) for _, before, target in rows if before is not None
    )
    repeated = sum(
        max(0, before - max(target.offset, target.start))
        for _, before, target in rows
        if before is not None
    )
    return page.render(
        "group_seek.html",
        name=name,
        folder=folder,
        members=members,
        rows=rows,
        offsets=to_text(targets),
        skipped=skipped,
        repeated=repeated,
        clamped=sum(target.is_clamped for _, _, target in rows),
        unchanged=all(before == target.offset for _, before, target in rows),
        back=f"/{folder}/{quote(name, safe='')}",
    )


async def seek(page: Page) -> Response:
    name = page.field("group")
    page.require_name(name)
    offsets = from_text(page.field("offsets"))
    done = await commit_offsets(page.client, name, offsets, timeout_s=page.timeout_s)
    report_partitions(page, done, f"Group {name}", "offsets reset")
    await page.refreshed()
    return page.redirect(group_path(name))


def report_partitions(
    page: Page, done: Mapping[TopicPartition, Refusal | None], what: str, verb: str
) -> None:
    """Tells how many partitions succeeded, and the first errors."""
    page.cluster.forget_cached()
    failed = {each: why for each, why in done.items() if why is not None}
    good = len(done) - len(failed)
    if good:
        page.flash(f"{what}: {verb} in {good} partition{'s' * (good != 1)}.")
    for each, why in list(failed.items())[:3]:
        hint = (
            " The group has members; stop its consumers first."
            if why.code is ErrorCode.UNKNOWN_MEMBER_ID
            else ""
        )
        page.flash(f"{each}: {why}{hint}", "error")
    if len(failed) > 3:  # as many as are shown above
        page.flash(f"and {len(failed) - 3} more partitions", "error")


async def delete(page: Page) -> Response:
    name = page.field("group")
    page.require_name(name)
    refused = (await delete_groups(page.client, [name], timeout_s=page.timeout_s))[name]
    if page.done(refused, f"Group {name} was not deleted", f"Deleted group {name}."):
        await page.refreshed()
        return page.redirect("/groups")
    return page.redirect(group_path(name))


async def delete_topic_offsets(page: Page) -> Response:
    name, topic = page.field("group"), page.field("topic")
    page.require_name(topic)
    committed = await committed_offsets(page.client, name, timeout_s=page.timeout_s)
    wanted = [each for each in committed if each.topic == topic]
    if not wanted:
        raise PageError(404, "Nothing to delete", f"{name} has no committed offset in {topic!r}.")
    done = await delete_offsets(page.client, name, wanted, timeout_s=page.timeout_s)
    report_partitions(page, done, f"Offsets of {name} in {topic}", "deleted")
    await page.refreshed()
    return page.redirect(group_path(name))


SCREEN: Final = Screen(
    "groups",
    (
        get("/groups", show_list),
        post("/groups/actions/seek-preview", preview_seek, changes=False),
        post("/groups/actions/seek", seek),
        post("/groups/actions/delete", delete),
        post("/groups/actions/delete-offsets", delete_topic_offsets),
        get("/groups/{group:path}", show),
    ),
)
