"""The end of delegation tokens: closes the sessions of ended tokens, and removes expired tokens.

Every broker closes its own sessions. Only the active controller removes tokens; until then an
expired token is still listed, but no client can log in with it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, Protocol

from headrace.broker.access.delegation_tokens import DelegationTokens
from headrace.broker.maintenance.task_scheduler import PeriodicTask
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.network.server import Server
from headrace.broker.runtime.clock_jumps import ClockJumps
from headrace.clock import Clock
from headrace.cluster.settings import BrokerSettings
from headrace.controller.errors import NotController
from headrace.controller.token_expiry import remove_expired_tokens

log = logging.getLogger(__package__)

SESSION_CHECK_S: Final = 0.5
"""How long a session may outlive its token."""


class TokenExpiryHost(Protocol):
    """The part of the broker that these tasks use."""

    clock: Clock
    server: Server
    settings: BrokerSettings

    @property
    def is_controller(self) -> bool: ...

    @property
    def metadata(self) -> Metadata: ...


def token_expiry_tasks(host: TokenExpiryHost, tokens: DelegationTokens) -> list[PeriodicTask]:
    """The tasks of a broker with delegation tokens."""
    every_s = host.settings.integer("delegation.token.expiry.check.interval.ms") / 1000
    return [
        PeriodicTask(
            "close the sessions of ended delegation tokens",
            SESSION_CHECK_S,
            _TokenSessions(host.server, tokens).run,
        ),
        PeriodicTask("remove expired delegation tokens", every_s, _ExpiredTokens(host).run),
    ]


class _TokenSessions:
    """Closes the connections of clients whose token has expired or was removed."""

    def __init__(self, server: Server, tokens: DelegationTokens) -> None:
        self._server = server
        self._tokens = tokens

    async def run(self) -> None:
        self._server.close_token_sessions(self._tokens.is_valid)


class _ExpiredTokens:
    """Removes expired tokens from the metadata. After a clock jump, the first run removes none."""

    def __init__(self, host: TokenExpiryHost) -> None:
        self._host = host
        self._jumps = ClockJumps(host.clock, "delegation tokens")

    async def run(self) -> None:
        if self._jumps.check_for_jump() or not self._host.is_controller:
            return
        now_ms = self._host.clock.wall_ms()
        with suppress(NotController):
            while removed := await self._host.metadata.decide(
                lambda controller: remove_expired_tokens(controller.image, now_ms)
            ):
                for token in removed:
                    log.info(
                        "removed an expired delegation token",
                        extra={"id": token.token_id, "owner": str(token.owner)},
                    )
