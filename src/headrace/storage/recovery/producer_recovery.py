"""Recovery of the producers' state: the last intact snapshot, and the batches after it.

Kafka's snapshots hold one batch for each producer. Earlier batches are read from the log, within a
window, so that a retry is recognised after a restart, too.
"""

import logging

from headrace.records.batch_header import BatchHeader
from headrace.records.errors import RecordError
from headrace.storage.errors import LogCorrupt
from headrace.storage.files.filesystem import read_file
from headrace.storage.recovery.segment_scan import read_marker
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.segments import Segments
from headrace.storage.state.producer_snapshot import CorruptSnapshot, decode
from headrace.storage.state.producers import BatchMetadata, Marker, ProducerStates

log = logging.getLogger(__package__)

# The part of the log before a snapshot that is read for batches that the snapshot lacks.
DUPLICATE_WINDOW_BYTES = 512 << 10


def rebuild_producers(segments: Segments, log_start: int, up_to: int) -> ProducerStates:
    """The state at offset `up_to`, which is at most the log's end."""
    producers = ProducerStates()
    start = _load_snapshot(segments, producers, log_start, up_to)
    _remember_duplicates(segments, producers, start)
    for segment in segments.from_offset(start):
        if segment.base_offset < up_to and segment.size:
            _replay(segment, producers, start, up_to)
    return producers


def _load_snapshot(
    segments: Segments, producers: ProducerStates, log_start: int, up_to: int
) -> int:
    """Loads the last intact snapshot; returns the offset from which to replay."""
    for offset in reversed(segments.snapshots):
        if offset > up_to:
            continue
        try:
            entries = decode(read_file(segments.fs, segments.snapshot_path(offset)))
        except (CorruptSnapshot, FileNotFoundError) as error:
            log.warning(
                "ignoring a damaged producer snapshot",
                extra={"path": segments.snapshot_path(offset), "reason": str(error)},
            )
            continue
        producers.load(entries)
        return offset
    return log_start


def _replay(segment: Segment, producers: ProducerStates, start: int, up_to: int) -> None:
    found = segment.find(max(start, segment.base_offset))
    if found is None:
        return
    for position, header in segment.headers_from(found[0]):
        if header.base_offset >= up_to:
            return
        if header.producer_id < 0 or header.base_offset < start:
            continue
        marker = _marker(segment, position, header)
        if marker is not None or not header.is_control:
            producers.apply(header, header.base_offset, marker)


def _marker(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    if not header.is_control:
        return None
    try:
        return read_marker(segment.read(position, header.size))
    except RecordError as error:
        raise LogCorrupt(f"{segment.file.path}, byte {position}: {error}") from error


def _remember_duplicates(segments: Segments, producers: ProducerStates, offset: int) -> None:
    """Finds batches before a snapshot that its producers may send again."""
    if not producers.by_id:
        return
    earlier: dict[int, list[BatchMetadata]] = {}
    try:
        for segment, position in _segments_in_window(segments, offset):
            for _, header in segment.headers_from(position):
                if header.base_offset >= offset:
                    break
                entry = producers.by_id.get(header.producer_id)
                if entry is not None and entry.epoch == header.producer_epoch:
                    earlier.setdefault(header.producer_id, []).append(
                        BatchMetadata.from_header(header)
                    )
    except LogCorrupt as error:
        # The snapshot holds each producer's last batch; Kafka remembers no more than that.
        log.warning(
            "could not read earlier batches of producers; older retries are not recognised",
            extra={"reason": str(error)},
        )
        return
    for producer_id, traces in earlier.items():
        producers.by_id[producer_id].prepend(traces)


def _segments_in_window(segments: Segments, offset: int) -> list[tuple[Segment, int]]:
    """The segments in the window before `offset`, and the start position in each."""
    window: list[tuple[Segment, int]] = []
    wanted = DUPLICATE_WINDOW_BYTES
    for segment in reversed(segments.items):
        if segment.base_offset >= offset or wanted <= 0:
            continue
        found = segment.find(offset)
        end = found[0] if found else segment.size
        window.insert(0, (segment, segment.start_before_position(max(0, end - wanted))))
        wanted -= end
    return window
