"""The records of `__transaction_state`, in Kafka's format."""

from headrace.coordinator.common.record_format import RecordFormat, RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, int64, string


class TransactionLogKey(Struct, versions=(0, 0)):
    transactional_id: string = ""


class PartitionsSchema(Struct):
    topic: string = ""
    partition_ids: list[int32] = field(default_factory=list)


class TransactionLogValue(Struct, versions=(0, 1), flexible_since=1):
    producer_id: int64 = 0
    previous_producer_id: int64 = field(since=1, tag=0, ignorable=True, default=-1)
    next_producer_id: int64 = field(since=1, tag=1, ignorable=True, default=-1)
    producer_epoch: int16 = 0
    next_producer_epoch: int16 = field(since=1, tag=3, ignorable=True, default=-1)
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = field(since=1, tag=2, ignorable=True, default=0)


FORMAT = RecordFormat(
    [RecordType(number=0, key=TransactionLogKey, value=TransactionLogValue, value_version=1)]
)
