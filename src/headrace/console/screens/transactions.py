"""Transactions: state, age, producer and partitions; hanging ones; abort."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from headrace.client.admin.transactions import (
    OPEN_STATES,
    ActiveProducer,
    ListedTransaction,
    TransactionDescription,
    describe_producers,
    describe_transaction,
    describe_transactions_of,
    fence,
    list_transactions_of,
    write_abort_marker,
)
from headrace.client.broker_requests import ANSWER_S, ask_brokers
from headrace.client.errors import ClientError
from headrace.client.results import Refusal, TopicPartition
from headrace.console.screens.topic_partitions import partitions_of_topic
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.hanging_transactions import MAX_TIMEOUT_MS, find_hanging
from headrace.protocol.errors import ErrorCode

LIST_CACHE_S: Final = 2.0
HANGING_CACHE_S: Final = 10.0
DEFAULT_IDLE_MIN: Final = MAX_TIMEOUT_MS // 60_000
MAX_IDLE_MIN: Final = 60 * 24 * 365


def level_of(state: str) -> str:
    """The badge's level of a coordinator's state."""
    if state in OPEN_STATES:
        return "info"
    return "ok" if state.startswith("Complete") else ""


class TransactionRow(NamedTuple):
    """One transactional id; `detail` is None if the coordinator did not describe it."""

    listed: ListedTransaction
    detail: TransactionDescription | None
    age_s: float | None

    @property
    def is_overdue(self) -> bool:
        """Whether the coordinator should have aborted it."""
        return (
            self.age_s is not None
            and self.detail is not None
            and self.age_s * 1000 > self.detail.timeout_ms
        )


def row_of(
    listed: ListedTransaction, detail: TransactionDescription | None, now_ms: int
) -> TransactionRow:
    age_ms = None if detail is None else detail.open_for_ms(now_ms)
    return TransactionRow(listed, detail, None if age_ms is None else age_ms / 1000)


async def show_list(page: Page) -> Response:
    search, state = page.query("q"), page.query("state")
    everything, problems = await page.cluster.cached(
        "transactions", LIST_CACHE_S, lambda: _list_all(page)
    )
    words = search.lower().split()
    found = [
        each
        for each in everything
        if all(word in each.transactional_id.lower() for word in words)
        and (not state or each.state == state or (state == "open" and each.state in OPEN_STATES))
    ]
    found.sort(key=lambda each: (each.state not in OPEN_STATES, each.transactional_id))
    shown = paged(found, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE))
    now_ms = page.console.clock.wall_ms()
    details = await _details(page, shown.rows)
    rows = [row_of(each, details.get(each.transactional_id), now_ms) for each in shown.rows]
    return page.render(
        "transactions.html",
        paged=shown,
        rows=rows,
        problems=problems,
        states=sorted({each.state for each in everything}),
        open_count=sum(each.state in OPEN_STATES for each in everything),
        state=state,
        search=search,
        level_of=level_of,
        transaction_path=transaction_path,
    )


async def _list_all(page: Page) -> tuple[list[ListedTransaction], list[str]]:
    """The transactions of all brokers that answer, and the errors of the others."""
    snapshot = await page.snapshot()
    live = [each.id for each in snapshot.brokers if not each.fenced and each.problem is None]

    async def ask(broker: int, limit_s: float) -> list[ListedTransaction]:
        return await list_transactions_of(page.client, broker, timeout_s=limit_s)

    limit_s = min(page.timeout_s, ANSWER_S)
    listed = await ask_brokers(live, ask, timeout_s=limit_s)
    if len(live) == 1:
        listed.raise_failure()
    problems = [
        f"Broker {each.id} does not answer; the transactions that it coordinates are missing."
        for each in snapshot.brokers
        if each.id not in live
    ]
    problems += [f"Broker {broker}: {error}" for broker, error in listed.failures.items()]
    return [each for answer in listed.answers.values() for each in answer], problems


def transaction_path(transactional_id: str) -> str:
    return f"/transactions/id/{quote(transactional_id, safe='')}"


async def _details(
    page: Page, listed: Sequence[ListedTransaction]
) -> Mapping[str, TransactionDescription]:
    """The descriptions that the coordinators return, with one request for each coordinator."""
    by_coordinator: dict[int, list[str]] = {}
    for each in listed:
        by_coordinator.setdefault(each.coordinator, []).append(each.transactional_id)

    async def ask(coordinator: int) -> Mapping[str, TransactionDescription]:
        names = tuple(by_coordinator[coordinator])

        async def load() -> dict[str, TransactionDescription | Refusal]:
            return await describe_transactions_of(
                page.client, names, coordinator, timeout_s=page.timeout_s
            )

        try:
            found = await page.cluster.cached(("transactions", names), LIST_CACHE_S, load)
        except ClientError:
            return {}
        return {name: of for name, of in found.items() if not isinstance(of, Refusal)}

    answers = await asyncio.gather(*map(ask, by_coordinator))
    return {name: of for answer in answers for name, of in answer.items()}


async def show(page: Page) -> Response:
    name = page.path("id")
    found = await describe_transaction(page.client, name, timeout_s=page.timeout_s)
    if isinstance(found, Refusal):
        raise _not_described(name, found)
    now_ms = page.console.clock.wall_ms()
    listed = ListedTransaction(name, found.producer_id, found.state, -1)
    return page.render(
        "transaction.html",
        found=found,
        row=row_of(listed, found, now_ms),
        partitions=sorted(found.partitions),
        is_open=found.state in OPEN_STATES,
        level_of=level_of,
    )


def _not_described(name: str, why: Refusal) -> PageError:
    if why.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return PageError(404, "No such transactional id", f"No coordinator knows {name!r}.")
    denied = why.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return PageError(
        403 if denied else 502,
        "Not permitted" if denied else "The transaction cannot be described",
        str(why),
    )


async def abort(page: Page) -> Response:
    """Fences the producer, which aborts its transaction."""
    name = page.field("transactional_id")
    page.require_name(name)
    await fence(page.client, name, timeout_s=page.timeout_s)
    page.cluster.forget_cached()
    page.flash(f"Aborted the transaction of {name} and fenced its producer.")
    return page.redirect(transaction_path(name))


# --- hanging transactions ------------------------------------------------------------------------


class HangingRow(NamedTuple):
    """A hanging transaction, and what its abort must name."""

    partition: TopicPartition
    producer: ActiveProducer
    idle_s: float


async def show_hanging(page: Page) -> Response:
    snapshot = await page.snapshot()
    minutes = page.integer("minutes", DEFAULT_IDLE_MIN, low=0, high=MAX_IDLE_MIN)
    topic = page.query("topic")
    if topic and topic not in snapshot.topics:
        raise PageError(404, "No such topic", f"There is no topic {topic!r}.")
    partitions = [
        partition
        for each in snapshot.topics.values()
        if topic in ("", each.name)
        for partition, state in zip(partitions_of_topic(each), each.partitions, strict=True)
        if not state.is_offline
    ]
    now_ms = page.console.clock.wall_ms()

    async def load() -> Sequence[HangingRow]:
        found = await find_hanging(
            page.client, partitions, now_ms - minutes * 60_000, timeout_s=page.timeout_s
        )
        return [
            HangingRow(*each, max(0.0, (now_ms - each.producer.last_timestamp) / 1000))
            for each in found
        ]

    rows = await page.cluster.cached(("hanging", topic, minutes), HANGING_CACHE_S, load)
    return page.render(
        "transactions_hanging.html",
        rows=rows,
        minutes=minutes,
        topic=topic,
        searched=len(partitions),
        default_minutes=DEFAULT_IDLE_MIN,
    )


async def abort_hanging(page: Page) -> Response:
    """Writes an abort marker, if the partition's leader still reports this transaction."""
    topic, index = page.field("topic"), page.field("partition")
    start, producer_id = page.field("start"), page.field("producer_id")
    if not (index.isdecimal() and start.isdecimal() and producer_id.isdecimal()):
        raise PageError(400, "The form is incomplete", "Nothing was changed.")
    partition = TopicPartition(topic, int(index))
    page.require_name(str(partition))
    known = (await describe_producers(page.client, [partition], timeout_s=page.timeout_s))[
        partition
    ]
    if isinstance(known, Refusal):
        raise PageError(502, "The partition cannot be read", f"{partition}: {known}")
    for producer in known:
        if (producer.transaction_start, producer.producer_id) == (int(start), int(producer_id)):
            why = await write_abort_marker(
                page.client, partition, producer, timeout_s=page.timeout_s
            )
            page.done(
                why,
                f"The transaction in {partition} was not aborted",
                f"Aborted the transaction at offset {start} of {partition}.",
            )
            return page.redirect("/transactions/hanging")
    raise PageError(
        409, "No such transaction", f"{partition} has no open transaction at {start} any more."
    )


SCREEN: Final = Screen(
    "transactions",
    (
        get("/transactions", show_list),
        get("/transactions/hanging", show_hanging),
        post("/transactions/actions/abort", abort),
        post("/transactions/actions/abort-hanging", abort_hanging),
        get("/transactions/id/{id:path}", show),
    ),
)
