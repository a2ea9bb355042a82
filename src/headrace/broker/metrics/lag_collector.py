"""Groups and their lag, with the names and labels of kafka_exporter and kafka-lag-exporter.

A group is reported by its coordinator. Share groups, which these exporters do not know, and open
transactions have names of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.broker.lag.consumer_lag import ConsumerLag
from headrace.broker.lag.lag import PartitionLag, age_s
from headrace.broker.lag.lag_snapshot import GroupLag, LagSnapshot, TopicTotal, detailed_groups
from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.metrics.samples import gauge
from headrace.cluster.settings import BrokerSettings
from headrace.metrics.family import MetricFamily, Sample

MAX_PARTITIONS_SETTING: Final = "headrace.http.max.group.partitions"
NO_COMMIT: Final = -1.0  # kafka_exporter's value, so that its alerts work


class LagCollectorHost(Protocol):
    """The part of the broker that knows the lag of groups."""

    settings: BrokerSettings

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def lag(self) -> ConsumerLag: ...


class _Names(NamedTuple):
    """The names of one kind of group; kafka-lag-exporter has another label than kafka_exporter."""

    prefix: str
    label: str
    position: str
    seconds: str
    max_seconds: str
    seconds_label: str
    kind: str


_CONSUMER: Final = _Names(
    prefix="kafka_consumergroup",
    label="consumergroup",
    position="current_offset",
    seconds="kafka_consumergroup_group_lag_seconds",
    max_seconds="kafka_consumergroup_group_max_lag_seconds",
    seconds_label="group",
    kind="consumer group",
)
_SHARE: Final = _Names(
    prefix="headrace_sharegroup",
    label="sharegroup",
    position="start_offset",
    seconds="headrace_sharegroup_lag_seconds",
    max_seconds="headrace_sharegroup_max_lag_seconds",
    seconds_label="sharegroup",
    kind="share group",
)


class LagCollector:
    """Implements `PreparedCollector`."""

    def __init__(self, host: LagCollectorHost) -> None:
        self._host = host

    async def prepare(self) -> None:
        await self._host.lag.refreshed()

    def collect(self) -> Iterator[MetricFamily | None]:
        snapshot = self._host.lag.snapshot
        limit = self._host.settings.integer(MAX_PARTITIONS_SETTING)
        for names, groups in ((_CONSUMER, snapshot.groups), (_SHARE, snapshot.share_groups)):
            detailed = detailed_groups(groups, limit)
            yield from _summaries(names, groups, self._topic_name)
            yield from _details(names, detailed, self._topic_name)
            yield gauge(
                f"headrace_metrics_omitted_{names.label}s",
                f"{names.kind.capitalize()}s of which only the sums have series: see "
                f"{MAX_PARTITIONS_SETTING}.",
                len(groups) - len(detailed),
            )
        yield _held_back(detailed_groups(snapshot.groups, limit), self._topic_name)
        yield from _transactions(snapshot)
        yield gauge(
            "headrace_lag_unknown_partitions",
            "Partitions of groups whose lag is unknown, because their leader did not answer or the "
            "log could not be read.",
            snapshot.unknown_count(),
        )
        yield gauge(
            "headrace_lag_refresh_seconds",
            "Time that the last computation of lag took.",
            snapshot.took_s,
        )

    def _topic_name(self, topic_id: bytes) -> str | None:
        """None if the topic has been deleted since."""
        topic = self._host.metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name


TopicName = Callable[[bytes], str | None]


def _gauge(
    name: str, help_text: str, labels: tuple[str, ...], samples: Sequence[Sample] | Iterator[Sample]
) -> MetricFamily:
    return MetricFamily(name, "gauge", help_text, labels, samples)


def _summaries(
    names: _Names, groups: Sequence[GroupLag], topic_name: TopicName
) -> Iterator[MetricFamily]:
    """The families with one series for each group, or for each of its topics."""

    def by_topic(value: Callable[[TopicTotal], int | None]) -> Iterator[Sample]:
        for group in groups:
            for total in group.totals():
                topic, number = topic_name(total.topic_id), value(total)
                if topic is not None and number is not None:
                    yield (group.group_id, topic), float(number)

    def max_seconds() -> Iterator[Sample]:
        for group in groups:
            seconds = group.max_seconds()
            if seconds is not None:
                yield (group.group_id,), seconds

    labels = (names.label, "topic")
    yield _gauge(
        f"{names.prefix}_members",
        f"Members of the {names.kind}.",
        (names.label,),
        (((group.group_id,), float(group.members)) for group in groups),
    )
    yield _gauge(
        f"{names.prefix}_{names.position}_sum",
        f"Offsets of the {names.kind} in all partitions of the topic, added up.",
        labels,
        by_topic(lambda total: total.positions),
    )
    yield _gauge(
        f"{names.prefix}_lag_sum",
        f"Lag of the {names.kind} in all partitions of the topic, in records.",
        labels,
        by_topic(lambda total: total.records),
    )
    yield _gauge(
        names.max_seconds,
        f"Largest lag of the {names.kind} in any partition, in seconds.",
        (names.seconds_label,),
        max_seconds(),
    )


def _details(
    names: _Names, groups: Sequence[GroupLag], topic_name: TopicName
) -> Iterator[MetricFamily]:
    """The families with one series for each partition of a group."""

    def by_partition(value: Callable[[PartitionLag | None], float | None]) -> Iterator[Sample]:
        for group in groups:
            for (topic_id, index), lag in group.partitions.items():
                topic, number = topic_name(topic_id), value(lag)
                if topic is not None and number is not None:
                    yield (group.group_id, topic, str(index)), number

    labels = (names.label, "topic", "partition")
    yield _gauge(
        f"{names.prefix}_{names.position}",
        f"Offset of the {names.kind} in the partition; -1 without one.",
        labels,
        by_partition(lambda lag: NO_COMMIT if lag is None else float(lag.position)),
    )
    yield _gauge(
        f"{names.prefix}_lag",
        f"Records that the {names.kind} has not read yet; -1 without a committed offset.",
        labels,
        by_partition(_records),
    )
    yield _gauge(
        names.seconds,
        f"Age of the first record that the {names.kind} has not read yet, in seconds; 0 at the "
        "end of the partition.",
        (names.seconds_label, "topic", "partition"),
        by_partition(lambda lag: None if lag is None else lag.seconds),
    )


def _records(lag: PartitionLag | None) -> float | None:
    if lag is None:
        return NO_COMMIT
    return None if lag.records is None else float(lag.records)


def _held_back(groups: Sequence[GroupLag], topic_name: TopicName) -> MetricFamily:
    def samples() -> Iterator[Sample]:
        for group in groups:
            for (topic_id, index), lag in group.partitions.items():
                topic = topic_name(topic_id)
                if topic is not None and lag is not None and lag.held_back:
                    yield (group.group_id, topic, str(index)), float(lag.held_back)

    return _gauge(
        "headrace_consumergroup_lag_held_back",
        "Records of the lag that read_committed consumers cannot read until an open transaction "
        "ends; see headrace_partition_open_transaction_seconds.",
        (_CONSUMER.label, "topic", "partition"),
        samples(),
    )


def _transactions(snapshot: LagSnapshot) -> Iterator[MetricFamily]:
    """The open transactions of the partitions that this broker leads."""
    ages: list[Sample] = []
    records: list[Sample] = []
    for each in snapshot.open_transactions:
        labels = (each.topic, str(each.partition), str(each.transaction.producer_id))
        seconds = age_s(each.transaction.since_ms, each.now_ms)
        if seconds is not None:
            ages.append((labels, seconds))
        records.append((labels, float(each.records)))
    labels = ("topic", "partition", "producer_id")
    yield _gauge(
        "headrace_partition_open_transaction_seconds",
        "Age of the earliest open transaction of the partition; read_committed consumers wait for "
        "its end.",
        labels,
        ages,
    )
    yield _gauge(
        "headrace_partition_open_transaction_records",
        "Records of the partition from the earliest open transaction on.",
        labels,
        records,
    )
