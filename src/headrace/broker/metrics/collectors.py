"""All collectors of a broker, in the order of `/metrics`.

The module is imported when the HTTP port is opened, so a broker without it pays nothing. A new
collector is built in `build_collectors`.
"""

from typing import Protocol

from headrace.broker.metrics.controller_collector import (
    ControllerCollector,
    ControllerCollectorHost,
)
from headrace.broker.metrics.coordinator_collector import (
    CoordinatorCollector,
    CoordinatorCollectorHost,
)
from headrace.broker.metrics.lag_collector import LagCollector, LagCollectorHost
from headrace.broker.metrics.log_collector import LogCollector, LogCollectorHost
from headrace.broker.metrics.loop_monitor import LoopMonitor
from headrace.broker.metrics.network_collector import NetworkCollector, NetworkCollectorHost
from headrace.broker.metrics.partition_collector import (
    PartitionCollector,
    PartitionCollectorHost,
)
from headrace.broker.metrics.process_collector import (
    ProcessCollector,
    ProcessCollectorHost,
    ScrapeStatus,
)
from headrace.broker.metrics.replica_collector import ReplicaCollector, ReplicaCollectorHost
from headrace.broker.metrics.request_collector import RequestCollector, RequestCollectorHost
from headrace.broker.metrics.share_collector import ShareCollector, ShareCollectorHost
from headrace.broker.metrics.store_collector import StoreCollector, StoreCollectorHost
from headrace.broker.metrics.telemetry_collectors import (
    TelemetryCollectorsHost,
    telemetry_collectors,
)
from headrace.broker.metrics.topic_collector import TopicCollector
from headrace.broker.network.request_meter import RequestMeters
from headrace.metrics.family import Collector


class CollectorsHost(
    ControllerCollectorHost,
    CoordinatorCollectorHost,
    LagCollectorHost,
    LogCollectorHost,
    NetworkCollectorHost,
    PartitionCollectorHost,
    ProcessCollectorHost,
    ReplicaCollectorHost,
    RequestCollectorHost,
    ShareCollectorHost,
    StoreCollectorHost,
    TelemetryCollectorsHost,
    Protocol,
):
    """What the collectors need of the broker."""

    request_meters: RequestMeters | None


def build_collectors(
    broker: CollectorsHost, monitor: LoopMonitor, scrapes: ScrapeStatus
) -> tuple[Collector, ...]:
    """The collectors of a started broker with an HTTP port; built at its first scrape."""
    traffic, meters = broker.partitions.traffic, broker.request_meters
    assert traffic is not None  # the broker has an HTTP port
    assert meters is not None
    return (
        ProcessCollector(broker, monitor, scrapes),
        ControllerCollector(broker),
        StoreCollector(broker),
        ReplicaCollector(broker, traffic),
        TopicCollector(broker, traffic),
        RequestCollector(broker, meters),
        NetworkCollector(broker),
        CoordinatorCollector(broker),
        LogCollector(broker),
        PartitionCollector(broker),
        LagCollector(broker),
        ShareCollector(broker),
        *telemetry_collectors(broker),
    )
