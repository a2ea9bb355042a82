"""The full command line: every command, help, completion and error messages."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli import config_commands, profile_commands, txn
from headrace.cli.broker import broker_commands
from headrace.cli.cluster import cluster_commands
from headrace.cli.command import GlobalOptions
from headrace.cli.group import group_commands, share_commands
from headrace.cli.help_text import add_help
from headrace.cli.options import Profile, Servers
from headrace.cli.pipeline import demo, pipeline_commands
from headrace.cli.records import consume, dlq, produce
from headrace.cli.topic import kafka_topics, topic_commands

USAGE_ERROR = 2

app = typer.Typer(
    name="headrace",
    help="Run and use Headrace, a commit log that speaks Kafka's wire protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
    profile: Profile = None,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Run and use Headrace, a commit log that speaks Kafka's wire protocol."""
    ctx.obj = GlobalOptions(bootstrap_server, profile)


def run(words: Sequence[str]) -> int:
    """Runs the command line and returns its exit code."""
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


broker_commands.register(app)
demo.register(app, broker_commands.UP_PARAMETERS)
add_help(app)
