"""The metadata store, which keeps the cluster's records, and its errors.

`MetadataStore` serves one process. It guarantees that a batch whose `commit` returned survives a
crash or a power loss, that all records of a batch are stored or none, and that a commit against a
version other than the stored one changes nothing.

`ClusterStore` serves the brokers of a cluster. They register in it and elect a controller through
it; only the current controller can commit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.topology import BrokerRegistration


class StoreError(Exception):
    """A store operation failed. The message says where, and what to do."""


class StaleVersion(StoreError):
    """Another process committed since the image was loaded: load again and decide again."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the stored metadata is at version {found}, not {expected}: another process changed it"
        )
        self.expected = expected
        self.found = found


class CorruptStore(StoreError):
    """The stored metadata is damaged or inconsistent."""


class NewerStore(StoreError):
    """A newer Headrace wrote the store."""


class StoreInUse(StoreError):
    """Another process has the store open."""


class Fenced(StoreError):
    """Another broker is the controller: resign, drop pending decisions, find the new controller."""


class RegistrationRefused(StoreError):
    """Another live process has this broker's id. The message names its address."""


class ConnectionSuspended(StoreError):
    """The store is unreachable. The request may have been executed, or may still be."""


class SessionExpired(StoreError):
    """The store ended this session: the registration and the controller role are lost."""


class StoreAuthenticationFailed(StoreError):
    """The store rejects this broker's credentials, or does not permit the request."""


class TooLarge(StoreError):
    """One item is too large for the store. No record of its batch was stored."""


class MetadataStore(Protocol):
    """A store for one process. Calls block; the caller chooses the thread."""

    def load(self) -> MetadataImage:
        """The image at the stored version."""
        ...

    def commit(self, records: Sequence[MetadataRecord], *, expected_version: int) -> int:
        """Stores the batch durably and returns the new version; raises `StaleVersion`."""
        ...

    def close(self) -> None:
        """Releases the store. Nothing is lost if this is not called."""
        ...


class AnotherCluster(StoreError):
    """The store does not belong, or no longer belongs, to this broker's cluster."""


class Registration(NamedTuple):
    """A live broker process, as it registered itself.

    `broker.epoch` fences its earlier incarnations. `clean_shutdown_epoch` is the epoch of the last
    incarnation if it stopped cleanly with everything on disk; None after a crash or on an empty
    disk.
    """

    broker: BrokerRegistration
    clean_shutdown_epoch: int | None = None


class Elected(NamedTuple):
    """One term of a controller. The store checks `fence` at each commit."""

    controller_id: int
    controller_epoch: int
    fence: int


def fenced_error(elected: Elected) -> Fenced:
    """The error for a controller whose term has ended."""
    return Fenced(
        f"broker {elected.controller_id} is no longer the controller (epoch "
        f"{elected.controller_epoch}): another broker was elected"
    )


class ClusterStore(Protocol):
    """The store of a cluster, as one broker sees it. One object for each process.

    A `changed` callback is called once, on the event loop, when the returned state may be out of
    date. It is set before the state is read, so no change is missed. After a lost connection it may
    be called without a change. Any call may raise `ConnectionSuspended`, `SessionExpired` or
    `StoreAuthenticationFailed`.
    """

    async def open(self) -> None:
        """Connects and creates the base structure. `StoreError` names unreachable servers."""
        ...

    async def close(self) -> None:
        """Ends the session. This removes the registration and the controller role at once."""
        ...

    async def cluster_id(self, proposed: str) -> str:
        """The cluster's id: the first one that any broker proposed."""
        ...

    async def stored_cluster_id(self) -> str:
        """The stored cluster id; "" if no broker has proposed one yet."""
        ...

    async def stored_version(self) -> int:
        """The version of the stored metadata; it never decreases."""
        ...

    async def next_broker_id(self, above: int) -> int:
        """An unused id for a broker without one, larger than `above`."""
        ...

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        """Registers this process and returns its broker epoch, larger than any before it.

        An earlier registration of the same process, or one with the same `storage_id`, is replaced
        at once: the lock on the data directory proves that no other process uses it. For any other
        registration of this id the call waits until its session ends. After the deadline (None:
        twice the session timeout) it raises `RegistrationRefused`, which names the other process.
        """
        ...

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        """The registered processes: those with a live session, as far as the store knows."""
        ...

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        """Removes the registration of a dead process; False if it is already removed.

        Raises `Fenced` if another broker is the controller. A process that is still alive notices
        and registers again.
        """
        ...

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        """(id, epoch) of the current controller, or None."""
        ...

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        """Tries to become the controller; None if another broker is, or was faster.

        `instead_of` is the (id, epoch) of a controller to replace in the same step, if it is still
        the controller.
        """
        ...

    async def resign(self, elected: Elected) -> None:
        """Resigns as controller, so that another broker is elected at once.

        Not an error if the role is already lost.
        """
        ...

    async def load(self) -> MetadataImage:
        """The stored metadata, at a version above every published one.

        `image.brokers` holds the brokers that controllers recorded (`BrokerRegistered` and the
        like), not the live registrations. By comparing it with `registered()` a new controller
        finds the crashes and restarts that its predecessor has not handled. A partition whose
        creation was interrupted has no leader, an empty ISR and epochs of -1; the controller sets
        its first state.
        """
        ...

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        """Stores the records durably. If a crash leaves a prefix of them, it is a valid state.

        Requires a `load` after the election and after every error. After `Fenced`, another broker
        is the controller and nothing more was stored. After `ConnectionSuspended` or
        `SessionExpired` the batch may be stored whole, up to some record, or not at all.
        """
        ...

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Calls `lost` when the session or registration is lost; the broker must re-register."""
        ...

    @property
    def disconnected_s(self) -> float | None:
        """How long the store has been unreachable, in seconds; None while it is connected."""
        ...
