"""ClusterMetadata (key 10000): version 0, flexible. Headrace's own, between brokers.

A broker requests the changes since `version`, which is also the version that it has applied. The
controller waits up to `max_wait_ms` for a change. The answer is a snapshot if the controller no
longer has the changes since then; `cluster/metadata_record_format.py` encodes its `records`.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, bytes_, int16, int32, int64


class ClusterMetadataRequest(Struct, versions=(0, 0), flexible_since=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    controller_epoch: int32 = 0
    version: int64 = -1
    max_wait_ms: int32 = 0


class ClusterMetadataResponse(Struct, versions=(0, 0), flexible_since=0):
    error_code: int16 = 0
    controller_id: int32 = -1
    controller_epoch: int32 = 0
    is_snapshot: boolean = False
    version: int64 = -1
    records: list[bytes_] = field(default=[])
