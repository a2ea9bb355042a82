"""Election of the controller in ZooKeeper: `/controller` and `/controller_epoch`, as in Kafka.

The broker that creates the ephemeral znode `/controller` is elected, in one transaction with the
next epoch. Each election changes `/controller_epoch`; every write of a controller checks it, so no
earlier controller can write.
"""

from collections.abc import Callable

from headrace.clock import Clock
from headrace.cluster.metadata_store import CorruptStore, Elected
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.zookeeper_client import (
    CheckVersion,
    Create,
    Delete,
    Op,
    SetData,
    Stat,
    ZooKeeperClient,
    try_multi,
)


class ZooKeeperElection:
    """The controller of a cluster; its methods are those of `ClusterStore`."""

    def __init__(self, client: ZooKeeperClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def controller(self, changed: Callable[[], None] | None = None) -> tuple[int, int] | None:
        found = await self._client.get(znode_paths.CONTROLLER, changed)
        if found is None:
            return None
        document = znodes.read_controller(found[0])
        if document.controller_epoch is not None:
            return document.controller_id, document.controller_epoch
        epoch, _ = await self.read_epoch()
        return document.controller_id, epoch

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        # The epoch is read before the controller: if this broker is the controller, the epoch
        # cannot be newer than its term.
        epoch, stat = await self.read_epoch()
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
        if not await try_multi(self._client, *ops):
            return None
        return Elected(node_id, epoch + 1, stat.version + 1)

    async def resign(self, elected: Elected) -> None:
        await try_multi(self._client, check_epoch_op(elected), Delete(znode_paths.CONTROLLER))

    async def read_epoch(self) -> tuple[int, Stat]:
        """The epoch of the latest controller, and the version of its znode."""
        found = await self._client.get(znode_paths.CONTROLLER_EPOCH)
        if found is None:
            raise CorruptStore(
                f"ZooKeeper at {self._client.servers}: {znode_paths.CONTROLLER_EPOCH} was removed"
            )
        return znodes.read_epoch(found[0]), found[1]


def check_epoch_op(elected: Elected) -> CheckVersion:
    """Makes a transaction fail if another controller was elected since."""
    return CheckVersion(znode_paths.CONTROLLER_EPOCH, elected.fence)
