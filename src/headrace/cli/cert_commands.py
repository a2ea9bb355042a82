"""`headrace cert`: certificates for development."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.certificate_files import SERVER, CertificateFiles, CertificatesUnavailable
from headrace.cli import command
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import write

app = typer.Typer(help="Create certificates for development.", no_args_is_help=True)

CREATED: Final = """\
Created in {folder}:

{files}

Broker settings:

  listeners=SSL://:9093
  security.inter.broker.protocol=SSL
  ssl.keystore.type=PEM
  ssl.keystore.location={keystore}
  ssl.truststore.type=PEM
  ssl.truststore.location={ca}

Client settings:

  security.protocol=SSL
  ssl.ca.location={ca}
{client}
Java clients (the password is in {password}):

  ssl.truststore.type=PKCS12
  ssl.truststore.location={truststore}
{java}
These certificates are for development: keep {ca_key} on this machine.
"""
CLIENT: Final = """\
  ssl.certificate.location={certificate}
  ssl.key.location={key}
"""
JAVA: Final = """\
  ssl.keystore.type=PKCS12
  ssl.keystore.location={pkcs12}
"""


@app.callback()
def _group() -> None:
    """Create certificates for development."""


@app.command("dev")
def dev(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of the certificates and keys.")
    ],
    host: Annotated[
        list[str],
        typer.Option(
            "--host",
            metavar="NAME",
            help="Name or address of a broker's machine, besides this one; repeatable.",
        ),
    ] = [],
    client: Annotated[
        list[str],
        typer.Option("--client", metavar="NAME", help="Create a client certificate; repeatable."),
    ] = [],
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Replace existing certificates by new ones of the same CA."),
    ] = False,
) -> None:
    """Create a CA, a broker certificate and client certificates for development.

    In a directory that has a CA, only the missing certificates are created.
    """

    def work() -> ExitCode | None:
        files = CertificateFiles(folder)
        try:
            _issue(files, host, client, renew=renew)
        except CertificatesUnavailable as error:
            raise CommandFailed(str(error)) from error
        write(_next_steps(files, client))
        return None

    raise typer.Exit(command.guard(work))


def _issue(
    files: CertificateFiles, hosts: Sequence[str], clients: Sequence[str], *, renew: bool
) -> None:
    has_server = files.exists(SERVER)
    existing = [name for name in clients if files.exists(name)]
    if has_server and (hosts or not clients):
        existing.append(SERVER)
    if existing and not renew:
        raise usage(
            f"{files.certificate(existing[0])} exists; replace it with --renew, or choose another "
            "directory"
        )
    if SERVER in existing or not has_server:
        files.issue_server(hosts)
    for name in clients:
        files.issue_client(name)


def _next_steps(files: CertificateFiles, clients: Sequence[str]) -> str:
    names = [SERVER, *clients]
    shown = [files.ca, files.truststore]
    for name in names:
        shown += [files.certificate(name), files.key(name), files.keystore(name)]
        shown.append(files.pkcs12(name))
    first = clients[0] if clients else None
    return CREATED.format(
        folder=files.folder,
        files="\n".join(f"  {path.name}" for path in shown),
        keystore=files.keystore().absolute(),
        ca=files.ca.absolute(),
        ca_key=files.folder / "ca.key",
        password=files.password_file,
        truststore=files.truststore.absolute(),
        client=CLIENT.format(
            certificate=files.certificate(first).absolute(), key=files.key(first).absolute()
        )
        if first
        else "",
        java=JAVA.format(pkcs12=files.pkcs12(first).absolute()) if first else "",
    )
