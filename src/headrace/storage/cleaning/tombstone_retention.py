"""When compaction removes tombstones and transaction markers (KIP-534). Pure.

The first compaction that meets them writes a delete horizon into their batch: the time after which
they may go. Readers that are at most `delete.retention.ms` behind therefore see every tombstone.
"""

from typing import Final

from headrace.records.batch_header import BatchHeader

MAX_TIMESTAMP_MS: Final = 2**63 - 1
"""A batch header stores the delete horizon in 64 bits; delete.retention.ms may be as large."""


def new_delete_horizon_ms(now_ms: int, delete_retention_ms: int) -> int:
    """The horizon of a batch that is compacted now."""
    return min(now_ms + delete_retention_ms, MAX_TIMESTAMP_MS)


def has_passed_delete_horizon(header: BatchHeader, now_ms: int) -> bool:
    """Whether the tombstones or the marker of this batch are removed now."""
    return header.has_delete_horizon and header.base_timestamp <= now_ms
