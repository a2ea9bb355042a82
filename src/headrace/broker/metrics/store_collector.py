"""This broker's connection to the metadata store: ZooKeeper, or the file of a standalone node."""

from collections.abc import Iterator
from typing import Protocol

from headrace.broker.metrics.samples import gauge
from headrace.metrics.family import MetricFamily


class StoreMember(Protocol):
    """A member of a cluster, with its session in the store."""

    @property
    def store_disconnected_s(self) -> float | None: ...


class StoreCollectorHost(Protocol):
    """What the collector needs of the broker."""

    @property
    def member(self) -> StoreMember | None: ...


class StoreCollector:
    """A standalone node is always connected."""

    def __init__(self, host: StoreCollectorHost) -> None:
        self._host = host

    def collect(self) -> Iterator[MetricFamily | None]:
        member = self._host.member
        lost_s = None if member is None else member.store_disconnected_s
        yield gauge(
            "headrace_metadata_store_connected",
            "1 while this broker is connected to ZooKeeper; always 1 on a standalone node.",
            int(lost_s is None),
        )
        yield gauge(
            "headrace_metadata_store_disconnected_seconds",
            "How long this broker has had no connection to ZooKeeper; 0 while it is connected.",
            lost_s or 0.0,
        )
