"""`headrace produce`: writes records from stdin, files or the command line to a topic."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.error_messages import no_partition, not_found, refused, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import TopicName
from headrace.cli.output import counted, progress, remark
from headrace.cli.records.broker_errors import PRODUCE, BrokerErrors, full_disks
from headrace.cli.records.delivery_counts import Deliveries
from headrace.cli.records.format_string import Codings, unescape
from headrace.cli.records.produce_input import (
    InputForm,
    InputRecord,
    InputSource,
    Shape,
    from_text,
    parse_headers,
    records_of,
)
from headrace.cli.records.record_options import ENCODINGS, encoding_option, key_separator_option
from headrace.cli.records.value_encoding import BadValue, ValueEncoding, encode
from headrace.cli.session import Session
from headrace.cli.sigterm import stoppable
from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.admin.topics import ask_for_topic, list_topics
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import Refusal
from headrace.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import Producer

POLL_S: Final = 0.2  # delay until Ctrl-C takes effect while the last records are sent
MIN_DELIVERY_S: Final = 30.0
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
RDKAFKA_MIN_BYTES: Final = 1000
RDKAFKA_MAX_BYTES: Final = 1_000_000_000
"""The largest message.max.bytes that librdkafka accepts."""
RDKAFKA_BATCH_BYTES: Final = 1_000_000
"""librdkafka's default batch.size."""
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = ("0", "1", "-1", "all")
ROUND_ROBIN: Final = "round-robin"
ANY_PARTITION: Final = -1
# A cluster needs a moment to elect leaders for a new topic.
CREATE_ATTEMPTS: Final = 25
CREATE_PAUSE_S: Final = 0.2


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "produce")(produce)


def produce(
    session: Session,
    topic: TopicName,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files to read records from.", show_default="stdin"),
    ] = None,
    value: Annotated[
        list[str],
        typer.Option(
            "--value",
            "-v",
            metavar="VALUE",
            help="Send this value instead of reading stdin; repeatable.",
        ),
    ] = [],
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="Key of every record.")
    ] = None,
    key_separator: Annotated[
        str | None, key_separator_option("Split each line into key and value at SEP.")
    ] = None,
    header: Annotated[
        list[str],
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="Add a header to every record; repeatable."
        ),
    ] = [],
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Send all records to this partition."
        ),
    ] = None,
    tombstone: Annotated[
        bool, typer.Option("--tombstone", help="Send one record with --key and a null value.")
    ] = False,
    empty_is_null: Annotated[
        bool, typer.Option("--empty-is-null", "-Z", help="Send null for an empty key or value.")
    ] = False,
    input_form: Annotated[
        InputForm,
        typer.Option(
            "--input",
            "-i",
            metavar="|".join(InputForm),
            help="lines: one record per line. json: one JSON object per line, as consume -f json "
            "prints them, with value and optionally key, headers, partition and timestamp; "
            'key_encoding and value_encoding, such as "base64", name the encoding of bytes that '
            "are not text. raw: the whole input is one record.",
        ),
    ] = InputForm.LINES,
    key_encoder: Annotated[
        ValueEncoding, encoding_option("--key-encoder", "keys")
    ] = ValueEncoding.TEXT,
    value_encoder: Annotated[
        ValueEncoding, encoding_option("--value-encoder", f"values: {ENCODINGS}")
    ] = ValueEncoding.TEXT,
    header_encoder: Annotated[
        ValueEncoding, encoding_option("--header-encoder", "header values")
    ] = ValueEncoding.TEXT,
    partitioner: Annotated[
        str,
        typer.Option(
            "--partitioner",
            metavar="NAME",
            help="How to choose partitions: murmur2_random (by key, as Java clients do), "
            "round-robin (ignores keys), or another partitioner of librdkafka.",
        ),
    ] = "murmur2_random",
    compression: Annotated[
        str,
        typer.Option(
            "--compression",
            "-z",
            metavar="|".join(COMPRESSIONS),
            help="Compression of batches.",
        ),
    ] = "none",
    acks: Annotated[
        str,
        typer.Option(
            "--acks",
            metavar="0|1|all",
            help="Replicas that must acknowledge a record: none, the leader, or all in-sync ones.",
        ),
    ] = "all",
    create: Annotated[
        bool,
        typer.Option(
            "--create/--no-create",
            help="Let the broker create the topic if it does not exist.",
        ),
    ] = True,
) -> ExitCode | None:
    """Write records to a topic, by default one for each line of stdin."""
    _check_choice("--compression", compression, COMPRESSIONS)
    _check_choice("--acks", acks, ACKS)
    codings = Codings(key_encoder, value_encoder, header_encoder)
    shape = Shape(
        codings=codings,
        key=_encode_key(key, key_encoder),
        separator=None if key_separator is None else unescape(key_separator).encode(),
        headers=parse_headers(header, header_encoder),
        partition=partition,
        empty_is_null=empty_is_null,
    )
    if tombstone and (shape.key is None or value or files):
        raise usage("--tombstone needs --key, and excludes --value and files")
    count, max_bytes = session.run(
        lambda client: _find_or_create_topic(client, topic, create, session.timeout_s)
    )
    if partition is not None and partition >= count:
        raise no_partition(topic, partition, count - 1)
    options: dict[str, object] = {"compression_type": compression, "acks": acks}
    if max_bytes is not None:
        options |= _size_options(max_bytes, is_compressed=compression != "none")
    if partitioner != ROUND_ROBIN:
        options["partitioner"] = partitioner
    turns = count if partitioner == ROUND_ROBIN else 0
    with ExitStack() as opened:
        if tombstone:
            records: Iterable[InputRecord] = [
                InputRecord(shape.key, None, shape.headers, shape.partition)
            ]
        elif value:
            records = [from_text(each, shape) for each in value]
        else:
            records = records_of(input_form, _input_sources(files or [], opened), shape)
        with stoppable():
            deliveries, interrupted = _send_records(
                session, topic, max_bytes, records, options, turns
            )
    code = _report_deliveries(session, topic, deliveries)
    if interrupted is not None:
        raise interrupted
    return code


