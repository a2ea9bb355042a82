"""What the ZooKeeper store needs of a client: one interface, a real and a simulated one behind it.

All calls and callbacks happen on the event loop. Paths are absolute, below the chroot. A call that
fails with `ConnectionSuspended` may have happened or may still happen: only a compare-and-set on a
version tells. `StoreError` covers everything that a person must look at.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from headrace.cluster.store import (
    ConnectionSuspended,
    SessionExpired,
    StoreAuthenticationFailed,
    StoreError,
)

__all__ = [
    "ANY_VERSION",
    "CheckVersion",
    "ConnectionSuspended",
    "Create",
    "Delete",
    "Op",
    "OpFailed",
    "Reason",
    "SessionExpired",
    "SessionState",
    "SetData",
    "Stat",
    "StoreAuthenticationFailed",
    "Watch",
    "ZooKeeperClient",
]

ANY_VERSION: Final = -1

Watch = Callable[[], None]


class Stat(NamedTuple):
    """A znode's numbers. `czxid` orders its creation among all changes of the ensemble."""

    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int


class Create(NamedTuple):
    """A new znode; an ephemeral one goes with this client's session."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class SetData(NamedTuple):
    """New data for a znode that is at this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Removes a znode that has no children and is at this version."""

    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Nothing, if the znode is at this version; else the whole `multi` fails."""

    path: str
    version: int


Op = Create | SetData | Delete | CheckVersion


class Reason(Enum):
    """Why an operation did not happen."""

    EXISTS = "exists"
    MISSING = "missing"
    VERSION = "version"
    NOT_EMPTY = "not empty"


class OpFailed(StoreError):
    """Nothing of the `multi` happened, because of the operation at this index."""

    def __init__(self, index: int, reason: Reason, path: str) -> None:
        super().__init__(f"ZooKeeper: operation {index} on {path}: {reason.value}")
        self.index = index
        self.reason = reason
        self.path = path


class SessionState(Enum):
    """CONNECTED after an EXPIRED is a new session: ephemeral znodes of the old one are gone."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class ZooKeeperClient(Protocol):
    """One session after the other. Watches are called once; after a lost connection or session
    they are called too, so that their owner looks again."""

    @property
    def session_id(self) -> int:
        """Of the current session; 0 while there is none."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """After this time without contact ZooKeeper ends a session."""
        ...

    @property
    def state(self) -> SessionState: ...

    @property
    def servers(self) -> str:
        """Where ZooKeeper is, for messages to people."""
        ...

    async def start(self) -> None:
        """Connects and creates the chroot. `StoreError` says who was not reached, what to do."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral znodes go at once."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """A znode; None if there is none (then the watch waits for its creation)."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Many znodes, cheaply; not one moment's view."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        """Names of the children; None if there is no such znode."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """All of them or none (`OpFailed`). Stats for `SetData`, None for the others."""
        ...

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        """`changed` hears of every change of the session's state."""
        ...
