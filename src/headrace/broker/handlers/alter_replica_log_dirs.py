"""AlterReplicaLogDirs (key 34), versions 1-2: in which directory this broker keeps a replica.

The answer says that the move has begun; DescribeLogDirs shows how far it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
            )
            for index in topic.partitions:
                code = _move(broker, topic.name, index, directory.path)
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    home = broker.logs.home_at(path)
    if home is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not home.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = broker.partitions.by_name.get(topic)
    if hosted is None or not 0 <= index < len(hosted.leaders):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = broker.logs.get(topic, index)
    replica = hosted.replica(index)
    if replica is None or current is None:
        # As in Kafka: a reassignment that gives it to this broker puts it there.
        broker.logs.prefer(topic, index, home)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if current.directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        broker.mover.move(replica, home)
    except StorageError:  # the disk is full, or has failed and has said so
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
