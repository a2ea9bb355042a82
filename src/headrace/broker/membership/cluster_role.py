"""How a broker belongs to a cluster: as a standalone node or as one of several members."""

from typing import Protocol

from headrace.broker.metadata.standalone_metadata import Metadata


class ClusterRole(Protocol):
    """The steps of start and stop that differ. `node.Broker` calls them in order."""

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