def _check_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise usage(f"{flag} takes {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")


def _encode_key(text: str | None, coding: ValueEncoding) -> bytes | None:
    try:
        return None if text is None else encode(text, coding)
    except BadValue as error:
        raise usage(f"--key: {error}") from error


async def _find_or_create_topic(
    client: ClusterClient, topic: str, create: bool, timeout_s: float
) -> tuple[int, int | None]:
    """The topic's number of partitions, and its max.message.bytes if known.

    With `create`, the broker may create the topic (auto.create.topics.enable).
    """
    known = await list_topics(client, timeout_s=timeout_s)
    found = client.metadata.topic(topic)
    if found is None and create:
        await _request_creation(client, topic, timeout_s)
        found = client.metadata.topic(topic)
        if found is not None:
            remark(f"the broker created the topic {topic!r}")
    if found is None:
        raise not_found("topic", topic, [each.name for each in known if not each.is_internal])
    return len(found.partitions), await _max_message_bytes(client, topic, timeout_s)


async def _max_message_bytes(client: ClusterClient, topic: str, timeout_s: float) -> int | None:
    resource = Resource(ResourceKind.TOPIC, topic)
    try:
        answers = await describe_configs(
            client, [resource], timeout_s=timeout_s, names=[MAX_MESSAGE_BYTES]
        )
    except ClientError:  # the limit is optional
        return None
    entries = answers[resource]
    if isinstance(entries, Refusal):
        return None
    return next((int(e.value) for e in entries if e.name == MAX_MESSAGE_BYTES and e.value), None)


def _size_options(max_bytes: int, *, is_compressed: bool) -> dict[str, object]:
    """Client limits that match the topic's limit, which applies to compressed batches."""
    limit = RDKAFKA_MAX_BYTES if is_compressed else max(max_bytes, RDKAFKA_MIN_BYTES)
    return {
        "message_max_bytes": min(limit, RDKAFKA_MAX_BYTES),
        "batch_size": max(1, min(max_bytes, RDKAFKA_BATCH_BYTES)),
    }


