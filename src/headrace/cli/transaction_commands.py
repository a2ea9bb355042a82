"""`headrace txn`: list, describe and abort transactions, find hanging ones."""

from typing import Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, refused, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import OptionalTopicNames, name_argument
from headrace.cli.output import Block, Fields, Table, remark, report_silent
from headrace.cli.position_parser import parse_duration_ms
from headrace.cli.session import Session, find_topics, partitions_of, values_of
from headrace.cli.timestamps import iso_time
from headrace.client.admin.topics import list_topics
from headrace.client.admin.transactions import (
    ActiveProducer,
    ListedTransaction,
    TransactionDescription,
    describe_producers,
    describe_transaction,
    fence,
    list_transactions,
    write_abort_marker,
)
from headrace.client.broker_requests import Listing
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.operations.hanging_transactions import find_hanging
from headrace.protocol.errors import ErrorCode

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True)

Id = Annotated[
    str,
    name_argument(
        "TRANSACTIONAL_ID", "Transactional id of a producer.", completion.transactional_ids
    ),
]
# Kafka's default of transaction.max.timeout.ms: coordinators abort transactions at this age.
MAX_TIMEOUT: Final = "15m"
_HANGING: Final = "A hanging transaction (see find-hanging)"


@command(app, "list")
def list_(
    session: Session,
    state: Annotated[
        list[str],
        typer.Option(
            "--state",
            metavar="STATE",
            help="List only transactions in this state, such as Ongoing; repeatable.",
        ),
    ] = [],
    producer_id: Annotated[
        list[int],
        typer.Option(
            "--producer-id",
            metavar="ID",
            help="List only transactions of this producer id; repeatable.",
        ),
    ] = [],
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than",
            metavar="DURATION",
            help="List only transactions that have been open for longer, such as 30s or 5m.",
        ),
    ] = None,
) -> ExitCode:
    """List transactional ids and the state of their transactions."""
    longer_ms = -1 if longer_than is None else parse_duration_ms(longer_than, "--longer-than")

    async def work(client: ClusterClient) -> Listing[ListedTransaction]:
        return await list_transactions(
            client,
            timeout_s=session.timeout_s,
            states=state,
            producer_ids=producer_id,
            longer_than_ms=longer_ms,
        )

    listed = session.run(work)
    facts = [
        {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "state": each.state,
            "coordinator": each.coordinator,
        }
        for each in listed.items
    ]
    headers = ("TRANSACTIONAL-ID", "PRODUCER-ID", "STATE", "COORDINATOR")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))
    return report_silent(listed.failures, "transactions")


@command(app, "describe")
def describe(session: Session, transactional_id: Id) -> None:
    """Show the state, producer, age and partitions of a transaction."""

    async def work(client: ClusterClient) -> TransactionDescription:
        return await _find_transaction(client, transactional_id, session.timeout_s)

    found = session.run(work)
    started = found.start_ms if found.start_ms >= 0 else None
    age_ms = found.open_for_ms(SystemClock().wall_ms())
    facts = {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started": None if started is None else iso_time(started),
        "open_for_ms": age_ms,
        "partitions": [str(each) for each in found.partitions],
    }
    labels = [(name.upper().replace("_", "-"), value) for name, value in facts.items()]
    blocks: list[Block] = [Fields(labels[:-1])]
    if found.partitions:
        blocks.append(Table(("TOPIC", "PARTITION"), sorted(found.partitions)))
    session.output.show(facts, *blocks)


async def _find_transaction(
    client: ClusterClient, transactional_id: str, timeout_s: float
) -> TransactionDescription:
    found = await describe_transaction(client, transactional_id, timeout_s=timeout_s)
    if not isinstance(found, Refusal):
        return found
    if found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise refused(f"transactional id {transactional_id!r}", found)
    listed = await list_transactions(client, timeout_s=timeout_s)
    known = [each.transactional_id for each in listed.items]
    raise not_found("transactional id", transactional_id, known)


