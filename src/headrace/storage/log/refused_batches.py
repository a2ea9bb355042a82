"""The batches that a full disk refused and that their producers have not sent again. Pure.

A producer sends the next batches before it knows that an earlier one was refused. If the log
appended one of them first, the producer would see a gap in its sequence numbers: it would begin a
new epoch and resend its in-flight batches of other partitions. A producer that the log does not
know yet would even have its batches stored in the wrong order. So later batches are refused as
well, even if the disk has room for them, until the producer has sent the first refused batch again.
"""

from headrace.records.batch_header import BatchHeader
from headrace.storage.errors import DiskFull
from headrace.storage.log.append_validation import Batches

# Producers of one log whose refused batches are remembered; the oldest is forgotten first.
MAX_PRODUCERS = 10_000


class RefusedBatches:
    """The first refused batch of each producer: (producer epoch, first sequence)."""

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[int, tuple[int, int]] = {}

    def add(self, batches: Batches) -> None:
        by_producer = self.by_producer
        for _, header in batches:
            if header.producer_id >= 0 and header.producer_id not in by_producer:
                if len(by_producer) >= MAX_PRODUCERS:
                    del by_producer[next(iter(by_producer))]
                by_producer[header.producer_id] = header.producer_epoch, header.base_sequence

    def check(self, header: BatchHeader, log_name: str) -> None:
        """Raises if an earlier batch of this producer was refused and has not been sent again."""
        refused = self.by_producer.get(header.producer_id)
        if refused is None or refused[0] != header.producer_epoch:
            return
        if refused[1] != header.base_sequence:
            raise DiskFull(
                f"appending to {log_name} failed: the disk was full for sequence {refused[1]} of "
                f"producer {header.producer_id}, which must be sent again before sequence "
                f"{header.base_sequence}"
            )