async def _request_creation(client: ClusterClient, topic: str, timeout_s: float) -> None:
    """Asks for the topic as a producer does; returns if the broker does not create it."""
    for attempt in range(CREATE_ATTEMPTS):
        why = await ask_for_topic(client, topic, timeout_s=timeout_s)
        if why is None:
            return
        if why.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and attempt:
            return
        if not why.code.retriable:
            raise refused(f"topic {topic!r}", why)
        await asyncio.sleep(CREATE_PAUSE_S)


def _input_sources(files: list[Path], opened: ExitStack) -> Iterator[InputSource]:
    """The files, each opened when the records before it are read; stdin if there are none."""
    for path in files:
        yield InputSource(str(path), opened.enter_context(path.open("rb")))
    if not files:
        if sys.stdin.isatty():
            remark("type one record per line; Ctrl-D ends the input")
        yield InputSource("stdin", sys.stdin.buffer)


def _send_records(
    session: Session,
    topic: str,
    max_bytes: int | None,
    records: Iterable[InputRecord],
    options: Mapping[str, object],
    turns: int,
) -> tuple[Deliveries, KeyboardInterrupt | None]:
    """Sends all records, or with Ctrl-C those that were read before it."""
    from confluent_kafka import KafkaException, Producer

    errors = BrokerErrors(PRODUCE)
    timeout_ms = int(max(session.timeout_s, MIN_DELIVERY_S) * 1000)
    idempotent = options["acks"] in {"all", "-1"}
    config = session.rdkafka(
        **options, message_timeout_ms=timeout_ms, enable_idempotence=idempotent
    )
    try:
        producer = Producer({**errors.settings, **config, "logger": errors.settings["logger"]})
    except KafkaException as error:
        raise usage(error.args[0].str()) from error
    interrupted: KeyboardInterrupt | None = None
    with progress("records", shown=not sys.stdin.isatty()) as counter:
        deliveries = Deliveries(topic, max_bytes, counter, errors)
        try:
            for number, record in enumerate(records):
                turn = number % turns if turns and record.partition is None else None
                _send_record(producer, topic, record, turn, deliveries)
        except KeyboardInterrupt as error:  # SIGTERM too
            interrupted = error
            if len(producer):
                remark(
                    f"Stopping: {counted(len(producer), 'record')} still to send. "
                    "Press Ctrl-C again to stop immediately."
                )
        finally:
            # Also sends the records before an invalid line; the report counts them.
            while producer.flush(POLL_S):
                pass
    if deliveries.timed_out:
        deliveries.hint = full_disks(session)
    return deliveries, interrupted


def _send_record(
    producer: "Producer", topic: str, record: InputRecord, turn: int | None, deliveries: Deliveries
) -> None:
    from confluent_kafka import KafkaException

    partition = turn if record.partition is None else record.partition
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=ANY_PARTITION if partition is None else partition,
                timestamp=record.timestamp_ms or 0,
                on_delivery=deliveries.note_of(record.size),
            )
        except BufferError:  # the queue is full: wait until some records are sent
            producer.poll(POLL_S)
            continue
        except KafkaException as error:
            deliveries.refuse(error.args[0], record.size)
        producer.poll(0)
        return


def _report_deliveries(session: Session, topic: str, deliveries: Deliveries) -> ExitCode | None:
    partitions = [
        {"partition": index, "records": count, "first_offset": first, "last_offset": last}
        for index, (count, first, last) in sorted(deliveries.offsets.items())
    ]
    facts = {
        "topic": topic,
        "records": deliveries.delivered,
        "failed": deliveries.failed,
        "partitions": partitions,
    }
    where = ", ".join(
        f"partition {each['partition']} at {each['first_offset']}"
        + (f"-{each['last_offset']}" if each["records"] != 1 else "")
        for each in partitions
    )
    text = f"wrote {counted(deliveries.delivered, 'record')} to {topic}"
    session.output.show(facts, f"{text}: {where}" if where else text)
    if not deliveries.failed:
        return None
    remark(f"{counted(deliveries.failed, 'record')} not written: {deliveries.why}")
    return ExitCode.PARTIAL if deliveries.delivered else ExitCode.ERROR
