"""DescribeLogDirs: the log directories of brokers, and the sizes of their replicas."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.client import ClusterClient, ToBroker
from headrace.client.errors import check_error_code
from headrace.client.results import Refusal, TopicPartition, indexes_by_topic, refusal
from headrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsFollower,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class FollowerLag:
    """A follower that is not in sync, as its leader sees it."""

    broker: int
    log_end: int | None
    """None if it has not fetched from this leader."""
    lag_bytes: int | None
    out_of_sync_s: float
    is_minimum: bool
    """Whether it was already out of sync when this leader took over."""


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """One replica's log; `lag` is its distance from the end of the partition."""

    bytes: int
    lag: int
    is_future: bool
    """Whether it is being copied into this directory from another one of the same broker."""
    log_end: int | None = None
    """Only from a Headrace leader, with `include_followers`."""
    followers: tuple[FollowerLag, ...] = ()
    """The followers that are not in sync; only from a Headrace leader."""


@dataclass(frozen=True, slots=True)
class LogDirInfo:
    """One directory of a broker; the volume's sizes are -1 if the broker does not send them."""

    path: str
    problem: Refusal | None
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaSize]


async def describe_log_dirs(
    client: ClusterClient,
    brokers: Sequence[int],
    partitions: Sequence[TopicPartition] | None = None,
    *,
    timeout_s: float,
    include_followers: bool = False,
    retry: bool = True,
) -> dict[int, list[LogDirInfo]]:
    """The directories of each broker, with these partitions or with all of them."""
    topics = indexes_by_topic(partitions or ())
    request = DescribeLogDirsRequest(
        topics=None
        if partitions is None
        else [
            DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
        include_followers=include_followers,
    )
    answers = await asyncio.gather(
        *(
            client.send(
                request,
                DescribeLogDirsResponse,
                to=ToBroker(broker),
                timeout_s=timeout_s,
                retry=retry,
            )
            for broker in brokers
        )
    )
    found: dict[int, list[LogDirInfo]] = {}
    for broker, answer in zip(brokers, answers, strict=True):
        check_error_code(
            answer.error_code, f"cannot describe the log directories of broker {broker}"
        )
        found[broker] = [_log_dir(result) for result in answer.results]
    return found


def _log_dir(result: DescribeLogDirsResult) -> LogDirInfo:
    return LogDirInfo(
        result.log_dir,
        refusal(result.error_code),
        result.total_bytes,
        result.usable_bytes,
        {
            TopicPartition(topic.name, each.partition_index): ReplicaSize(
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
                _known(each.log_end_offset),
                tuple(map(_follower_lag, each.followers)),
            )
            for topic in result.topics
            for each in topic.partitions
        },
    )


def _follower_lag(follower: DescribeLogDirsFollower) -> FollowerLag:
    return FollowerLag(
        follower.broker_id,
        _known(follower.log_end_offset),
        _known(follower.lag_bytes),
        follower.out_of_sync_ms / 1000,
        follower.is_minimum,
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
