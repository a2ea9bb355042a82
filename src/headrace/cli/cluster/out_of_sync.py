"""Replicas that are not in sync: why, how far they are behind, and for how long. Pure.

A Headrace leader knows the lag and the age of each of its followers. For other brokers, the lag is
the difference between the ends (and the sizes) of the two logs, while both brokers answer. Kafka's
protocol does not tell since when a replica is out of sync: `FirstSeen` measures it from the first
observation on, so the age is then a minimum.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from headrace.cli.cluster.broker_probe import BrokerReport, Reports
from headrace.cli.cluster.status import Overview
from headrace.client.admin.log_dirs import FollowerLag, LogDirInfo
from headrace.client.metadata import PartitionInfo
from headrace.client.results import TopicPartition

FULL_BYTES: Final = 2**20
"""With less free space, a record batch of the default `max.message.bytes` does not fit."""

Adding = Mapping[TopicPartition, Container[int]]
"""The replicas that a reassignment is adding."""


class OutOfSyncReplica(NamedTuple):
    """One replica that is not in sync; unknown values are None."""

    partition: TopicPartition
    broker: int
    reason: str
    lag: int | None = None
    """In records: the difference between the end offsets."""
    lag_bytes: int | None = None
    age_s: float | None = None
    age_is_minimum: bool = False


def is_full(directory: LogDirInfo) -> bool:
    return 0 <= directory.usable_bytes < FULL_BYTES


def out_of_sync_replicas(
    overview: Overview, reports: Reports, adding: Adding
) -> list[OutOfSyncReplica]:
    """All of them, by partition and broker."""
    known = {broker.id: broker for broker in overview.cluster.brokers}
    found = []
    for each, info in overview.under_replicated.items():
        for broker in sorted(set(info.replicas) - set(info.isr)):
            is_down = broker not in known or known[broker].fenced
            replica = _measured(each, broker, info, reports)
            reason = (
                "being added by a reassignment"
                if broker in adding.get(each, ())
                else f"broker {broker} is down"
                if is_down
                else _reason_at(broker, each, reports.get(broker), replica.lag)
            )
            found.append(replica._replace(reason=reason))
    return found


def _measured(
    partition: TopicPartition, broker: int, info: PartitionInfo, reports: Reports
) -> OutOfSyncReplica:
    leader, follower = reports.get(info.leader), reports.get(broker)
    led = None if leader is None else leader.replica(partition)
    told = None
    if led is not None:
        told = next((each for each in led.followers if each.broker == broker), None)
    if led is not None and told is not None:
        return _told(partition, told, led.log_end)
    held = None if follower is None else follower.replica(partition)
    lag_bytes = None if led is None or held is None else max(0, led.bytes - held.bytes)
    end = None if leader is None else leader.ends.get(partition)
    reached = None if follower is None else follower.ends.get(partition)
    lag = None if end is None or reached is None else max(0, end - reached)
    return OutOfSyncReplica(partition, broker, "", lag, lag_bytes)


def _told(partition: TopicPartition, told: FollowerLag, end: int | None) -> OutOfSyncReplica:
    lag = None if end is None or told.log_end is None else max(0, end - told.log_end)
    return OutOfSyncReplica(
        partition, told.broker, "", lag, told.lag_bytes, told.out_of_sync_s, told.is_minimum
    )


def _reason_at(
    broker: int, partition: TopicPartition, report: BrokerReport | None, lag: int | None
) -> str:
    if report is None or report.failure:
        return f"broker {broker} does not answer"
    holds = report.replica(partition)
    for directory in report.directories:
        if holds is None and directory.problem is not None:
            return f"log directory {directory.path} is offline"
        if partition in directory.replicas and is_full(directory):
            return f"the disk of {directory.path} is full"
    if holds is None and report.directories:
        return f"broker {broker} has no log of it yet"
    if lag is None:
        return "not known"
    return "catching up" if lag else "caught up, joins soon"


class FirstSeen:
    """Since when each replica has been observed to be out of sync."""

    def __init__(self) -> None:
        self._since: dict[tuple[TopicPartition, int], float] = {}

    def complete(self, replicas: Iterable[OutOfSyncReplica], now: float) -> list[OutOfSyncReplica]:
        """The replicas with a minimum age for those whose leader does not tell it."""
        before = self._since
        self._since = {}
        return list(self._with_ages(replicas, before, now))

    def _with_ages(
        self,
        replicas: Iterable[OutOfSyncReplica],
        before: Mapping[tuple[TopicPartition, int], float],
        now: float,
    ) -> Iterator[OutOfSyncReplica]:
        for each in replicas:
            key = (each.partition, each.broker)
            since = self._since[key] = before.get(key, now)
            if each.age_s is None and since < now:
                yield each._replace(age_s=now - since, age_is_minimum=True)
            else:
                yield each
