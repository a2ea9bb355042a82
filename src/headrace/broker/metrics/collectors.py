"""All collectors of a broker, in the order of `/metrics`.

The module is imported when the HTTP port is opened, so a broker without it pays nothing. A new
collector is built in `build_collectors`.
"""

from typing import Protocol

from headrace.metrics.family import Collector


class CollectorsHost(Protocol):
    """What the collectors need of the broker."""

    @property
    def node_id(self) -> int: ...


def build_collectors(broker: CollectorsHost) -> tuple[Collector, ...]:
    """The collectors of this broker; built once, when the HTTP port opens."""
    return ()