@command(app, "abort")
def abort(
    session: Session,
    transactional_id: Annotated[
        str | None,
        name_argument(
            "TRANSACTIONAL_ID", "Transactional id of a producer.", completion.transactional_ids
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Topic of the hanging transaction.",
            rich_help_panel=_HANGING,
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="N",
            min=0,
            help="Partition of the hanging transaction.",
            rich_help_panel=_HANGING,
        ),
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset",
            "-o",
            metavar="OFFSET",
            min=0,
            help="First offset of the hanging transaction.",
            rich_help_panel=_HANGING,
        ),
    ] = None,
    execute: Execute = False,
) -> ExitCode | None:
    """Abort a transaction by its id, or a hanging one by its position.

    With a transactional id, the coordinator aborts the transaction and fences its producer. With
    topic, partition and start offset (see find-hanging), the partition leader writes an abort
    marker without the coordinator.
    """
    place = (topic, partition, start_offset)
    if transactional_id is not None and place == (None, None, None):
        return _abort_by_id(session, transactional_id, execute)
    if transactional_id is None and topic is not None and None not in place:
        assert partition is not None
        assert start_offset is not None
        return _abort_hanging(session, TopicPartition(topic, partition), start_offset, execute)
    raise usage("give a transactional id, or --topic, --partition and --start-offset")


def _abort_by_id(session: Session, transactional_id: str, execute: bool) -> ExitCode:
    async def inspect(client: ClusterClient) -> TransactionDescription:
        return await _find_transaction(client, transactional_id, session.timeout_s)

    found = session.run(inspect)
    facts = {"transactional_id": transactional_id, "state_before": found.state}
    plan = Fields(
        [
            ("TRANSACTIONAL-ID", transactional_id),
            ("STATE", found.state),
            ("PRODUCER-ID", found.producer_id),
            ("PARTITIONS", [str(each) for each in found.partitions]),
        ]
    )
    action = f"abort the transaction of {transactional_id!r} and fence its producer"
    if not is_approved(session.output, execute, action, {**facts, "status": "would abort"}, plan):
        return ExitCode.OK

    async def work(client: ClusterClient) -> None:
        await fence(client, transactional_id, timeout_s=session.timeout_s)

    session.run(work)
    text = f"aborted {transactional_id} (state before: {found.state})"
    session.output.show({**facts, "status": "aborted"}, text)
    return ExitCode.OK


def _abort_hanging(
    session: Session, partition: TopicPartition, start: int, execute: bool
) -> ExitCode:
    async def inspect(client: ClusterClient) -> ActiveProducer:
        (topic,) = await find_topics(client, [partition.topic], timeout_s=session.timeout_s)
        wanted = partitions_of(topic, [partition.partition])
        answers = await describe_producers(client, wanted, timeout_s=session.timeout_s)
        for producer in values_of(answers)[partition]:
            if producer.transaction_start == start:
                return producer
        raise not_found("open transaction", f"{partition} at {start}")

    producer = session.run(inspect)
    facts = {
        "topic": partition.topic,
        "partition": partition.partition,
        "start_offset": start,
        "producer_id": producer.producer_id,
    }
    plan = Fields([(name.upper().replace("_", "-"), value) for name, value in facts.items()])
    action = f"write an abort marker to {partition} for the transaction at offset {start}"
    if not is_approved(session.output, execute, action, {**facts, "status": "would abort"}, plan):
        return ExitCode.OK

    async def work(client: ClusterClient) -> Refusal | None:
        return await write_abort_marker(client, partition, producer, timeout_s=session.timeout_s)

    why = session.run(work)
    if why is not None:
        raise refused(f"{partition}", why)
    text = f"aborted the transaction at {start} of {partition}"
    session.output.show({**facts, "status": "aborted"}, text)
    return ExitCode.OK


@command(app, "find-hanging")
def find_hanging_(
    session: Session,
    topics: OptionalTopicNames = None,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Find only transactions without a write for this long, such as 1h; use at least "
            "the brokers' transaction.max.timeout.ms.",
        ),
    ] = MAX_TIMEOUT,
) -> None:
    """Find transactions that are open in a partition but unknown to the coordinators."""
    before_ms = SystemClock().wall_ms() - parse_duration_ms(older_than, "--older-than")

    async def work(client: ClusterClient) -> list[dict[str, object]]:
        if topics:
            chosen = await find_topics(client, topics, timeout_s=session.timeout_s)
        else:
            chosen = await list_topics(client, timeout_s=session.timeout_s)
        wanted = [each for topic in chosen for each in partitions_of(topic)]
        found = await find_hanging(client, wanted, before_ms, timeout_s=session.timeout_s)
        return [
            {
                "topic": each.topic,
                "partition": each.partition,
                "start_offset": producer.transaction_start,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_written": iso_time(producer.last_timestamp),
            }
            for each, producer in found
        ]

    facts = session.run(work)
    headers = ("TOPIC", "PARTITION", "START-OFFSET", "PRODUCER-ID", "EPOCH", "LAST-WRITTEN")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))
    if facts:
        remark(
            "to abort one: headrace txn abort --topic TOPIC --partition PARTITION "
            "--start-offset START-OFFSET --execute"
        )
