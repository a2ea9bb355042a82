"""`headrace consume`: prints the records of topics, or runs a command for each record."""

import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.error_messages import not_found, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.offset_lookup import bounds_of, resolve, warn_of_clamping
from headrace.cli.options import OnlyPartitions, name_argument
from headrace.cli.output import counted, progress, remark
from headrace.cli.position_parser import parse_range
from headrace.cli.records.consume_loop import Ends, record_of
from headrace.cli.records.consumer_run import ReadPlan, read_records
from headrace.cli.records.exec_dead_letters import ExecDeadLetters, run_command
from headrace.cli.records.format_string import Codings
from headrace.cli.records.record_options import ENCODINGS, encoding_option, key_separator_option
from headrace.cli.records.record_output import Printer, printer_of
from headrace.cli.records.value_encoding import ValueEncoding
from headrace.cli.session import Session, find_topics, parse_partitions, partitions_of
from headrace.cli.sigterm import stoppable
from headrace.client.admin.topics import list_topics
from headrace.client.client import ClusterClient
from headrace.clock import SystemClock
from headrace.operations.positions import FromBeginning, FromEnd, Start, UntilTime

if TYPE_CHECKING:
    from confluent_kafka import Message

# A slow command must not make the group evict this member.
EXEC_MAX_POLL_MS: Final = 24 * 3600 * 1000
EARLY_FETCH_MS: Final = (
    50  # an empty fetch response marks the end of a partition, so ask for an early one
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "consume", own_format=True)(consume)


def consume(
    session: Session,
    topics: Annotated[
        list[str],
        name_argument(
            "TOPIC",
            "Names of topics, or regular expressions that start with ^.",
            completion.topics,
        ),
    ],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Read as a member of this group and commit its offsets.",
            autocompletion=completion.groups,
        ),
    ] = None,
    partitions: OnlyPartitions = None,
    offset: Annotated[
        list[str],
        typer.Option(
            "--offset",
            "-o",
            metavar="POSITION",
            help="Start at beginning, end, OFFSET, -N (the last N records of each partition) or "
            "s@TIME; stop at e@TIME. TIME is a date such as 2026-01-31T12:00Z, milliseconds since "
            "1970, or relative to now such as -2h; repeatable.",
            show_default="beginning",
        ),
    ] = [],
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-c", "--num", "-n", min=1, metavar="N", help="Stop after N records."
        ),
    ] = None,
    exit_at_end: Annotated[
        bool,
        typer.Option(
            "--exit", "-e", help="Stop at the end of the topic instead of waiting for more."
        ),
    ] = False,
    format: Annotated[  # noqa: A002
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="text, json, yaml, or a format string: %t topic, %p partition, %o offset, %k key, "
            r"%v value, %h headers, %d timestamp, as in '%o %k=%v\n'. In JSON, bytes that are not "
            'UTF-8 are base64, with "value_encoding": "base64" beside them; produce --input json '
            "reads them back.",
        ),
    ] = "text",
    key_separator: Annotated[
        str | None, key_separator_option("Print keys and SEP before values.")
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", help="Print headers before values.")
    ] = False,
    key_decoder: Annotated[
        ValueEncoding, encoding_option("--key-decoder", "keys")
    ] = ValueEncoding.TEXT,
    value_decoder: Annotated[
        ValueEncoding, encoding_option("--value-decoder", f"values: {ENCODINGS}")
    ] = ValueEncoding.TEXT,
    header_decoder: Annotated[
        ValueEncoding, encoding_option("--header-decoder", "header values")
    ] = ValueEncoding.TEXT,
    uncommitted: Annotated[
        bool,
        typer.Option("--uncommitted", help="Also read records of open and aborted transactions."),
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print control characters unescaped on a terminal.")
    ] = False,
    exec_: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="COMMAND",
            help="Run this shell command for each record, with the value on stdin, and with "
            "HEADRACE_TOPIC, HEADRACE_PARTITION, HEADRACE_OFFSET, HEADRACE_KEY, "
            "HEADRACE_TIMESTAMP and HEADRACE_HEADER_NAME in its environment.",
        ),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            "--dead-letter",
            metavar="TOPIC",
            help="Write records whose --exec command fails to this topic, and continue.",
        ),
    ] = None,
) -> ExitCode | None:
    """Print the records of topics, or run a command for each record.

    The command waits for more records until Ctrl-C; -e stops at the end, -c after N records.
    """
    for_terminal = sys.stdout.isatty() and not raw
    codings = Codings(key_decoder, value_decoder, header_decoder, for_terminal)
    printer = printer_of(format, codings, key_separator=key_separator, headers=headers)
    now_ms = SystemClock().wall_ms()
    start, until = parse_range(offset, now_ms, FromBeginning())
    chosen = parse_partitions(partitions)
    if group is not None and (
        chosen is not None or until or not isinstance(start, FromBeginning | FromEnd)
    ):
        raise usage(
            "-g reads from the committed offsets of the group, so it excludes -p, and takes -o "
            "only as beginning or end, for partitions without a committed offset; to move the "
            "group, use headrace group seek"
        )
    if dead_letter is not None and exec_ is None:
        raise usage("--dead-letter needs --exec: it takes the records whose command fails")
    options: dict[str, object] = {
        "isolation_level": "read_uncommitted" if uncommitted else "read_committed",
        "enable_partition_eof": True,
    }
    if exit_at_end:
        options["fetch_wait_max_ms"] = EARLY_FETCH_MS
    plan = session.run(
        lambda client: _plan_read(
            client, session, topics, chosen, start, until, exit_at_end, now_ms, group
        )
    )
    if dead_letter is not None:
        session.run(lambda client: find_topics(client, [dead_letter], timeout_s=session.timeout_s))
    if group is None and not plan.starts:
        return None  # the time range contains no records
    with stoppable():
        if exec_ is not None:
            return _run_command_for_each(session, plan, count, options, exec_, dead_letter)
        _print_records(session, plan, count, options, printer)
    return None


