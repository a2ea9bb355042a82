"""`headrace topic`: create, list, describe and alter topics, add partitions."""

from fnmatch import fnmatchcase
from typing import Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.config_changes import changes_of, suggest_settings
from headrace.cli.error_messages import refused, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.cli.options import DryRun, TopicName, TopicNames, TopicPatterns, Unset
from headrace.cli.output import Fields, Table, remark, report
from headrace.cli.session import (
    Session,
    find_topics,
    match_topics,
    partitions_of,
)
from headrace.cli.topic import topic_removal
from headrace.client.admin.configs import (
    ConfigEntry,
    ConfigSource,
    Resource,
    ResourceKind,
    alter_configs,
    describe_configs,
)
from headrace.client.admin.offsets import list_bounds
from headrace.client.admin.topics import (
    BROKER_DEFAULT,
    NewTopic,
    add_partitions,
    create_topics,
    list_topics,
)
from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.client.results import Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import ZERO_UUID, encode_uuid

app = typer.Typer(help="Create, list, describe, change and delete topics.", no_args_is_help=True)

# The source of settings that belong to the topic itself, not to a default.
_OWN: Final = frozenset({ConfigSource.TOPIC})


@command(app, "create")
def create(
    session: Session,
    topics: TopicNames,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            help="Number of partitions.",
            show_default="broker's num.partitions",
        ),
    ] = BROKER_DEFAULT,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            "--replicas",
            metavar="N",
            help="Number of replicas of each partition.",
            show_default="broker's default.replication.factor",
        ),
    ] = BROKER_DEFAULT,
    config: Annotated[
        list[str],
        typer.Option(
            "--config", "-c", metavar="NAME=VALUE", help="Set a topic setting; repeatable."
        ),
    ] = [],
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Create topics."""
    configs = parse_name_value_pairs(config, "--config")
    wanted = [
        NewTopic(name, partitions, replication_factor, configs) for name in dict.fromkeys(topics)
    ]

    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await create_topics(
            client, wanted, timeout_s=session.timeout_s, validate_only=dry_run
        )

    outcomes = session.run(work)
    done = "would create" if dry_run else "created"
    if if_not_exists:
        for name, why in outcomes.items():
            if why is not None and why.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                outcomes[name] = None
                remark(f"topic {name!r} already exists")
    code = report(session.output, "topic", done, outcomes)
    suggest_settings(list(configs), outcomes.values())
    return code


@command(app, "list")
def list_(
    session: Session,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="List only matching topics, such as 'orders*'.",
            show_default=False,
        ),
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", "-i", help="Also list internal topics.")
    ] = False,
) -> None:
    """List topics."""

    async def work(client: ClusterClient) -> list[TopicInfo]:
        return await list_topics(client, timeout_s=session.timeout_s)

    shown = [
        topic
        for topic in session.run(work)
        if (internal or not topic.is_internal)
        and (pattern is None or fnmatchcase(topic.name, pattern))
    ]
    facts = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replicas": replication_factor_of(topic),
            "internal": topic.is_internal,
        }
        for topic in shown
    ]
    rows = [(each["name"], each["partitions"], each["replicas"]) for each in facts]
    session.output.show(facts, Table(("NAME", "PARTITIONS", "REPLICAS"), rows))


def replication_factor_of(topic: TopicInfo) -> int:
    """The replicas of each partition. While partitions move, some have more than others."""
    return max((len(each.replicas) for each in topic.partitions.values()), default=0)


def topic_id_text(topic: TopicInfo) -> str | None:
    """The id as Kafka prints it; None from brokers without topic ids."""
    if topic.topic_id == ZERO_UUID:
        return None
    return encode_uuid(topic.topic_id)


@command(app, "describe")
def describe(
    session: Session,
    topics: TopicPatterns,
    all_configs: Annotated[
        bool, typer.Option("--all", "-a", help="Show all settings, including defaults.")
    ] = False,
) -> None:
    """Show the partitions, offsets and settings of topics."""

    async def work(client: ClusterClient) -> list[dict[str, object]]:
        found = await match_topics(client, topics, timeout_s=session.timeout_s)
        return [
            await _describe_topic(client, topic, all_configs, session.timeout_s) for topic in found
        ]

    facts = session.run(work)
    blocks: list[Fields | Table] = []
    for each in facts:
        blocks.extend(_topic_blocks(each))
    session.output.show(facts, *blocks)


async def _describe_topic(
    client: ClusterClient, topic: TopicInfo, all_configs: bool, timeout_s: float
) -> dict[str, object]:
    resource = Resource(ResourceKind.TOPIC, topic.name)
    answers = await describe_configs(client, [resource], timeout_s=timeout_s)
    configs = answers[resource]
    if isinstance(configs, Refusal):
        raise refused(f"settings of {topic.name}", configs)
    bounds = await list_bounds(client, partitions_of(topic), timeout_s=timeout_s)
    partitions = []
    for index in sorted(topic.partitions):
        info = topic.partitions[index]
        bound = bounds[TopicPartition(topic.name, index)]
        start, end = (None, None) if isinstance(bound, Refusal) else bound
        partitions.append(
            {
                "partition": index,
                "leader": info.leader,
                "epoch": info.leader_epoch,
                "replicas": list(info.replicas),
                "isr": list(info.isr),
                "start_offset": start,
                "end_offset": end,
            }
        )
    return {
        "name": topic.name,
        "id": topic_id_text(topic),
        "internal": topic.is_internal,
        "replicas": replication_factor_of(topic),
        "partitions": partitions,
        "configs": {entry.name: entry.value for entry in configs if all_configs or is_own(entry)},
    }


def is_own(entry: ConfigEntry) -> bool:
    """Whether the topic itself has this setting, rather than a default."""
    return entry.source in _OWN


def _topic_blocks(topic: dict[str, object]) -> list[Fields | Table]:
    partitions = topic["partitions"]
    configs = topic["configs"]
    assert isinstance(partitions, list)
    assert isinstance(configs, dict)
    headers = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")
    blocks: list[Fields | Table] = [
        Fields(
            [
                ("NAME", topic["name"]),
                ("ID", topic["id"]),
                ("PARTITIONS", len(partitions)),
                ("REPLICAS", topic["replicas"]),
            ]
        ),
        Table(headers, [tuple(each.values()) for each in partitions]),
    ]
    if configs:
        blocks.append(Table(("SETTING", "VALUE"), list(configs.items())))
    return blocks


@command(app, "alter")
def alter(
    session: Session,
    topics: TopicNames,
    set_: Annotated[
        list[str],
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set a topic setting; repeatable."),
    ] = [],
    unset: Unset = [],
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Change the settings of topics."""
    changes = changes_of(set_, unset, "--set NAME=VALUE")

    async def work(client: ClusterClient) -> dict[Resource, Refusal | None]:
        await find_topics(client, topics, timeout_s=session.timeout_s)
        wanted = {Resource(ResourceKind.TOPIC, name): changes for name in topics}
        return await alter_configs(
            client, wanted, timeout_s=session.timeout_s, validate_only=dry_run
        )

    outcomes = {resource.name: why for resource, why in session.run(work).items()}
    code = report(session.output, "topic", "would alter" if dry_run else "altered", outcomes)
    suggest_settings([change.name for change in changes], outcomes.values())
    return code


