"""Reassignments: plan with a preview, throttle, start, progress, cancel."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from headrace.client.admin.brokers import describe_cluster
from headrace.client.admin.reassignments import Move, alter_reassignments, list_reassignments
from headrace.client.admin.throttles import (
    UNREACHABLE,
    clear_throttle,
    find_throttled,
    set_throttle,
)
from headrace.client.admin.topics import list_topics
from headrace.client.errors import ClientError, UnsupportedByBroker
from headrace.client.results import Refusal, TopicPartition
from headrace.console.cluster.snapshot import ClusterSnapshot
from headrace.console.screens.reassignment_form import (
    ReassignmentForm,
    from_text,
    plan_of,
    throttle_of,
    to_text,
)
from headrace.console.screens.topic_partitions import partitions_of_topic
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.reassignment_plan import (
    Placement,
    PlannedMove,
    broker_totals,
    moves_between,
    placement_of,
)
from headrace.operations.reassignment_progress import Copied, copied, leaders_of

PROGRESS_CACHE_S: Final = 1.0
THROTTLE_CACHE_S: Final = 10.0
SHOWN_MOVES: Final = 200
CONFIRM_START: Final = "reassign"
CONFIRM_CANCEL: Final = "cancel"


class MoveRow(NamedTuple):
    """A partition that is moving."""

    partition: TopicPartition
    move: Move
    progress: Copied


class BrokerChange(NamedTuple):
    """What a plan changes for one broker."""

    id: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_in: int


async def show(page: Page) -> Response:
    snapshot = await page.snapshot()
    rows: Sequence[MoveRow] = ()
    unsupported = None
    try:
        rows = await page.cluster.cached("moves", PROGRESS_CACHE_S, lambda: _read_moves(page))
    except UnsupportedByBroker as error:
        unsupported = str(error)
    whole = sum(row.progress.of for row in rows)
    throttled = await _throttled(page, snapshot) if unsupported is None else ([], [])
    return page.render(
        "reassignments.html",
        snapshot=snapshot,
        rows=paged(rows, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)),
        percent=sum(row.progress.bytes for row in rows) * 100 // whole if whole else None,
        copied_bytes=sum(row.progress.bytes for row in rows),
        whole_bytes=whole,
        unsupported=unsupported,
        throttled=throttled,
        confirm_cancel=CONFIRM_CANCEL,
        brokers=snapshot.brokers,
        empty=page.integer("empty", -1, low=-1),
    )


async def _read_moves(page: Page) -> list[MoveRow]:
    moves = await list_reassignments(page.client, timeout_s=page.timeout_s)
    if not moves:
        return []
    await page.client.refresh(sorted({each.topic for each in moves}), timeout_s=page.timeout_s)
    progress = await copied(
        page.client,
        {each: move.adding for each, move in moves.items()},
        leaders_of(page.client, moves),
        timeout_s=page.timeout_s,
    )
    return [MoveRow(each, moves[each], progress[each]) for each in sorted(moves)]


async def _throttled(page: Page, snapshot: ClusterSnapshot) -> tuple[list[int], list[str]]:
    """The brokers and topics with a replication limit; none where it is not readable."""
    live = [each.id for each in snapshot.brokers if not each.fenced and each.problem is None]

    async def load() -> tuple[list[int], list[str]]:
        return await find_throttled(page.client, live, [], timeout_s=page.timeout_s)

    try:
        return await page.cluster.cached("throttles", THROTTLE_CACHE_S, load)
    except ClientError:
        return [], []


async def _placement(page: Page) -> tuple[Placement, Mapping[TopicPartition, Move]]:
    """Where every partition is, or moves to, now."""
    topics = await list_topics(page.client, timeout_s=page.timeout_s)
    under_way = await list_reassignments(page.client, timeout_s=page.timeout_s)
    return placement_of(topics, under_way), under_way


async def preview(page: Page) -> Response:
    """Shows the moves of a plan and the bytes to copy; moves nothing."""
    form = ReassignmentForm(
        page.field("kind"),
        page.fields("broker"),
        page.field("topics"),
        page.field("factor"),
        page.field("throttle"),
    )
    throttle = throttle_of(form.throttle)
    cluster = await describe_cluster(page.client, timeout_s=page.timeout_s)
    placed, under_way = await _placement(page)
    racks = {broker.id: broker.rack for broker in cluster.live}
    known = sorted({broker.id for broker in cluster.brokers} | broker_totals(placed)[0].keys())
    plan = plan_of(form, placed, racks, known)
    moves = moves_between(placed, plan)
    sizes = sizes_of(await page.snapshot())
    return page.render(
        "reassignment_plan.html",
        form=form,
        moves=moves[:SHOWN_MOVES],
        move_count=len(moves),
        copies=sum(len(each.copies) for each in moves),
        to_copy=sum(len(each.copies) * (sizes.get(each.partition) or 0) for each in moves),
        unsized=sum(bool(each.copies) and sizes.get(each.partition) is None for each in moves),
        sizes=sizes,
        brokers=broker_changes(placed, moves, sizes),
        busy=[each.partition for each in moves if each.partition in under_way][:5],
        plan=to_text({each.partition: each.after for each in moves}),
        throttle=throttle,
        confirm=CONFIRM_START,
    )


def sizes_of(snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
    """The size of each partition at its leader."""
    return {
        each: state.bytes
        for topic in snapshot.topics.values()
        for each, state in zip(partitions_of_topic(topic), topic.partitions, strict=True)
    }


def broker_changes(
    placed: Placement,
    moves: Sequence[PlannedMove],
    sizes: Mapping[TopicPartition, int | None],
) -> list[BrokerChange]:
    """The replicas, preferred leaders and copied bytes of each broker. Pure."""
    held, led = broker_totals(placed)
    held_after, led_after = broker_totals(
        {**placed, **{each.partition: each.after for each in moves}}
    )
    bytes_in: dict[int, int] = {}
    for each in moves:
        for broker in each.copies:
            bytes_in[broker] = bytes_in.get(broker, 0) + (sizes.get(each.partition) or 0)
    return [
        BrokerChange(
            broker,
            held[broker],
            held_after[broker],
            led[broker],
            led_after[broker],
            bytes_in.get(broker, 0),
        )
        for broker in sorted(held.keys() | held_after.keys())
    ]


async def start(page: Page) -> Response:
    page.require_name(CONFIRM_START)
    plan = from_text(page.field("plan"))
    throttle = throttle_of(page.field("throttle"))
    placed, under_way = await _placement(page)
    missing = [each for each in plan if each not in placed]
    if missing:
        raise PageError(
            409, "The cluster has changed", f"{missing[0]} does not exist. Nothing was moved."
        )
    moves = moves_between(placed, plan)
    busy = [each.partition for each in moves if each.partition in under_way]
    if busy:
        raise PageError(
            409,
            "Already moving",
            f"{busy[0]} is moving. Wait until it has moved, or cancel it. Nothing was moved.",
        )
    if throttle is not None and not await _set_throttle(page, moves, throttle):
        return page.redirect("/reassignments")
    done = await alter_reassignments(
        page.client, {each.partition: each.after for each in moves}, timeout_s=page.timeout_s
    )
    _report(page, done, "Started to move", "did not start to move")
    await page.refreshed()
    return page.redirect("/reassignments")


async def _set_throttle(page: Page, moves: Sequence[PlannedMove], throttle: int) -> bool:
    limited = await set_throttle(
        page.client,
        {each.partition: (each.before, each.after) for each in moves},
        throttle,
        timeout_s=page.timeout_s,
    )
    for resource, why in limited.items():
        if why is not None and why.code is UNREACHABLE:
            page.flash(
                f"Broker {resource.name} does not answer and gets no limit: {why.message}",
                "warning",
            )
        elif why is not None:
            page.flash(
                f"The limit of {resource.name} cannot be set: {why}. Nothing was moved.", "error"
            )
            return False
    return True


def _report(
    page: Page, done: Mapping[TopicPartition, Refusal | None], success: str, failure: str
) -> None:
    page.cluster.forget_cached()
    good = sum(why is None for why in done.values())
    if good:
        page.flash(f"{success} {good} partition{'s' * (good != 1)}.")
    for each, why in [(each, why) for each, why in done.items() if why is not None][:3]:
        page.flash(f"{each} {failure}: {why}", "error")


async def cancel(page: Page) -> Response:
    """Cancels all moves, or that of one partition; partitions return to their former brokers."""
    moves = await list_reassignments(page.client, timeout_s=page.timeout_s)
    topic, index = page.field("topic"), page.field("partition")
    if topic:
        wanted = TopicPartition(topic, int(index) if index.isdecimal() else -1)
        page.require_name(str(wanted))
        moves = {each: move for each, move in moves.items() if each == wanted}
    else:
        page.require_name(CONFIRM_CANCEL)
    if not moves:
        page.flash("No reassignment is in progress.", "warning")
        return page.redirect("/reassignments")
    done = await alter_reassignments(page.client, dict.fromkeys(moves), timeout_s=page.timeout_s)
    _report(page, done, "Cancelled the move of", "was not cancelled")
    await page.refreshed()
    return page.redirect("/reassignments")


async def unthrottle(page: Page) -> Response:
    """Removes the replication limits of all brokers and topics."""
    snapshot = await page.snapshot()
    live = [each.id for each in snapshot.brokers if not each.fenced and each.problem is None]
    brokers, topics = await find_throttled(
        page.client, live, list(snapshot.topics), timeout_s=page.timeout_s
    )
    done = await clear_throttle(page.client, brokers, topics, timeout_s=page.timeout_s)
    page.cluster.forget_cached()
    refused = [(resource, why) for resource, why in done.items() if why is not None]
    for resource, why in refused[:3]:
        page.flash(f"The limit of {resource.name} was not removed: {why}", "error")
    if not refused:
        page.flash("Removed the replication limits." if done else "No replication limit is set.")
    return page.redirect("/reassignments")


SCREEN: Final = Screen(
    "reassignments",
    (
        get("/reassignments", show),
        post("/reassignments/preview", preview, changes=False),
        post("/reassignments/actions/start", start),
        post("/reassignments/actions/cancel", cancel),
        post("/reassignments/actions/unthrottle", unthrottle),
    ),
)
