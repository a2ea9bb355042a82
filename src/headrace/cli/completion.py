"""Shell completion of names in the cluster; completes nothing if no broker answers."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import typer

from headrace.cli.output import Format, Output
from headrace.cli.profiles import client_settings
from headrace.cli.session import Session
from headrace.client.admin.groups import SHARE, list_groups
from headrace.client.admin.topics import list_topics
from headrace.client.admin.transactions import list_transactions
from headrace.client.admin.users import describe_users
from headrace.client.client import ClusterClient

# A shell that hangs after the Tab key is worse than one without completions.
PATIENCE_S: Final = 1.5
# The rest of the time is for finding the brokers; one that hangs must not hide the others' names.
BROKER_S: Final = 1.0

Ask = Callable[[ClusterClient], Awaitable[Iterable[str]]]


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that are not internal."""

    async def ask(client: ClusterClient) -> Iterable[str]:
        found = await list_topics(client, timeout_s=PATIENCE_S)
        return [topic.name for topic in found if not topic.is_internal]

    return _complete_names(ctx, incomplete, ask)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups, but not share groups."""

    async def ask(client: ClusterClient) -> Iterable[str]:
        found = await list_groups(client, timeout_s=BROKER_S)
        return [group.group_id for group in found.items if group.kind != SHARE]

    return _complete_names(ctx, incomplete, ask)


def share_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Share groups."""

    async def ask(client: ClusterClient) -> Iterable[str]:
        found = await list_groups(client, timeout_s=BROKER_S)
        return [group.group_id for group in found.items if group.kind == SHARE]

    return _complete_names(ctx, incomplete, ask)


def users(ctx: typer.Context, incomplete: str) -> list[str]:
    """Users that log in with SCRAM."""

    async def ask(client: ClusterClient) -> Iterable[str]:
        return await describe_users(client, timeout_s=PATIENCE_S)

    return _complete_names(ctx, incomplete, ask)


def transactional_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids."""

    async def ask(client: ClusterClient) -> Iterable[str]:
        found = await list_transactions(client, timeout_s=BROKER_S)
        return [each.transactional_id for each in found.items]

    return _complete_names(ctx, incomplete, ask)


def _complete_names(ctx: typer.Context, incomplete: str, ask: Ask) -> list[str]:
    given = ctx.params
    try:
        settings = client_settings(
            servers=given.get("bootstrap_server"),
            profile=given.get("profile"),
            overrides={},
            environment=os.environ,
        )
        session = Session(settings, Output(Format.TEXT), PATIENCE_S)

        async def patiently(client: ClusterClient) -> Iterable[str]:
            return await asyncio.wait_for(ask(client), PATIENCE_S)

        found = session.run(patiently)
    except Exception:  # after any failure there are no completions
        return []
    return [name for name in found if name.startswith(incomplete)]
