"""The content of a log, batch by batch, to compare two logs."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.records.batch_header import headers
from headrace.storage.log.log import Log
from headrace.testing.simulation.checks.history import Violation

READ_BYTES: Final = 1 << 20


class Batch(NamedTuple):
    """The fields that identify a batch."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


def batches_of(log: Log, start: int, end: int) -> list[Batch]:
    """The batches of the log, from the one that contains `start`."""
    found: list[Batch] = []
    offset = start
    while offset < end:
        data = log.read(offset, max_bytes=READ_BYTES, max_offset=end).data
        read = [
            Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, header.crc)
            for _, header in headers(bytes(data), partial_tail=True)
        ]
        found += read
        before, offset = offset, max([offset, *(each.next_offset for each in read)])
        if offset == before:
            break  # the end, or a log with decreasing offsets
    return found


def compare(where: str, rule: str, expected: Sequence[Batch], log: Log) -> None:
    """Raises `Violation` unless the log contains these batches."""
    if not expected:
        return
    end = expected[-1].next_offset
    if log.log_end_offset < end:
        raise Violation(rule, f"{where}: its log ends at {log.log_end_offset}, not at {end}")
    if log.log_start_offset > expected[0].base_offset:  # records are never deleted here
        raise Violation(rule, f"{where}: its log starts at {log.log_start_offset}")
    found = {each.base_offset: each for each in batches_of(log, expected[0].base_offset, end)}
    for each in expected:
        if found.get(each.base_offset) != each:
            raise Violation(
                rule, f"{where}: {each} is committed, {found.get(each.base_offset)} is there"
            )
