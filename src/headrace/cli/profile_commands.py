"""`headrace profile`: the profiles of the configuration file, and the effective settings."""

import os

import typer

from headrace.cli.command import command
from headrace.cli.output import Fields, Table
from headrace.cli.profiles import SECRET, SERVERS, read_profiles
from headrace.cli.session import Session

app = typer.Typer(
    help="Show profiles: named clusters and their client settings.", no_args_is_help=True
)
_HIDDEN = "(hidden)"


@command(app, "list")
def list_(session: Session) -> None:
    """List the profiles of the configuration file."""
    profiles = read_profiles(os.environ)
    facts = [
        {
            "name": name,
            "default": name == profiles.chosen,
            "bootstrap_servers": settings.get(SERVERS),
            "security_protocol": settings.get("security.protocol", "PLAINTEXT"),
        }
        for name, settings in profiles.by_name.items()
    ]
    headers = ("NAME", "DEFAULT", "BOOTSTRAP-SERVERS", "SECURITY")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))


@command(app, "show")
def show(session: Session) -> None:
    """Show the client settings from the profile, the environment and the command line."""
    facts = {
        name: _HIDDEN if name in SECRET else value
        for name, value in sorted(session.settings.items())
    }
    session.output.show(facts, Fields(list(facts.items())))
