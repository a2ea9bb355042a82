"""AlterPartition (key 56): versions 2-3, flexible from 0. Between brokers.

A leader reports the in-sync replicas to the controller. v3 adds each broker's epoch: a broker that
has restarted in the meantime does not count.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, int64, uuid


class BrokerState(Struct, versions=(2, 3), flexible_since=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


class AlterPartitionData(Struct, versions=(2, 3), flexible_since=0):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: list[int32] = field(until=2, default=[])
    new_isr_with_epochs: list[BrokerState] = field(since=3, default=[])
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class AlterPartitionTopic(Struct, versions=(2, 3), flexible_since=0):
    topic_id: uuid = bytes(16)
    partitions: list[AlterPartitionData] = field(default=[])


class AlterPartitionRequest(Struct, versions=(2, 3), flexible_since=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: list[AlterPartitionTopic] = field(default=[])


class AlteredPartition(Struct, versions=(2, 3), flexible_since=0):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = field(default=[])
    leader_recovery_state: int8 = field(ignorable=True, default=0)
    partition_epoch: int32 = 0


class AlteredTopic(Struct, versions=(2, 3), flexible_since=0):
    topic_id: uuid = bytes(16)
    partitions: list[AlteredPartition] = field(default=[])


class AlterPartitionResponse(Struct, versions=(2, 3), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlteredTopic] = field(default=[])
