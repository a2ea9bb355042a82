"""Options and arguments that several commands share. Each is declared and described once."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import typer

from headrace.cli import completion
from headrace.cli.output import Format

CONNECTION_PANEL: Final = "Connection"

Complete: TypeAlias = Callable[[typer.Context, str], list[str]]
"""Completes a word that the user has begun."""

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        help="Addresses of one or more brokers.",
        show_default="the profile's, else 127.0.0.1:9092",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Use this profile of the configuration file.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "-X",
        metavar="NAME=VALUE",
        help="Set a client setting, such as -X security.protocol=SSL; repeatable.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help="Maximum time to wait for the cluster.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Form = Annotated[
    Format,
    typer.Option("--format", metavar="|".join(Format), help="Output format."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Let the broker check the request, and change nothing."),
]


def name_argument(
    metavar: str, help_text: str, complete: Complete, *, default: str | bool = False
) -> Any:  # noqa: ANN401  # as typer.Argument itself
    """An argument that is the name of something in the cluster, or several such names."""
    return typer.Argument(
        metavar=metavar, help=help_text, autocompletion=complete, show_default=default
    )


TopicName = Annotated[str, name_argument("TOPIC", "Name of the topic.", completion.topics)]
TopicNames = Annotated[list[str], name_argument("TOPIC", "Names of topics.", completion.topics)]
OptionalTopicNames = Annotated[
    list[str] | None,
    name_argument("TOPIC", "Names of topics.", completion.topics, default="all topics"),
]
TopicPatterns = Annotated[
    list[str],
    name_argument("TOPIC", "Names of topics, or patterns such as 'orders*'.", completion.topics),
]
GroupName = Annotated[str, name_argument("GROUP", "Name of the group.", completion.groups)]
GroupNames = Annotated[list[str], name_argument("GROUP", "Names of groups.", completion.groups)]
ShareGroupName = Annotated[
    str, name_argument("GROUP", "Name of the share group.", completion.share_groups)
]
ShareGroupNames = Annotated[
    list[str], name_argument("GROUP", "Names of share groups.", completion.share_groups)
]

OnlyPartitions = Annotated[
    str | None,
    typer.Option(
        "--partitions", "-p", metavar="0,2-4", help="Only these partitions.", show_default="all"
    ),
]
Unset = Annotated[
    list[str],
    typer.Option(
        "--unset", "-u", metavar="SETTING", help="Reset a setting to its default; repeatable."
    ),
]
