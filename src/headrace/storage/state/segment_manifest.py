"""The list of segments that a clean stop writes: each log's offsets, segments and sizes. Pure.

Kafka's own files do not distinguish a lost segment from one that compaction or retention has
removed. So a clean stop lists the segments in a file that Kafka ignores. The list's checksum is in
the clean-shutdown marker, which Kafka and every start replace: only the list of the last stop is
used.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.records.checksum import crc32c
from headrace.storage.state.checkpoint_file import encode_epochs
from headrace.storage.state.leader_epochs import EpochEntry

SEGMENT_MANIFEST = "headrace-segments"
_LOST = "lost"


class SegmentState(NamedTuple):
    base_offset: int
    size: int
    txns_crc: int  # the checksum of its aborted transactions


class LogManifest(NamedTuple):
    """One log at a clean stop."""

    end: int
    start: int
    epochs_crc: int
    segments: tuple[SegmentState, ...]
    lost: tuple[tuple[int, int], ...] = ()  # ranges of offsets that were missing already


class LostRange(NamedTuple):
    """Missing offsets; `is_gone` if the whole file is missing, not only a part."""

    first: int
    after: int
    is_gone: bool


def crc_of_epochs(entries: list[EpochEntry]) -> int:
    return crc32c(encode_epochs(entries)) if entries else 0


def encode(log: LogManifest) -> str:
    """One line, without the log's name."""
    words = [str(log.end), str(log.start), str(log.epochs_crc)]
    words += [":".join(map(str, segment)) for segment in log.segments]
    words += [f"{_LOST}:{first}:{after}" for first, after in log.lost]
    return " ".join(words)


def encode_all(lines: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{name} {line}\n" for name, line in lines).encode()


def decode_all(data: bytes) -> dict[str, str]:
    """The lines by the log's name; each is read when its log is opened."""
    lines = (line.partition(" ") for line in data.decode().splitlines())
    return {name: rest for name, _, rest in lines}


def ends_in(line: str) -> tuple[int, int]:
    """The end and the start offset in a line."""
    end, start, _ = line.split(" ", 2)
    return int(end), int(start)


def decode(line: str) -> LogManifest:
    end, start, epochs_crc, *words = line.split(" ")
    segments, lost = [], []
    for word in words:
        first, second, third = word.split(":")
        if first == _LOST:
            lost.append((int(second), int(third)))
        else:
            segments.append(SegmentState(int(first), int(second), int(third)))
    return LogManifest(int(end), int(start), int(epochs_crc), tuple(segments), tuple(lost))


def lost_ranges(manifest: LogManifest, sizes: Mapping[int, int]) -> list[LostRange]:
    """The missing ranges, ascending; `sizes` are those of the segments on disk.

    The last segment is not checked: its batches show where the log ends.
    """
    there = sorted(sizes)
    lost: list[LostRange] = []
    for base_offset, size, _ in manifest.segments[:-1]:
        after = next((each for each in there if each > base_offset), None)
        if after is None:
            break  # the log ends earlier than at the clean stop
        now = sizes.get(base_offset)
        if now is None and size:
            lost.append(LostRange(base_offset, after, is_gone=True))
        elif now is not None and now < size:
            lost.append(LostRange(base_offset, after, is_gone=False))
    recorded = {each.base_offset: each.size for each in manifest.segments}
    for first, after in manifest.lost:
        holders = [each for each in there if each < after][-1:]
        if any(sizes[each] > recorded.get(each, -1) for each in holders):
            continue  # the file was restored
        lost.append(LostRange(first, after, is_gone=True))
    return sorted(lost)
