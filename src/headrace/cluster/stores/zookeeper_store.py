"""The cluster store in ZooKeeper: registrations, elections and fenced writes, in Kafka's znodes.

Two compare-and-sets guard each write of the controller: one on `/controller_epoch`, which every
election changes (no earlier controller can write), and one on `/headrace/commits`, which every
write increments. Thanks to the second, a write whose response was lost is sent again and still
happens exactly once. `zookeeper_registration` registers brokers, `zookeeper_election` elects the
controller.
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
    StoreError,
    fenced_error,
)
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.multi_packing import pack_steps
from headrace.cluster.stores.znode_planner import ZnodePlanner
from headrace.cluster.stores.znode_read import Znode, ZnodeRead, ZnodeReadResult
from headrace.cluster.stores.znode_reader import StoredMetadata, metadata_version, read_metadata
from headrace.cluster.stores.zookeeper_client import (
    CheckVersion,
    Create,
    Op,
    OpFailed,
    Reason,
    SessionState,
    SetData,
    ZooKeeperClient,
    try_multi,
)
from headrace.cluster.stores.zookeeper_election import ZooKeeperElection, check_epoch_op
from headrace.cluster.stores.zookeeper_registration import ZooKeeperRegistration
from headrace.cluster.topology import BrokerRegistration
from headrace.limited_log import LimitedLog

log = logging.getLogger(__package__)

_READ_TRIES: Final = 20
"""How often a read starts over because of a concurrent write."""


class ZooKeeperStore:
    """A `ClusterStore` over any ZooKeeper client."""

    def __init__(self, client: ZooKeeperClient, clock: Clock) -> None:
        self._client = client
        self._stored: StoredMetadata | None = None
        self._loaded = False  # whether the caller has the current metadata
        self._connected = asyncio.Event()
        self._closed = False
        self._clock = clock
        self._disconnected_at: float | None = None
        self._limited_log = LimitedLog(log, clock.monotonic)
        self._open_paths: list[str] = []  # of secrets that every client of ZooKeeper can read
        self._registration = ZooKeeperRegistration(client, clock, self._connected)
        self._election = ZooKeeperElection(client, clock)
        client.on_state(self._state_changed)

    async def open(self) -> None:
        await self._client.start()
        if self._client.state is SessionState.CONNECTED:
            self._connected.set()
        await self._create_skeleton()
        self._open_paths = await self._client.readable_by_anyone(znode_paths.SENSITIVE_PATHS)

    async def close(self) -> None:
        self._closed = True
        self._registration.close()
        await self._client.close()

    @property
    def disconnected_s(self) -> float | None:
        at = self._disconnected_at
        return None if at is None else self._clock.monotonic() - at

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._registration.on_lost(lost)

    async def cluster_id(self, proposed: str) -> str:
        while True:
            found = await self._client.get(znode_paths.CLUSTER_ID)
            if found is not None:
                return znodes.read_cluster_id(found[0])
            create = Create(znode_paths.CLUSTER_ID, znodes.write_cluster_id(proposed))
            await try_multi(self._client, create)

    async def stored_cluster_id(self) -> str:
        found = await self._client.get(znode_paths.CLUSTER_ID)
        return "" if found is None else znodes.read_cluster_id(found[0])

    async def stored_version(self) -> int:
        # A write, whether it succeeds or not, makes this ZooKeeper server catch up with its
        # leader, so that the following reads are not stale.
        await try_multi(self._client, CheckVersion(znode_paths.COMMITS, 0))
        # In this order an election between the two reads makes the version larger, never smaller.
        found = await self._client.get(znode_paths.COMMITS)
        epoch, _ = await self._election.read_epoch()
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
                await try_multi(self._client, Create(znode_paths.BROKER_SEQUENCE))
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
        return await self._registration.register(
            broker,
            clean_shutdown_epoch=clean_shutdown_epoch,
            storage_id=storage_id,
            deadline_s=deadline_s,
        )

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        return await self._registration.registered(changed)

    async def fence(self, elected: Elected, broker_id: int, broker_epoch: int) -> bool:
        return await self._registration.fence(elected, broker_id, broker_epoch)

    # -- the controller's election --------------------------------------------------------------

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        return await self._election.controller(changed)

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        elected = await self._election.elect(node_id, instead_of=instead_of)
        if elected is not None:
            self._forget_stored()
        return elected

    async def resign(self, elected: Elected) -> None:
        self._forget_stored()
        await self._election.resign(elected)

    # -- metadata -------------------------------------------------------------------------------

    async def load(self) -> MetadataImage:
        self._forget_stored()
        self._stored = stored = await self._read_snapshot()
        self._loaded = True
        self._warn_about_open_secrets(stored)
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
        children = await asyncio.gather(*map(self._client.children, ask.children))
        return ZnodeReadResult(
            [z and Znode(z[0], z[1].version, z[1].child_count) for z in found], children
        )

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        if not self._loaded:
            raise StoreError("metadata must be loaded before a commit, and again after each error")
        # No other task is in this method: the controller commits one batch after the other.
        stored, self._stored = self._stored, None
        if stored is None:
            stored = await self._read_snapshot()
        # Planning changes `stored`. If it fails, nothing was written, and `stored` is read again.
        # At least one write: the count must grow with each published version.
        writes = pack_steps(ZnodePlanner(stored, elected).plan(records)) or [[]]
        self._loaded = False
        for ops in writes:
            await self._write_ops(ops, stored, elected)
        self._stored = stored
        self._loaded = True
        self._warn_about_open_secrets(stored)

    async def _write_ops(self, ops: Sequence[Op], stored: StoredMetadata, elected: Elected) -> None:
        before = stored.commits
        count = before.commits + 1 if before.controller_epoch == elected.controller_epoch else 1
        after = znodes.Commits(elected.controller_epoch, count)
        marker = SetData(znode_paths.COMMITS, znodes.write_commits(after), stored.commits_version)
        write = [check_epoch_op(elected), marker, *ops]
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

    def _log_reconnected(self) -> None:
        if self._disconnected_at is not None:
            ms = round((self._clock.monotonic() - self._disconnected_at) * 1000)
            self._disconnected_at = None
            self._limited_log.info(
                "connected to ZooKeeper again", about="", zookeeper=self._client.servers, ms=ms
            )

    def _forget_stored(self) -> None:
        self._stored = None
        self._loaded = False

    def _warn_about_open_secrets(self, stored: StoredMetadata) -> None:
        """Warns once. As in Kafka, secrets are stored even where everyone can read them."""
        if self._open_paths and stored.security.has_secrets():
            log.warning(
                "every client of ZooKeeper at %s can read the users' credentials and the "
                "delegation tokens below %s: set zookeeper.set.acl=true and "
                "headrace.zookeeper.auth on every broker, and protect these znodes as "
                "docs/guide/clusters.md explains",
                self._client.servers,
                ", ".join(self._open_paths),
            )
            self._open_paths = []

    # -- helpers --------------------------------------------------------------------------------

    async def _create_skeleton(self) -> None:
        paths = list(znode_paths.SKELETON)
        while True:
            found = await self._client.get_many(paths)
            missing = [path for path, znode in zip(paths, found, strict=True) if znode is None]
            if not missing:
                return
            await try_multi(
                self._client, *(Create(path, znode_paths.SKELETON[path]) for path in missing)
            )

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
            self._log_reconnected()
            return
        self._connected.clear()
        if self._closed:
            return
        if self._disconnected_at is None:
            self._disconnected_at = self._clock.monotonic()
            self._limited_log.warning(
                "the connection to ZooKeeper is lost: leaders serve on; nothing can be changed",
                about="",
                zookeeper=self._client.servers,
                session_timeout_s=self._client.session_timeout_s,
            )
        if state is SessionState.EXPIRED:
            self._forget_stored()
            self._registration.notify_lost("ZooKeeper ended the session")
