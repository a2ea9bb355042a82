"""ElectLeaders (key 43): versions 0-2, flexible from 2.

Elects partition leaders. v1 adds the type of election.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class ElectLeadersTopicPartitions(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class ElectLeadersRequest(Struct, versions=(0, 2), flexible_since=2):
    election_type: int8 = field(since=1, default=0)
    topic_partitions: list[ElectLeadersTopicPartitions] | None = field(default_factory=list)
    timeout_ms: int32 = 60000


class ElectLeadersPartitionResult(Struct):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""


class ReplicaElectionResult(Struct):
    topic: string = ""
    partition_result: list[ElectLeadersPartitionResult] = field(default_factory=list)


class ElectLeadersResponse(Struct, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(since=1, default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
