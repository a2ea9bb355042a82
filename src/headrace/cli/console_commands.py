"""`headrace console`: the web console, for this cluster or any other Kafka."""

import sys
import threading
from typing import Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.session import Session

DEFAULT_LISTEN: Final = "127.0.0.1:9645"
_PANEL: Final = "Console"


def register(app: typer.Typer) -> None:
    """Adds `console`."""
    command(app, "console", own_format=True)(console)


def console(
    session: Session,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0: any."),
    ] = DEFAULT_LISTEN,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything and change nothing.")
    ] = False,
    host_name: Annotated[
        list[str],
        typer.Option(
            "--host-name", metavar="NAME", help="Name by which browsers reach it; repeatable."
        ),
    ] = [],
    tls_cert: Annotated[
        str | None,
        typer.Option("--tls-cert", metavar="FILE", help="Serve HTTPS with this certificate (PEM)."),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM)."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Schema registry for Avro and Protobuf."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the cluster in the pages.")
    ] = "",
    pipelines: Annotated[
        list[str],
        typer.Option(
            "--pipelines",
            metavar="PATH",
            help="Checkpoint directory of a pipeline, a directory of them, or a spec; repeatable.",
        ),
    ] = [],
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> ExitCode | None:
    """Start the web console: topics, messages, groups, brokers, pipelines, users.

    If the cluster wants a login, each visitor logs in with credentials of the cluster. With
    credentials in the profile or in -X, the console uses those, and prints an address with an
    access token.
    """
    try:
        from headrace.console.server import log_to_stderr, serve
        from headrace.console.settings import (
            ConsoleSettings,
            InvalidConsoleSetting,
            ListenAddress,
        )
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("headrace"):
            raise
        raise CommandFailed(
            f"the console needs {error.name}, which is not installed: "
            "pip install 'headrace[console]'"
        ) from None
    log_to_stderr()
    try:
        settings = ConsoleSettings(
            session.resolved,
            ListenAddress.parse(listen),
            read_only=read_only,
            host_names=tuple(host_name),
            certificate=tls_cert,
            key=tls_key,
            schema_registry=registry,
            cluster_name=name,
            pipelines=tuple(pipelines),
        )
        settings.check()
    except InvalidConsoleSetting as error:
        raise usage(str(error)) from None
    if until_stdin_ends:
        _stop_with_stdin()
    try:
        serve(settings, _announce)
    except InvalidConsoleSetting as error:
        raise CommandFailed(str(error)) from None
    return None


def _announce(address: str) -> None:
    sys.stdout.write(f"The console is at {address}\n")
    sys.stdout.flush()


def _stop_with_stdin() -> None:
    """Ends this process when the one that started it has closed the pipe, or is gone."""
    import os
    import signal

    def wait() -> None:
        while sys.stdin.buffer.read(1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="stdin", daemon=True).start()
