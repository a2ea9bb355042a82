"""WriteTxnMarkers (key 27): versions 1-2, flexible from 1.

Writes commit or abort markers to partitions; sent by transaction coordinators.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(default_factory=list)


class WritableTxnMarker(Struct):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: boolean = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int32 = 0
    transaction_version: int8 = field(since=2, ignorable=True, default=0)


class WriteTxnMarkersRequest(Struct, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarker] = field(default_factory=list)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: string = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


class WriteTxnMarkersResponse(Struct, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
