"""`headrace client-metrics`: which metrics clients push to the brokers (KIP-714)."""

from typing import Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, refused, usage
from headrace.cli.exit_codes import CommandFailed
from headrace.cli.output import Block, Fields, Table, remark
from headrace.cli.position_parser import parse_duration_ms
from headrace.cli.session import Session
from headrace.client.admin.configs import (
    ConfigChange,
    ConfigEntry,
    Operation,
    Resource,
    ResourceKind,
    accepts_client_metrics,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal

app = typer.Typer(
    help="Create, list, describe and delete subscriptions: which metrics clients push to the "
    "brokers, and how often. Clients push nothing without a subscription that matches them.",
    no_args_is_help=True,
)

SETTINGS: Final = ("metrics", "interval.ms", "match")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the subscription.", show_default=False)
]
OptionalNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="Names of subscriptions.", show_default="all subscriptions"
    ),
]
Metrics = Annotated[
    list[str],
    typer.Option(
        "--metrics",
        metavar="PREFIX,...",
        help="Push the metrics whose names have this prefix, such as org.apache.kafka.producer.; "
        "'*' pushes all. Repeatable.",
    ),
]
Interval = Annotated[
    str | None,
    typer.Option(
        "--interval",
        metavar="DURATION",
        help="Push once in this time, such as 30s or 5m: between 100ms and 1h.",
    ),
]
Match = Annotated[
    list[str],
    typer.Option(
        "--match",
        metavar="ATTRIBUTE=PATTERN",
        help="Apply only to clients whose whole attribute matches the regular expression. "
        "Attributes: client_id, client_instance_id, client_software_name, "
        "client_software_version, client_source_address, client_source_port. Repeatable: all "
        "patterns must match.",
    ),
]


@command(app, "create")
def create(
    session: Session,
    name: Name,
    metrics: Metrics,
    interval: Interval = None,
    match: Match = [],
) -> None:
    """Create a subscription. Running clients follow within their current interval."""
    changes = _changes(metrics, interval, match)

    async def work(client: ClusterClient) -> tuple[Refusal | None, bool]:
        if name in await _names(client, session):
            raise CommandFailed(
                f"subscription {name!r} exists; change it with headrace client-metrics alter"
            )
        return await _apply(client, session, name, changes)

    _show_change(session, "created", name, changes, *session.run(work))


@command(app, "alter")
def alter(
    session: Session,
    name: Name,
    metrics: Metrics = [],
    interval: Interval = None,
    match: Match = [],
    match_all: Annotated[
        bool, typer.Option("--match-all", help="Apply to all clients: remove the patterns.")
    ] = False,
) -> None:
    """Change a subscription; settings that are not given stay as they are."""
    if match and match_all:
        raise usage("give either --match or --match-all")
    changes = _changes(metrics, interval, match)
    if match_all:
        changes.append(ConfigChange("match", Operation.DELETE))
    if not changes:
        raise usage("nothing to change; give --metrics, --interval, --match or --match-all")

    async def work(client: ClusterClient) -> tuple[Refusal | None, bool]:
        await _find(client, session, [name])
        return await _apply(client, session, name, changes)

    _show_change(session, "changed", name, changes, *session.run(work))


@command(app, "list")
def list_(session: Session) -> None:
    """List subscriptions."""

    async def work(client: ClusterClient) -> dict[str, dict[str, str]]:
        return await _find(client, session, [])

    found = session.run(work)
    rows = [(name, *(values[each] for each in SETTINGS)) for name, values in found.items()]
    facts = [{"name": name, **values} for name, values in found.items()]
    session.output.show(facts, Table(("NAME", "METRICS", "INTERVAL-MS", "MATCH"), rows))


@command(app, "describe")
def describe(session: Session, names: OptionalNames = None) -> None:
    """Show subscriptions: their metrics, their interval, and which clients they match."""

    async def work(client: ClusterClient) -> dict[str, dict[str, str]]:
        return await _find(client, session, names or [])

    found = session.run(work)
    blocks: list[Block] = [
        Fields(
            [
                ("NAME", name),
                ("METRICS", values["metrics"] or "none: matching clients push nothing"),
                ("INTERVAL-MS", values["interval.ms"]),
                ("MATCH", values["match"] or "all clients"),
            ]
        )
        for name, values in found.items()
    ]
    session.output.show([{"name": name, **values} for name, values in found.items()], *blocks)


