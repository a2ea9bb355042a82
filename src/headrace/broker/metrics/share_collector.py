"""The records that members of share groups hold, in the partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.metrics.lag_collector import MAX_PARTITIONS_SETTING
from headrace.broker.metrics.samples import gauge
from headrace.cluster.settings import BrokerSettings
from headrace.metrics.family import MetricFamily, Sample

if TYPE_CHECKING:
    from headrace.broker.share.share_partition_manager import SharePartitionManager
    from headrace.broker.share.share_partition_runner import SharePartitionRunner

LABELS: Final = ("sharegroup", "topic", "partition")


class ShareCollectorHost(Protocol):
    """The part of the broker that leads share partitions."""

    settings: BrokerSettings

    @property
    def built_shares(self) -> SharePartitionManager | None:
        """None before the first request of a share group."""
        ...


class ShareCollector:
    """One series for each share partition that is loaded, up to the limit for groups.

    Above the limit, those that were loaded first have series.
    """

    def __init__(self, host: ShareCollectorHost) -> None:
        self._host = host

    def collect(self) -> Iterator[MetricFamily | None]:
        shares = self._host.built_shares
        loaded = [] if shares is None else shares.loaded()
        limit = self._host.settings.integer(MAX_PARTITIONS_SETTING)
        yield MetricFamily(
            "headrace_sharegroup_acquired_records",
            "gauge",
            "Records of the partition that members of the share group have locked.",
            LABELS,
            _acquired(loaded[:limit]),
        )
        yield gauge(
            "headrace_metrics_omitted_share_partitions",
            "Loaded share partitions without a series of their locked records: see "
            f"{MAX_PARTITIONS_SETTING}.",
            max(0, len(loaded) - limit),
        )


def _acquired(loaded: list[SharePartitionRunner]) -> Iterator[Sample]:
    for live in loaded:
        if live.window is not None:
            labels = (live.key.group_id, live.leader.topic, str(live.leader.index))
            yield labels, float(live.window.acquired_count)
