"""DescribeLogDirs (key 35), versions 1-5: describes log directories and replica sizes.

* v4: size and free space of the volume.
* v5: whether the directory is cordoned.
* Headrace's own: on request, what a leader knows about followers that are not in sync.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsFollower,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headrace.replication.follower_progress import UNKNOWN
from headrace.replication.leader import Leader
from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log

if TYPE_CHECKING:
    from headrace.broker.node import Broker

LOGS_PER_SLICE = 64

Wanted = set[tuple[str, int]] | None


async def handle(
    broker: Broker, context: Context, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[
            await _describe_directory(broker, directory, wanted, request.include_followers)
            for directory in broker.logs.directories
        ]
    )


async def _describe_directory(
    broker: Broker, directory: LogDirectory, wanted: Wanted, include_followers: bool
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    copies = [*directory.futures.values()]
    for number, log in enumerate([*directory.logs.values(), *copies], start=1):
        if number % LOGS_PER_SLICE == 0:
            await asyncio.sleep(0)  # `size_bytes` opens a log on first use
        if wanted is not None and (log.topic, log.partition) not in wanted:
            continue
        try:
            size = log.size_bytes
        except StorageError:
            continue  # an offline log has no size; Produce and Fetch report its error
        original = broker.logs.get(log.topic, log.partition) if log in copies else None
        described = DescribeLogDirsPartition(
            partition_index=log.partition,
            partition_size=size,
            offset_lag=max(0, original.log_end_offset - log.log_end_offset) if original else 0,
            is_future_key=original is not None,
        )
        if include_followers and original is None:
            _describe_followers(broker, log, described)
        topics[log.topic].append(described)
    result = DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    try:
        disk = shutil.disk_usage(directory.path)
        result.total_bytes, result.usable_bytes = disk.total, disk.free
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _describe_followers(broker: Broker, log: Log, described: DescribeLogDirsPartition) -> None:
    leader = broker.partitions.find(log.topic, log.partition)
    if not isinstance(leader, Leader) or not leader.is_open:
        return
    described.log_end_offset = log.log_end_offset
    described.followers = [
        DescribeLogDirsFollower(
            broker_id=each.broker_id,
            log_end_offset=each.log_end,
            lag_bytes=-1 if each.log_end == UNKNOWN else log.bytes_from(each.log_end),
            out_of_sync_ms=int(each.out_of_sync_s * 1000),
            is_minimum=each.since_takeover,
        )
        for each in leader.out_of_sync_followers(broker.clock.monotonic())
    ]