@command(app, "delete")
def delete(session: Session, name: Name, execute: Execute = False) -> None:
    """Delete a subscription. Clients that no other subscription matches stop pushing."""

    async def look(client: ClusterClient) -> dict[str, dict[str, str]]:
        return await _find(client, session, [name])

    values = session.run(look)[name]
    plan = {"name": name, **values}
    fields = Fields([(key.upper(), value) for key, value in plan.items()])
    if not is_approved(session.output, execute, f"delete subscription {name}", plan, fields):
        return
    changes = [ConfigChange(each, Operation.DELETE) for each in SETTINGS]

    async def work(client: ClusterClient) -> Refusal | None:
        resource = Resource(ResourceKind.CLIENT_METRICS, name)
        done = await alter_configs(client, {resource: changes}, timeout_s=session.timeout_s)
        return done[resource]

    why = session.run(work)
    if why is not None:
        raise refused(f"cannot delete subscription {name!r}", why)
    session.output.show({"name": name, "deleted": True}, f"deleted subscription {name}")


def _changes(metrics: list[str], interval: str | None, match: list[str]) -> list[ConfigChange]:
    changes = []
    if metrics:
        changes.append(ConfigChange("metrics", Operation.SET, ",".join(metrics)))
    if interval is not None:
        interval_ms = parse_duration_ms(interval, "--interval")
        changes.append(ConfigChange("interval.ms", Operation.SET, str(interval_ms)))
    if match:
        changes.append(ConfigChange("match", Operation.SET, ",".join(match)))
    return changes


async def _apply(
    client: ClusterClient, session: Session, name: str, changes: list[ConfigChange]
) -> tuple[Refusal | None, bool]:
    """What the brokers said, and whether they accept metrics at all."""
    resource = Resource(ResourceKind.CLIENT_METRICS, name)
    done = await alter_configs(client, {resource: changes}, timeout_s=session.timeout_s)
    return done[resource], await accepts_client_metrics(client, timeout_s=session.timeout_s)


def _show_change(
    session: Session,
    verb: str,
    name: str,
    changes: list[ConfigChange],
    why: Refusal | None,
    has_receiver: bool,
) -> None:
    if why is not None:
        raise refused(f"subscription {name!r}", why)
    facts = {"name": name, verb: [change.name for change in changes], "receiver": has_receiver}
    session.output.show(facts, f"{verb} subscription {name}")
    if not has_receiver:
        remark(
            "the broker that answered accepts no client metrics, so clients push nothing to it: "
            "Headrace needs pip install 'headrace[telemetry]' and headrace.client.metrics.enable, "
            "Apache Kafka a telemetry plugin"
        )


async def _names(client: ClusterClient, session: Session) -> list[str]:
    kind = ResourceKind.CLIENT_METRICS
    return await list_config_resources(client, kind, timeout_s=session.timeout_s)


async def _find(
    client: ClusterClient, session: Session, names: list[str]
) -> dict[str, dict[str, str]]:
    """The settings of these subscriptions, or of all."""
    known = await _names(client, session)
    for name in names:
        if name not in known:
            raise not_found("subscription", name, known)
    resources = [Resource(ResourceKind.CLIENT_METRICS, name) for name in names or known]
    if not resources:
        return {}
    found = await describe_configs(client, resources, timeout_s=session.timeout_s)
    return {resource.name: _values(resource.name, found[resource]) for resource in resources}


def _values(name: str, entries: list[ConfigEntry] | Refusal) -> dict[str, str]:
    if isinstance(entries, Refusal):
        raise refused(f"subscription {name!r}", entries)
    known = {entry.name: entry.value or "" for entry in entries}
    return {each: known.get(each, "") for each in SETTINGS}
