"""A cluster store inside one process: SQLite behind the `ClusterStore` interface.

All brokers of the process share one `EmbeddedCluster`; each has its own `EmbeddedStore`. Metadata
is in the SQLite file (or in memory). Registrations and the controller role end with the process.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ClusterNamed, ControllerElected, MetadataRecord
from headrace.cluster.metadata_store import (
    Elected,
    MetadataStore,
    Registration,
    RegistrationRefused,
    SessionExpired,
    StoreError,
    fenced_error,
)
from headrace.cluster.topology import BrokerRegistration

T = TypeVar("T")


class Offloading(Protocol):
    """Runs a blocking call without blocking the event loop."""

    async def __call__(self, call: Callable[[], T], /) -> T: ...


async def inline(call: Callable[[], T], /) -> T:
    """Runs the call at once, for stores in memory and for simulations."""
    return call()


class EmbeddedCluster:
    """The state that the brokers of one process share. Owns the store: `close` closes it."""

    def __init__(self, store: MetadataStore, offload: Offloading = inline) -> None:
        self._store = store
        self._offload = offload
        image = store.load()
        self.cluster_id = image.cluster_id
        self.controller_epoch = image.controller_epoch
        self.controller: EmbeddedStore | None = None
        self.controller_id = image.controller_id
        self.registrations: dict[int, tuple[EmbeddedStore, Registration]] = {}
        self._commit_lock = asyncio.Lock()
        self.version = image.version
        self._last_epoch = max([image.version, *(b.epoch for b in image.brokers.values())])
        self._last_broker_id = max(image.brokers, default=0)
        self._registration_watches: list[Callable[[], None]] = []
        self._controller_watches: list[Callable[[], None]] = []

    def store(self) -> "EmbeddedStore":
        """A new store for one broker, with its own session."""
        return EmbeddedStore(self)

    def close(self) -> None:
        self._store.close()

    async def load(self) -> MetadataImage:
        async with self._commit_lock:
            image = await self._offload(self._store.load)
            self.version = image.version
            return image

    async def commit(
        self, records: Sequence[MetadataRecord], check: Callable[[], None] = lambda: None
    ) -> None:
        """Stores the batch after all earlier ones. `check` may raise just before the write."""
        async with self._commit_lock:
            check()
            expected = self.version
            self.version = await self._offload(
                lambda: self._store.commit(records, expected_version=expected)
            )

    def next_broker_id(self, above: int) -> int:
        self._last_broker_id = max(self._last_broker_id, above, *self.registrations) + 1
        return self._last_broker_id

    def next_epoch(self) -> int:
        self._last_epoch = max(self._last_epoch, self.version) + 1
        return self._last_epoch

    # -- watches: each is called once, then removed ------------------------------------------------

    def watch_registrations(self, changed: Callable[[], None] | None) -> None:
        if changed is not None:
            self._registration_watches.append(changed)

    def watch_controller(self, changed: Callable[[], None] | None) -> None:
        if changed is not None:
            self._controller_watches.append(changed)

    def registrations_changed(self) -> None:
        watches, self._registration_watches = self._registration_watches, []
        for changed in watches:
            changed()

    def controller_changed(self) -> None:
        watches, self._controller_watches = self._controller_watches, []
        for changed in watches:
            changed()


class EmbeddedStore:
    """The `ClusterStore` of one broker of the process."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._lost: list[Callable[[], None]] = []
        self._open = False
        self._loaded = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._end_session()
        self._open = False

    def expire(self) -> None:
        """Ends the session as if the process had been paused for too long; for tests."""
        if self._end_session():
            for lost in self._lost:
                lost()

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._lost.append(lost)

    @property
    def disconnected_s(self) -> float | None:
        return None

    async def cluster_id(self, proposed: str) -> str:
        self._check_open()
        cluster = self._cluster
        if not cluster.cluster_id:
            cluster.cluster_id = proposed
            await cluster.commit([ClusterNamed(proposed)])
        return cluster.cluster_id

    async def stored_cluster_id(self) -> str:
        self._check_open()
        return self._cluster.cluster_id

    async def stored_version(self) -> int:
        self._check_open()
        return self._cluster.version

    async def next_broker_id(self, above: int) -> int:
        """An id above all known ones. It is not stored, because all brokers are in this process."""
        self._check_open()
        return self._cluster.next_broker_id(above)

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        self._check_open()
        cluster = self._cluster
        current = cluster.registrations.get(broker.broker_id)
        if current is not None and current[0] is not self:
            raise RegistrationRefused(
                f"broker {broker.broker_id} is already registered in this process: "
                "give this one another broker.id"
            )
        epoch = cluster.next_epoch()
        registration = Registration(broker._replace(epoch=epoch), clean_shutdown_epoch)
        cluster.registrations[broker.broker_id] = (self, registration)
        cluster.registrations_changed()
        return epoch

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        self._check_open()
        self._cluster.watch_registrations(changed)
        return {
            id_: registration
            for id_, (_, registration) in sorted(self._cluster.registrations.items())
        }

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        self._check_controller(elected)
        cluster = self._cluster
        current = cluster.registrations.get(broker_id)
        if current is None or current[1].broker.epoch != broker_epoch:
            return False
        del cluster.registrations[broker_id]
        cluster.registrations_changed()
        for lost in current[0]._lost:
            lost()
        return True

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        self._check_open()
        cluster = self._cluster
        cluster.watch_controller(changed)
        if cluster.controller is None:
            return None
        return cluster.controller_id, cluster.controller_epoch

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        self._check_open()
        cluster = self._cluster
        now = (cluster.controller_id, cluster.controller_epoch)
        if cluster.controller is not None and instead_of != now:
            return None
        # The role is taken before the first await, so no other broker can take it meanwhile.
        cluster.controller_id = node_id
        cluster.controller = self
        cluster.controller_epoch = epoch = cluster.controller_epoch + 1
        self._loaded = False
        await cluster.commit([ControllerElected(node_id, epoch)])
        cluster.controller_changed()
        return Elected(node_id, epoch, epoch)

    async def resign(self, elected: Elected) -> None:
        cluster = self._cluster
        if cluster.controller is self and cluster.controller_epoch == elected.controller_epoch:
            cluster.controller = None
            cluster.controller_changed()

    async def load(self) -> MetadataImage:
        self._check_open()
        image = await self._cluster.load()
        self._loaded = True
        return image

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        self._check_controller(elected)
        if not self._loaded:
            raise StoreError("metadata must be loaded before a commit, and again after each error")
        self._loaded = False
        await self._cluster.commit(records, lambda: self._check_controller(elected))
        self._loaded = True

    def _check_open(self) -> None:
        if not self._open:
            raise SessionExpired("the store is closed")

    def _check_controller(self, elected: Elected) -> None:
        self._check_open()
        cluster = self._cluster
        if cluster.controller is not self or cluster.controller_epoch != elected.fence:
            raise fenced_error(elected)

    def _end_session(self) -> bool:
        """Drops the registration and the controller role; True if there was a registration."""
        cluster = self._cluster
        mine = [id_ for id_, (store, _) in cluster.registrations.items() if store is self]
        for id_ in mine:
            del cluster.registrations[id_]
        self._loaded = False
        if cluster.controller is self:
            cluster.controller = None
            cluster.controller_changed()
        if mine:
            cluster.registrations_changed()
        return bool(mine)
