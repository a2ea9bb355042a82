"""The metadata store: where the cluster's records are kept, and its errors.

`MetadataStore` serves one process. It guarantees that a batch whose `commit` returned is there
after a crash or a power loss, that a batch is stored whole or not at all, and that a commit against
another version than the stored one changes nothing.

`ClusterStore` serves the brokers of a cluster: they register in it, elect a controller through it,
and only the one in office can commit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import MetadataRecord
from headrace.cluster.topology import BrokerRegistration


class StoreError(Exception):
    """The store cannot be used as asked. The message says where and what to do."""


class StaleVersion(StoreError):
    """Somebody else committed since the image was loaded: load again and decide anew."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"metadata is at version {found}, not {expected}: it was changed meanwhile"
        )
        self.expected = expected
        self.found = found


class CorruptStore(StoreError):
    """What is stored does not hold together."""


class NewerStore(StoreError):
    """A newer Headrace wrote the store."""


class StoreInUse(StoreError):
    """Another process has the store open."""


class Fenced(StoreError):
    """Another controller is in office: resign, drop what was decided, look who it is."""


class RegistrationRefused(StoreError):
    """Another live process has this broker's id. The message says at which address."""


class ConnectionSuspended(StoreError):
    """The store is out of reach. What was asked may have happened, or may still happen."""


class SessionExpired(StoreError):
    """The store has given this process up: its registration and its office are gone."""


class StoreAuthenticationFailed(StoreError):
    """The store does not accept who we are, or does not let us do this."""


class TooLarge(StoreError):
    """One thing does not fit into the store. Nothing of its batch was stored."""


class MetadataStore(Protocol):
    """Calls block; the caller decides on which thread."""

    def load(self) -> MetadataImage:
        """The image at the stored version."""
        ...

    def commit(self, records: Sequence[MetadataRecord], *, expected_version: int) -> int:
        """Store the batch durably and return the new version; `StaleVersion` if it moved."""
        ...

    def close(self) -> None:
        """Release the store. Nothing is lost without it."""
        ...


class AnotherCluster(StoreError):
    """What is stored is not, or not any more, of the cluster that this broker belongs to."""


class Registration(NamedTuple):
    """A live process of a broker, as it registered itself.

    `broker.epoch` fences its earlier lives. `clean_shutdown_epoch` is the epoch of its last life if
    that one stopped cleanly with everything on disk; None after a crash or on an empty disk.
    """

    broker: BrokerRegistration
    clean_shutdown_epoch: int | None = None


class Elected(NamedTuple):
    """An office of controller. `fence` is what the store compares at each commit."""

    controller_id: int
    controller_epoch: int
    fence: int


class ClusterStore(Protocol):
    """The store of a cluster, as one broker sees it. One object for each process and session.

    A `changed` callback is called once, on the loop, when what was returned may be out of date: it
    is set before the state is read, so no change is missed; after a lost connection it may be
    called without a change. Any call may raise `ConnectionSuspended`, `SessionExpired` or
    `StoreAuthenticationFailed`.
    """

    async def open(self) -> None:
        """Connects, and creates what every cluster has. `StoreError` says who was not reached."""
        ...

    async def close(self) -> None:
        """Ends the session: the registration and the office go with it, at once."""
        ...

    async def cluster_id(self, proposed: str) -> str:
        """The cluster's id: the first one that was ever proposed."""
        ...

    async def stored_cluster_id(self) -> str:
        """The cluster's id; "" where nobody has proposed one to what is stored now."""
        ...

    async def stored_version(self) -> int:
        """The version of the metadata that is stored now; it only ever grows."""
        ...

    async def next_broker_id(self, above: int) -> int:
        """An id for a broker that has none: larger than `above`, and no other's."""
        ...

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        """Announces this process and returns its broker epoch, larger than any before it.

        An earlier life of the same process, or one with the same `storage_id` (whoever has the
        data directory locked knows that nobody else uses it), is replaced at once. Another one
        is waited for until its session ends; past the deadline (None: twice the session's
        timeout) `RegistrationRefused` says who it is.
        """
        ...

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        """The processes that are alive as far as the store knows."""
        ...

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        """Removes the registration of a dead process; False if that one is gone already.

        `Fenced` if another controller is in office. A live process notices and registers again.
        """
        ...

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        """(id, epoch) of the controller in office, None while there is none."""
        ...

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        """Tries to become controller; None if somebody else is, or was faster.

        `instead_of` removes that (id, epoch) from office in the same step, if it is still in it.
        """
        ...

    async def resign(self, elected: Elected) -> None:
        """Leaves the office, so that others are elected at once. No error if it is lost already."""
        ...

    async def load(self) -> MetadataImage:
        """What is stored, at a version above every one that was ever published.

        `image.brokers` is what controllers have recorded by `BrokerRegistered` and the like, not
        who is registered: comparing it with `registered()` shows a new controller which crashes
        and bounces its predecessor has not dealt with. A partition whose creation was cut short
        has no leader, an empty ISR, and epochs of -1: the controller gives it its first state.
        """
        ...

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        """Stores the records for good; each prefix that a crash may leave is a valid state.

        Needs a `load` after the election, and after every error. `Fenced`: another controller is
        in office, nothing more was stored. `ConnectionSuspended`, `SessionExpired`: unknown; the
        batch is stored whole, up to some record, or not at all.
        """
        ...

    def on_lost(self, lost: Callable[[], None]) -> None:
        """`lost` is called when this process' session or registration is gone: register again."""
        ...
