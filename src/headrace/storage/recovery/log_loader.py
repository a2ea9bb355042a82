"""Opening a log: from the files in a directory to a state that can be appended to.

After a clean stop the files are taken at their word, with cheap checks. After any other stop, every
segment that reaches past the recovery point is scanned: the first batch above it that does not
hold ends the log there, and what follows is removed. A batch *below* it that does not hold was once
promised to be safe: the log is not cut but refused (`LogCorrupt`), unless its owner has said that
others have it. Segments below it that are gone are found by the list that a clean stop has left, or
else by their neighbours.

Indexes, producers' state and leader epochs of what was scanned are rebuilt. Opening can be
interrupted anywhere and started again.
"""

import logging
from dataclasses import dataclass
from itertools import pairwise

from headrace.records.batch import BatchHeader
from headrace.storage.cleaning.interrupted_swaps import offset_of, tidy
from headrace.storage.errors import CorruptIndex, LogCorrupt
from headrace.storage.files.filesystem import lacks_room, remove_if_there
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
from headrace.storage.state.checkpoints import (
    LEADER_EPOCHS,
    CorruptCheckpoint,
    read_epochs,
)
from headrace.storage.state.damage import Damage, walk
from headrace.storage.state.leader_epochs import LeaderEpochs
from headrace.storage.state.log_config import LogConfig
from headrace.storage.state.producers import Marker, ProducerStates
from headrace.storage.state.segment_manifest import LogManifest, crc_of_epochs, lost_ranges

log = logging.getLogger(__name__)

_INDEXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """What is known of a log before its files are looked at."""

    clean: bool
    recovery_point: int
    log_start_offset: int
    manifest: str | None = None  # the line that a clean stop has left
    may_have_gaps: bool = True  # compaction may have been there: segments need not adjoin
    expendable: bool = False  # what was safe on this disk is so on others': damage ends the log


