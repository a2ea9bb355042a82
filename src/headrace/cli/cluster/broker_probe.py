"""Asks every live broker about itself: disks, replicas, its connection to the metadata store.

A broker that hangs or has just died costs one short timeout, at the same time for all of them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.cli.cluster.status import Overview
from headrace.client.admin.brokers import StoreConnection, store_connection
from headrace.client.admin.log_dirs import LogDirInfo, ReplicaSize, describe_log_dirs
from headrace.client.admin.offsets import replica_ends
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, RequestRefused, UnsupportedByBroker
from headrace.client.results import TopicPartition

ANSWER_S: Final = 3.0
"""A broker that serves clients answers within this time."""


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """The answers of one broker."""

    failure: str = ""
    """Why there is no answer."""
    refusal: str = ""
    """Why the broker does not describe its directories."""
    directories: tuple[LogDirInfo, ...] = ()
    store: StoreConnection | None = None
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The log end offsets of its replicas, from brokers that are not Headrace."""

    def replica(self, partition: TopicPartition) -> ReplicaSize | None:
        """The broker's replica of the partition, without a copy on its way to another directory."""
        for directory in self.directories:
            found = directory.replicas.get(partition)
            if found is not None and not found.is_future:
                return found
        return None


Reports = Mapping[int, BrokerReport]


async def probe_brokers(
    client: ClusterClient, overview: Overview, *, timeout_s: float
) -> dict[int, BrokerReport]:
    """A report of each live broker, with its replicas of under-replicated partitions."""
    limit_s = min(timeout_s, ANSWER_S)
    ids = [broker.id for broker in overview.cluster.live]
    wanted = {
        id_: [each for each, info in overview.under_replicated.items() if id_ in info.replicas]
        for id_ in ids
    }
    reports = await asyncio.gather(
        *(_probe_broker(client, id_, wanted[id_], timeout_s=limit_s) for id_ in ids)
    )
    return dict(zip(ids, reports, strict=True))


async def _probe_broker(
    client: ClusterClient, broker: int, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> BrokerReport:
    store, found = await asyncio.gather(
        store_connection(client, broker, timeout_s=timeout_s),
        describe_log_dirs(
            client,
            [broker],
            partitions,
            timeout_s=timeout_s,
            include_followers=True,
            retry=False,
        ),
        return_exceptions=True,
    )
    for answer in (store, found):
        if isinstance(answer, BaseException) and not isinstance(answer, ClientError):
            raise answer
    if isinstance(found, RequestRefused | UnsupportedByBroker):
        known = store if isinstance(store, StoreConnection) else None
        return BrokerReport(refusal=str(found), store=known)
    if isinstance(found, BaseException):
        return BrokerReport(failure=str(found))
    connection = store if isinstance(store, StoreConnection) else None
    directories = tuple(found[broker])
    ends: Mapping[TopicPartition, int] = {}
    if connection is None and partitions:
        ends = await _ends_of(client, broker, partitions, timeout_s=timeout_s)
    return BrokerReport(directories=directories, store=connection, ends=ends)


async def _ends_of(
    client: ClusterClient, broker: int, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, int]:
    try:
        return await replica_ends(client, broker, partitions, timeout_s=timeout_s)
    except ClientError:
        return {}
