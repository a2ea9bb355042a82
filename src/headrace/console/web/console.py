"""The console's own state: settings, sessions, the background loop, templates.

`Console` opens and ends sessions. Without SASL, or with credentials in the settings, all sessions
share one connection to the cluster; else each has its own.
"""

import asyncio
import secrets
from contextlib import suppress
from typing import Final

from headrace.client.login.security import Credentials
from headrace.clock import Clock
from headrace.console.cluster.connection import ClusterConnection
from headrace.console.cluster.poller import BackgroundLoop
from headrace.console.settings import ConsoleSettings
from headrace.console.web.assets import Assets
from headrace.console.web.events import Streams
from headrace.console.web.jobs import Jobs
from headrace.console.web.login_limiter import LoginLimiter
from headrace.console.web.sessions import Session, SessionStore
from headrace.console.web.templates import Templates

SESSION_BYTES: Final = 32
SWEEP_S: Final = 15.0


class Console:
    """One console process."""

    def __init__(
        self, settings: ConsoleSettings, clock: Clock, *, screens: frozenset[str] = frozenset()
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.port = settings.listen.port
        self.assets = Assets.load()
        self.templates = Templates(self.assets, screens)
        self.limiter = LoginLimiter()
        self.jobs = Jobs(clock)
        self.access_token = secrets.token_urlsafe(24) if settings.has_credentials else None
        """Of a console whose settings have credentials: visitors prove that they started it."""
        self.streams = Streams()
        self._background = BackgroundLoop()
        self._sessions = SessionStore(
            idle_timeout_s=settings.idle_timeout_s,
            session_timeout_s=settings.session_timeout_s,
            new_id=lambda: secrets.token_urlsafe(SESSION_BYTES),
        )
        self._shared: ClusterConnection | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def cookie(self) -> str:
        """`__Host-` makes browsers refuse the cookie from other hosts and without TLS."""
        return "__Host-headrace" if self.settings.uses_tls else f"headrace-{self.port}"

    @property
    def asks_for_login(self) -> bool:
        return self.settings.needs_login or self.access_token is not None

    def allowed_hosts(self) -> frozenset[str]:
        return self.settings.allowed_hosts(self.port)

    async def start(self) -> None:
        self._background.start()
        self._sweeper = asyncio.create_task(self._sweep())
        if not self.settings.needs_login:
            self.shared_connection().poller.touch()

    async def stop(self) -> None:
        await self.streams.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        for session in self._sessions.take_all():
            await self._close(session)
        if self._shared is not None:
            await self._shared.close()
        self._background.stop()

    def find_session(self, session_id: str | None, *, is_use: bool) -> Session | None:
        if not session_id:
            return None
        return self._sessions.find(session_id, self.clock.monotonic(), is_use=is_use)

    def open_session(self, cluster: ClusterConnection | None, user: str | None) -> Session:
        return self._sessions.open(cluster, user, self.clock.monotonic())

    def is_open(self, session: Session) -> bool:
        """Whether a session goes on: streams of one that ended must end, too."""
        return self._sessions.find(session.id, self.clock.monotonic(), is_use=False) is session

    async def end_session(self, session: Session) -> None:
        self._sessions.remove(session.id)
        await self._close(session)

    def shared_connection(self) -> ClusterConnection:
        if self._shared is None:
            self._shared = ClusterConnection(self.settings, self._background, self.clock)
        return self._shared

    def connection_of(self, credentials: Credentials) -> ClusterConnection:
        """A connection with a visitor's credentials; the caller checks that they are accepted."""
        return ClusterConnection(self.settings, self._background, self.clock, credentials)

    async def _close(self, session: Session) -> None:
        connection = session.connection
        if connection is not None and not connection.is_shared:
            await connection.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for session in self._sessions.take_expired(self.clock.monotonic()):
                await self._close(session)
