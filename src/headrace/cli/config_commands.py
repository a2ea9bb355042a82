"""`headrace config`: the settings of topics, brokers and groups, and log levels."""

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli.command import command
from headrace.cli.config_changes import changes_of, suggest_settings
from headrace.cli.error_messages import not_found, refused
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.options import DryRun, Unset
from headrace.cli.output import Table
from headrace.cli.session import Session, find_topics
from headrace.client.admin.brokers import describe_cluster
from headrace.client.admin.configs import (
    ConfigEntry,
    Resource,
    ResourceKind,
    alter_configs,
    describe_configs,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal

app = typer.Typer(
    help="Show and change the settings of topics, brokers and groups, and log levels.",
    no_args_is_help=True,
)


class ResourceKindOption(StrEnum):
    """The kinds of resources that have settings."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_LOGGER = "broker-logger"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


_OF_BROKERS = (ResourceKindOption.BROKER, ResourceKindOption.BROKER_LOGGER)
# On the wire, the cluster-wide default of all brokers has an empty name.
_ALL_BROKERS = "default"

KindArgument = Annotated[
    ResourceKindOption,
    typer.Argument(metavar="KIND", help=f"Kind of the resource: {', '.join(ResourceKindOption)}."),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the resource. The name of a broker and of its loggers is its id; 'default' "
        "means all brokers.",
        show_default=False,
    ),
]


def _resource(kind: ResourceKindOption, name: str) -> Resource:
    all_brokers = kind is ResourceKindOption.BROKER and name == _ALL_BROKERS
    return Resource(ResourceKind[kind.name], "" if all_brokers else name)


@command(app, "get")
def get(
    session: Session,
    kind: KindArgument,
    name: NameArgument,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING", help="Names of the settings to show.", show_default="all settings"
        ),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings that differ from the default.")
    ] = False,
) -> None:
    """Show settings, their values and the source of each value."""
    resource = _resource(kind, name)

    async def work(client: ClusterClient) -> list[ConfigEntry] | Refusal:
        if kind is ResourceKindOption.TOPIC:
            await find_topics(client, [name], timeout_s=session.timeout_s)
        if kind in _OF_BROKERS:
            await _find_broker(client, name, session)
        found = await describe_configs(client, [resource], timeout_s=session.timeout_s)
        return found[resource]

    entries = session.run(work)
    if isinstance(entries, Refusal):
        raise refused(f"settings of {kind} {name!r}", entries)
    missing = set(keys or ()) - {entry.name for entry in entries}
    if missing:
        raise not_found("setting", min(missing), [entry.name for entry in entries])
    shown = [
        entry
        for entry in entries
        if (not keys or entry.name in keys) and not (changed and entry.is_default)
    ]
    facts = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source.name.lower().replace("_", "-"),
            "read_only": entry.read_only,
            "sensitive": entry.sensitive,
        }
        for entry in shown
    ]
    rows = [
        (each["name"], "(hidden)" if each["sensitive"] else each["value"], each["source"])
        for each in facts
    ]
    session.output.show(facts, Table(("SETTING", "VALUE", "SOURCE"), rows))


async def _find_broker(client: ClusterClient, name: str, session: Session) -> None:
    """Raises `CommandFailed` if the broker is down or unknown: only it knows its settings."""
    if not name.isdecimal():
        return
    # Metadata also lists brokers that have just died.
    cluster = await describe_cluster(client, timeout_s=session.timeout_s)
    if any(broker.id == int(name) for broker in cluster.live):
        return
    if any(broker.id == int(name) for broker in cluster.brokers):
        raise CommandFailed(
            f"broker {name} is down, and only it knows its settings; start it first"
        )
    known = ", ".join(str(broker.id) for broker in cluster.brokers)
    raise CommandFailed(f"no broker {name}; known brokers: {known}", ExitCode.NOT_FOUND)


@command(app, "set")
def set_(
    session: Session,
    kind: KindArgument,
    name: NameArgument,
    assigned: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE", help="Settings and their new values.", show_default=False
        ),
    ] = None,
    unset: Unset = [],
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Change settings. Either all changes of the command take effect, or none."""
    changes = changes_of(assigned or [], unset, "SETTING=VALUE")
    resource = _resource(kind, name)

    async def work(client: ClusterClient) -> Refusal | None:
        if kind is ResourceKindOption.TOPIC:
            await find_topics(client, [name], timeout_s=session.timeout_s)
        if kind in _OF_BROKERS:
            await _find_broker(client, name, session)
        outcomes = await alter_configs(
            client, {resource: changes}, timeout_s=session.timeout_s, validate_only=dry_run
        )
        return outcomes[resource]

    why = session.run(work)
    if why is not None:
        if kind is ResourceKindOption.TOPIC:
            suggest_settings([change.name for change in changes], [why])
        raise refused(f"{kind} {name!r}", why)
    done = "would change" if dry_run else "changed"
    facts = {
        "kind": kind.value,
        "name": name,
        "changed": [change.name for change in changes],
        "dry_run": dry_run,
    }
    session.output.show(facts, f"{done} {kind} {name}: {', '.join(c.name for c in changes)}")
    return None
