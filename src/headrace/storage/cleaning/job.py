"""What a cleaner is asked to do, and what it answers. Plain values: they cross a process border."""

import json
from typing import NamedTuple

from headrace.storage.segment.aborted_txn import AbortedTxn

# What a key costs in memory: its bytes, its offset, and a dict's entry while the dict grows.
BYTES_PER_KEY = 200


class SourceSegment(NamedTuple):
    """A closed segment, as it was when the job was made."""

    base_offset: int
    size: int
    index_bytes: int
    times_bytes: int


class LastOfProducer(NamedTuple):
    """Where a live producer's last data is (-1: there is only a marker), and its epoch."""

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
    producers: tuple[LastOfProducer, ...]
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
            producers=tuple(LastOfProducer(*each) for each in job.producers),
        )


class CleanedGroup(NamedTuple):
    """`.cleaned` files that are on disk and may take the place of the segments in `sources`.

    `unchanged`: there was nothing to remove, and there are no files.
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
    """The end of a job that could not be done; `passing` if it may succeed another time."""

    reason: str
    passing: bool
    damaged_at: int = -1  # the offset at which a segment does not hold, if that is why


Answer = CleanedGroup | CleanedLog | CleaningFailed
_KINDS: dict[str, type[Answer]] = {
    "group": CleanedGroup,
    "log": CleanedLog,
    "failed": CleaningFailed,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_answer(answer: Answer) -> bytes:
    """One line."""
    return json.dumps([_NAMES[type(answer)], *answer]).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    name, *values = json.loads(line)
    return _KINDS[name](*values)
