"""The cluster's store in ZooKeeper: registrations, the election, fenced writes, in Kafka's znodes.

Two compare-and-sets guard each write of the controller: one on `/controller_epoch`, which every
election changes (no earlier controller can write), and one on `/headrace/commits`, which every
write counts up. By the second one a write whose answer was lost is simply sent again: it happens
once, whether or not the first one arrived.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.cluster.records import MetadataRecord
from headrace.cluster.store import (
    ConnectionSuspended,
    CorruptStore,
    Elected,
    Fenced,
    Registration,
    RegistrationRefused,
    SessionExpired,
    StoreError,
)
from headrace.cluster.stores import znodes
from headrace.cluster.stores.znode_reader import (
    Ask,
    Stored,
    Znode,
    ZnodeAnswer,
    reading,
    version_of,
)
from headrace.cluster.stores.znode_writer import Writer, pack
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
"""How often a reading is begun anew because somebody wrote meanwhile."""

_REGISTRATION_SESSIONS: Final = 2
"""A registration waits this many session timeouts for an earlier one of its id to go."""


class ZooKeeperStore:
    """A `ClusterStore` over any ZooKeeper client."""

    def __init__(self, client: ZooKeeperClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._stored: Stored | None = None
        self._loaded = False  # whether the caller knows what is stored
        self._lost: list[Callable[[], None]] = []
        self._connected = asyncio.Event()
        self._closed = False
        self._registered_epoch: int | None = None
        self._guard: asyncio.Task[None] | None = None
        client.on_state(self._state_changed)

    async def open(self) -> None:
        await self._client.start()
        if self._client.state is SessionState.CONNECTED:
            self._connected.set()
        await self._create_skeleton()

    async def close(self) -> None:
        self._closed = True
        self._registered_epoch = None
        self._stop_guard()
        await self._client.close()

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._lost.append(lost)

    async def cluster_id(self, proposed: str) -> str:
        while True:
            found = await self._client.get(znodes.CLUSTER_ID)
            if found is not None:
                return znodes.read_cluster_id(found[0])
            create = Create(znodes.CLUSTER_ID, znodes.write_cluster_id(proposed))
            await self._try(create)

    async def stored_cluster_id(self) -> str:
        found = await self._client.get(znodes.CLUSTER_ID)
        return "" if found is None else znodes.read_cluster_id(found[0])

    async def stored_version(self) -> int:
        # A write, whether it succeeds or not: what is read after it is not what a ZooKeeper server
        # that lags behind its leader has.
        await self._try(CheckVersion(znodes.COMMITS, 0))
        # In this order: an election between the two makes the answer larger, never smaller.
        found = await self._client.get(znodes.COMMITS)
        epoch, _ = await self._epoch()
        commits = znodes.Commits(0, 0) if found is None else znodes.read_commits(found[0])
        return version_of(epoch, commits)

    async def next_broker_id(self, above: int) -> int:
        """As Kafka counts: by the versions of a znode."""
        while True:
            try:
                (stat,) = await self._client.multi([SetData(znodes.BROKER_SEQUENCE, b"")])
            except OpFailed as failed:
                if failed.reason is not Reason.MISSING:
                    raise
                await self._try(Create(znodes.BROKER_SEQUENCE))
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
        self._stop_guard()
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
            raise self._refused(broker.broker_id, deadline_s, holder) from None
        self._registered_epoch = epoch
        self._guard = asyncio.get_running_loop().create_task(
            self._watch_registration(broker.broker_id, epoch)
        )
        return epoch

    async def _register(
        self, broker: BrokerRegistration, storage_id: str, data: bytes, holder: list[Registration]
    ) -> int:
        path = znodes.broker_path(broker.broker_id)
        create = Create(path, data, ephemeral=True)
        while True:
            changed = asyncio.Event()
            try:
                found = await self._client.get(path, changed.set)
                if found is None:
                    holder.clear()
                    await self._try(create)
                    continue
                stored, stat = found
                own = stat.ephemeral_owner == self._client.session_id
                if own and stored == data:
                    return stat.czxid
                other = znodes.read_registration(broker.broker_id, stored, stat.czxid)
                holder[:] = [other]
                if own or _past_life(broker, storage_id, other, stored):
                    await self._try(Delete(path, stat.version), create)
                    continue
            except (ConnectionSuspended, SessionExpired):
                await self._connected.wait()
                continue
            await changed.wait()

    def _refused(self, broker_id: int, waited_s: float, holder: list[Registration]) -> StoreError:
        if not holder:
            return ConnectionSuspended(
                f"ZooKeeper at {self._client.servers} did not answer within {waited_s:g} s"
            )
        addresses = ", ".join(f"{e.host}:{e.port}" for e in holder[0].broker.endpoints)
        return RegistrationRefused(
            f"broker {broker_id} is registered already, by the process at {addresses}, and did not "
            f"go within {waited_s:g} s: stop that one, or give this one another broker.id"
        )

    async def _watch_registration(self, broker_id: int, epoch: int) -> None:
        """Tells when the registration is gone although the session is not."""
        path = znodes.broker_path(broker_id)
        while True:
            changed = asyncio.Event()
            try:
                found = await self._client.get(path, changed.set)
            except ConnectionSuspended:
                await self._connected.wait()
                continue
            except SessionExpired:
                return  # told by the change of the session's state
            if found is None or found[1].czxid != epoch:
                self._tell_lost(f"registration {epoch} of broker {broker_id} was removed")
                return
            await changed.wait()

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        ids = sorted(map(int, await self._client.children(znodes.BROKER_IDS, changed) or ()))
        found = await self._client.get_many([znodes.broker_path(id_) for id_ in ids])
        return {
            id_: znodes.read_registration(id_, znode[0], znode[1].czxid)
            for id_, znode in zip(ids, found, strict=True)
            if znode is not None
        }

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        path = znodes.broker_path(broker_id)
        found = await self._client.get(path)
        if found is None or found[1].czxid != broker_epoch:
            return False
        # A registration made in this instant would go too; its process registers again.
        try:
            await self._client.multi([_office(elected), Delete(path)])
        except OpFailed as failed:
            if failed.index == 0:
                raise _fenced(elected) from failed
            return False
        return True

    # -- the office -----------------------------------------------------------------------------

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        found = await self._client.get(znodes.CONTROLLER, changed)
        if found is None:
            return None
        document = znodes.read_controller(found[0])
        if document.controller_epoch is not None:
            return document.controller_id, document.controller_epoch
        epoch, _ = await self._epoch()
        return document.controller_id, epoch

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        # The epoch is read before the office: then an office that is ours cannot have a later one.
        epoch, stat = await self._epoch()
        found = await self._client.get(znodes.CONTROLLER)
        ops: list[Op] = []
        if found is not None:
            holder = znodes.read_controller(found[0])
            held = (holder.controller_id, holder.controller_epoch)
            if found[1].ephemeral_owner == self._client.session_id and held == (node_id, epoch):
                return Elected(node_id, epoch, stat.version)  # its answer was lost
            if instead_of is None or instead_of != held or epoch != held[1]:
                return None
            ops.append(Delete(znodes.CONTROLLER))
        document = znodes.write_controller(node_id, epoch + 1, self._clock.wall_ms())
        ops.append(Create(znodes.CONTROLLER, document, ephemeral=True))
        ops.append(SetData(znodes.CONTROLLER_EPOCH, b"%d" % (epoch + 1), stat.version))
        if not await self._try(*ops):
            return None
        self._forget()
        return Elected(node_id, epoch + 1, stat.version + 1)

    async def resign(self, elected: Elected) -> None:
        self._forget()
        await self._try(_office(elected), Delete(znodes.CONTROLLER))

    async def _epoch(self) -> tuple[int, Stat]:
        found = await self._client.get(znodes.CONTROLLER_EPOCH)
        if found is None:
            raise CorruptStore(
                f"ZooKeeper at {self._client.servers}: {znodes.CONTROLLER_EPOCH} was removed"
            )
        return znodes.read_epoch(found[0]), found[1]

    # -- metadata -------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        self._forget()
        self._stored = stored = await self._read()
        self._loaded = True
        return stored.image()

    async def _read(self) -> Stored:
        """One moment's view: whoever writes counts up, so an unchanged count means no write."""
        for _ in range(_READ_TRIES):
            stored = await self._read_once()
            answer = await self._answer(Ask((znodes.COMMITS, znodes.CONTROLLER_EPOCH)))
            commits, epoch = answer.znodes
            if (
                commits is not None
                and epoch is not None
                and commits.version == stored.commits_version
                and znodes.read_epoch(epoch.data) == stored.controller_epoch
            ):
                return stored
        raise ConnectionSuspended("ZooKeeper's metadata changes faster than it can be read")

    async def _read_once(self) -> Stored:
        steps = reading()
        ask = next(steps)
        while True:
            answer = await self._answer(ask)
            try:
                ask = steps.send(answer)
            except StopIteration as done:
                stored: Stored = done.value
                return stored

    async def _answer(self, ask: Ask) -> ZnodeAnswer:
        found = await self._client.get_many(ask.znodes) if ask.znodes else []
        children = [await self._client.children(path) for path in ask.children]
        return ZnodeAnswer([z and Znode(z[0], z[1].version) for z in found], children)

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        if not self._loaded:
            raise StoreError("metadata must be loaded before it is changed, and after each error")
        # Nobody else is in this method: the controller commits one batch after the other.
        stored, self._stored = self._stored, None
        if stored is None:
            stored = await self._read()
        # Planning changes `stored`. If it fails, nothing was written, and it is read anew.
        # At least one write: the count must grow with each version that is published.
        writes = pack(Writer(stored, elected).plan(records)) or [[]]
        self._loaded = False
        for ops in writes:
            await self._write(ops, stored, elected)
        self._stored = stored
        self._loaded = True

    async def _write(self, ops: Sequence[Op], stored: Stored, elected: Elected) -> None:
        before = stored.commits
        count = before.commits + 1 if before.controller_epoch == elected.controller_epoch else 1
        after = znodes.Commits(elected.controller_epoch, count)
        marker = SetData(znodes.COMMITS, znodes.write_commits(after), stored.commits_version)
        write = [_office(elected), marker, *ops]
        sent_before = False
        while True:
            try:
                await self._client.multi(write)
                break
            except ConnectionSuspended:
                sent_before = True
                await self._reconnected()
            except OpFailed as failed:
                if failed.index == 0:
                    raise _fenced(elected) from failed
                if sent_before and failed.index == 1 and await self._is_stored(marker):
                    break
                raise CorruptStore(
                    f"ZooKeeper at {self._client.servers} was changed by somebody else: {failed}"
                ) from failed
        stored.commits = after
        stored.commits_version += 1

    async def _is_stored(self, marker: SetData) -> bool:
        while True:
            try:
                found = await self._client.get(znodes.COMMITS)
            except ConnectionSuspended:
                await self._reconnected()
                continue
            return found is not None and (
                (found[0], found[1].version) == (marker.data, marker.version + 1)
            )

    async def _reconnected(self) -> None:
        """Waits for the connection as long as a session lasts; then the caller must decide."""
        if self._closed:  # also if the last that was heard of the session is that it works
            raise ConnectionSuspended("the store is closed")
        try:
            async with asyncio.timeout(self._client.session_timeout_s):
                await self._connected.wait()
        except TimeoutError:
            raise ConnectionSuspended(
                f"ZooKeeper at {self._client.servers} is out of reach"
            ) from None

    def _forget(self) -> None:
        self._stored = None
        self._loaded = False

    # -- small parts ----------------------------------------------------------------------------

    async def _create_skeleton(self) -> None:
        paths = list(znodes.SKELETON)
        while True:
            found = await self._client.get_many(paths)
            missing = [path for path, znode in zip(paths, found, strict=True) if znode is None]
            if not missing:
                return
            await self._try(*(Create(path, znodes.SKELETON[path]) for path in missing))

    async def _try(self, *ops: Op) -> bool:
        """Whether it happened; False where another was faster."""
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
            self._forget()
            self._tell_lost("ZooKeeper ended the session")

    def _tell_lost(self, why: str) -> None:
        if self._registered_epoch is None:
            return
        _LOG.warning("%s: registering again", why)
        self._registered_epoch = None
        self._stop_guard()
        for lost in self._lost:
            lost()

    def _stop_guard(self) -> None:
        if self._guard is not None:
            if self._guard is not asyncio.current_task():
                self._guard.cancel()
            self._guard = None


def _office(elected: Elected) -> CheckVersion:
    return CheckVersion(znodes.CONTROLLER_EPOCH, elected.fence)


def _fenced(elected: Elected) -> Fenced:
    return Fenced(
        f"the office of controller {elected.controller_id} (epoch {elected.controller_epoch}) "
        "has passed to another"
    )


def _past_life(
    broker: BrokerRegistration, storage_id: str, other: Registration, data: bytes
) -> bool:
    """Whether a registration can only be an earlier one of this very process or its disk.

    A disk may have been copied, and the one it was copied from be in use: only who has its
    addresses, too, knows that nobody else listens there. Others wait for its session to end.
    """
    if any(broker.incarnation_id) and other.broker.incarnation_id == broker.incarnation_id:
        return True
    if storage_id == "" or znodes.storage_id_of(broker.broker_id, data) != storage_id:
        return False
    return set(broker.endpoints) == set(other.broker.endpoints)
