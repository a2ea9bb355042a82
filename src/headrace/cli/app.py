"""The full command line: every command, help, completion and error messages."""

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from headrace.cli import (
    INTERRUPTED,
    cert_commands,
    client_metrics_commands,
    config_commands,
    profile_commands,
    token_commands,
    transaction_commands,
)
from headrace.cli.acl import acl_commands
from headrace.cli.broker import broker_commands
from headrace.cli.cluster import cluster_commands
from headrace.cli.command import GlobalOptions
from headrace.cli.generate import generate_commands
from headrace.cli.group import group_commands, share_commands
from headrace.cli.help_text import add_help
from headrace.cli.options import Profile, Servers
from headrace.cli.output import remark
from headrace.cli.pipeline import demo, pipeline_commands
from headrace.cli.quota import quota_commands
from headrace.cli.records import consume, dlq, produce
from headrace.cli.top import top_command
from headrace.cli.topic import kafka_topics, topic_commands
from headrace.cli.user import user_commands

USAGE_ERROR = 2

_PLAIN_WORDS: Final = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"^Invalid value: ", ""),
        (r"Value error, ", ""),
        (r"Input should be a valid integer.*", "it must be a whole number"),
        (r"Input should be a valid number.*", "it must be a number"),
        (r"Input should be less than or equal to ", "it must be at most "),
        (r"Input should be greater than or equal to ", "it must be at least "),
        (r"[Gg]ot unexpected extra argument\(s\) \((.*)\)", r"unexpected argument \1"),
    )
)
"""The library's words for invalid values, in plain English."""

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
app.add_typer(transaction_commands.app, name="txn")
app.add_typer(config_commands.app, name="config")
app.add_typer(user_commands.app, name="user")
app.add_typer(acl_commands.app, name="acl")
app.add_typer(quota_commands.app, name="quota")
app.add_typer(token_commands.app, name="token")
app.add_typer(client_metrics_commands.app, name="client-metrics")
app.add_typer(cert_commands.app, name="cert")
app.add_typer(cluster_commands.app, name="cluster")
app.add_typer(pipeline_commands.app, name="pipeline")
app.add_typer(dlq.app, name="dlq")
app.add_typer(generate_commands.app, name="generate")
app.add_typer(profile_commands.app, name="profile")
top_command.register(app)
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
        result = app(args=list(words), prog_name="headrace", standalone_mode=False)
    except typer.TyperException as error:
        return _explain_usage(error)
    except typer.Abort:  # Ctrl-D at a prompt
        return INTERRUPTED
    except SystemExit as end:  # a closed pipe, or the script of a shell's completion
        return end.code if isinstance(end.code, int) else 1
    return result if isinstance(result, int) else 0


def _explain_usage(error: typer.TyperException) -> int:
    """Shows an error of the command line as other errors are shown, in one sentence."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if text.startswith("Usage:"):  # a group of commands without a command: its help
        typer.echo(text, err=True)
        return error.exit_code
    for pattern, plain in _PLAIN_WORDS:
        text = pattern.sub(plain, text)
    text = f"{text[:1].lower()}{text[1:].rstrip('.')}"
    if context is not None:
        text += f"{' See' if text.endswith('?') else '; see'} {context.command_path} --help"
    remark(text)
    return error.exit_code


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
demo.register(app, broker_commands.PLAINTEXT_UP_PARAMETERS)
add_help(app)
