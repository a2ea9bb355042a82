"""A standalone node: it is the whole cluster, with its metadata in a file beside its logs."""

from typing import Final, Protocol

from headrace.broker.membership.cluster_role import ClusterRoleHost
from headrace.broker.metadata.standalone_metadata import StandaloneMetadata
from headrace.broker.partitions.import_kafka_logs import imported_topics
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.errors import StartupError
from headrace.broker.runtime.offload import Offload
from headrace.cluster.metadata_store import MetadataStore
from headrace.cluster.stores.sqlite import IN_MEMORY
from headrace.controller.metadata_controller import MetadataController

METADATA_FILE: Final = "headrace-metadata.sqlite"


class StandaloneHost(ClusterRoleHost, Protocol):
    """The part of the broker that a standalone node uses."""

    environment: Environment
    offload: Offload


class Standalone:
    """Leads every partition and makes every decision."""

    broker_epoch = -1

    def __init__(self, broker: StandaloneHost, *, in_memory: bool) -> None:
        self._broker = broker
        self._in_memory = in_memory
        self._store: MetadataStore | None = None

    async def open(self) -> None:
        broker = self._broker
        directory = broker.settings.log_dirs[0]
        place = IN_MEMORY if self._in_memory else f"{directory}/{METADATA_FILE}"
        self._store = store = broker.environment.metadata_store(place)
        image = store.load()
        broker.open_logs(image.cluster_id or None, image)
        self._controller = MetadataController(image, broker.settings.controller(), broker.random)
        self.metadata = StandaloneMetadata(self._controller, store, broker.offload, broker.publish)
        broker.load_roles(image)

    async def join(self) -> None:
        broker = self._broker
        is_new = not self.metadata.image.cluster_id
        await self.metadata.record(self._controller.bootstrap(broker.logs.cluster_id))
        if is_new:
            await self.metadata.record(imported_topics(broker.logs, broker.node_id))
        registered = await self.metadata.decide(
            lambda controller: controller.register_broker(
                broker.node_id,
                broker.endpoints,
                rack=broker.settings.string("broker.rack"),
                incarnation_id=broker.random.randbytes(16),
                clean_restart=all(directory.was_clean for directory in broker.logs.directories),
            )
        )
        if registered[0].error.code:
            raise StartupError(registered[0].error.message)

    async def leave(self, timeout_s: float) -> None:
        """Does nothing: there is no other broker that could take over."""

    async def withdraw(self) -> None:
        """Does nothing: there is no registration to withdraw."""

    def crash(self) -> None:
        """Does nothing: no tasks run in the background."""

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
