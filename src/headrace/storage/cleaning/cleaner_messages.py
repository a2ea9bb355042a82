"""A cleaner's job and its answers, as plain values that are sent between processes."""

import json
from typing import NamedTuple

from headrace.storage.segment.aborted_txn import AbortedTxn

# The memory for one key: its bytes, its offset, and a dict entry while the dict grows.
BYTES_PER_KEY = 200


class SourceSegment(NamedTuple):
    """A closed segment, at the time at which the job was created."""

    base_offset: int
    size: int
    index_bytes: int
    times_bytes: int


class LastProducerBatch(NamedTuple):
    """A producer's epoch and the offset of its last data (-1 if it has only a marker)."""

    producer_id: int
    last_offset: int
    epoch: int


class CleaningJob(NamedTuple):
    """One pass over one log: everything below `end`, of which [first_dirty, end) is new."""

    path: str
    segments: tuple[SourceSegment, ...]  # all below `end`, ascending
    first_dirty: int
    end: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    max_index_bytes: int
    index_interval_bytes: int
    aborted: tuple[AbortedTxn, ...]
    producers: tuple[LastProducerBatch, ...]
    max_keys: int
    read_bytes: int
    max_bytes_per_second: float

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(self).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "CleaningJob":
        job = cls(*json.loads(line))
        return job._replace(
            segments=tuple(SourceSegment(*each) for each in job.segments),
            aborted=tuple(AbortedTxn(*each) for each in job.aborted),
            producers=tuple(LastProducerBatch(*each) for each in job.producers),
        )


class CleanedGroup(NamedTuple):
    """`.cleaned` files on disk that may replace the segments in `sources`.

    `unchanged`: no record was removed, and there are no files.
    """

    sources: tuple[int, ...]  # base offsets
    size: int
    index_bytes: int
    times_bytes: int
    has_txns: bool
    unchanged: bool = False


class CleanedLog(NamedTuple):
    """The end of a job: everything below `next_dirty` is clean."""

    next_dirty: int
    bytes_read: int
    bytes_written: int


class CleaningFailed(NamedTuple):
    """The end of a job that failed; `is_transient` if a later attempt may succeed."""

    reason: str
    is_transient: bool
    damaged_at: int = -1  # the first damaged offset, if damage is the reason


CleanerReport = CleanedGroup | CleanedLog | CleaningFailed
_KINDS: dict[str, type[CleanerReport]] = {
    "group": CleanedGroup,
    "log": CleanedLog,
    "failed": CleaningFailed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_report(report: CleanerReport) -> bytes:
    """One line."""
    return json.dumps([_NAMES[type(report)], *report]).encode() + b"\n"


def decode_report(line: bytes) -> CleanerReport:
    name, *values = json.loads(line)
    return _KINDS[name](*values)
