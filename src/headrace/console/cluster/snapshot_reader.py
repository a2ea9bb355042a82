"""Reads a snapshot: a fixed number of requests for each broker, whatever the number of topics.

A broker that does not answer makes its own numbers unknown, and nothing else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headrace.client.admin.brokers import ClusterInfo, describe_cluster
from headrace.client.admin.groups import SHARE, ListedGroup, list_groups_of
from headrace.client.admin.log_dirs import LogDirInfo, describe_log_dirs
from headrace.client.admin.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    FoundOffset,
    list_offsets,
    offsets_of_groups,
)
from headrace.client.admin.topics import list_topics
from headrace.client.broker_requests import ANSWER_S, AskBroker, ask_brokers
from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import Clock
from headrace.console.cluster.snapshot import (
    BrokerState,
    ClusterSnapshot,
    GroupLag,
    GroupState,
    LogDirState,
    PartitionState,
    TopicState,
    lag_of,
    topic_state,
)
from headrace.pipeline.core.group_metadata import Progress, progress_of

T = TypeVar("T")


@dataclass(slots=True)
class _Problems:
    texts: list[str]

    def add(self, what: str, error: object) -> None:
        text = f"{what}: {error}"
        if text not in self.texts:
            self.texts.append(text)


async def read_snapshot(
    client: ClusterClient, *, clock: Clock, timeout_s: float
) -> ClusterSnapshot:
    """The whole cluster; raises `ClientError` if no broker answers."""
    began_s = clock.monotonic()
    problems = _Problems([])
    topics = await list_topics(client, timeout_s=timeout_s)
    cluster = await describe_cluster(client, timeout_s=timeout_s)
    live = [each.id for each in cluster.live]
    per_broker_s = min(timeout_s, ANSWER_S)
    log_dirs, silent, bounds, groups = await asyncio.gather(
        _log_dirs(client, live, per_broker_s, problems),
        _silent_brokers(client, live, per_broker_s),
        _bounds(client, topics, per_broker_s, problems),
        _groups(client, live, per_broker_s, problems),
    )
    commits = await _committed(client, groups, per_broker_s, problems)
    committed = {
        group: {each: at.offset for each, at in found.items()} for group, found in commits.items()
    }
    states = _topic_states(topics, bounds, _leader_sizes(topics, log_dirs))
    group_states = _group_states(groups, committed, _pipelines(commits), states)
    with_groups = _with_groups(states, committed)
    return ClusterSnapshot(
        taken_ms=clock.wall_ms(),
        taken_s=clock.monotonic(),
        duration_s=clock.monotonic() - began_s,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=_broker_states(cluster, topics, log_dirs, silent),
        topics=with_groups,
        groups=group_states,
        problems=tuple(problems.texts),
    )


async def _per_broker(
    brokers: Sequence[int], ask: AskBroker[T], timeout_s: float, what: str, problems: _Problems
) -> Mapping[int, T]:
    found = await ask_brokers(brokers, ask, timeout_s=timeout_s)
    for broker, error in found.failures.items():
        problems.add(f"{what} of broker {broker}", error)
    return found.answers


async def _log_dirs(
    client: ClusterClient, brokers: Sequence[int], timeout_s: float, problems: _Problems
) -> Mapping[int, list[LogDirInfo]]:
    async def ask(broker: int, limit_s: float) -> list[LogDirInfo]:
        return (await describe_log_dirs(client, [broker], timeout_s=limit_s))[broker]

    return await _per_broker(brokers, ask, timeout_s, "log directories", problems)


async def _silent_brokers(
    client: ClusterClient, brokers: Sequence[int], timeout_s: float
) -> dict[int, str]:
    """The brokers that answer no request at all, with the error."""

    async def ask(broker: int, limit_s: float) -> None:
        await client.ping(broker, timeout_s=limit_s)

    found = await ask_brokers(brokers, ask, timeout_s=timeout_s)
    return {broker: str(error) for broker, error in found.failures.items()}


async def _bounds(
    client: ClusterClient, topics: Sequence[TopicInfo], timeout_s: float, problems: _Problems
) -> dict[TopicPartition, tuple[int, int]]:
    """The start and end of each log whose leader answers."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for index, partition in topic.partitions.items():
            if partition.leader >= 0:
                by_leader.setdefault(partition.leader, []).append(TopicPartition(topic.name, index))

    async def ask(
        leader: int, limit_s: float
    ) -> tuple[
        dict[TopicPartition, FoundOffset | Refusal], dict[TopicPartition, FoundOffset | Refusal]
    ]:
        wanted = by_leader[leader]
        first, last = await asyncio.gather(
            list_offsets(client, dict.fromkeys(wanted, EARLIEST), timeout_s=limit_s, patience_s=0),
            list_offsets(client, dict.fromkeys(wanted, LATEST), timeout_s=limit_s, patience_s=0),
        )
        return first, last

    found: dict[TopicPartition, tuple[int, int]] = {}
    answers = await _per_broker(sorted(by_leader), ask, timeout_s, "offsets", problems)
    for first, last in answers.values():
        for key, start in first.items():
            end = last.get(key)
            if isinstance(start, FoundOffset) and isinstance(end, FoundOffset):
                found[key] = (start.offset, end.offset)
    return found


