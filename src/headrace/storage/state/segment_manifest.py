"""What a clean stop leaves of each log: its ends, its segments and their sizes. Pure.

Kafka's own files do not tell a segment that is gone from one that compaction or retention has
removed. So a clean stop writes them down, in a file that Kafka does not look at. Its checksum
stands in the marker of the clean stop, which Kafka and every later start replace: a manifest that
is not of the very last stop is never believed.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.records.checksum import crc32c
from headrace.storage.state.checkpoints import encode_epochs
from headrace.storage.state.leader_epochs import EpochEntry

SEGMENT_MANIFEST = "headrace-segments"
_LOST = "lost"


class SegmentState(NamedTuple):
    base_offset: int
    size: int
    txns_crc: int  # of its aborted transactions


class LogManifest(NamedTuple):
    """One log, as it was closed."""

    end: int
    start: int
    epochs_crc: int
    segments: tuple[SegmentState, ...]
    lost: tuple[tuple[int, int], ...] = ()  # offsets, known to be gone already


class LostRange(NamedTuple):
    """Offsets that are not there; `is_gone` if a file is, and not a part of one."""

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
    """Where the log of a line ends and starts."""
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
    """What is missing, ascending; `sizes` are those of the segments that are there.

    The last segment is not looked at: where the log ends is told by its batches.
    """
    there = sorted(sizes)
    lost: list[LostRange] = []
    for base_offset, size, _ in manifest.segments[:-1]:
        after = next((each for each in there if each > base_offset), None)
        if after is None:
            break  # it all ends earlier than it should
        now = sizes.get(base_offset)
        if now is None and size:
            lost.append(LostRange(base_offset, after, is_gone=True))
        elif now is not None and now < size:
            lost.append(LostRange(base_offset, after, is_gone=False))
    recorded = {each.base_offset: each.size for each in manifest.segments}
    for first, after in manifest.lost:
        holders = [each for each in there if each < after][-1:]
        if any(sizes[each] > recorded.get(each, -1) for each in holders):
            continue  # somebody has put it back
        lost.append(LostRange(first, after, is_gone=True))
    return sorted(lost)
