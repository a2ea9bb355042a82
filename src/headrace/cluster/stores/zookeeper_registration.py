"""Registration of brokers in ZooKeeper: one ephemeral znode for each, as in Kafka.

The broker epoch is the znode's czxid, which grows with each registration. The znode lasts as long
as the session; if it is removed before, the broker notices and registers again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from headrace.clock import Clock
from headrace.cluster.metadata_store import (
    ConnectionSuspended,
    Elected,
    Registration,
    RegistrationRefused,
    SessionExpired,
    StoreError,
    fenced_error,
)
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.zookeeper_client import (
    Create,
    Delete,
    OpFailed,
    ZooKeeperClient,
    try_multi,
)
from headrace.cluster.stores.zookeeper_election import check_epoch_op
from headrace.cluster.topology import BrokerRegistration

_LOG = logging.getLogger(__package__)

_REGISTRATION_SESSIONS: Final = 2
"""The number of session timeouts to wait for an earlier registration of the id to expire."""


class ZooKeeperRegistration:
    """This broker's registration, and a view of all; its methods are those of `ClusterStore`."""

    def __init__(self, client: ZooKeeperClient, clock: Clock, connected: asyncio.Event) -> None:
        self._client = client
        self._clock = clock
        self._connected = connected  # set while the session is connected
        self._lost: list[Callable[[], None]] = []
        self._epoch: int | None = None  # None while this broker is not registered
        self._watcher: asyncio.Task[None] | None = None

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._lost.append(lost)

    def close(self) -> None:
        self._epoch = None
        self._stop_watcher()

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        self._epoch = None
        self._stop_watcher()
        if deadline_s is None:
            deadline_s = _REGISTRATION_SESSIONS * self._client.session_timeout_s
        data = znodes.write_registration(
            broker, clean_shutdown_epoch, storage_id, self._clock.wall_ms()
        )
        holder: list[Registration] = []
        try:
            async with asyncio.timeout(deadline_s):
                epoch = await self._register(broker, storage_id, data, holder)
        except TimeoutError:
            raise self._registration_refused(broker.broker_id, deadline_s, holder) from None
        self._epoch = epoch
        self._watcher = asyncio.get_running_loop().create_task(
            self._watch_registration(broker.broker_id, epoch)
        )
        return epoch

    async def _register(
        self, broker: BrokerRegistration, storage_id: str, data: bytes, holder: list[Registration]
    ) -> int:
        path = znode_paths.broker_path(broker.broker_id)
        create = Create(path, data, ephemeral=True)
        while True:
            changed = asyncio.Event()
            try:
                found = await self._client.get(path, changed.set)
                if found is None:
                    holder.clear()
                    await try_multi(self._client, create)
                    continue
                stored, stat = found
                own = stat.ephemeral_owner == self._client.session_id
                if own and stored == data:
                    return stat.czxid
                other = znodes.read_registration(broker.broker_id, stored, stat.czxid)
                holder[:] = [other]
                if own or _is_earlier_incarnation(broker, storage_id, other, stored):
                    await try_multi(self._client, Delete(path, stat.version), create)
                    continue
            except (ConnectionSuspended, SessionExpired):
                await self._connected.wait()
                continue
            await changed.wait()

    def _registration_refused(
        self, broker_id: int, waited_s: float, holder: list[Registration]
    ) -> StoreError:
        if not holder:
            return ConnectionSuspended(
                f"ZooKeeper at {self._client.servers} did not answer within {waited_s:g} s"
            )
        addresses = ", ".join(f"{e.host}:{e.port}" for e in holder[0].broker.endpoints)
        return RegistrationRefused(
            f"broker {broker_id} is already registered by the process at {addresses}, which did "
            f"not leave within {waited_s:g} s: stop that process, or use another broker.id"
        )

    async def _watch_registration(self, broker_id: int, epoch: int) -> None:
        """Notices when the registration is removed while the session is still alive."""
        path = znode_paths.broker_path(broker_id)
        while True:
            changed = asyncio.Event()
            try:
                found = await self._client.get(path, changed.set)
            except ConnectionSuspended:
                await self._connected.wait()
                continue
            except SessionExpired:
                return  # the store reports it
            if found is None or found[1].czxid != epoch:
                self.notify_lost(f"registration {epoch} of broker {broker_id} was removed")
                return
            await changed.wait()

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        ids = sorted(map(int, await self._client.children(znode_paths.BROKER_IDS, changed) or ()))
        found = await self._client.get_many([znode_paths.broker_path(id_) for id_ in ids])
        return {
            id_: znodes.read_registration(id_, znode[0], znode[1].czxid)
            for id_, znode in zip(ids, found, strict=True)
            if znode is not None
        }

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        path = znode_paths.broker_path(broker_id)
        found = await self._client.get(path)
        if found is None or found[1].czxid != broker_epoch:
            return False
        # This also removes a registration made since the read; its process registers again.
        try:
            await self._client.multi([check_epoch_op(elected), Delete(path)])
        except OpFailed as failed:
            if failed.index == 0:
                raise fenced_error(elected) from failed
            return False
        return True

    def notify_lost(self, why: str) -> None:
        """Calls the listeners, once for each registration that is lost."""
        if self._epoch is None:
            return
        _LOG.warning(
            "this broker lost its registration and registers again",
            extra={"epoch": self._epoch, "reason": why},
        )
        self._epoch = None
        self._stop_watcher()
        for lost in self._lost:
            lost()

    def _stop_watcher(self) -> None:
        if self._watcher is not None:
            if self._watcher is not asyncio.current_task():
                self._watcher.cancel()
            self._watcher = None


def _is_earlier_incarnation(
    broker: BrokerRegistration, storage_id: str, other: Registration, data: bytes
) -> bool:
    """Whether a registration must be from an earlier incarnation of this process or its disk.

    The disk may be a copy whose original is in use. Only a broker that also listens at the same
    addresses knows that the original is not running; any other waits for the session to end.
    """
    if any(broker.incarnation_id) and other.broker.incarnation_id == broker.incarnation_id:
        return True
    if storage_id == "" or znodes.storage_id_of(broker.broker_id, data) != storage_id:
        return False
    return set(broker.endpoints) == set(other.broker.endpoints)
