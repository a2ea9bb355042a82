"""AlterReplicaLogDirs (key 34): versions 1-2, flexible from 2.

Moves replicas to other log directories of a broker.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    name: string = ""
    partitions: list[int32] = field(default_factory=list)


class AlterReplicaLogDir(Struct):
    path: string = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


class AlterReplicaLogDirsRequest(Struct, versions=(1, 2), flexible_since=2):
    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


class AlterReplicaLogDirsResponse(Struct, versions=(1, 2), flexible_since=2):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
