"""Which leader epoch wrote which offsets. Pure.

An entry (epoch, start offset) says where a leader epoch begins in this log. With it, followers and
clients find where their log diverges from the leader's (KIP-101, KIP-279).
"""

from bisect import bisect_right
from typing import NamedTuple

NO_EPOCH = -1
NO_OFFSET = -1
MAX_OFFSET = 2**63 - 1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Entries with ascending epochs and start offsets; `changed` until they are in the file."""

    __slots__ = ("changed", "entries")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries: list[EpochEntry] = entries if entries is not None else []
        self.changed = False

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` writes from `start_offset` on; entries that contradict this are removed.

        An epoch that began earlier continues; later entries without records are removed.
        """
        if epoch < 0 or epoch == self.latest:
            return
        kept = [e for e in self.entries if e.epoch <= epoch and e.start_offset < start_offset]
        if not kept or kept[-1].epoch < epoch:
            kept.append(EpochEntry(epoch, start_offset))
        self.entries = kept
        self.changed = True

    def at(self, offset: int) -> int:
        """The epoch that wrote `offset`."""
        slot = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[slot - 1].epoch if slot else NO_EPOCH

    def span(self, offset: int) -> tuple[int, int]:
        """The epoch that wrote `offset`, and the start offset of the next epoch."""
        entries = self.entries
        slot = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        end = entries[slot].start_offset if slot < len(entries) else MAX_OFFSET
        return (entries[slot - 1].epoch if slot else NO_EPOCH), end

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not after `epoch`, and the offset at which it ended."""
        if epoch == NO_EPOCH or not self.entries or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        end = self.entries[slot].start_offset
        return (self.entries[slot - 1].epoch if slot else epoch), end

    def shared_end(self, other: "LeaderEpochs", end_offset: int) -> int:
        """The offset at which two logs diverge that both reach `end_offset`.

        A leader writes each offset once: if both logs have the same epoch at an offset, this record
        and all before it are the same.
        """
        while end_offset > 0:
            ours, theirs = self.at(end_offset - 1), other.at(end_offset - 1)
            if ours == theirs:
                return end_offset
            later = self if ours > theirs else other
            slot = bisect_right(later.entries, end_offset - 1, key=lambda each: each.start_offset)
            end_offset = later.entries[slot - 1].start_offset
        return 0

    def copy_from(self, other: "LeaderEpochs") -> None:
        """Copies the entries of another log, also those of epochs without records."""
        self.entries = list(other.entries)
        self.changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes entries that start at or past `end_offset`, the new end of the log."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes the part of the entries before `start_offset`, the new start of the log."""
        slot = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if slot and (slot > 1 or self.entries[0].start_offset < start_offset):
            first = EpochEntry(self.entries[slot - 1].epoch, start_offset)
            self.entries = [first, *self.entries[slot:]]
            self.changed = True

    def clear(self) -> None:
        if self.entries:
            self.entries = []
            self.changed = True
