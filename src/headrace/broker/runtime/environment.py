"""The surroundings of a broker: time, randomness, files, threads, processes, stores, host name.

A broker accesses its surroundings only through this and through the running loop. With another
`Environment` and another loop, the same broker runs in memory, on virtual time.
"""

import asyncio
from collections.abc import Callable
from random import Random, SystemRandom
from typing import NamedTuple

from headrace.broker.runtime.offload import Offload, ThreadOffload
from headrace.broker.runtime.worker import Worker
from headrace.clock import Clock, SystemClock
from headrace.cluster.metadata_store import ClusterStore, MetadataStore, StoreError
from headrace.cluster.settings import BrokerSettings
from headrace.storage.files.filesystem import FileSystem, RealFileSystem


def _worker_process(loop: asyncio.AbstractEventLoop, offload: Offload, module: str) -> Worker:
    from headrace.broker.runtime.worker_process import WorkerProcess

    return WorkerProcess(loop, offload, module)


def _sqlite(place: str) -> MetadataStore:
    from headrace.cluster.stores.sqlite import SqliteStore

    return SqliteStore(place)


def _zookeeper(settings: BrokerSettings, clock: Clock) -> ClusterStore | None:
    if not settings.string("zookeeper.connect"):
        return None
    from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings

    found = ZooKeeperSettings.of(settings)
    if found is None:
        return None
    try:
        from headrace.cluster.stores.kazoo_client import KazooZooKeeper
    except ImportError as error:
        raise StoreError(
            "zookeeper.connect needs the ZooKeeper client: pip install 'headrace[cluster]'"
        ) from error
    from headrace.cluster.stores.zookeeper_store import ZooKeeperStore

    return ZooKeeperStore(KazooZooKeeper(found), clock)


def _host_name() -> str:
    import socket

    return socket.getfqdn()


class Environment(NamedTuple):
    """The surroundings of one process; without arguments, those of the machine."""

    clock: Clock = SystemClock()
    random: Random = SystemRandom()
    files: FileSystem = RealFileSystem()
    offload: Callable[[asyncio.AbstractEventLoop], Offload] = ThreadOffload
    """Runs calls that would block the loop."""
    worker: Callable[[asyncio.AbstractEventLoop, Offload, str], Worker] = _worker_process
    """Starts a process that runs the named module, for work that would block the interpreter."""
    metadata_store: Callable[[str], MetadataStore] = _sqlite
    """Opens the store of a standalone node: a path, or `sqlite.IN_MEMORY`."""
    cluster_store: Callable[[BrokerSettings, Clock], ClusterStore | None] = _zookeeper
    """A new session with the cluster's store, not open yet; None for a standalone node."""
    accepts_sockets: bool = True
    """Whether the loop works with the machine's sockets; a simulated one accepts by itself."""
    host_name: Callable[[], str] = _host_name
    """The name by which others reach this machine."""