@dataclass(slots=True)
class LoadedLog:
    """A log's state, ready for use."""

    segments: Segments
    producers: ProducerStates
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    holes: list[Damage]  # segments that are gone, or shorter than they were


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
        retired = self._retired()
        self._list()
        segments = self._segments
        if self._manifest is not None:
            self._compare(self._manifest)
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
            # A clean stop leaves a snapshot unless there were no producers.
            self._producers = ProducerStates()
        elif first_scanned is None:
            self._producers = rebuild_producers(segments, self._log_start, end)
        else:
            end = self._recover(first_scanned)
        end = self._settle(end)
        starts = [hole.first_offset for hole in self._holes[:1]]
        starts += [segment.base_offset for segment in segments.items[:1]]
        start = max(self._log_start, min(starts, default=0))
        return LoadedLog(segments, self._producers, self._epochs, start, end, self._holes)

    # --- what is there --------------------------------------------------------------------------

    def _list(self) -> None:
        names = tidy(self._segments.files, self._path)
        logs = sorted(name for name in names if name.endswith(LOG) and offset_of(name) >= 0)
        self._segments.items = [self._segment(name[: -len(LOG)], names) for name in logs]
        self._segments.snapshots = sorted(
            offset_of(name) for name in names if name.endswith(SNAPSHOT) and offset_of(name) >= 0
        )
        for name in names:
            stem, dot, suffix = name.rpartition(".")
            if dot + suffix in _INDEXES and stem + LOG not in names:
                remove_if_there(self._fs, f"{self._path}/{name}")

    def _segment(self, stem: str, names: set[str]) -> Segment:
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

    def _compare(self, manifest: LogManifest) -> None:
        """Finds closed segments that are gone or too short. The last one's end is checked later."""
        items = self._segments.items
        if manifest.segments and not items and manifest.end > manifest.start:
            if not self._expendable:
                raise LogCorrupt(
                    f"{self._path} holds no segment, but offsets from {manifest.start} to "
                    f"{manifest.end - 1} were safe on disk: restore the files, or remove the "
                    "directory to give them up"
                )
            return
        sizes = {segment.base_offset: segment.size for segment in items}
        for first, after, is_gone in lost_ranges(manifest, sizes):
            path = f"{self._path}/{file_name(first, LOG)}"
            reason, position = "the file is gone", 0
            if not is_gone:
                segment = items[self._segments.slot_of(first)]
                reason, position = "the file is shorter than it was", segment.size
                first = walk(segment, after, position, after, self._epochs.span).next_offset
            if after > self._log_start:
                first = max(first, self._log_start)
                self._holes.append(Damage(path, position, first, after, reason))

    def _retired(self) -> set[int]:
        """Segments that retention was about to remove, by the names that it gives them."""
        if self._manifest is not None or not self._adjoins:
            return set()
        names = (entry.name for entry in self._fs.list_dir(self._path))
        return {offset_of(name) for name in names if name.endswith(LOG + DELETED)}

    def _find_gaps(self, retired: set[int]) -> None:
        """Finds what is missing of closed segments where no list tells, by their neighbours.

        What was safe on disk and not compacted goes on where the segment before ends. Only
        retention leaves a gap, if a loss of power undid some of its renames: then all before it is
        retired as well.
        """
        for segment, following in pairwise(self._segments.items):
            after = following.base_offset
            if not self._log_start < after <= self._recovery_point:
                continue
            try:
                end = segment.next_offset()
            except (LogCorrupt, CorruptIndex):
                continue  # whoever reads it will find out more
            if end < after and any(end <= each < after for each in retired):
                self._log_start = after
            elif end < after:
                path, first = segment.file.path, max(end, self._log_start)
                reason = "nothing follows up to the next segment"
                self._holes.append(Damage(path, segment.size, first, after, reason))
        self._holes = [each for each in self._holes if each.next_offset > self._log_start]

    def _first_to_scan(self) -> int | None:
        """The place of the first segment whose files cannot be taken at their word."""
        items = self._segments.items
        try:
            path = f"{self._path}/{LEADER_EPOCHS}"
            entries = read_epochs(self._fs, path)
            if self._manifest is not None and crc_of_epochs(entries) != self._manifest.epochs_crc:
                raise CorruptCheckpoint(f"{path} is not what it was")
            promised = bool(items) and self._recovery_point > items[0].base_offset
            if not entries and promised and not self._clean:
                # No flush covers records without it: a stop has been cut short while it wrote.
                raise CorruptCheckpoint(f"{path} is empty or gone")
            self._epochs.entries = entries
        except CorruptCheckpoint as error:
            log.warning("rebuilding leader epochs", extra={"reason": str(error)})
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
                continue  # its indexes point past its end, which readers expect
            known = txns.get(segment.base_offset)
            if not self._is_sane(segment) or known not in (None, segment.txns.checksum):
                log.warning("rebuilding indexes", extra={"segment": segment.path})
                return place
        return None if slot == len(items) else slot

    def _slot_to_recover(self) -> int:
        return self._segments.slot_of(self._recovery_point)

    def _is_sane(self, segment: Segment) -> bool:
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

    def _recover(self, first_scanned: int) -> int:
        """Scans from that segment on; returns where the log ends."""
        items = self._segments.items
        end = items[first_scanned].base_offset
        self._producers = rebuild_producers(self._segments, self._log_start, end)
        self._epochs.truncate_from_end(end)
        for place in range(first_scanned, len(items)):
            segment = items[place]
            if segment.base_offset < end:
                reason = f"segment begins at {segment.base_offset}, expected {end}"
                self._cut(segment, items[place:], end, BadBatch(0, reason))
                break
            # Below the recovery point no later opening would scan it again: repair it for good.
            is_repair = place + 1 < len(items) and (
                items[place + 1].base_offset <= self._recovery_point
            )
            if is_repair:
                self._begin_repair(segment)
            end, bad = self._scan(segment, self._limit(place))
            if bad is not None:
                self._cut(segment, items[place + 1 :], end, bad)
                segment.truncate(bad.position, end)
                break
            if is_repair:
                self._finish_repair(segment)
            elif segment is not items[-1]:
                segment.write_indexes()
        return end

    def _begin_repair(self, segment: Segment) -> None:
        """Takes away the offset index, durably: an interrupted repair is then begun again."""
        segment.index.file.forget()
        remove_if_there(self._fs, segment.path + OFFSET_INDEX)
        self._fs.fsync_dir(self._path)

    def _finish_repair(self, segment: Segment) -> None:
        segment.write_side_indexes()
        self._sync(segment.times.file, segment.txns.file)
        segment.index.write_behind()
        self._sync(segment.index.file)

    def _sync(self, *files: OpenFile) -> None:
        for file in files:
            if file.dirty:
                self._fs.fsync(file.acquire())
                file.dirty = False
        self._fs.fsync_dir(self._path)

    def _limit(self, place: int) -> int:
        """The first offset that cannot be in that segment."""
        items = self._segments.items
        limit = items[place].base_offset + MAX_RELATIVE_OFFSET + 1
        if place + 1 < len(items):
            limit = min(limit, items[place + 1].base_offset)
        return limit

    def _scan(self, segment: Segment, limit: int) -> tuple[int, BadBatch | None]:
        """Rebuilds what is derived from the segment's batches, as far as they hold."""
        segment.clear_indexes()
        segment.dirty = True
        end = segment.base_offset
        try:
            for position, header, marker in scan(self._fs, segment, limit):
                self._take_in(segment, position, header, marker)
                end = header.next_offset
        except BadBatch as bad:
            return end, bad
        return end, None

    def _take_in(
        self, segment: Segment, position: int, header: BatchHeader, marker: Marker | None
    ) -> None:
        base_offset = header.base_offset
        if header.producer_id >= 0 and (marker is not None or not header.is_control):
            completed = self._producers.apply(header, base_offset, marker)
            if completed is not None and completed.aborted:
                segment.txns.append(self._producers.aborted(completed))
        self._epochs.assign(header.partition_leader_epoch, base_offset)
        if self._has_room:
            self._spill(segment)
        segment.note(
            position,
            header.size,
            header.last_offset,
            header.max_timestamp,
            self._config.index_interval_bytes,
        )

    def _spill(self, segment: Segment) -> None:
        """On a full disk the entries stay in memory: the log is read all the same.

        To fail here would mean to scan it all again at each try to read.
        """
        try:
            segment.spill()
        except OSError as error:
            if not lacks_room(error):
                raise
            self._has_room = False

    def _cut(self, segment: Segment, later: list[Segment], end: int, bad: BadBatch) -> None:
        """The log ends at `end`; refuses if more than that was promised."""
        if end < self._recovery_point and not self._expendable:
            raise LogCorrupt(
                f"{segment.file.path} is damaged at {bad}; offsets from {end} to "
                f"{self._recovery_point - 1} were safe on disk, so the log is not cut but offline. "
                "Restore the file, or remove the partition's directory to give them up"
            )
        log.warning(
            "cut the log where it does not hold",
            extra={"segment": segment.file.path, "reason": str(bad), "log_end_offset": end},
        )
        if later:
            self._segments.remove(later)
            self._names_removed = True

    def _settle(self, end: int) -> int:
        """Brings everything else in line with where the log ends, durably where it must be."""
        segments = self._segments
        if segments.items and end < self._recovery_point and not self._expendable:
            raise LogCorrupt(
                f"{self._path} ends at offset {end}, but everything below "
                f"{self._recovery_point} was safe on disk: the log is offline"
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
            # A name that came back after the next crash would be taken for part of the log.
            self._fs.fsync_dir(self._path)
        return end