async def _groups(
    client: ClusterClient, brokers: Sequence[int], timeout_s: float, problems: _Problems
) -> list[ListedGroup]:
    async def ask(broker: int, limit_s: float) -> list[ListedGroup]:
        return await list_groups_of(client, broker, timeout_s=limit_s)

    answers = await _per_broker(brokers, ask, timeout_s, "groups", problems)
    return sorted((each for found in answers.values() for each in found), key=lambda g: g.group_id)


async def _committed(
    client: ClusterClient, groups: Sequence[ListedGroup], timeout_s: float, problems: _Problems
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """The offsets that each group has committed; share groups commit none."""
    by_coordinator: dict[int, list[str]] = {}
    for group in groups:
        if group.kind != SHARE:
            by_coordinator.setdefault(group.coordinator, []).append(group.group_id)

    async def ask(
        broker: int, limit_s: float
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | Refusal]:
        return await offsets_of_groups(client, by_coordinator[broker], broker, timeout_s=limit_s)

    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    coordinators = sorted(by_coordinator)
    answers = await _per_broker(coordinators, ask, timeout_s, "committed offsets", problems)
    for answer in answers.values():
        for group_id, offsets in answer.items():
            if isinstance(offsets, Refusal):
                problems.add(f"offsets of group {group_id}", offsets)
            else:
                found[group_id] = offsets
    return found


def _pipelines(
    commits: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
) -> dict[str, Progress]:
    """The groups whose offsets a pipeline has committed, with its last batch."""
    found = {}
    for group, offsets in commits.items():
        marks = [mark for each in offsets.values() if (mark := progress_of(each.metadata))]
        if marks:
            found[group] = max(marks)
    return found


def _leader_sizes(
    topics: Sequence[TopicInfo], log_dirs: Mapping[int, Sequence[LogDirInfo]]
) -> dict[TopicPartition, int]:
    leaders = {
        (topic.name, index): partition.leader
        for topic in topics
        for index, partition in topic.partitions.items()
    }
    return {
        partition: size.bytes
        for broker, directories in log_dirs.items()
        for directory in directories
        for partition, size in directory.replicas.items()
        if not size.is_future and leaders.get(partition) == broker
    }


def _topic_states(
    topics: Sequence[TopicInfo],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    sizes: Mapping[TopicPartition, int],
) -> dict[str, TopicState]:
    states = {}
    for topic in topics:
        partitions = []
        for index in sorted(topic.partitions):
            info = topic.partitions[index]
            key = TopicPartition(topic.name, index)
            start, end = bounds.get(key, (None, None))
            partitions.append(
                PartitionState(
                    index,
                    info.leader,
                    info.leader_epoch,
                    info.replicas,
                    info.isr,
                    start,
                    end,
                    sizes.get(key),
                )
            )
        states[topic.name] = topic_state(
            topic.name, topic.topic_id, topic.is_internal, tuple(partitions)
        )
    return states


def _group_states(
    groups: Sequence[ListedGroup],
    committed: Mapping[str, Mapping[TopicPartition, int]],
    pipelines: Mapping[str, Progress],
    topics: Mapping[str, TopicState],
) -> dict[str, GroupState]:
    states = {}
    for group in groups:
        offsets = committed.get(group.group_id)
        lag = None if offsets is None else sum(lag_of(offsets, topics).values())
        states[group.group_id] = GroupState(
            group.group_id,
            group.kind,
            group.state,
            group.protocol_type,
            group.coordinator,
            lag,
            offsets or {},
            pipelines.get(group.group_id),
        )
    return states


def _with_groups(
    topics: Mapping[str, TopicState], committed: Mapping[str, Mapping[TopicPartition, int]]
) -> dict[str, TopicState]:
    by_topic: dict[str, list[GroupLag]] = {}
    for group_id, offsets in committed.items():
        for name, lag in lag_of(offsets, topics).items():
            by_topic.setdefault(name, []).append(GroupLag(group_id, lag))
    return {
        name: replace(topic, groups=tuple(sorted(by_topic[name], key=lambda each: -each.lag)))
        if name in by_topic
        else topic
        for name, topic in topics.items()
    }


def _broker_states(
    cluster: ClusterInfo,
    topics: Sequence[TopicInfo],
    log_dirs: Mapping[int, Sequence[LogDirInfo]],
    silent: Mapping[int, str],
) -> tuple[BrokerState, ...]:
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in topics:
        for partition in topic.partitions.values():
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for replica in partition.replicas:
                replicas[replica] = replicas.get(replica, 0) + 1
    return tuple(
        BrokerState(
            each.id,
            each.host,
            each.port,
            each.rack,
            each.fenced,
            leaders.get(each.id, 0),
            replicas.get(each.id, 0),
            tuple(_log_dir_state(one) for one in log_dirs.get(each.id, ())),
            silent.get(each.id),
        )
        for each in cluster.brokers
    )


def _log_dir_state(info: LogDirInfo) -> LogDirState:
    return LogDirState(
        info.path,
        None if info.problem is None else str(info.problem),
        info.total_bytes if info.total_bytes >= 0 else None,
        info.usable_bytes if info.usable_bytes >= 0 else None,
        len(info.replicas),
        sum(each.bytes for each in info.replicas.values()),
    )
