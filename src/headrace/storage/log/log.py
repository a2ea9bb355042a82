"""One partition's log: the public interface of its parts.

Guarantees: offsets only grow and are never reused; an append is all or nothing; flushed records
survive power loss; the cost of appending and of reading the end does not depend on the log's
length.

| Part | What it does |
|---|---|
| `local_log.LocalLog` | files and state: opening, rolling, flushing |
| `log_appender.LogAppender` | appending |
| `log_reader`, `offset_by_time` | reading by offset, finding by timestamp |
| `next_record` | finding the next record of a consumer |
| `truncation`, `retention` | deletion of old records, truncation |
| `log_compaction`, `cleaning/` | compaction |
| `clean_shutdown` | closing |

Threads: everything belongs to the owner's thread (the broker's loop) except `flush`, which may run
beside it, also while the owner appends, rolls and reads. A log opens its files on first use.
"""

from headrace.records.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.records.buffer import WritableBuffer
from headrace.records.record_validation import Inspection
from headrace.storage.errors import OffsetOutOfRange, StorageError
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.log import (
    clean_shutdown,
    log_reader,
    next_record,
    offset_by_time,
    truncation,
)
from headrace.storage.log.local_log import LocalLog
from headrace.storage.log.log_appender import AppendResult, LogAppender
from headrace.storage.log.log_reader import ReadResult, read_batches
from headrace.storage.log.next_record import NextBatch, NextRecord, NothingBefore
from headrace.storage.log.segment_time_lookup import TimestampedOffset
from headrace.storage.recovery.log_loader import Checkpointed
from headrace.storage.segment.aborted_txn import AbortedTxn
from headrace.storage.state.damage import Checks
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import BatchOrigin, ProducerEntry

__all__ = ["AppendResult", "Log", "ReadResult"]


