"""The cluster store in ZooKeeper: registrations, elections and fenced writes, in Kafka's znodes.

Two compare-and-sets guard each write of the controller: one on `/controller_epoch`, which every
election changes (no earlier controller can write), and one on `/headrace/commits`, which every
write increments. Thanks to the second, a write whose response was lost is sent again and still
happens exactly once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import (
    ConnectionSuspended,
    CorruptStore,
    Elected,
    Registration,
    RegistrationRefused,
    SessionExpired,
    StoreError,
    fenced_error,
)
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.write_packing import pack_steps
from headrace.cluster.stores.znode_reader import (
    StoredMetadata,
    Znode,
    ZnodeRead,
    ZnodeReadResult,
    metadata_version,
    read_metadata,
)
from headrace.cluster.stores.znode_writer import ZnodeWriter
from headrace.cluster.stores.zookeeper_client import (
    CheckVersion,
    Create,
    Delete,
    Op,
    OpFailed,
    Reason,
    SessionState,
    SetData,
    Stat,
    ZooKeeperClient,
)
from headrace.cluster.topology import BrokerRegistration

_LOG = logging.getLogger(__name__)

_READ_TRIES: Final = 20
"""How often a read starts over because of a concurrent write."""

_REGISTRATION_SESSIONS: Final = 2
"""The number of session timeouts to wait for an earlier registration of the id to expire."""


class ZooKeeperStore:
    """A `ClusterStore` over any ZooKeeper client."""

    def __init__(self, client: ZooKeeperClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._stored: StoredMetadata | None = None
        self._loaded = False  # whether the caller has the current metadata
        self._lost: list[Callable[[], None]] = []
        self._connected = asyncio.Event()
        self._closed = False
        self._registered_epoch: int | None = None
        self._registration_watcher: asyncio.Task[None] | None = None
        client.on_state(self._state_changed)

    async def open(self) -> None:
        await self._client.start()
        if self._client.state is SessionState.CONNECTED:
            self._connected.set()
        await self._create_skeleton()

    async def close(self) -> None:
        self._closed = True
        self._registered_epoch = None
        self._stop_registration_watcher()
        await self._client.close()

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._lost.append(lost)

    async def cluster_id(self, proposed: str) -> str:
        while True:
            found = await self._client.get(znode_paths.CLUSTER_ID)
            if found is not None:
                return znodes.read_cluster_id(found[0])
            create = Create(znode_paths.CLUSTER_ID, znodes.write_cluster_id(proposed))
            await self._try_multi(create)

    async def stored_cluster_id(self) -> str:
        found = await self._client.get(znode_paths.CLUSTER_ID)
        return "" if found is None else znodes.read_cluster_id(found[0])

    async def stored_version(self) -> int:
        # A write, whether it succeeds or not, makes this ZooKeeper server catch up with its
        # leader, so that the following reads are not stale.
        await self._try_multi(CheckVersion(znode_paths.COMMITS, 0))
        # In this order an election between the two reads makes the version larger, never smaller.
        found = await self._client.get(znode_paths.COMMITS)
        epoch, _ = await self._read_controller_epoch()
        commits = znodes.Commits(0, 0) if found is None else znodes.read_commits(found[0])
        return metadata_version(epoch, commits)

    async def next_broker_id(self, above: int) -> int:
        """Generates an id as Kafka does, from the version of a znode."""
        while True:
            try:
                (stat,) = await self._client.multi([SetData(znode_paths.BROKER_SEQUENCE, b"")])
            except OpFailed as failed:
                if failed.reason is not Reason.MISSING:
                    raise
                await self._try_multi(Create(znode_paths.BROKER_SEQUENCE))
                continue
            assert stat is not None
            return above + stat.version

    # -- registrations --------------------------------------------------------------------------

    async def register(
        self,
        broker: BrokerRegistration,
        *,
        clean_shutdown_epoch: int | None = None,
        storage_id: str = "",
        deadline_s: float | None = None,
    ) -> int:
        self._registered_epoch = None
        self._stop_registration_watcher()
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
        self._registered_epoch = epoch
        self._registration_watcher = asyncio.get_running_loop().create_task(
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
                    await self._try_multi(create)
                    continue
                stored, stat = found
                own = stat.ephemeral_owner == self._client.session_id
                if own and stored == data:
                    return stat.czxid
                other = znodes.read_registration(broker.broker_id, stored, stat.czxid)
                holder[:] = [other]
                if own or _is_earlier_incarnation(broker, storage_id, other, stored):
                    await self._try_multi(Delete(path, stat.version), create)
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
                return  # `_state_changed` reports it
            if found is None or found[1].czxid != epoch:
                self._notify_lost(f"registration {epoch} of broker {broker_id} was removed")
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
            await self._client.multi([_check_epoch_op(elected), Delete(path)])
        except OpFailed as failed:
            if failed.index == 0:
                raise fenced_error(elected) from failed
            return False
        return True

    # -- the controller's election --------------------------------------------------------------

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        found = await self._client.get(znode_paths.CONTROLLER, changed)
        if found is None:
            return None
        document = znodes.read_controller(found[0])
        if document.controller_epoch is not None:
            return document.controller_id, document.controller_epoch
        epoch, _ = await self._read_controller_epoch()
        return document.controller_id, epoch

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        # The epoch is read before the controller: if this broker is the controller, the epoch
        # cannot be newer than its term.
        epoch, stat = await self._read_controller_epoch()
        found = await self._client.get(znode_paths.CONTROLLER)
        ops: list[Op] = []
        if found is not None:
            holder = znodes.read_controller(found[0])
            current = (holder.controller_id, holder.controller_epoch)
            if found[1].ephemeral_owner == self._client.session_id and current == (node_id, epoch):
                return Elected(node_id, epoch, stat.version)  # elected, but the response was lost
            if instead_of is None or instead_of != current or epoch != current[1]:
                return None
            ops.append(Delete(znode_paths.CONTROLLER))
        document = znodes.write_controller(node_id, epoch + 1, self._clock.wall_ms())
        ops.append(Create(znode_paths.CONTROLLER, document, ephemeral=True))
        ops.append(SetData(znode_paths.CONTROLLER_EPOCH, b"%d" % (epoch + 1), stat.version))
        if not await self._try_multi(*ops):
            return None
        self._forget_stored()
        return Elected(node_id, epoch + 1, stat.version + 1)

    async def resign(self, elected: Elected) -> None:
        self._forget_stored()
        await self._try_multi(_check_epoch_op(elected), Delete(znode_paths.CONTROLLER))

    async def _read_controller_epoch(self) -> tuple[int, Stat]:
        found = await self._client.get(znode_paths.CONTROLLER_EPOCH)
        if found is None:
            raise CorruptStore(
                f"ZooKeeper at {self._client.servers}: {znode_paths.CONTROLLER_EPOCH} was removed"
            )
        return znodes.read_epoch(found[0]), found[1]

    # -- metadata -------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        self._forget_stored()
        self._stored = stored = await self._read_snapshot()
        self._loaded = True
        return stored.image()

    async def _read_snapshot(self) -> StoredMetadata:
        """A consistent snapshot: every write increments the count, so an equal count means none."""
        for _ in range(_READ_TRIES):
            stored = await self._read_once()
            answer = await self._read_znodes(
                ZnodeRead((znode_paths.COMMITS, znode_paths.CONTROLLER_EPOCH))
            )
            commits, epoch = answer.znodes
            if (
                commits is not None
                and epoch is not None
                and commits.version == stored.commits_version
                and znodes.read_epoch(epoch.data) == stored.controller_epoch
            ):
                return stored
        raise ConnectionSuspended(
            f"ZooKeeper's metadata changed during each of {_READ_TRIES} attempts to read it"
        )

    async def _read_once(self) -> StoredMetadata:
        steps = read_metadata()
        ask = next(steps)
        while True:
            answer = await self._read_znodes(ask)
            try:
                ask = steps.send(answer)
            except StopIteration as done:
                stored: StoredMetadata = done.value
                return stored

    async def _read_znodes(self, ask: ZnodeRead) -> ZnodeReadResult:
        found = await self._client.get_many(ask.znodes) if ask.znodes else []
        children = [await self._client.children(path) for path in ask.children]
        return ZnodeReadResult([z and Znode(z[0], z[1].version) for z in found], children)

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        if not self._loaded:
            raise StoreError("metadata must be loaded before a commit, and again after each error")
        # No other task is in this method: the controller commits one batch after the other.
        stored, self._stored = self._stored, None
        if stored is None:
            stored = await self._read_snapshot()
        # Planning changes `stored`. If it fails, nothing was written, and `stored` is read again.
        # At least one write: the count must grow with each published version.
        writes = pack_steps(ZnodeWriter(stored, elected).plan(records)) or [[]]
        self._loaded = False
        for ops in writes:
            await self._write_ops(ops, stored, elected)
        self._stored = stored
        self._loaded = True

    async def _write_ops(self, ops: Sequence[Op], stored: StoredMetadata, elected: Elected) -> None:
        before = stored.commits
        count = before.commits + 1 if before.controller_epoch == elected.controller_epoch else 1
        after = znodes.Commits(elected.controller_epoch, count)
        marker = SetData(znode_paths.COMMITS, znodes.write_commits(after), stored.commits_version)
        write = [_check_epoch_op(elected), marker, *ops]
        sent_before = False
        while True:
            try:
                await self._client.multi(write)
                break
            except ConnectionSuspended:
                sent_before = True
                await self._wait_for_connection()
            except OpFailed as failed:
                if failed.index == 0:
                    raise fenced_error(elected) from failed
                if sent_before and failed.index == 1 and await self._is_stored(marker):
                    break
                raise CorruptStore(
                    f"another program changed the metadata in ZooKeeper at "
                    f"{self._client.servers}: {failed}"
                ) from failed
        stored.commits = after
        stored.commits_version += 1

    async def _is_stored(self, marker: SetData) -> bool:
        while True:
            try:
                found = await self._client.get(znode_paths.COMMITS)
            except ConnectionSuspended:
                await self._wait_for_connection()
                continue
            return found is not None and (
                (found[0], found[1].version) == (marker.data, marker.version + 1)
            )

    async def _wait_for_connection(self) -> None:
        """Waits for the connection, at most one session timeout; then the caller must decide."""
        if self._closed:  # even if the last known state of the session is CONNECTED
            raise ConnectionSuspended("the store is closed")
        try:
            async with asyncio.timeout(self._client.session_timeout_s):
                await self._connected.wait()
        except TimeoutError:
            raise ConnectionSuspended(
                f"ZooKeeper at {self._client.servers} is unreachable"
            ) from None

    def _forget_stored(self) -> None:
        self._stored = None
        self._loaded = False

    # -- helpers --------------------------------------------------------------------------------

    async def _create_skeleton(self) -> None:
        paths = list(znode_paths.SKELETON)
        while True:
            found = await self._client.get_many(paths)
            missing = [path for path, znode in zip(paths, found, strict=True) if znode is None]
            if not missing:
                return
            await self._try_multi(*(Create(path, znode_paths.SKELETON[path]) for path in missing))

    async def _try_multi(self, *ops: Op) -> bool:
        """Executes the operations; False if another process was faster."""
        try:
            await self._client.multi(ops)
        except OpFailed as failed:
            if failed.reason is Reason.NOT_EMPTY:
                raise
            return False
        return True

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
            return
        self._connected.clear()
        if state is SessionState.EXPIRED:
            self._forget_stored()
            self._notify_lost("ZooKeeper ended the session")

    def _notify_lost(self, why: str) -> None:
        if self._registered_epoch is None:
            return
        _LOG.warning("this broker lost its registration and registers again: %s", why)
        self._registered_epoch = None
        self._stop_registration_watcher()
        for lost in self._lost:
            lost()

    def _stop_registration_watcher(self) -> None:
        if self._registration_watcher is not None:
            if self._registration_watcher is not asyncio.current_task():
                self._registration_watcher.cancel()
            self._registration_watcher = None


def _check_epoch_op(elected: Elected) -> CheckVersion:
    return CheckVersion(znode_paths.CONTROLLER_EPOCH, elected.fence)


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
