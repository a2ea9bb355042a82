"""The client interface of the ZooKeeper store, with a real and a simulated implementation.

All calls and callbacks run on the event loop. Paths are absolute, below the chroot. A call that
fails with `ConnectionSuspended` may have been executed or may still be: only a compare-and-set on a
version shows the outcome. `StoreError` means that an operator must act.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from headrace.cluster.metadata_store import (
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
    "create_with_parents",
]

ANY_VERSION: Final = -1

Watch = Callable[[], None]


class Stat(NamedTuple):
    """A znode's metadata. `czxid` orders its creation among all changes of the ensemble."""

    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    child_count: int = 0


class Create(NamedTuple):
    """Creates a znode; an ephemeral one is deleted when this client's session ends."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class SetData(NamedTuple):
    """Sets the data of a znode that is at this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a znode that has no children and is at this version."""

    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Checks that the znode is at this version; otherwise the whole `multi` fails."""

    path: str
    version: int


Op = Create | SetData | Delete | CheckVersion


class Reason(Enum):
    """The reason why an operation failed."""

    EXISTS = "exists"
    MISSING = "missing"
    VERSION = "version"
    NOT_EMPTY = "not empty"


class OpFailed(StoreError):
    """The operation at this index failed, so the whole `multi` had no effect."""

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
    """A client that opens a new session when one expires.

    A watch is called once. It is also called after a lost connection or session, so that its owner
    reads the state again.
    """

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 if there is none."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """The time without contact after which ZooKeeper ends a session."""
        ...

    @property
    def state(self) -> SessionState: ...

    @property
    def servers(self) -> str:
        """ZooKeeper's addresses, for messages."""
        ...

    async def start(self) -> None:
        """Connects and creates the chroot. `StoreError` names unreachable servers."""
        ...

    async def close(self) -> None:
        """Ends the session, which deletes its ephemeral znodes at once."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
        """A znode; None if it does not exist (then the watch waits for its creation)."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Many znodes in few requests; not a consistent snapshot."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str] | None:
        """The names of the children; None if the znode does not exist."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """Executes all operations or none (`OpFailed`). Returns a stat for each `SetData`."""
        ...

    async def readable_by_anyone(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths that every client of ZooKeeper can read."""
        ...

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        """Calls `changed` for every change of the session's state."""
        ...


async def create_with_parents(client: ZooKeeperClient, path: str) -> None:
    """Creates the znode and its parents, each unless it exists."""
    names = path.split("/")[1:]
    for depth in range(len(names)):
        try:
            await client.multi([Create("/" + "/".join(names[: depth + 1]))])
        except OpFailed as failed:
            if failed.reason is not Reason.EXISTS:
                raise


async def try_multi(client: ZooKeeperClient, *ops: Op) -> bool:
    """Executes the operations; False if another process was faster."""
    try:
        await client.multi(ops)
    except OpFailed as failed:
        if failed.reason is Reason.NOT_EMPTY:
            raise
        return False
    return True
