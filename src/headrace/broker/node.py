"""One broker: its parts put together, started and stopped in the right order.

Start: logs, metadata, sockets bound, registration, then the first accept; a client that can
connect gets complete answers. Stop: no new requests, answers to those accepted, a flush of every
log, the clean-shutdown marker; within a bounded time. Two brokers in one process share nothing.
"""

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path
from random import Random, SystemRandom

from headrace.broker.chores import chores_of
from headrace.broker.config_service import ConfigService
from headrace.broker.delayed_fetch import DelayedFetch
from headrace.broker.dispatch import Dispatcher
from headrace.broker.fetch_session import FetchSessions
from headrace.broker.flusher import Flusher
from headrace.broker.hosting import Hosting
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.limits import Limits
from headrace.broker.metadata_service import MetadataService
from headrace.broker.offload import ThreadOffload
from headrace.broker.partitions import PartitionTable
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.server import Server, ServerLimits
from headrace.clock import Clock, SystemClock
from headrace.cluster.controller import Controller
from headrace.cluster.image import Endpoint
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.replication.leader import Leader
from headrace.storage.config import LogConfig
from headrace.storage.filesystem import RealFileSystem
from headrace.storage.log import Log
from headrace.storage.manager import LogManager

log = logging.getLogger(__name__)

METADATA_FILE = "metadata.sqlite"
STOP_TIMEOUT_S = 30.0
FLUSH_SHARE = 0.5  # of the time to stop: answers first, the rest is for the disk


class Broker:
    """A node that leads every partition of its own embedded cluster."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        ephemeral: bool = False,
    ) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.random: Random = random or SystemRandom()
        self.limits = Limits.of(settings)
        self.node_id = settings.node_id
        self.stopping = False
        self.delayed_fetches: set[DelayedFetch] = set()
        self.fetch_sessions = FetchSessions(
            settings.integer("max.incremental.fetch.session.cache.slots"),
            MIN_SESSION_EVICTION_S,
            self.random,
        )
        self.endpoints: tuple[Endpoint, ...] = ()
        self.configs = ConfigService(settings)
        self._ephemeral = ephemeral
        self._temporary: Path | None = None
        self._started = False

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in self.endpoints)

    @property
    def cluster_id(self) -> str:
        return self.metadata.image.cluster_id

    # --- start ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serves when this returns; on an error nothing is left open."""
        self.loop = asyncio.get_running_loop()
        self.offload = ThreadOffload(self.loop)
        self.flusher = Flusher(self.loop, self.offload)
        self.partitions = PartitionTable(self._open_log)
        directories = self._directories()
        self._store = SqliteStore(
            IN_MEMORY if self._ephemeral else directories[0] / METADATA_FILE
        )
        try:
            await self._start(directories)
        except BaseException:
            self._store.close()
            self._remove_temporary()
            raise

    async def _start(self, directories: list[Path]) -> None:
        image = self._store.load()
        controller = Controller(image, self.settings.controller(), self.random)
        hosting = Hosting(self.node_id, self.partitions, None, self._log_config)
        self.metadata = MetadataService(controller, self._store, self.offload, hosting.publish)
        self.producer_ids = ProducerIds(self.metadata, self.node_id)
        await self.metadata.record(controller.bootstrap())
