"""The batches that leaders committed in any epoch, which later leaders and replicas must have."""

from bisect import bisect_left
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from headrace.storage.log.log import Log
from headrace.testing.simulation.batches import Batch, compare
from headrace.testing.simulation.checks.history import Violation

PartitionId = tuple[bytes, int]
"""The id of a topic, and the index of a partition."""


@dataclass(slots=True)
class CommittedBatches:
    """The batches that were ever below a high watermark of one partition."""

    batches: list[Batch] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)  # the epochs of the leaders that committed them
    values: dict[int, bytes] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def before(self, epoch: int) -> list[Batch]:
        """The batches that leaders of earlier epochs committed; a replaced leader need not have
        later ones."""
        return self.batches[: bisect_left(self.epochs, epoch)]

    def end_before(self, epoch: int) -> int:
        count = bisect_left(self.epochs, epoch)
        return self.batches[count - 1].next_offset if count else 0

    def between(self, start: int, end: int) -> list[Batch]:
        return [
            each for each in self.batches if each.base_offset >= start and each.base_offset < end
        ]


class CommittedLogs:
    """The committed batches of all partitions."""

    def __init__(self, compacted: Container[str]) -> None:
        self.by_partition: dict[PartitionId, CommittedBatches] = {}
        self._compacted = compacted

    def compare(self, where: str, rule: str, expected: Sequence[Batch], log: Log) -> None:
        """Raises `Violation` unless the log contains these batches.

        Compares only the end of a compacted log: each replica compacts on its own.
        """
        if log.topic not in self._compacted:
            compare(where, rule, expected, log)
        elif expected and log.log_end_offset < expected[-1].next_offset:
            end = expected[-1].next_offset
            raise Violation(rule, f"{where}: its log ends at {log.log_end_offset}, not at {end}")
