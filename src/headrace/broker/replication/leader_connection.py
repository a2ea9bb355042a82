"""The connection to a leader: opened, monitored and reopened after a failure.

Guarantees: there is at most one connection at a time. After a failure it is reopened, with pauses
that grow up to the backoff. A leader that does not answer in time gets a new connection.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

from headrace.broker.replication.fetch_backoff import longer_backoff_s
from headrace.broker.runtime.timers import Timer, Timers
from headrace.client.errors import ClientError
from headrace.client.network.frames import Frame
from headrace.clock import Clock
from headrace.failure_log import FailureLog
from headrace.protocol.struct import Struct

log = logging.getLogger(__package__)

CHECK_S: Final = 1.0


class LeaderLink(Protocol):
    """An open connection to a leader."""

    @property
    def is_open(self) -> bool: ...

    def start(self, request: Struct, *, version: int) -> "asyncio.Future[Frame]":
        """Sends at once; the future has the whole response frame or a `ClientError`."""
        ...

    def abort(self) -> None: ...


class LeaderConnectionHost(Protocol):
    """The part of the broker that a leader connection uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers


class LeaderConnectionUser(NamedTuple):
    """The callbacks of the connection's user."""

    opened: Callable[[], None]
    """A new connection is open; it has no requests in flight."""
    try_again: Callable[[], None]
    waits_since: Callable[[], float | None]
    """The time since which a response is awaited; None if none is awaited."""


class LeaderConnection:
    """The connection to one broker."""

    def __init__(
        self,
        host: LeaderConnectionHost,
        leader_id: int,
        connect: Callable[[], Coroutine[Any, Any, LeaderLink]],
        user: LeaderConnectionUser,
        *,
        backoff_s: float,
        timeout_s: float,
    ) -> None:
        self.current: LeaderLink | None = None
        self._host = host
        self._leader_id = leader_id
        self._connect = connect
        self._user = user
        self._longest_backoff_s = backoff_s
        self._timeout_s = timeout_s
        self._backoff_s = 0.0
        self._failures = FailureLog(log)
        self._connecting: asyncio.Task[None] | None = None
        self._check_timer: Timer | None = None
        self._closed = False

    def open(self) -> None:
        """Connects, unless a connection attempt is in progress."""
        if self._connecting is None and not self._closed:
            self._connecting = self._host.loop.create_task(self._connect_once())

    def response_received(self) -> None:
        """Records that a response has arrived: the next failure counts as the first."""
        self._backoff_s = 0.0
        if self._failures.has_failed:
            self._failures.succeeded("fetching from a leader works again", leader=self._leader_id)

    def failed(self, link: LeaderLink, error: BaseException) -> None:
        """Handles the failure of a connection; ignored if it is not the current one."""
        if link is self.current:
            link.abort()
            self.current = None
            self._reconnect_later(error)

    def close(self) -> None:
        self._closed = True
        if self._check_timer is not None:
            self._check_timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self.current is not None:
            self.current.abort()

    async def _connect_once(self) -> None:
        try:
            link = await self._connect()
        except ClientError as error:
            self._connecting = None
            self._reconnect_later(error)
            return
        self._connecting = None
        if self._closed:
            link.abort()
            return
        self.current = link
        self._user.opened()
        if self._check_timer is None:
            self._check_timer = self._host.timers.call_later(CHECK_S, self._check_response_time)

    def _reconnect_later(self, error: BaseException) -> None:
        self._backoff_s = longer_backoff_s(self._backoff_s, self._longest_backoff_s)
        self._failures.failed(
            logging.WARNING,
            "fetching from a leader failed, reconnecting in %g s",
            self._backoff_s,
            reason=str(error),
            fields={"leader": self._leader_id},
        )
        if not self._closed:
            self._host.timers.call_later(self._backoff_s, self._user.try_again)

    def _check_response_time(self) -> None:
        since = self._user.waits_since()
        if self.current is not None and since is not None:
            waited_s = self._host.clock.monotonic() - since
            if waited_s > self._timeout_s:
                self.failed(self.current, TimeoutError(f"no answer in {waited_s:.0f} s"))
        self._check_timer = self._host.timers.call_later(CHECK_S, self._check_response_time)
