"""The log of what clients do to the broker and what it does about it: limited for each client.

A client that is refused or sends slow requests has a few lines and then one every few seconds; a
throttled one has a line a minute. Each line has the number of those that were left out before it.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from headrace.limited_log import LimitedLog, LineLimit
from headrace.protocol.api import APIS, ApiKey
from headrace.security.session import Session

log = logging.getLogger(__package__)

SLOW_BURST_LINES: Final = 5
SLOW_LINES_PER_S: Final = 0.1
THROTTLED_LINES_PER_S: Final = 1 / 60


class LoggedClient(Protocol):
    """A connection, as lines about its client name it."""

    peer: str
    client_id: str | None

    @property
    def session(self) -> Session: ...


class ClientLog:
    """The lines of one broker about its clients."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        now_s = monotonic()
        self._refused = LimitedLog(log, monotonic)
        self._slow = LimitedLog(
            log, monotonic, LineLimit(now_s, burst=SLOW_BURST_LINES, per_s=SLOW_LINES_PER_S)
        )
        self._throttled = LimitedLog(
            log, monotonic, LineLimit(now_s, burst=1, per_s=THROTTLED_LINES_PER_S)
        )

    def report_left_out(self) -> None:
        """Logs how many lines were left out."""
        self._refused.report_left_out()

    def admit_invalid_request(self, host: str) -> int | None:
        """None if the line must be left out; see `LineLimit.admit`."""
        return self._refused.admit(("invalid request", host))

    def refused_connection(self, peer: str, limit: str) -> None:
        """The connection is over a limit of the broker."""
        host = peer.rpartition(":")[0]
        self._refused.warning("refused a connection", about=host, peer=peer, limit=limit)

    def stopped_accepting(self, listener: str, limit: str) -> None:
        """Further connections wait until the limit allows them."""
        self._throttled.warning(
            "stopped accepting connections until a limit allows them",
            about=f"{listener} {limit}",
            listener=listener,
            limit=limit,
        )

    def refused_client(self, peer: str, reason: str) -> None:
        """The client may not use its connection."""
        host = peer.rpartition(":")[0]
        self._refused.info("refused a client", about=host, peer=peer, reason=reason)

    def delayed_connection(self, host: str, listener: str, delay_s: float) -> None:
        """The client's address opens too many connections."""
        self._refused.info(
            "refused a connection: its address opens too many",
            about=host,
            host=host,
            listener=listener,
            closes_in_s=delay_s,
        )

    def failed_handshake(self, host: str, listener: str, reason: str) -> None:
        """The client and the broker found no common TLS."""
        self._refused.info(
            "TLS handshake failed", about=host, host=host, listener=listener, reason=reason
        )

    def slow_request(self, client: LoggedClient, api: int, queued_s: float, took_s: float) -> None:
        """A request was answered late; `queued_s` is the part before its handler began."""
        name = APIS[ApiKey(api)].name
        self._slow.warning(
            "slow request",
            about=f"{name} {client.client_id}",
            api=name,
            principal=str(client.session.principal),
            client_id=client.client_id,
            peer=client.peer,
            ms=round((queued_s + took_s) * 1000),
            queued_ms=round(queued_s * 1000),
            handler_ms=round(took_s * 1000),
        )

    def throttled(self, client: LoggedClient, duration_s: float) -> None:
        """The client has exceeded a quota."""
        principal = str(client.session.principal)
        self._throttled.info(
            "throttled a client: it is over a quota",
            about=f"{principal} {client.client_id}",
            principal=principal,
            client_id=client.client_id,
            peer=client.peer,
            ms=round(duration_s * 1000),
        )