async def _plan_read(
    client: ClusterClient,
    session: Session,
    topics: Sequence[str],
    chosen: Sequence[int] | None,
    start: Start,
    until: UntilTime | None,
    exit_at_end: bool,
    now_ms: int,
    group: str | None,
) -> ReadPlan:
    timeout_s = session.timeout_s
    reset = "latest" if isinstance(start, FromEnd) else "earliest"
    names = await _expand_patterns(client, topics, timeout_s)
    found = await find_topics(client, names, timeout_s=timeout_s)
    ids = {topic.name: topic.topic_id for topic in found}
    if group is not None:
        return ReadPlan(topics, ids, {}, Ends(exit_at_end=exit_at_end), reset, group)
    wanted = [each for topic in found for each in partitions_of(topic, chosen)]
    bounds = await bounds_of(client, wanted, timeout_s=timeout_s)
    warn_of_clamping(bounds, start)
    starts = await resolve(client, bounds, start, timeout_s=timeout_s)
    ends = Ends(exit_at_end=exit_at_end)
    if until is not None and until.timestamp_ms > now_ms:
        ends.until_ms = until.timestamp_ms
    elif until is not None:
        ends.stops = await resolve(client, bounds, until, timeout_s=timeout_s)
        starts = {each: at for each, at in starts.items() if at < ends.stops[each]}
    return ReadPlan(names, ids, starts, ends, reset, chosen=chosen)


async def _expand_patterns(
    client: ClusterClient, topics: Sequence[str], timeout_s: float
) -> list[str]:
    """Replaces each pattern by the topics that match it now."""
    names: list[str] = []
    known = await list_topics(client, timeout_s=timeout_s)
    for topic in topics:
        if not topic.startswith("^"):
            names.append(topic)
            continue
        try:
            pattern = re.compile(topic)
        except re.error as error:
            raise usage(f"{topic!r} is not a regular expression: {error}") from error
        matching = [each.name for each in known if pattern.search(each.name)]
        if not matching:
            raise not_found("topic that matches", topic)
        names.extend(matching)
    return list(dict.fromkeys(names))


def _print_records(
    session: Session,
    plan: ReadPlan,
    count: int | None,
    options: dict[str, object],
    printer: Printer,
) -> None:
    shown = 0

    def handle(messages: "list[Message]", store: Callable[["Message"], None]) -> None:
        nonlocal shown
        out = sys.stdout.buffer
        for message in messages:
            shown += 1
            out.write(printer(record_of(message), shown))
        out.flush()  # before the offsets are stored: records lost here are read again
        for message in _last_of_each_partition(messages):
            store(message)
        counter.advance(len(messages))

    with progress("records", shown=_is_file(sys.stdout)) as counter:
        read_records(
            session, plan, count, options, handle, check_output=lambda: check_reader(sys.stdout)
        )


def check_reader(stream: TextIO) -> None:
    """Raises `BrokenPipeError` if the output is a pipe whose reader has ended, as in `| head`.

    Without this check, the command would wait for the next record before it notices.
    """
    try:
        output = stream.fileno()
    except (OSError, ValueError):
        return
    polled = select.poll()
    polled.register(output, 0)  # errors and closed readers are always reported
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in polled.poll(0)):
        raise BrokenPipeError


def _is_file(stream: TextIO) -> bool:
    """Whether the output goes to a file.

    Only then is the record count shown: the reader of a pipe may write to the same terminal.
    """
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return not (stream.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _last_of_each_partition(messages: Iterable["Message"]) -> Iterable["Message"]:
    return {(each.topic(), each.partition()): each for each in messages}.values()


def _run_command_for_each(
    session: Session,
    plan: ReadPlan,
    count: int | None,
    options: dict[str, object],
    shell_command: str,
    dead_letter: str | None,
) -> ExitCode | None:
    from confluent_kafka import Producer

    letters = None
    if dead_letter is not None:
        config = session.rdkafka(partitioner="murmur2_random", enable_idempotence=True)
        letters = ExecDeadLetters(Producer(config), dead_letter)

    def handle(messages: "list[Message]", store: Callable[["Message"], None]) -> None:
        for message in messages:
            record = record_of(message)
            failure = run_command(shell_command, record, plan.group)
            if failure is not None and letters is None:
                where = f"{record.topic}-{record.partition} offset {record.offset}"
                raise CommandFailed(
                    f"the command failed at {where} ({failure.reason}); this record and later "
                    "ones are not committed; with --dead-letter TOPIC, such records go to a topic "
                    "and the run continues"
                )
            if failure is not None and letters is not None:
                letters.put(record, failure, plan.group)
            store(message)

    options = {**options, "max_poll_interval_ms": EXEC_MAX_POLL_MS}
    read_records(session, plan, count, options, handle, batch=1)
    if letters is None or not letters.count:
        return None
    remark(f"{counted(letters.count, 'record')} failed; see {dead_letter}")
    return ExitCode.PARTIAL
