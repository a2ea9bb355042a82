"""`headrace kafka-topics`: the options and the output of kafka-topics.sh."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.cli.output import write
from headrace.cli.session import Session
from headrace.cli.topic.topic_commands import replication_factor_of, topic_id_text
from headrace.client.admin.configs import ConfigEntry, Resource, ResourceKind, describe_configs
from headrace.client.admin.topics import (
    BROKER_DEFAULT,
    NewTopic,
    add_partitions,
    create_topics,
    delete_topics,
    list_topics,
)
from headrace.client.client import ClusterClient
from headrace.client.errors import UnsupportedByBroker
from headrace.client.metadata import PartitionInfo, TopicInfo
from headrace.client.results import Refusal
from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopicRequest,
)

_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
_UNKNOWN: Final = "N/A"
_MIN_ISR: Final = "min.insync.replicas"

Elr = Mapping[tuple[str, int], tuple[str, str]]


class Action(StrEnum):
    """The actions of kafka-topics.sh, in the order of the options."""

    CREATE = "--create"
    LIST = "--list"
    DESCRIBE = "--describe"
    ALTER = "--alter"
    DELETE = "--delete"


class TopicCommandFailed(Exception):
    """The error that kafka-topics.sh prints after `Error while executing topic command :`."""


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The options that select and configure topics."""

    topic: str | None
    exclude_internal: bool
    if_exists: bool
    if_not_exists: bool
    partitions: int | None
    replication_factor: int | None
    assignment: Sequence[Sequence[int]]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reports:
    """The states that --describe is limited to."""

    under_replicated: bool
    unavailable: bool
    under_min_isr: bool
    at_min_isr: bool
    with_overrides: bool

    @property
    def about_partitions(self) -> bool:
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    def want(self, info: PartitionInfo, min_isr: int, live: Sequence[int]) -> bool:
        """Whether to print a partition."""
        if not self.about_partitions:
            return True
        led = info.leader >= 0
        return (
            (self.under_replicated and len(info.isr) < len(info.replicas))
            or (self.unavailable and (not led or info.leader not in live))
            or (self.under_min_isr and (not led or len(info.isr) < min_isr))
            or (self.at_min_isr and len(info.isr) == min_isr)
        )


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "kafka-topics", own_format=True)(kafka_topics)


def kafka_topics(
    session: Session,
    create: Annotated[bool, typer.Option("--create", help="Create a topic.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List topics.")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show the partitions and settings of topics.")
    ] = False,
    alter: Annotated[bool, typer.Option("--alter", help="Add partitions to topics.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete topics.")] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Topic name; a regular expression except with --create.",
            autocompletion=completion.topics,
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", help="Number of partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", metavar="N", help="Number of replicas of each partition."
        ),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="0:1,1:2",
            help="Brokers of each partition: colons separate brokers, commas separate partitions.",
        ),
    ] = None,
    config: Annotated[
        list[str],
        typer.Option("--config", metavar="NAME=VALUE", help="Set a topic setting; repeatable."),
    ] = [],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if no topic matches.")
    ] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Omit internal topics.")
    ] = False,
    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated-partitions", help="Describe only under-replicated partitions."
        ),
    ] = False,
    unavailable: Annotated[
        bool,
        typer.Option(
            "--unavailable-partitions", help="Describe only partitions without a live leader."
        ),
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions",
            help="Describe only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option(
            "--at-min-isr-partitions",
            help="Describe only partitions with exactly min.insync.replicas in-sync replicas.",
        ),
    ] = False,
    with_overrides: Annotated[
        bool,
        typer.Option(
            "--topics-with-overrides", help="Describe only topics with settings of their own."
        ),
    ] = False,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Read client settings from a .properties file.",
        ),
    ] = None,
) -> ExitCode | None:
    """Manage topics with the options and the output of kafka-topics.sh."""
    given = (create, list_, describe, alter, delete)
    chosen = [action for action, wanted in zip(Action, given, strict=True) if wanted]
    if len(chosen) != 1:
        raise usage("give exactly one of --create, --list, --describe, --alter and --delete")
    wanted = TopicSelection(
        topic,
        exclude_internal,
        if_exists,
        if_not_exists,
        partitions,
        replication_factor,
        _parse_replica_assignment(replica_assignment),
        parse_name_value_pairs(config, "--config"),
    )
    reports = Reports(under_replicated, unavailable, under_min_isr, at_min_isr, with_overrides)
    _check_options(chosen[0], wanted)
    if command_config is not None:
        session = replace(
            session, settings={**_read_client_properties(command_config), **session.settings}
        )
    try:
        session.run(
            lambda client: _run_action(client, chosen[0], wanted, reports, session.timeout_s)
        )
    except TopicCommandFailed as error:
        write(f"Error while executing topic command : {error}\n")
        return ExitCode.ERROR
    return None


def _check_options(action: Action, wanted: TopicSelection) -> None:
    if action in {Action.CREATE, Action.ALTER, Action.DELETE} and not wanted.topic:
        raise usage(f"{action} needs --topic")
    if action is Action.ALTER and wanted.partitions is None:
        raise usage("--alter needs --partitions: it can only add partitions")
    if wanted.assignment and (wanted.replication_factor is not None):
        raise usage("--replica-assignment and --replication-factor exclude each other")


def _parse_replica_assignment(text: str | None) -> list[list[int]]:
    if text is None:
        return []
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise usage(
            f"--replica-assignment takes the brokers of each partition, as in 0:1,1:2, not {text!r}"
        ) from None


def _read_client_properties(path: Path) -> dict[str, str]:
    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, BadProperties) as error:
        raise usage(f"--command-config: cannot read {path}: {error}") from error


