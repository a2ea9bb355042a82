"""Opening a log: from the files in a directory to a state that can be appended to.

After a clean stop the files get cheap checks only. After any other stop, every segment that reaches
past the recovery point is scanned: the log is truncated before the first damaged batch above it. A
damaged batch *below* it was flushed: the log is not truncated but refused (`LogCorrupt`), unless
its owner knows that other replicas have the records. Missing segments below it are found by the
list of segments that a clean stop writes, or else by their neighbours.

Indexes, producers' state and leader epochs are rebuilt for the scanned segments. Opening can be
interrupted at any point and started again.
"""

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from headrace.records.batch_header import BatchHeader
from headrace.storage.cleaning.interrupted_swaps import offset_of, recover_swaps
from headrace.storage.errors import CorruptIndex, LogCorrupt
from headrace.storage.files.filesystem import is_disk_full, remove_if_exists
from headrace.storage.files.open_files import OpenFile, OpenFiles
from headrace.storage.recovery.producer_recovery import rebuild_producers
from headrace.storage.recovery.segment_scan import scan
from headrace.storage.segment.batch_check import BadBatch
from headrace.storage.segment.segment import (
    DELETED,
    LOG,
    MAX_RELATIVE_OFFSET,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    Segment,
    file_name,
)
from headrace.storage.segment.segments import Segments
from headrace.storage.state import segment_manifest
from headrace.storage.state.checkpoint_file import (
    LEADER_EPOCHS,
    CorruptCheckpoint,
    read_epochs,
)
from headrace.storage.state.damage import Damage, check_range
from headrace.storage.state.leader_epochs import LeaderEpochs
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import Marker, ProducerStates
from headrace.storage.state.segment_manifest import LogManifest, crc_of_epochs, lost_ranges

log = logging.getLogger(__package__)

_INDEXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


class Checkpointed(NamedTuple):
    """The checkpointed state of a log, before its files are read."""

    clean: bool
    recovery_point: int
    log_start_offset: int
    manifest: str | None = None  # the log's line in the list of segments
    may_have_gaps: bool = True  # the log may be compacted: segments need not adjoin
    expendable: bool = False  # other replicas have the records: truncate at damage


@dataclass(slots=True)
class LoadedLog:
    """A log's state, ready for use."""

    segments: Segments
    producers: ProducerStates
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    holes: list[Damage]  # segments that are missing or too short


def load_log(
    files: OpenFiles, path: str, config: LogConfig, checkpointed: Checkpointed
) -> LoadedLog:
    """Opens the log in `path`; raises `LogCorrupt` or `OSError`."""
    return _Loader(files, path, config, checkpointed).load()


