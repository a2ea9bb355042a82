"""How a broker belongs to a cluster: as a standalone node or as one of several members."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.cluster.image import Endpoint, MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.settings import BrokerSettings
from headrace.storage.directories.log_manager import LogManager


class ClusterRoleHost(Protocol):
    """The part of the broker that either role uses."""

    settings: BrokerSettings
    node_id: int
    random: Random
    endpoints: tuple[Endpoint, ...]

    @property
    def logs(self) -> LogManager: ...

    def open_logs(
        self, cluster_id: str | None, image: MetadataImage, *, metadata_version: int | None = None
    ) -> None:
        """Opens the data directories, which must be new or belong to this cluster."""
        ...

    def load_roles(self, image: MetadataImage) -> None:
        """Takes the roles of a starting broker."""
        ...

    async def publish(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Applies these records, which lead to the image, to this broker."""
        ...


class ClusterRole(Protocol):
    """The steps of start and stop that differ between roles. `node.Broker` calls them in order."""

    @property
    def metadata(self) -> Metadata:
        """Available after `open`."""
        ...

    async def open(self) -> None:
        """Opens metadata and logs. The broker is not yet visible to others."""
        ...

    async def join(self) -> None:
        """Registers the broker with its endpoints and takes its roles."""
        ...

    async def leave(self, timeout_s: float) -> None:
        """Hands over leaderships while the broker still serves clients."""
        ...

    async def withdraw(self) -> None:
        """Withdraws the registration, after the broker has stopped serving."""
        ...

    @property
    def broker_epoch(self) -> int:
        """The epoch for the marker of a clean shutdown; -1 on a standalone node."""
        ...

    def crash(self) -> None:
        """Ends everything at once, without notifying other brokers."""
        ...

    def close(self) -> None:
        """Releases remaining resources. Safe to call again."""
        ...
