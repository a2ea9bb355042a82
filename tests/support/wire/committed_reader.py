"""Reads a partition with read_committed over the raw wire, like a consumer."""

from headrace.records.batch_header import read_header
from headrace.records.control import ControlType, read_control
from support.wire.batches import fetch, fetch_request, records_of, whole_batches
from support.wire.connection import Wire

READ_COMMITTED = 1


class CommittedReader:
    """Reads one partition from its start; `values` has the values that an application would get."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = 0
        self.values: list[bytes] = []
        self.is_stable = False
        """Whether the last fetch saw no open transaction."""

    def read(self, wire: Wire) -> bool:
        """Reads the next records; false if there are no new ones."""
        data = fetch(
            wire,
            fetch_request(
                self.topic,
                self.offset,
                partition=self.partition,
                isolation_level=READ_COMMITTED,
            ),
        )
        assert not data.error_code
        self.is_stable = data.last_stable_offset == data.high_watermark
        before = self.offset
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in data.aborted_transactions or ()
        )
        dropping: set[int] = set()
        for one in whole_batches(data.records):
            header = read_header(one)
            while aborted and aborted[0][0] <= header.last_offset:
                dropping.add(aborted.pop(0)[1])
            records = [record for record in records_of(one) if record.offset >= self.offset]
            if header.is_control:
                if read_control(records_of(one)[0]).type is ControlType.ABORT:
                    dropping.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropping):
                self.values += [record.value or b"" for record in records]
            self.offset = max(self.offset, header.last_offset + 1)
        return self.offset > before