class _Loader:
    def __init__(
        self, files: OpenFiles, path: str, config: LogConfig, checkpointed: Checkpointed
    ) -> None:
        self._fs = files.fs
        self._path = path
        self._config = config
        self._recovery_point = checkpointed.recovery_point
        self._log_start = checkpointed.log_start_offset
        self._clean = checkpointed.clean
        self._manifest: LogManifest | None = None
        if checkpointed.clean and checkpointed.manifest is not None:
            self._manifest = segment_manifest.decode(checkpointed.manifest)
        self._adjoins = not checkpointed.may_have_gaps
        self._holes: list[Damage] = []
        self._expendable = checkpointed.expendable
        self._segments = Segments(files, path)
        self._producers = ProducerStates()
        self._epochs = LeaderEpochs()
        self._names_removed = False
        self._has_room = True

    def load(self) -> LoadedLog:
        retired = self._retired_segments()
        self._list_segments()
        segments = self._segments
        if self._manifest is not None:
            self._compare_with_manifest(self._manifest)
        elif self._adjoins:
            self._find_gaps(retired)
        first_scanned = self._first_to_scan()
        end = self._log_start
        if segments.items:
            end = segments.items[0].base_offset
            if first_scanned is None:
                end = segments.items[-1].next_offset()
                if end != self._recovery_point:
                    first_scanned = self._slot_to_recover()
        if first_scanned is None and not segments.snapshots:
            # A clean stop writes a snapshot unless there are no producers.
            self._producers = ProducerStates()
        elif first_scanned is None:
            self._producers = rebuild_producers(segments, self._log_start, end)
        else:
            end = self._recover_from(first_scanned)
        end = self._finish_loading(end)
        starts = [hole.first_offset for hole in self._holes[:1]]
        starts += [segment.base_offset for segment in segments.items[:1]]
        start = max(self._log_start, min(starts, default=0))
        return LoadedLog(segments, self._producers, self._epochs, start, end, self._holes)

    # --- the files on disk ----------------------------------------------------------------------

    def _list_segments(self) -> None:
        names = recover_swaps(self._segments.files, self._path)
        logs = sorted(name for name in names if name.endswith(LOG) and offset_of(name) >= 0)
        self._segments.items = [self._open_segment(name[: -len(LOG)], names) for name in logs]
        self._segments.snapshots = sorted(
            offset_of(name) for name in names if name.endswith(SNAPSHOT) and offset_of(name) >= 0
        )
        for name in names:
            stem, dot, suffix = name.rpartition(".")
            if dot + suffix in _INDEXES and stem + LOG not in names:
                remove_if_exists(self._fs, f"{self._path}/{name}")

    def _open_segment(self, stem: str, names: set[str]) -> Segment:
        def size_of(suffix: str) -> int:
            if stem + suffix not in names:
                return 0
            return self._fs.stat(f"{self._path}/{stem}{suffix}").size

        return Segment(
            self._segments.files,
            self._path,
            int(stem),
            size=size_of(LOG),
            index_size=size_of(OFFSET_INDEX),
            times_size=size_of(TIME_INDEX),
            has_txns=stem + TXN_INDEX in names,
        )

    def _compare_with_manifest(self, manifest: LogManifest) -> None:
        """Finds closed segments that are missing or too short. The log's end is checked later."""
        items = self._segments.items
        if manifest.segments and not items and manifest.end > manifest.start:
            if not self._expendable:
                raise LogCorrupt(
                    f"{self._path} has no segment, but offsets from {manifest.start} to "
                    f"{manifest.end - 1} were safe on disk: restore the files, or delete the "
                    "directory to discard them"
                )
            return
        sizes = {segment.base_offset: segment.size for segment in items}
        for first, after, is_gone in lost_ranges(manifest, sizes):
            path = f"{self._path}/{file_name(first, LOG)}"
            reason, position = "the file is missing", 0
            if not is_gone:
                segment = items[self._segments.slot_of(first)]
                reason, position = "the file is shorter than at the last clean stop", segment.size
                first = check_range(segment, after, position, after, self._epochs.span).next_offset
            if after > self._log_start:
                first = max(first, self._log_start)
                self._holes.append(Damage(path, position, first, after, reason))

    def _retired_segments(self) -> set[int]:
        """Segments that retention has renamed but not deleted yet, by base offset."""
        if self._manifest is not None or not self._adjoins:
            return set()
        names = (entry.name for entry in self._fs.list_dir(self._path))
        return {offset_of(name) for name in names if name.endswith(LOG + DELETED)}

    def _find_gaps(self, retired: set[int]) -> None:
        """Finds missing parts of closed segments by their neighbours, if there is no list.

        A segment that was safe on disk and not compacted begins where the one before it ends. Only
        retention leaves a gap, if a power failure undid some of its renames: then all segments
        before the gap are expired, too.
        """
        for segment, following in pairwise(self._segments.items):
            after = following.base_offset
            if not self._log_start < after <= self._recovery_point:
                continue
            try:
                end = segment.next_offset()
            except (LogCorrupt, CorruptIndex):
                continue  # a read of the segment reports it
            if end < after and any(end <= each < after for each in retired):
                self._log_start = after
            elif end < after:
                path, first = segment.file.path, max(end, self._log_start)
                reason = "the records up to the next segment are missing"
                self._holes.append(Damage(path, segment.size, first, after, reason))
        self._holes = [each for each in self._holes if each.next_offset > self._log_start]

    def _first_to_scan(self) -> int | None:
        """The index of the first segment that must be scanned; None if there is none."""
        items = self._segments.items
        try:
            path = f"{self._path}/{LEADER_EPOCHS}"
            entries = read_epochs(self._fs, path)
            if self._manifest is not None and crc_of_epochs(entries) != self._manifest.epochs_crc:
                raise CorruptCheckpoint(f"{path} differs from the last clean stop")
            promised = bool(items) and self._recovery_point > items[0].base_offset
            if not entries and promised and not self._clean:
                # A flush writes it before the recovery point moves: a stop was interrupted.
                raise CorruptCheckpoint(f"{path} is empty or missing")
            self._epochs.entries = entries
        except CorruptCheckpoint as error:
            log.warning("rebuilding leader epochs from the log", extra={"reason": str(error)})
            self._epochs.changed = True
            return 0 if items else None
        if not items:
            return None
        slot = len(items) if self._clean else self._slot_to_recover()
        short = {hole.path for hole in self._holes}
        left = self._manifest.segments if self._manifest is not None else ()
        txns = {each.base_offset: each.txns_crc for each in left}
        for place, segment in enumerate(items[:slot]):
            if segment.file.path in short:
                continue  # its indexes point past its end; reads check for that
            known = txns.get(segment.base_offset)
            if not self._has_sane_indexes(segment) or known not in (None, segment.txns.checksum):
                log.warning("rebuilding the indexes of a segment", extra={"segment": segment.path})
                return place
        return None if slot == len(items) else slot

    def _slot_to_recover(self) -> int:
        return self._segments.slot_of(self._recovery_point)

    def _has_sane_indexes(self, segment: Segment) -> bool:
        sizes = []
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            try:
                sizes.append(self._fs.stat(segment.path + suffix).size)
            except FileNotFoundError:
                return segment.size == 0
        return (
            segment.index.is_sane(sizes[0], segment.size)
            and segment.times.is_sane(sizes[1])
            and segment.txns.is_sane(segment.base_offset)
        )

    # --- scanning -------------------------------------------------------------------------------

    def _recover_from(self, first_scanned: int) -> int:
        """Scans from that segment on; returns the log's end."""
        items = self._segments.items
        end = items[first_scanned].base_offset
        self._producers = rebuild_producers(self._segments, self._log_start, end)
        self._epochs.truncate_from_end(end)
        for place in range(first_scanned, len(items)):
            segment = items[place]
            if segment.base_offset < end:
                reason = f"segment begins at {segment.base_offset}, expected {end}"
                self._truncate(segment, items[place:], end, BadBatch(0, reason))
                break
            # No later opening scans a segment below the recovery point: sync the rebuilt files.
            is_repair = place + 1 < len(items) and (
                items[place + 1].base_offset <= self._recovery_point
            )
            if is_repair:
                self._begin_repair(segment)
            end, bad = self._scan_segment(segment, self._segment_limit(place))
            if bad is not None:
                self._truncate(segment, items[place + 1 :], end, bad)
                segment.truncate(bad.position, end)
                break
            if is_repair:
                self._finish_repair(segment)
            elif segment is not items[-1]:
                segment.write_indexes()
        return end

    def _begin_repair(self, segment: Segment) -> None:
        """Removes the offset index durably: an interrupted repair then starts again."""
        segment.index.file.forget()
        remove_if_exists(self._fs, segment.path + OFFSET_INDEX)
        self._fs.fsync_dir(self._path)

    def _finish_repair(self, segment: Segment) -> None:
        segment.write_side_indexes()
        self._sync_files(segment.times.file, segment.txns.file)
        segment.index.write_behind()
        self._sync_files(segment.index.file)

    def _sync_files(self, *files: OpenFile) -> None:
        for file in files:
            if file.dirty:
                self._fs.fsync(file.acquire())
                file.dirty = False
        self._fs.fsync_dir(self._path)

    def _segment_limit(self, place: int) -> int:
        """The first offset that cannot be in that segment."""
        items = self._segments.items
        limit = items[place].base_offset + MAX_RELATIVE_OFFSET + 1
        if place + 1 < len(items):
            limit = min(limit, items[place + 1].base_offset)
        return limit

    def _scan_segment(self, segment: Segment, limit: int) -> tuple[int, BadBatch | None]:
        """Rebuilds indexes and state from the segment's batches, up to the first damaged one."""
        segment.clear_indexes()
        segment.dirty = True
        end = segment.base_offset
        try:
            for position, header, marker in scan(self._fs, segment, limit):
                self._record_batch(segment, position, header, marker)
                end = header.next_offset
        except BadBatch as bad:
            return end, bad
        return end, None

    def _record_batch(
        self, segment: Segment, position: int, header: BatchHeader, marker: Marker | None
    ) -> None:
        base_offset = header.base_offset
        if header.producer_id >= 0 and (marker is not None or not header.is_control):
            completed = self._producers.apply(header, base_offset, marker)
            if completed is not None and completed.aborted:
                segment.txns.append(self._producers.aborted(completed))
        self._epochs.assign(header.partition_leader_epoch, base_offset)
        if self._has_room:
            self._spill_indexes(segment)
        segment.index_batch(
            position,
            header.size,
            header.last_offset,
            header.max_timestamp,
            self._config.index_interval_bytes,
        )

    def _spill_indexes(self, segment: Segment) -> None:
        """Writes index entries to disk. On a full disk they stay in memory, and the log can be
        read: an error would make every read scan the log again."""
        try:
            segment.spill()
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._has_room = False

    def _truncate(self, segment: Segment, later: list[Segment], end: int, bad: BadBatch) -> None:
        """Truncates the log to `end`; raises if later records were flushed."""
        if end < self._recovery_point and not self._expendable:
            raise LogCorrupt(
                f"{segment.file.path} is damaged at {bad}; offsets from {end} to "
                f"{self._recovery_point - 1} were safe on disk, so the log is offline. "
                "Restore the file, or delete the partition's directory to discard its records"
            )
        log.warning(
            "truncated a log before a damaged batch",
            extra={"segment": segment.file.path, "reason": str(bad), "log_end_offset": end},
        )
        if later:
            self._segments.remove(later)
            self._names_removed = True

    def _finish_loading(self, end: int) -> int:
        """Removes state past the log's end, and syncs the removed names."""
        segments = self._segments
        if segments.items and end < self._recovery_point and not self._expendable:
            raise LogCorrupt(
                f"{self._path} ends at offset {end}, but everything below "
                f"{self._recovery_point} was safe on disk: the log is offline. Restore the "
                "files, or delete the directory to discard the records"
            )
        if end < self._log_start:
            segments.remove(list(segments.items))
            self._producers = ProducerStates()
            self._epochs.clear()
            self._names_removed = True
            end = self._log_start
        self._names_removed |= segments.remove_snapshots(above=end)
        segments.remove_stray_snapshots()
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(self._log_start)
        if self._names_removed:
            # A removed file that reappears after a crash would be loaded as a part of the log.
            self._fs.fsync_dir(self._path)
        return end
