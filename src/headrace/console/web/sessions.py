"""Sessions of browsers. Pure: the caller passes in the time and random ids.

A session holds the connection to the cluster, and with it the visitor's credentials, in memory
only. The browser has the session's id in a cookie, and nothing else.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.console.cluster.connection import ClusterConnection
from headrace.console.web.errors import LoginRequired

MAX_SESSIONS: Final = 200
"""Beyond it, the session that was unused longest ends."""
MAX_FLASHES: Final = 10


class Flash(NamedTuple):
    """A message that the next page shows once; `kind` is ok, warning or error."""

    kind: str
    text: str


@dataclass(slots=True)
class Session:
    """One browser's session."""

    id: str = field(repr=False)
    csrf_token: str = field(repr=False)
    connection: ClusterConnection | None
    """None before the login: the session then only protects the login form."""
    user: str | None
    began_s: float
    used_s: float
    flashes: list[Flash] = field(default_factory=list)
    running_searches: int = 0

    @property
    def cluster(self) -> ClusterConnection:
        """The connection; raises `LoginRequired` before the login."""
        if self.connection is None:
            raise LoginRequired
        return self.connection

    def add_flash(self, kind: str, text: str) -> None:
        self.flashes = [*self.flashes, Flash(kind, text)][-MAX_FLASHES:]

    def take_flashes(self) -> list[Flash]:
        taken, self.flashes = self.flashes, []
        return taken


class SessionStore:
    """All sessions, within the limits of their number, idle time and age."""

    def __init__(
        self, *, idle_timeout_s: float, session_timeout_s: float, new_id: Callable[[], str]
    ) -> None:
        self._idle_timeout_s = idle_timeout_s
        self._session_timeout_s = session_timeout_s
        self._new_id = new_id
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, cluster: ClusterConnection | None, user: str | None, now_s: float) -> Session:
        if len(self._sessions) >= 2 * MAX_SESSIONS:
            self._drop_without_login()
        session = Session(self._new_id(), self._new_id(), cluster, user, now_s, now_s)
        self._sessions[session.id] = session
        return session

    def _drop_without_login(self) -> None:
        """A flood of requests for the login page must not end the sessions of visitors."""
        for session in list(self._sessions.values()):
            if session.connection is None or session.connection.is_shared:
                del self._sessions[session.id]
                return

    def find(self, session_id: str, now_s: float, *, is_use: bool = True) -> Session | None:
        """The session if it has not expired. Automatic refreshes are no use of it."""
        session = self._sessions.get(session_id)
        if session is None or self._has_expired(session, now_s):
            return None
        if is_use:
            session.used_s = now_s
            self._sessions.move_to_end(session_id)
        return session

    def remove(self, session_id: str) -> Session | None:
        return self._sessions.pop(session_id, None)

    def take_expired(self, now_s: float) -> list[Session]:
        """Removes and returns the sessions that are over; the caller closes their connections."""
        over = [each for each in self._sessions.values() if self._has_expired(each, now_s)]
        excess = len(self._sessions) - len(over) - MAX_SESSIONS
        if excess > 0:
            left = [each for each in self._sessions.values() if each not in over]
            left.sort(key=lambda each: each.user is not None)  # those with a login last
            over += left[:excess]
        for session in over:
            del self._sessions[session.id]
        return over

    def take_all(self) -> list[Session]:
        taken = list(self._sessions.values())
        self._sessions.clear()
        return taken

    def _has_expired(self, session: Session, now_s: float) -> bool:
        return (
            now_s - session.used_s > self._idle_timeout_s
            or now_s - session.began_s > self._session_timeout_s
        )
