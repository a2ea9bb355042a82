"""`headrace profile`: the profiles of the configuration file, and the effective settings."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.error_messages import usage
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.cli.output import Fields, Table, remark
from headrace.cli.profiles import (
    SERVERS,
    Profiles,
    config_path,
    read_profiles,
    read_properties_file,
)
from headrace.cli.secrets import is_secret, resolve_secrets
from headrace.cli.session import Session
from headrace.client.login.security import InvalidSecurity, Mechanism, security_of

app = typer.Typer(
    help="Create and show profiles: named clusters and their client settings.",
    no_args_is_help=True,
)
_HIDDEN: Final = "(hidden)"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_WITH_PASSWORD: Final = frozenset(Mechanism) - {Mechanism.OAUTHBEARER}


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
        name: _HIDDEN if is_secret(name) else value
        for name, value in sorted(session.settings.items())
    }
    session.output.show(facts, Fields(list(facts.items())))


@command(app, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new profile.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE",
            help="Client settings by Kafka's names.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Take the settings of a properties file."),
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Use this profile when none is named.")
    ] = False,
) -> None:
    """Add a profile to the configuration file.

    A missing password is read from the terminal, or from the first line of stdin.
    """
    if not _NAME.fullmatch(name):
        raise usage(f"a profile's name has letters, digits, - and _ only, not {name!r}")
    profiles = read_profiles(os.environ if config_path(os.environ).exists() else {})
    if name in profiles.by_name:
        raise usage(f"{profiles.path} already has a profile {name!r}; edit it there")
    values = _collected(source, parse_name_value_pairs(settings or [], "SETTING=VALUE"))
    if session.servers_named or SERVERS not in values:
        values[SERVERS] = session.servers
    _add_password(values)
    try:
        security_of(resolve_secrets(values))
    except InvalidSecurity as error:
        raise usage(str(error)) from error
    path = config_path(os.environ)
    _append_profile(path, profiles, name, values, is_default=default)
    remark(f"added the profile {name!r} to {path}")


def _collected(source: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the file, overridden by those of the command line."""
    for setting in filter(is_secret, given):
        raise usage(
            f"{setting}: a secret on the command line is visible to other users; leave it out to "
            f"type it in, or set {setting}.file or {setting}.command"
        )
    values = read_properties_file(source) if source is not None else {}
    if "sasl.username" in given:  # the file has the password of another user
        values = {
            name: value
            for name, value in values.items()
            if not (name.startswith("sasl.") and is_secret(name))
        }
    return {**values, **given}


def _add_password(values: dict[str, str]) -> None:
    mechanism = values.get("sasl.mechanism", values.get("sasl.mechanisms", "")).upper()
    known = {"sasl.password", "sasl.password.file", "sasl.password.command", "sasl.jaas.config"}
    if mechanism not in _WITH_PASSWORD or values.keys() & known:
        return
    if sys.stdin.isatty():
        values["sasl.password"] = typer.prompt("Password", hide_input=True, err=True)
    else:
        values["sasl.password"] = sys.stdin.readline().rstrip("\r\n")


def _append_profile(
    path: Path, before: Profiles, name: str, values: Mapping[str, str], *, is_default: bool
) -> None:
    """Writes the file anew, with mode 0600; what the user wrote in it stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if is_default and before.chosen is not None:
        raise usage(f"{path} has the default profile {before.chosen!r}; change it there")
    if is_default:
        text = f"profile = {json.dumps(name)}\n\n{text}"
    lines = [f"{setting} = {_toml(value)}\n" for setting, value in values.items()]
    text = f"{text.rstrip()}\n\n[profiles.{name}]\n{''.join(lines)}".lstrip()
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def _toml(value: str) -> str:
    """A basic string of TOML; JSON's escapes are a part of TOML's, except those of pairs."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
