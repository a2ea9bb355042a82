"""DescribeCluster (key 60): versions 0-2, flexible from 0.

Brokers and controller of the cluster. v1 chooses the type of endpoint, v2 can include fenced
brokers.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, nullable_string, string


class DescribeClusterRequest(Struct, versions=(0, 2), flexible_since=0):
    include_cluster_authorized_operations: boolean = False
    endpoint_type: int8 = field(since=1, default=1)
    include_fenced_brokers: boolean = field(since=2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = None
    is_fenced: boolean = field(since=2, default=False)


class DescribeClusterResponse(Struct, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    endpoint_type: int8 = field(since=1, default=1)
    cluster_id: string = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int32 = -2147483648
