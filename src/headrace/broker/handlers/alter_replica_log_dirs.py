"""AlterReplicaLogDirs (key 34), versions 1-2: moves a replica to another log directory.

The response confirms that the move has started; DescribeLogDirs shows its progress.
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
                code = _move_replica(broker, topic.name, index, directory.path)
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move_replica(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    log_directory = broker.logs.directory_at(path)
    if log_directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not log_directory.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    hosted = broker.partitions.by_name.get(topic)
    if hosted is None or not 0 <= index < len(hosted.leaders):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = broker.logs.get(topic, index)
    replica = hosted.replica(index)
    if replica is None or current is None:
        # As in Kafka: the directory is used when a reassignment creates the replica here.
        broker.logs.prefer_directory(topic, index, log_directory)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if current.directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        broker.mover.move(replica, log_directory)
    except StorageError:  # the disk is full, or its failure is already logged
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
