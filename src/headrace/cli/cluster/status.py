"""A snapshot of a cluster in numbers, for `cluster status` and the live table."""

import asyncio
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from headrace.client.admin.brokers import ClusterInfo
from headrace.client.admin.cluster_view import current_view
from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.admin.topics import list_topics
from headrace.client.client import ANY, ClusterClient
from headrace.client.errors import ClientError, RequestRefused
from headrace.client.metadata import NO_BROKER, PartitionInfo, TopicInfo
from headrace.client.network.retry import Deadline
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock

MIN_ISR: Final = "min.insync.replicas"
PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The load of one broker."""

    leads: int
    preferred: int
    """The partitions it leads if every preferred replica leads."""
    replicas: int
    out_of_sync: int


@dataclass(frozen=True)
class Overview:
    """The brokers and partitions of a cluster, and the numbers computed from them."""

    cluster: ClusterInfo
    topics: tuple[TopicInfo, ...]

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionInfo]]:
        for topic in self.topics:
            for index in sorted(topic.partitions):
                yield TopicPartition(topic.name, index), topic.partitions[index]

    @cached_property
    def loads(self) -> dict[int, BrokerLoad]:
        """By broker id, for every broker that is registered or has a replica."""
        leads, preferred = Counter[int](), Counter[int]()
        replicas, out_of_sync = Counter[int](), Counter[int]()
        for _, info in self.partitions():
            leads[info.leader] += 1
            preferred[info.replicas[0] if info.replicas else NO_BROKER] += 1
            replicas.update(info.replicas)
            out_of_sync.update(set(info.replicas) - set(info.isr))
        known = {broker.id for broker in self.cluster.brokers} | replicas.keys()
        return {
            id_: BrokerLoad(leads[id_], preferred[id_], replicas[id_], out_of_sync[id_])
            for id_ in sorted(known)
        }

    @cached_property
    def under_replicated(self) -> dict[TopicPartition, PartitionInfo]:
        """Partitions with a replica that is not in sync."""
        return {
            each: info for each, info in self.partitions() if len(info.isr) < len(info.replicas)
        }

    @cached_property
    def without_leader(self) -> dict[TopicPartition, PartitionInfo]:
        return {each: info for each, info in self.partitions() if info.leader == NO_BROKER}

    @cached_property
    def not_preferred(self) -> dict[TopicPartition, PartitionInfo]:
        """Partitions that are not led by their preferred (first) replica."""
        return {
            each: info
            for each, info in self.partitions()
            if info.replicas and info.leader not in (NO_BROKER, info.replicas[0])
        }

    def only(self, partitions: Container[TopicPartition]) -> "Overview":
        """The same cluster with these partitions only."""
        topics = (
            replace(
                topic,
                partitions={
                    index: info
                    for index, info in topic.partitions.items()
                    if TopicPartition(topic.name, index) in partitions
                },
            )
            for topic in self.topics
        )
        return Overview(self.cluster, tuple(topic for topic in topics if topic.partitions))

    @property
    def controller(self) -> int | None:
        id_ = self.cluster.controller_id
        return None if id_ == NO_BROKER else id_


async def take_overview(client: ClusterClient, *, timeout_s: float) -> Overview:
    """A snapshot of the cluster, as its controller sees it."""
    deadline = Deadline(SystemClock(), timeout_s)
    while True:
        view = await current_view(client, timeout_s=timeout_s)
        any_broker = view.source == ANY
        try:
            topics = await list_topics(
                client, timeout_s=timeout_s, to=view.source, retry=any_broker
            )
        except ClientError as error:
            if any_broker or not error.retriable or deadline.remaining_s() < PAUSE_S:
                raise
            await asyncio.sleep(PAUSE_S)  # the controller has stopped; another one is elected
        else:
            return Overview(view.cluster, tuple(topics))


def broker_facts(overview: Overview) -> list[dict[str, object]]:
    """One row per broker, including brokers that appear only as replicas."""
    known = {broker.id: broker for broker in overview.cluster.brokers}
    facts: list[dict[str, object]] = []
    for id_, load in overview.loads.items():
        broker = known.get(id_)
        facts.append(
            {
                "id": id_,
                "state": "down" if broker is None or broker.fenced else "up",
                "host": broker.host if broker and broker.host else None,
                "port": broker.port if broker and broker.port > 0 else None,
                "rack": broker.rack if broker else None,
                "controller": id_ == overview.controller,
                "leads": load.leads,
                "replicas": load.replicas,
                "out_of_sync": load.out_of_sync,
            }
        )
    return facts


async def partitions_under_min_isr(
    client: ClusterClient, overview: Overview, *, timeout_s: float
) -> set[TopicPartition]:
    """Partitions with fewer in-sync replicas than their topic's `min.insync.replicas`."""
    lacking = overview.under_replicated
    if not lacking:
        return set()
    wanted = [Resource(ResourceKind.TOPIC, name) for name in sorted({e.topic for e in lacking})]
    answers = await describe_configs(client, wanted, timeout_s=timeout_s, names=[MIN_ISR])
    least = {}
    for resource, entries in answers.items():
        if isinstance(entries, Refusal):
            raise RequestRefused(entries.code, f"settings of {resource.name}")
        least[resource.name] = next(int(e.value or 1) for e in entries if e.name == MIN_ISR)
    return {
        each
        for each, info in lacking.items()
        if len(info.isr) < min(least[each.topic], len(info.replicas))
    }
