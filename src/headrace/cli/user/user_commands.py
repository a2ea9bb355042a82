"""`headrace user`: create, list and delete users that log in with SCRAM, change passwords."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, refused, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.options import name_argument
from headrace.cli.output import Fields, Table, report
from headrace.cli.session import Session
from headrace.cli.user.offline_users import create_offline
from headrace.cli.user.passwords import new_password
from headrace.client.admin.users import (
    CredentialDeletion,
    NewCredential,
    UserCredential,
    alter_users,
    describe_users,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.operations import user_passwords
from headrace.protocol.errors import ErrorCode
from headrace.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
)

app = typer.Typer(
    help="Create, list and delete users that log in with SCRAM.", no_args_is_help=True
)

DEFAULT_MECHANISM: Final = user_passwords.DEFAULT_MECHANISM.mechanism_name

User = Annotated[str, name_argument("NAME", "Name of the user.", completion.users)]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from the first line of a file.",
        show_default="a prompt, or stdin",
    ),
]
Generate = Annotated[bool, typer.Option("--generate", help="Generate a password and show it once.")]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=MIN_ITERATIONS,
        max=MAX_ITERATIONS,
        help="Hash iterations: more make guessing a stolen password slower, and each login.",
    ),
]


@command(app, "create")
def create(
    session: Session,
    user: User,
    mechanism: Annotated[
        str,
        typer.Option("--mechanism", metavar="NAME", help=f"One of {', '.join(SCRAM_MECHANISMS)}."),
    ] = DEFAULT_MECHANISM,
    password_file: PasswordFile = None,
    generate: Generate = False,
    iterations: Iterations = user_passwords.DEFAULT_ITERATIONS,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Write to the data directory of a single node that does not run.",
        ),
    ] = None,
) -> None:
    """Create a user."""
    chosen = _mechanism(mechanism)
    if data is None and chosen in _mechanisms_of(session, user):
        raise CommandFailed(
            f"the user {user!r} exists already; change the password with: headrace user passwd"
        )
    new = _new_credential(user, chosen, password_file, generate=generate, iterations=iterations)
    if data is None:
        _alter(session, new)
    else:
        create_offline(data, new)
    _show_new(session, "created", new, shows_password=generate)


@command(app, "list")
def list_(session: Session) -> None:
    """List users and their mechanisms."""

    async def work(client: ClusterClient) -> dict[str, list[UserCredential] | Refusal]:
        return await describe_users(client, timeout_s=session.timeout_s)

    facts = [
        {
            "user": name,
            "mechanism": each.mechanism.mechanism_name,
            "iterations": each.iterations,
        }
        for name, found in sorted(session.run(work).items())
        if not isinstance(found, Refusal)
        for each in found
    ]
    rows = [tuple(each.values()) for each in facts]
    session.output.show(facts, Table(("USER", "MECHANISM", "ITERATIONS"), rows))


@command(app, "passwd")
def passwd(
    session: Session,
    user: User,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", metavar="NAME", help="Needed if the user has several mechanisms."
        ),
    ] = None,
    password_file: PasswordFile = None,
    generate: Generate = False,
    iterations: Iterations = user_passwords.DEFAULT_ITERATIONS,
) -> None:
    """Change a user's password. The user's connections are closed."""
    has = _mechanisms_of(session, user)
    if not has:
        raise _unknown(session, user)
    if mechanism is None and len(has) > 1:
        names = ", ".join(each.mechanism_name for each in has)
        raise usage(f"the user {user!r} has {names}; choose one with --mechanism")
    chosen = has[0] if mechanism is None else _mechanism(mechanism)
    if chosen not in has:
        raise usage(f"the user {user!r} has no password for {chosen.mechanism_name}")
    new = _new_credential(user, chosen, password_file, generate=generate, iterations=iterations)
    _alter(session, new)
    _show_new(session, "changed", new, shows_password=generate)


@command(app, "delete")
def delete(
    session: Session,
    user: User,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", metavar="NAME", help="Delete only the password for this mechanism."
        ),
    ] = None,
    execute: Execute = False,
) -> ExitCode | None:
    """Delete a user. The user's connections are closed."""
    has = _mechanisms_of(session, user)
    chosen = has if mechanism is None else [_mechanism(mechanism)]
    if not has or not set(chosen) <= set(has):
        raise _unknown(session, user)
    names = [each.mechanism_name for each in chosen]
    facts = {"user": user, "mechanisms": names}
    block = Fields([("USER", user), ("MECHANISMS", names)])
    if not is_approved(session.output, execute, f"delete user {user}", facts, block):
        return None
    outcome: Refusal | None = None
    for each in chosen:  # a broker changes one credential of a user at a time
        outcome = outcome or _altered(session, CredentialDeletion(user, each))
    return report(session.output, "user", "deleted", {user: outcome})


def _mechanism(name: str) -> ScramMechanism:
    found = SCRAM_MECHANISMS.get(name.upper())
    if found is None:
        raise usage(f"--mechanism must be one of {', '.join(SCRAM_MECHANISMS)}, not {name!r}")
    return found


def _mechanisms_of(session: Session, user: str) -> list[ScramMechanism]:
    """The mechanisms for which the user has a password; empty for an unknown user."""

    async def work(client: ClusterClient) -> dict[str, list[UserCredential] | Refusal]:
        return await describe_users(client, [user], timeout_s=session.timeout_s)

    found = session.run(work).get(user, [])
    if not isinstance(found, Refusal):
        return [each.mechanism for each in found]
    if found.code is ErrorCode.RESOURCE_NOT_FOUND:
        return []
    raise refused(f"user {user!r}", found)


def _unknown(session: Session, user: str) -> CommandFailed:
    async def work(client: ClusterClient) -> dict[str, list[UserCredential] | Refusal]:
        return await describe_users(client, timeout_s=session.timeout_s)

    return not_found("user", user, session.run(work))


def _new_credential(
    user: str, mechanism: ScramMechanism, file: Path | None, *, generate: bool, iterations: int
) -> NewCredential:
    if not user:
        raise usage("the name of a user must not be empty")
    password = new_password(file, generate=generate)
    return user_passwords.new_credential(user, mechanism, password, iterations)


def _alter(session: Session, change: NewCredential) -> None:
    refusal = _altered(session, change)
    if refusal is not None:
        raise refused(f"user {change.user!r}", refusal)


def _altered(session: Session, change: NewCredential | CredentialDeletion) -> Refusal | None:
    async def work(client: ClusterClient) -> dict[str, Refusal | None]:
        return await alter_users(client, [change], timeout_s=session.timeout_s)

    return session.run(work).get(change.user)


def _show_new(session: Session, done: str, new: NewCredential, *, shows_password: bool) -> None:
    facts: dict[str, object] = {
        "user": new.user,
        "status": done,
        "mechanism": new.mechanism.mechanism_name,
        "iterations": new.iterations,
    }
    lines = [f"{done} user {new.user} ({new.mechanism.mechanism_name})"]
    if shows_password:
        facts["password"] = new.password
        lines.append(f"password: {new.password}")
    session.output.show(facts, "\n".join(lines))
