"""Compaction without a broker: from a plan to swapped segments, in one thread."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.records.batch_header import BatchHeader, check_batch, headers
from headrace.records.record import Record, iter_records
from headrace.storage.cleaning.cleaner_messages import (
    CleanedGroup,
    CleanedLog,
    CleaningJob,
    decode_report,
    encode_report,
)
from headrace.storage.cleaning.cleaning_pass import clean
from headrace.storage.log.log import Log
from headrace.storage.log.log_compaction import (
    CleaningLimits,
    begin_swap,
    cleanable,
    cleaning_job,
    end_swap,
)
from headrace.storage.state.log_config import LogConfig

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=600,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)
MANY_KEYS = 10_000


@dataclass
class LogCleaner:
    """Cleans one log and remembers its progress."""

    log: Log
    cleaned_to: int | None = None
    max_keys: int = MANY_KEYS
    read_bytes: int = 256

    def job(self, now_ms: int) -> CleaningJob:
        log = self.log
        dirt = cleanable(log, now_ms, self.cleaned_to, log.last_stable_offset)
        limits = CleaningLimits(
            max_keys=self.max_keys, read_bytes=self.read_bytes, max_bytes_per_second=float("inf")
        )
        return CleaningJob.decode(cleaning_job(log, dirt, now_ms, limits).encode())

    def is_due(self, now_ms: int) -> bool:
        log = self.log
        return cleanable(log, now_ms, self.cleaned_to, log.last_stable_offset).is_due(log.config)

    def run(self, now_ms: int) -> CleanedLog:
        """Runs one pass; flushes closed segments first, like the broker does in the background."""
        self.log.flush()
        job = self.job(now_ms)
        for answer in clean(self.log.directory.files.fs, job):
            answer = decode_report(encode_report(answer))
            if isinstance(answer, CleanedLog):
                self.cleaned_to = answer.next_dirty
                return answer
            assert isinstance(answer, CleanedGroup)
            self.swap(answer, job, now_ms)
        raise AssertionError("the cleaner did not say that it is done")

    def swap(self, group: CleanedGroup, job: CleaningJob, now_ms: int) -> bool:
        if group.unchanged:
            return False
        swap = begin_swap(self.log, group, job)
        if swap is None:
            return False
        swap.prepare()
        while swap.step():
            swap.sync()
        end_swap(self.log, swap)
        return True


def batches_of(log: Log) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch with its records, read like a consumer reads them."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, _ = log.read(offset, max_bytes=400)
        if not data:
            return
        for pos, header in headers(data, partial_tail=True):
            check_batch(data, pos, header)
            assert header.next_offset > offset
            offset = header.next_offset
            yield header, list(iter_records(data[pos : pos + header.size], max_bytes=1 << 20))


def records_of(log: Log) -> list[Record]:
    """The data records, in order."""
    return [
        record
        for header, records in batches_of(log)
        if not header.is_control
        for record in records
        if record.offset >= log.log_start_offset
    ]
