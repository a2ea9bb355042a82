"""What makes a broker part of a cluster: of one of its own, or of one with others."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.cluster.image import Endpoint, MetadataImage
from headrace.cluster.records import MetadataRecord
from headrace.cluster.settings import BrokerSettings
from headrace.storage.directories.log_manager import LogManager


class ClusterRoleHost(Protocol):
    """What either role needs of its broker."""

    settings: BrokerSettings
    node_id: int
    random: Random
    endpoints: tuple[Endpoint, ...]

    @property
    def logs(self) -> LogManager: ...

    def open_logs(
        self, cluster_id: str | None, image: MetadataImage, *, metadata_version: int | None = None
    ) -> None:
        """Opens the data directories, which must be this cluster's or new."""
        ...

    def host(self, image: MetadataImage) -> None:
        """Takes the roles that a starting broker has."""
        ...

    async def publish(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Makes the image after these records real here."""
        ...


class ClusterRole(Protocol):
    """The steps of a broker's life that differ. `node.Broker` takes them in order."""

    @property
    def metadata(self) -> Metadata:
        """There from `open` on."""
        ...

    async def open(self) -> None:
        """Opens metadata and logs. Nobody hears of this broker yet."""
        ...

    async def join(self) -> None:
        """Announces the broker at its endpoints, and gives it its roles."""
        ...

    async def leave(self, timeout_s: float) -> None:
        """Hands over what this broker leads, while it still serves."""
        ...

    async def withdraw(self) -> None:
        """Takes the announcement back: nobody is served any more."""
        ...

    @property
    def broker_epoch(self) -> int:
        """Of this life, for the marker of a clean stop; -1 where nobody counts lives."""
        ...

    def crash(self) -> None:
        """Ends everything at once and says nothing to anybody."""
        ...

    def close(self) -> None:
        """Releases what is left. Safe to call again."""
        ...
