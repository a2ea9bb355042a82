"""`headrace token`: create, list, renew and expire delegation tokens."""

from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import not_found, refused, usage
from headrace.cli.output import Fields, Table, remark
from headrace.cli.position_parser import parse_duration_ms
from headrace.cli.session import Session
from headrace.cli.timestamps import iso_time
from headrace.client.admin.tokens import (
    AT_ONCE,
    BROKER_DEFAULT,
    TokenInfo,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.security.principal import InvalidPrincipal, Principal, parse_principal

app = typer.Typer(
    help="Create, list, renew and expire delegation tokens: passwords with an end, for jobs and "
    "other processes.",
    no_args_is_help=True,
)

TokenId = Annotated[
    str,
    typer.Argument(metavar="TOKEN_ID", help="Id of the token.", show_default=False),
]


@command(app, "create")
def create(
    session: Session,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="User:NAME",
            help="Create the token for this user; needs the right CREATE_TOKENS on the user.",
            show_default="your user",
        ),
    ] = None,
    renewer: Annotated[
        list[str],
        typer.Option(
            "--renewer",
            metavar="User:NAME",
            help="Let this user renew and expire the token; repeatable.",
        ),
    ] = [],
    max_lifetime: Annotated[
        str | None,
        typer.Option(
            "--max-lifetime",
            metavar="DURATION",
            help="End the token after this time, such as 12h or 3d, even if it is renewed.",
            show_default="the broker's delegation.token.max.lifetime.ms",
        ),
    ] = None,
) -> None:
    """Create a token, and show its HMAC once.

    To log in with it, set sasl.username to the id, sasl.password to the HMAC, and sasl.tokenauth to
    true. Java clients set tokenauth=true in sasl.jaas.config.
    """
    lifetime_ms = _duration_ms(max_lifetime, "--max-lifetime", BROKER_DEFAULT)
    owner_principal = None if owner is None else _principal(owner, "--owner")
    renewers = [_principal(each, "--renewer") for each in renewer]

    async def work(client: ClusterClient) -> TokenInfo | Refusal:
        return await create_token(
            client,
            timeout_s=session.timeout_s,
            owner=owner_principal,
            renewers=renewers,
            max_lifetime_ms=lifetime_ms,
        )

    token = session.run(work)
    if isinstance(token, Refusal):
        raise refused("cannot create a token", token)
    facts = {"token_id": token.token_id, "hmac": token.password, **_facts(token)}
    labels = [(name.upper().replace("_", "-"), value) for name, value in facts.items()]
    session.output.show(facts, Fields(labels))
    remark("keep the HMAC secret: it is the password of the token, and is not shown again")


@command(app, "list")
def list_(
    session: Session,
    owner: Annotated[
        list[str],
        typer.Option(
            "--owner",
            metavar="User:NAME",
            help="List only tokens that this user owns, requested or may renew; repeatable.",
        ),
    ] = [],
) -> None:
    """List the tokens that you may see, without their HMACs."""
    owners = [_principal(each, "--owner") for each in owner] or None

    async def work(client: ClusterClient) -> list[TokenInfo]:
        return await _find_tokens(client, session, owners)

    facts = [{"token_id": token.token_id, **_facts(token)} for token in session.run(work)]
    headers = ("TOKEN-ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))


@command(app, "renew")
def renew(
    session: Session,
    token_id: TokenId,
    period: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Renew for this time from now, such as 12h.",
            show_default="the broker's delegation.token.expiry.time.ms",
        ),
    ] = None,
) -> None:
    """Renew a token: it expires later, within its maximum lifetime."""
    period_ms = _duration_ms(period, "--for", BROKER_DEFAULT)

    async def work(client: ClusterClient) -> int | Refusal:
        token = await _find_token(client, session, token_id)
        return await renew_token(
            client, token.hmac, timeout_s=session.timeout_s, period_ms=period_ms
        )

    expiry_ms = session.run(work)
    if isinstance(expiry_ms, Refusal):
        raise refused(f"token {token_id!r}", expiry_ms)
    facts = {"token_id": token_id, "expires": iso_time(expiry_ms)}
    session.output.show(facts, f"renewed {token_id}: it expires at {facts['expires']}")


@command(app, "expire")
def expire(
    session: Session,
    token_id: TokenId,
    period: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="DURATION",
            help="Expire the token after this time, such as 30m.",
            show_default="at once",
        ),
    ] = None,
    execute: Execute = False,
) -> None:
    """Expire a token: clients that logged in with it are disconnected."""
    period_ms = _duration_ms(period, "--in", AT_ONCE)

    async def inspect(client: ClusterClient) -> TokenInfo:
        return await _find_token(client, session, token_id)

    token = session.run(inspect)
    facts = {"token_id": token_id, **_facts(token)}
    plan = Fields([(name.upper().replace("_", "-"), value) for name, value in facts.items()])
    if not is_approved(session.output, execute, f"expire token {token_id}", facts, plan):
        return

    async def work(client: ClusterClient) -> int | Refusal:
        return await expire_token(
            client, token.hmac, timeout_s=session.timeout_s, period_ms=period_ms
        )

    expiry_ms = session.run(work)
    if isinstance(expiry_ms, Refusal):
        raise refused(f"token {token_id!r}", expiry_ms)
    result = {"token_id": token_id, "expires": iso_time(expiry_ms)}
    text = f"token {token_id} expires at {result['expires']}"
    session.output.show(result, text if period else f"expired {token_id}")


async def _find_token(client: ClusterClient, session: Session, token_id: str) -> TokenInfo:
    """The token with this id; the broker shows its HMAC, by which requests name it."""
    tokens = {token.token_id: token for token in await _find_tokens(client, session, None)}
    if token_id not in tokens:
        raise not_found("token", token_id, tokens)
    return tokens[token_id]


async def _find_tokens(
    client: ClusterClient, session: Session, owners: Sequence[Principal] | None
) -> list[TokenInfo]:
    found = await describe_tokens(client, timeout_s=session.timeout_s, owners=owners)
    if isinstance(found, Refusal):
        raise refused("cannot list tokens", found)
    return found


def _facts(token: TokenInfo) -> dict[str, object]:
    return {
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issued": iso_time(token.issue_ms),
        "expires": iso_time(token.expiry_ms),
        "max": iso_time(token.max_ms),
    }


def _principal(text: str, flag: str) -> Principal:
    try:
        return parse_principal(text)
    except InvalidPrincipal as error:
        raise usage(f"{flag}: {error}") from error


def _duration_ms(text: str | None, flag: str, default: int) -> int:
    return default if text is None else parse_duration_ms(text, flag)
