"""The sessions of authenticated SASL connections: their end, their renewal, and their revocation.

* A session with a lifetime ends with it. A client renews it by a second login on the same
  connection (KIP-368), at most once a second. After the end, any other request closes the
  connection, also one that a fast path would have served.
* The sessions of a user whose SCRAM credential was deleted or changed are closed as soon as this
  broker applies the change, and so are those of a deleted delegation token. Kafka leaves them open.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from headrace.broker.authentication.login import Identity, Login, LoginHost, Reply
from headrace.broker.network.connection import Connection, Dispatch
from headrace.clock import Clock
from headrace.cluster.metadata_records import (
    DelegationTokenRemoved,
    MetadataRecord,
    ScramCredentialChanged,
)
from headrace.protocol.api import ApiKey
from headrace.security.sasl.exchange import Success
from headrace.security.sasl.scram_credential import SCRAM_MECHANISMS, ScramMechanism
from headrace.security.session import Session

log = logging.getLogger(__package__)

MIN_REAUTHENTICATION_INTERVAL_S: Final = 1.0
_API_KEY_BYTES: Final = 2
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(_API_KEY_BYTES, "big")

_Revocable = tuple[str, ScramMechanism] | str  # a user's credential, or a token id


class SessionHost(LoginHost, Protocol):
    """What a session needs from its listener."""

    security_protocol: str
    max_receive_bytes: int
    authentication_timeout_s: float
    sessions: "Sessions"

    def max_session_ms(self, mechanism: str) -> int:
        """The longest session of a mechanism; 0 for no limit."""
        ...


class Sessions:
    """The sessions of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        dispatch: Dispatch,
        authenticated: Callable[[Connection], None],
    ) -> None:
        """`dispatch` serves the requests of authenticated clients; `authenticated` ends the time
        limit of a new connection."""
        self.authenticated = authenticated
        self.loop = loop
        self.clock = clock
        self.dispatch = dispatch
        self._open: dict[_Revocable, dict[Connection, None]] = {}

    def begin_login(self, host: SessionHost, connection: Connection) -> Dispatch:
        """What serves a new connection."""
        session = _ClientSession(self, host)
        return session.begin_login(connection, None)

    def add(self, connection: Connection, key: _Revocable) -> None:
        """Closes the connection when the credential or the token is revoked."""
        self._open.setdefault(key, {})[connection] = None
        connection.on_close(self, lambda: self.remove(connection, key))

    def remove(self, connection: Connection, key: _Revocable) -> None:
        connections = self._open.get(key)
        if connections is not None:
            connections.pop(connection, None)
            if not connections:
                del self._open[key]

    def metadata_changed(self, records: Iterable[MetadataRecord]) -> None:
        """Closes the sessions whose credentials these records change or delete."""
        for record in records:
            match record:
                case ScramCredentialChanged(user, mechanism):
                    self._revoke((user, mechanism), "the user's credential was changed or deleted")
                case DelegationTokenRemoved(token_id):
                    self._revoke(token_id, "the delegation token was deleted")

    def _revoke(self, key: _Revocable, reason: str) -> None:
        for connection in self._open.pop(key, ()):
            connection.close(reason)


class _ClientSession:
    """One connection, from its first login to its end."""

    def __init__(self, sessions: Sessions, host: SessionHost) -> None:
        self._sessions = sessions
        self._host = host
        self._identity: Identity | None = None
        self._revocable: _Revocable | None = None
        self._ends_at: float | None = None  # on the monotonic clock; None for no end
        self._last_login_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def begin_login(self, connection: Connection, previous: Identity | None) -> Dispatch:
        connection.limit_frames(self._host.max_receive_bytes)
        connection.allow_fast_path(allowed=False)
        if previous is not None:  # the server limits the time of the first login
            self._start_timer(
                self._host.authentication_timeout_s,
                lambda: connection.close(
                    "not authenticated in time (headrace.authentication.timeout.ms)"
                ),
            )
        connection.on_close(_ClientSession, self._stop_timer)
        login = Login(self._host, self._sessions.dispatch, self._authenticated, previous)
        return login.dispatch

    def _authenticated(self, connection: Connection, success: Success, mechanism: str) -> int:
        self._stop_timer()
        self._sessions.authenticated(connection)
        connection.session = Session(
            success.principal,
            connection.session.host,
            connection.listener,
            self._host.security_protocol,
            success.token_id,
        )
        connection.grants.clear()
        self._track(connection, _revocable(success, mechanism))
        self._identity = Identity(success.principal, mechanism)
        connection.limit_frames(None)
        connection.allow_fast_path(allowed=True)
        lifetime_ms = self._lifetime_ms(success, mechanism)
        if lifetime_ms is None:
            self._ends_at = None
            connection.dispatch = self._sessions.dispatch
            return 0
        lifetime_s = lifetime_ms / 1000
        self._ends_at = self._sessions.clock.monotonic() + lifetime_s
        # The last commits of the fast path may end later; they began before.
        self._start_timer(lifetime_s, lambda: connection.allow_fast_path(allowed=False))
        connection.dispatch = self._dispatch
        return lifetime_ms

    def _track(self, connection: Connection, key: _Revocable | None) -> None:
        if key == self._revocable:
            return
        if self._revocable is not None:
            self._sessions.remove(connection, self._revocable)
        self._revocable = key
        if key is not None:
            self._sessions.add(connection, key)

    def _lifetime_ms(self, success: Success, mechanism: str) -> int | None:
        """The time until the client must log in again; None for no limit."""
        limits = []
        if success.expires_at_ms is not None:
            limits.append(success.expires_at_ms - self._sessions.clock.wall_ms())
        max_session_ms = self._host.max_session_ms(mechanism)
        if max_session_ms:
            limits.append(max_session_ms)
        return max(0, min(limits)) if limits else None

    def _dispatch(self, connection: Connection, frame: memoryview) -> Reply:
        """Serves a request of a session that has an end."""
        now = self._sessions.clock.monotonic()
        if (
            frame[:_API_KEY_BYTES] == _HANDSHAKE
            and now - self._last_login_at >= MIN_REAUTHENTICATION_INTERVAL_S
        ):
            self._last_login_at = now
            connection.dispatch = self.begin_login(connection, self._identity)
            return connection.dispatch(connection, frame)
        if self._ends_at is not None and now >= self._ends_at:
            connection.close("the session has ended and the client did not authenticate again")
            return None
        return self._sessions.dispatch(connection, frame)

    def _start_timer(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._sessions.loop.call_later(delay_s, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _revocable(success: Success, mechanism: str) -> _Revocable | None:
    """What may be revoked while the session lasts; None if nothing is."""
    if success.token_id is not None:
        return success.token_id
    scram = SCRAM_MECHANISMS.get(mechanism)
    return None if scram is None else (success.principal.name, scram)