@command(app, "add-partitions")
def add(
    session: Session,
    topic: TopicName,
    num: Annotated[
        int | None,
        typer.Option("--num", "-n", min=1, metavar="N", help="Number of partitions to add."),
    ] = None,
    total: Annotated[
        int | None,
        typer.Option("--total", min=1, metavar="N", help="New total number of partitions."),
    ] = None,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Add partitions to a topic. Records of a key may then go to another partition."""
    if (num is None) == (total is None):
        raise usage("give either --num N (partitions to add) or --total N (the new total)")

    async def work(client: ClusterClient) -> tuple[int, int, Refusal | None]:
        (found,) = await find_topics(client, [topic], timeout_s=session.timeout_s)
        before = len(found.partitions)
        after = before + num if num is not None else total or 0
        if after <= before:
            raise usage(
                f"topic {topic!r} already has {before} partitions; the new total must be larger, "
                f"not {after}"
            )
        outcomes = await add_partitions(
            client, {topic: after}, timeout_s=session.timeout_s, validate_only=dry_run
        )
        return before, after, outcomes[topic]

    before, after, why = session.run(work)
    if why is not None:
        raise refused(f"topic {topic!r}", why)
    remark(
        "keys may now map to other partitions: new records of a key may be in another partition "
        "than its earlier records, and are not ordered after them"
    )
    done = "would grow" if dry_run else "grew"
    session.output.show(
        {"name": topic, "partitions_before": before, "partitions": after, "dry_run": dry_run},
        f"{topic} {done} from {before} to {after} partitions",
    )
    return None


topic_removal.register(app)
