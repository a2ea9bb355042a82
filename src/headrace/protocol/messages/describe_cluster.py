"""DescribeCluster (key 60): versions 0-2, flexible from 0.

Brokers and controller of the cluster. v1 chooses the type of endpoint, v2 can include fenced
brokers. Fields with tags from 10,000 on are Headrace's own; Kafka ignores them in a request, and a
response has them only if the request asks for them.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, int64, nullable_string, string


class DescribeClusterRequest(Struct, versions=(0, 2), flexible_since=0):
    include_cluster_authorized_operations: boolean = False
    endpoint_type: int8 = field(since=1, default=1)
    include_fenced_brokers: boolean = field(since=2, default=False)
    include_metadata_store: boolean = field(since=0, tag=10_000, ignorable=True, default=False)


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
    metadata_store: string = field(since=0, tag=10_000, ignorable=True, default="")
    """The kind of store that this broker uses."""
    metadata_store_lost_ms: int64 = field(since=0, tag=10_001, ignorable=True, default=-1)
    """How long this broker has had no connection to the store; -1 while it has one."""