async def _run_action(
    client: ClusterClient,
    action: Action,
    wanted: TopicSelection,
    reports: Reports,
    timeout_s: float,
) -> None:
    if action is Action.CREATE:
        await _create_topic(client, wanted, timeout_s)
        return
    topics = await _select_topics(client, wanted, timeout_s)
    if action is Action.LIST:
        write("\n".join(topic.name for topic in topics) + "\n")
        return
    if wanted.topic and not topics and not wanted.if_exists:
        raise TopicCommandFailed(f"Topic '{wanted.topic}' does not exist as expected")
    if not topics:
        return
    names = [topic.name for topic in topics]
    if action is Action.DELETE:
        _raise_first_refusal(await delete_topics(client, names, timeout_s=timeout_s))
    elif action is Action.ALTER:
        assert wanted.partitions is not None, "_check_options requires it"
        for topic in topics:
            added = wanted.assignment[len(topic.partitions) :]
            grown = {topic.name: wanted.partitions}
            _raise_first_refusal(
                await add_partitions(client, grown, timeout_s=timeout_s, assignment=added)
            )
    else:
        await _describe_topics(client, topics, reports, timeout_s)


async def _create_topic(client: ClusterClient, wanted: TopicSelection, timeout_s: float) -> None:
    name = wanted.topic or ""
    if "." in name or "_" in name:
        write(_COLLISION + "\n")
    new = NewTopic(
        name,
        BROKER_DEFAULT if wanted.partitions is None else wanted.partitions,
        BROKER_DEFAULT if wanted.replication_factor is None else wanted.replication_factor,
        wanted.configs,
        wanted.assignment,
    )
    outcomes = await create_topics(client, [new], timeout_s=timeout_s)
    why = outcomes[name]
    if why is None:
        write(f"Created topic {name}.\n")
    elif not (wanted.if_not_exists and why.code is ErrorCode.TOPIC_ALREADY_EXISTS):
        raise TopicCommandFailed(why.message)


async def _select_topics(
    client: ClusterClient, wanted: TopicSelection, timeout_s: float
) -> list[TopicInfo]:
    pattern = None
    if wanted.topic:
        text = wanted.topic.strip().strip("'\"").replace(" ", "").replace(",", "|")
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise TopicCommandFailed(f"{wanted.topic} is an invalid regex. ({error})") from error
    return [
        topic
        for topic in await list_topics(client, timeout_s=timeout_s)
        if (pattern is None or pattern.fullmatch(topic.name))
        and not (wanted.exclude_internal and topic.is_internal)
    ]


def _raise_first_refusal(outcomes: Mapping[str, Refusal | None]) -> None:
    for why in outcomes.values():
        if why is not None:
            raise TopicCommandFailed(why.message)


async def _describe_topics(
    client: ClusterClient, topics: Sequence[TopicInfo], reports: Reports, timeout_s: float
) -> None:
    resources = {topic.name: Resource(ResourceKind.TOPIC, topic.name) for topic in topics}
    answers = await describe_configs(client, list(resources.values()), timeout_s=timeout_s)
    elr = await _eligible_leader_replicas(client, list(resources), timeout_s)
    for topic in topics:
        configs = answers[resources[topic.name]]
        if isinstance(configs, Refusal):
            raise TopicCommandFailed(configs.message)
        own = [entry for entry in configs if not entry.is_default]
        if not reports.about_partitions and (own or not reports.with_overrides):
            _print_topic(topic, own)
        if reports.with_overrides:
            continue
        min_isr = next((int(e.value or 1) for e in configs if e.name == _MIN_ISR), 1)
        for index in sorted(topic.partitions):
            info = topic.partitions[index]
            if reports.want(info, min_isr, list(client.metadata.brokers)):
                _print_partition(topic.name, index, info, elr)


def _print_topic(topic: TopicInfo, configs: Sequence[ConfigEntry]) -> None:
    topic_id = topic_id_text(topic)
    set_here = ",".join(f"{entry.name}={entry.value}" for entry in configs)
    write(
        f"Topic: {topic.name}"
        + (f"\tTopicId: {topic_id}" if topic_id else "")
        + f"\tPartitionCount: {len(topic.partitions)}"
        + f"\tReplicationFactor: {replication_factor_of(topic)}"
        + f"\tConfigs: {set_here}\n"
    )


def _print_partition(name: str, index: int, info: PartitionInfo, elr: Elr) -> None:
    eligible, last_known = elr.get((name, index), (_UNKNOWN, _UNKNOWN))
    write(
        f"\tTopic: {name}\tPartition: {index}"
        f"\tLeader: {info.leader if info.leader >= 0 else 'none'}"
        f"\tReplicas: {','.join(map(str, info.replicas))}"
        f"\tIsr: {','.join(map(str, info.isr))}"
        f"\tElr: {eligible}\tLastKnownElr: {last_known}\n"
    )


async def _eligible_leader_replicas(
    client: ClusterClient, names: Sequence[str], timeout_s: float
) -> Elr:
    """The eligible leader replicas (KIP-966); none from brokers without this API."""
    found: dict[tuple[str, int], tuple[str, str]] = {}
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name=name) for name in sorted(names)],
            cursor=cursor,
        )
        try:
            answer = await client.send(
                request, DescribeTopicPartitionsResponse, timeout_s=timeout_s
            )
        except UnsupportedByBroker:
            return {}
        for topic in answer.topics:
            for each in topic.partitions:
                found[topic.name or "", each.partition_index] = (
                    _replica_list(each.eligible_leader_replicas),
                    _replica_list(each.last_known_elr),
                )
        if answer.next_cursor is None:
            return found
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


def _replica_list(ids: Sequence[int] | None) -> str:
    return _UNKNOWN if ids is None else ",".join(map(str, ids))
