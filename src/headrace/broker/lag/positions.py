"""Positions of consumers, and what the leader of a partition knows about them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.storage.log.next_record import NextRecord

NO_TIMESTAMP: Final = -1


class Position(NamedTuple):
    """The offset from which a group goes on in a partition.

    With `skip_aborted`, the records of aborted transactions do not count. This broker does not know
    with which isolation the members of a consumer group read. An aborted record that counted would
    be lag for ever: a read_committed consumer passes it, but often commits only the offset after
    its last delivered record.
    """

    offset: int
    skip_aborted: bool = True


class PartitionKey(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: bytes
    partition: int


class OpenTransaction(NamedTuple):
    """The earliest open transaction of a partition: read_committed consumers wait for its end."""

    producer_id: int
    since_ms: int
    """The timestamp of its first record; -1 if unknown."""


class PartitionState(NamedTuple):
    """A partition as its leader sees it."""

    log_start_offset: int
    end_offset: int
    """The high watermark."""
    last_stable_offset: int
    next_records: Mapping[Position, NextRecord | None]
    """The next record to read from each requested position; None at the end. A position is missing
    if the log could not be read."""
    open_transaction: OpenTransaction | None = None
