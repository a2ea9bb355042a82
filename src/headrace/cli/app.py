"""The full command line: help, completion, mistakes explained, and the commands beside `up`."""

import sys
from collections.abc import Sequence
from enum import Enum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import config_commands, profile_commands, txn
from headrace.cli.broker.options import (
    MAX_PORT,
    START_OPTIONS,
    UP_OPTIONS,
    Option,
    UpOptions,
    is_setting,
)
from headrace.cli.cluster import cluster_commands
from headrace.cli.command import Outer, Profile, Servers
from headrace.cli.group import group_commands, share_commands
from headrace.cli.help_text import add_help
from headrace.cli.pipeline import demo, pipeline_commands
from headrace.cli.records import consume, dlq, produce
from headrace.cli.topic import kafka_topics, topic_commands

USAGE_ERROR = 2

app = typer.Typer(
    name="headrace",
    help="Headrace: a commit log that speaks Kafka's wire protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.add_typer(topic_commands.app, name="topic")
app.add_typer(group_commands.app, name="group")
app.add_typer(share_commands.app, name="share")
app.add_typer(txn.app, name="txn")
app.add_typer(config_commands.app, name="config")
app.add_typer(cluster_commands.app, name="cluster")
app.add_typer(pipeline_commands.app, name="pipeline")
app.add_typer(dlq.app, name="dlq")
app.add_typer(profile_commands.app, name="profile")
produce.register(app)
consume.register(app)
kafka_topics.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    bootstrap_server: Servers = None,
    profile_commands: Profile = None,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Headrace: a commit log that speaks Kafka's wire protocol."""
    ctx.obj = Outer(bootstrap_server, profile_commands)


def run(words: Sequence[str]) -> int:
    """Runs the command line and turns its end into an exit code."""
    try:
        result = app(args=list(words), prog_name="headrace", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return result if isinstance(result, int) else 0


@app.command()
def version() -> None:
    """Show the versions of Headrace, Python and the event loop."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from headrace import __version__

    try:
        loop = f"uvloop {installed('uvloop')}"
    except PackageNotFoundError:
        loop = "asyncio"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    typer.echo(f"headrace {__version__} ({python}, {loop}, {sys.platform})")


def up_options(values: dict[str, object]) -> UpOptions:
    """The options of `up` as they were given; raises `BadParameter` where they make no sense."""
    if values["ephemeral"] and values["data"] is not None:
        raise typer.BadParameter("--ephemeral keeps nothing, so it takes no --data")
    for option in UP_OPTIONS:
        if values[option.name] == "":
            raise typer.BadParameter(f"{option.flag} is empty")
        if option.kind == "path" and values[option.name] is not None:
            values[option.name] = Path(str(values[option.name]))
    settings = values["set"]
    assert isinstance(settings, list)
    for setting in settings:
        if not is_setting(setting):
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {setting!r}")
    values["set"] = tuple(settings)
    chosen = values["log_format"]
    values["log_format"] = chosen.value if isinstance(chosen, Enum) else chosen
    return UpOptions(**values)  # type: ignore[arg-type]  # the table's kinds are its types


def _start(**values: object) -> None:
    """Start the broker that a server.properties file describes."""
    if values["config"] is None:
        raise typer.BadParameter("--config FILE is required")
    unsaid = UpOptions()._asdict() | {"set": []}
    options = up_options(unsaid | values)
    from headrace.cli.broker.up import start

    raise typer.Exit(start(options))


def _up(**values: object) -> None:
    """Start a broker on this machine."""
    options = up_options(values)
    from headrace.cli.broker.up import up

    raise typer.Exit(up(options))


def _annotation(option: Option) -> object:
    show = option.shown_default
    info = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar,
        show_default=show if show is not None else False,
        min=0 if option.kind == "port" else None,
        max=MAX_PORT if option.kind == "port" else None,
    )
    types: dict[str, object] = {
        "path": str | None,
        "text": str | None,
        "port": int | None,
        "flag": bool,
        "choice": Enum(option.name, {choice: choice for choice in option.choices}),
        "repeated": list[str],
    }
    return Annotated[types[option.kind], info]


def _parameter(option: Option) -> Parameter:
    default = getattr(UpOptions(), option.name)
    if option.kind == "repeated":
        default = []
    return Parameter(
        option.name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=_annotation(option),
    )


# Typer reads a command's options from its signature: here it comes from the one table.
_UP_PARAMETERS = [_parameter(option) for option in UP_OPTIONS]
_up.__signature__ = Signature(_UP_PARAMETERS)  # type: ignore[attr-defined]
app.command("up")(_up)
_START_PARAMETERS = [_parameter(option) for option in START_OPTIONS]
_start.__signature__ = Signature(_START_PARAMETERS)  # type: ignore[attr-defined]
_broker = typer.Typer(help="One broker of a cluster.", no_args_is_help=True)
_broker.command("start")(_start)
# Typer makes the only command of a group the group itself; a callback keeps its name.
_broker.callback()(lambda: None)
app.add_typer(_broker, name="broker")
demo.register(app, _UP_PARAMETERS)
add_help(app)
