"""`headrace quota`: set, list, describe and unset client quotas."""

from typing import Annotated

import typer

from headrace.cli.byte_rates import parse_byte_rate
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import refused, usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import DryRun
from headrace.cli.output import Table, counted, remark
from headrace.cli.quota.quota_options import (
    ClientDefault,
    ClientId,
    ConnectionCreationRate,
    ConsumerByteRate,
    ControllerMutationRate,
    Ip,
    IpDefault,
    ProducerByteRate,
    RequestPercentage,
    User,
    UserDefault,
)
from headrace.cli.quota.quota_words import (
    HEADERS,
    EntityOptions,
    facts_of,
    key_of,
    rows_of,
)
from headrace.cli.session import Session
from headrace.client.admin.quotas import Limits, alter_quota, list_quotas
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.operations.quota_text import show_entity, show_limit
from headrace.security.quotas.client_quota import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER_CLIENT_KEYS,
    QuotaEntity,
)
from headrace.security.quotas.quota_limits import applying_entity

app = typer.Typer(help="Set, list, describe and unset the quotas of clients.", no_args_is_help=True)

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUOTA",
        help="Quotas to remove, such as producer-byte-rate.",
        show_default="all quotas",
    ),
]


@command(app, "set")
def set_(
    session: Session,
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_default: ClientDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    producer_byte_rate: ProducerByteRate = None,
    consumer_byte_rate: ConsumerByteRate = None,
    request_percentage: RequestPercentage = None,
    controller_mutation_rate: ControllerMutationRate = None,
    connection_creation_rate: ConnectionCreationRate = None,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Set limits. A client over a limit is throttled, and gets no error.

    A quota for a user and a client id wins over one for the user, which wins over one for the
    client id. Each broker applies the limits to its own clients.
    """
    named = EntityOptions(user, user_default, client_id, client_default, ip, ip_default)
    entity = named.entity()
    given = {
        PRODUCER_BYTE_RATE: _rate(producer_byte_rate, "--producer-byte-rate"),
        CONSUMER_BYTE_RATE: _rate(consumer_byte_rate, "--consumer-byte-rate"),
        REQUEST_PERCENTAGE: request_percentage,
        CONTROLLER_MUTATION_RATE: controller_mutation_rate,
        CONNECTION_CREATION_RATE: connection_creation_rate,
    }
    limits = {key: float(value) for key, value in given.items() if value is not None}
    if not limits:
        raise usage("nothing to set; give a limit, for example --producer-byte-rate 1MB")

    async def work(client: ClusterClient) -> Refusal | None:
        return await alter_quota(
            client, entity, limits, timeout_s=session.timeout_s, validate_only=dry_run
        )

    why = session.run(work)
    if why is not None:
        raise refused(f"quota of {show_entity(entity)}", why)
    done = "would set" if dry_run else "set"
    shown = ", ".join(f"{key} {show_limit(key, value)}" for key, value in limits.items())
    facts = {**facts_of(entity, limits), "dry_run": dry_run}
    session.output.show(facts, f"{done} for {show_entity(entity)}: {shown}")
    return None


def _rate(text: str | None, option: str) -> int | None:
    return None if text is None else parse_byte_rate(text, option)


@command(app, "list")
def list_(
    session: Session,
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_default: ClientDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
) -> None:
    """List quotas: all, or those of every entity with the given names."""
    named = EntityOptions(user, user_default, client_id, client_default, ip, ip_default)
    wanted = named.filter()

    async def work(client: ClusterClient) -> dict[QuotaEntity, Limits]:
        return await list_quotas(client, wanted, timeout_s=session.timeout_s)

    found = session.run(work)
    rows = [row for entity, limits in found.items() for row in rows_of(entity, limits)]
    facts = [facts_of(entity, limits) for entity, limits in found.items()]
    session.output.show(facts, Table(HEADERS, rows))


@command(app, "describe")
def describe(
    session: Session, user: User = None, client_id: ClientId = None, ip: Ip = None
) -> ExitCode | None:
    """Show which limits apply to a client, and the quota that each comes from."""
    named = EntityOptions(user, False, client_id, False, ip, False)
    named.entity()

    async def work(client: ClusterClient) -> dict[QuotaEntity, Limits]:
        return await list_quotas(client, timeout_s=session.timeout_s)

    quotas = session.run(work)
    keys = USER_CLIENT_KEYS if ip is None else (CONNECTION_CREATION_RATE,)
    applying = {key: _applying(quotas, key, named) for key in keys}
    facts = [
        {
            "quota": key,
            "limit": None if entity is None else quotas[entity][key],
            "from": None if entity is None else dict(entity.parts),
        }
        for key, entity in applying.items()
    ]
    rows = [
        (key, "unlimited", None)
        if entity is None
        else (key, show_limit(key, quotas[entity][key]), show_entity(entity))
        for key, entity in applying.items()
    ]
    session.output.show(facts, Table(("QUOTA", "LIMIT", "FROM"), rows))
    return None


def _applying(
    quotas: dict[QuotaEntity, Limits], key: str, named: EntityOptions
) -> QuotaEntity | None:
    if named.ip is None:
        return applying_entity(quotas, key, named.user or "", named.client_id or "")
    candidates = (named.entity(), QuotaEntity(((IP, None),)))
    return next((each for each in candidates if key in quotas.get(each, {})), None)


@command(app, "unset")
def unset(
    session: Session,
    quotas: Keys = None,
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_default: ClientDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    execute: Execute = False,
) -> ExitCode | None:
    """Remove quotas of one user, client id or address, so that the next one in order applies."""
    named = EntityOptions(user, user_default, client_id, client_default, ip, ip_default)
    entity = named.entity()
    keys = [key_of(word) for word in quotas or ()]

    async def inspect(client: ClusterClient) -> Limits:
        found = await list_quotas(client, named.filter(), timeout_s=session.timeout_s)
        return found.get(entity, {})

    limits = session.run(inspect)
    removed = {key: limits[key] for key in keys or limits if key in limits}
    if not removed:
        remark(f"{show_entity(entity)} has no such quota")
        session.output.show([])
        return ExitCode.NOT_FOUND
    facts = {**facts_of(entity, removed), "status": "would remove"}
    action = f"remove {counted(len(removed), 'quota')} of {show_entity(entity)}"
    plan = Table(HEADERS, rows_of(entity, removed))
    if not is_approved(session.output, execute, action, facts, plan):
        return ExitCode.OK

    async def work(client: ClusterClient) -> Refusal | None:
        changes = dict.fromkeys(removed)
        return await alter_quota(client, entity, changes, timeout_s=session.timeout_s)

    why = session.run(work)
    if why is not None:
        raise refused(f"quota of {show_entity(entity)}", why)
    done = f"removed from {show_entity(entity)}: {', '.join(removed)}"
    session.output.show({**facts, "status": "removed"}, done)
    return None