class Log:
    """The records of one partition, from `log_start_offset` up to `log_end_offset`."""

    __slots__ = ("_appender", "directory", "local", "name", "partition", "path", "topic")

    def __init__(
        self,
        directory: LogDirState,
        topic: str,
        partition: int,
        *,
        topic_id: bytes,
        config: LogConfig,
        checkpointed: Checkpointed,
        new: bool = False,
        directory_name: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.directory = directory
        self.path = f"{directory.path}/{directory_name or self.name}"
        self.local = LocalLog(
            directory,
            self.name,
            self.path,
            topic_id=topic_id,
            config=config,
            checkpointed=checkpointed,
            is_new=new,
        )
        self._appender = LogAppender(self.local)

    def __repr__(self) -> str:
        return f"<Log {self.name} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- state ----------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self.local.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.local.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Every record below this offset is synced."""
        return self.local.durability.recovery_point

    @property
    def topic_id(self) -> bytes:
        return self.local.topic_id

    @property
    def config(self) -> LogConfig:
        return self.local.config

    @property
    def size_bytes(self) -> int:
        self.local.ensure_loaded()
        return self.local.segments.size_bytes

    def bytes_from(self, offset: int) -> int:
        """About how many bytes the log has from `offset` on: exact to one interval of the index."""
        self.local.ensure_loaded()
        if offset >= self.log_end_offset:
            return 0
        first, *later = self.local.segments.from_offset(offset)
        return first.size - first.start_before(offset) + sum(each.size for each in later)

    @property
    def is_loaded(self) -> bool:
        return self.local.is_loaded

    @property
    def knows_offsets(self) -> bool:
        """Whether the log's start and end are known; after a crash only the files show them."""
        return self.local.is_loaded or self.local.checkpointed.clean

    @property
    def failure(self) -> StorageError | None:
        """The reason why the log cannot be used; None if it can."""
        return self.local.failure

    @property
    def is_damaged(self) -> bool:
        """Whether bytes that were safe on disk cannot be read any more.

        A log with damage found at opening is offline; a log in use serves its readable parts.
        """
        return self.local.is_damaged

    @property
    def has_overdue_flush(self) -> bool:
        """Whether the flush that `flush.messages` requires for the log's records is not done."""
        return self.local.has_overdue_flush

    @property
    def refusals(self) -> int:
        """The number of appends that failed because the disk was full, since the last success."""
        return self._appender.refusals

    @property
    def truncations(self) -> int:
        """The number of truncations."""
        return self.local.truncations

    # --- files ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Opens the files, and recovers them if the last stop was not clean. Runs once."""
        self.local.load()

    def reconfigure(self, config: LogConfig) -> None:
        """Takes effect with the next append."""
        self.local.reconfigure(config)

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Gives the topic's id to a log whose directory does not name one."""
        self.local.assign_topic_id(topic_id)

    def roll(self) -> None:
        """Closes the active segment and begins a new one at the log's end."""
        self.local.roll()

    def flush(self, up_to: int | None = None) -> None:
        """Syncs everything appended before the call (or below `up_to`). Safe in any thread."""
        self.local.flush(up_to)

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.ms has passed, a closed segment is not synced, or a flush is overdue."""
        return self.local.flush_is_due(now_ms)

    def close(self, *, clean: bool = True, everything_synced: bool = False) -> None:
        """Closes the files; `clean` completes and syncs them first.

        `everything_synced` says that the caller has completed the files and synced the file system.
        """
        clean_shutdown.close(self.local, clean=clean, everything_synced=everything_synced)

    # --- appending ------------------------------------------------------------------------------

    def append(
        self,
        buf: WritableBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: BatchOrigin = BatchOrigin.CLIENT,
        inspection: Inspection | None = None,
        in_pieces: bool = False,
    ) -> AppendResult:
        """Appends whole batches, stamping them in place; on any error nothing is appended.

        `in_pieces` lets other processes run between the parts of a long write: for records that no
        client waits for.

        Raises `NeedsRecordValidation` if each of a client's records must be validated and there are
        many. The caller validates them in slices and calls again with the result as `inspection`.
        """
        return self._appender.append(buf, leader_epoch, now_ms, origin, inspection, in_pieces)

    def append_plain_records(
        self,
        payload: bytes,
        count: int,
        leader_epoch: int,
        now_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> tuple[int, bool]:
        """Appends `count` records of this broker, as `plain_records` writes them, as one batch.

        Only the batch's size is validated. Returns the first offset and whether a flush must come
        before the records are acknowledged.
        """
        return self._appender.append_plain_records(
            payload, count, leader_epoch, now_ms, producer_id, producer_epoch
        )

    # --- reading --------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        max_offset: int | None = None,
        min_one_message: bool = True,
        checks: Checks | None = None,
    ) -> ReadResult:
        """Reads from the batch that holds `offset` on; no batch reaches `max_offset`.

        At least one batch is returned if there is one, even if it is larger than `max_bytes`,
        unless `min_one_message` is off (KIP-74).

        Batches in closed segments, or written before this start of the broker, are checked: at most
        as many as `checks` allows. Raises `RecordsDamaged` if the first batch is damaged; if a
        later one is, the batches before it are returned.
        """
        local = self.local
        if local.log_failure or local.directory.failure:
            local.check_usable()
        start, end = local.log_start_offset, local.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(self.name, offset, start, end)
        limit = end if max_offset is None or max_offset > end else max_offset
        if offset >= limit:
            return ReadResult(b"", offset)
        if not local.is_loaded:
            local.load()
        try:
            return read_batches(
                local, offset, max_bytes, limit, min_one_message, checks or Checks()
            )
        except OSError as error:
            raise self.directory.fault(error, f"reading {self.name}") from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record that is at least as new as `timestamp`.

        Raises `RecordsDamaged` if damage or a missing segment makes the result uncertain.
        """
        return offset_by_time.offset_for_timestamp(self.local, timestamp)

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of all; raises like the lookup above."""
        return offset_by_time.max_timestamp_offset(self.local)

    def find_next_record(
        self, offset: int, limit: int, *, skip_aborted: bool
    ) -> NextRecord | NextBatch | NothingBefore:
        """One step of the search for the first record from `offset` on that a consumer reads."""
        return next_record.find_next(self.local, offset, limit, skip_aborted=skip_aborted)

    # --- producers and transactions -------------------------------------------------------------

    @property
    def producers(self) -> dict[int, ProducerEntry]:
        """The producers that the log remembers, by id."""
        self.local.ensure_loaded()
        return self.local.producers.by_id

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest open transaction."""
        return self.local.producers.first_ongoing_offset

    @property
    def earliest_open_producer(self) -> int | None:
        """The producer id of the earliest open transaction."""
        return next(iter(self.local.producers.ongoing.values()), None)

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below this offset has ended."""
        first = self.local.producers.first_ongoing_offset
        return self.local.log_end_offset if first is None else first

    def stable_offset(self, high_watermark: int) -> int:
        """Every transaction below this offset has its marker below the high watermark."""
        return self.local.producers.stable_offset(high_watermark)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [from_offset, to_offset)."""
        self.local.ensure_loaded()
        return log_reader.aborted_transactions(self.local, from_offset, to_offset)

    def has_aborted_transactions(self, from_offset: int) -> bool:
        """Whether any transaction was aborted in the segment of `from_offset` or a later one."""
        self.local.ensure_loaded()
        return log_reader.has_aborted_transactions(self.local, from_offset)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers without a write in the last `expiration_ms`; returns how many."""
        return self.local.producers.expire(now_ms, expiration_ms)

    # --- leader epochs --------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int:
        self.local.ensure_loaded()
        return self.local.epochs.latest

    def begin_epoch(self, epoch: int) -> None:
        """A new leader writes from the log's end on, also before it has written a record."""
        self.local.ensure_loaded()
        self.local.epochs.assign(epoch, self.local.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, -1 if unknown."""
        self.local.ensure_loaded()
        return self.local.epochs.at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not after `epoch`, and its end offset; (-1, -1) if unknown."""
        self.local.ensure_loaded()
        return self.local.epochs.end_offset(epoch, self.local.log_end_offset)

    def shared_end(self, other: "Log") -> int:
        """The offset up to which both logs hold the same records, by their leader epochs."""
        self.local.ensure_loaded()
        other.local.ensure_loaded()
        end = min(self.log_end_offset, other.log_end_offset)
        return self.local.epochs.shared_end(other.local.epochs, end)

    # --- deletion and truncation ----------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Moves the log's start up to `offset` (DeleteRecords); retention removes the segments."""
        truncation.delete_before(self.local, offset)

    def delete_old_segments(
        self, now_ms: int, high_watermark: int | None = None, *, is_follower: bool = False
    ) -> int:
        """Deletes the segments that retention no longer keeps; returns how many.

        Only segments that end below the high watermark are deleted, and on a follower only those
        below the log's start. Their files are renamed here and removed by the manager's sweep.
        """
        return truncation.delete_old_segments(
            self.local, now_ms, high_watermark, is_follower=is_follower
        )

    def truncate_to(self, offset: int) -> None:
        """Removes every record at or past `offset`, and the batch that holds it."""
        truncation.truncate_to(self.local, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes every record; the next one gets `offset`.

        For a follower whose next record the leader has deleted.
        """
        truncation.truncate_fully_and_start_at(self.local, offset)

    # --- damage ---------------------------------------------------------------------------------

    def take_damaged_offline(self) -> None:
        """Refuses reads and writes of a damaged log, so that another replica can serve them."""
        self.local.take_damaged_offline()

    def serve_undamaged_records(self) -> bool:
        """Brings a damaged log back online, if no other replica can serve; whether it was offline.

        A log that did not open stays offline: its readable parts are unknown.
        """
        return self.local.serve_undamaged_records()

    def truncate_damaged(self) -> None:
        """Truncates a damaged log before its first damaged record, and brings it back online.

        Only for a caller that knows that other replicas have the removed records.
        """
        truncation.truncate_damaged(self.local)
