"""LeaveCluster (key 10001): version 0, flexible. Headrace's own, between brokers.

A broker that shuts down asks the controller to move its leaderships to other brokers. The response
lists the partitions that it still leads because no other replica can.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, nullable_string, string


class RemainingPartition(Struct, versions=(0, 0), flexible_since=0):
    topic: string = ""
    partition_index: int32 = 0


class LeaveClusterRequest(Struct, versions=(0, 0), flexible_since=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


class LeaveClusterResponse(Struct, versions=(0, 0), flexible_since=0):
    error_code: int16 = 0
    error_message: nullable_string = None
    version: int64 = -1
    remaining: list[RemainingPartition] = field(default=[])
