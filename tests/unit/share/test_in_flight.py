"""What a share partition tells operators about the records that members hold."""

from headrace.share.batch_size import BatchLimit
from headrace.share.in_flight import BEING_STORED, AcquisitionLock, UnheldRecords
from headrace.share.record_state import Acknowledgement, AcknowledgeType
from headrace.share.share_partition import SharePartition
from headrace.share.share_rules import ShareRules

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW = AcknowledgeType.REJECT, AcknowledgeType.RENEW
LOCK_MS = 1000
ALL = 100


def partition(*, dead_letters: bool = False) -> SharePartition:
    rules = ShareRules()._replace(lock_ms=LOCK_MS, dead_letters=dead_letters)
    return SharePartition(lambda: rules, 0)


def acquire(
    share: SharePartition, member: str, first: int, last: int, now_ms: int = 0, *, size: int = 500
) -> None:
    take = BatchLimit(max_records=500, batch_size=size)
    assert share.acquire(member, first, [(first, last)], take, now_ms)


def acknowledge(
    share: SharePartition, member: str, *said: tuple[int, int, AcknowledgeType], now_ms: int = 0
) -> None:
    write = share.acknowledge(member, [Acknowledgement(*one) for one in said], now_ms)
    if write is not None:
        share.committed(write)


def test_a_lock_has_its_holder_delivery_count_and_remaining_time() -> None:
    share = partition()
    acquire(share, "ann", 0, 4)
    acknowledge(share, "ann", (2, 2, RELEASE))
    acquire(share, "bob", 2, 2, now_ms=300)
    found = share.in_flight_records(400, ALL)
    assert found.acquired == share.acquired_count == 5
    assert found.locks == (
        AcquisitionLock(0, 1, "ann", 1, LOCK_MS - 400),
        AcquisitionLock(2, 2, "bob", 2, LOCK_MS - 100),
        AcquisitionLock(3, 4, "ann", 1, LOCK_MS - 400),
    )
    assert found.omitted_locks == 0


def test_neighbours_with_the_same_lock_are_one() -> None:
    share = partition()
    acquire(share, "ann", 0, 4)
    acknowledge(share, "ann", (1, 1, RENEW), (3, 3, RENEW))
    assert share.in_flight_records(0, ALL).locks == (AcquisitionLock(0, 4, "ann", 1, LOCK_MS),)
    acknowledge(share, "ann", (2, 2, RENEW), now_ms=10)
    assert [lock[:2] for lock in share.in_flight_records(10, ALL).locks] == [(0, 1), (2, 2), (3, 4)]


def test_a_lock_does_not_expire_while_its_acknowledgement_is_being_stored() -> None:
    share = partition()
    acquire(share, "ann", 0, 1)
    write = share.acknowledge("ann", [Acknowledgement(0, 0, ACCEPT)], 10)
    assert [lock.expires_ms for lock in share.in_flight_records(10, ALL).locks] == [
        BEING_STORED,
        LOCK_MS - 10,
    ]
    assert write is not None
    share.committed(write)
    assert [lock.first for lock in share.in_flight_records(10, ALL).locks] == [1]


def test_the_remaining_time_is_never_negative() -> None:
    share = partition()
    acquire(share, "ann", 0, 1)
    assert share.in_flight_records(LOCK_MS + 5, ALL).locks[0].expires_ms == 0


def test_the_first_locks_are_kept_and_the_others_counted() -> None:
    share = partition()
    acquire(share, "ann", 0, 9)
    for offset in (1, 3, 5):
        acknowledge(share, "ann", (offset, offset, ACCEPT))
    found = share.in_flight_records(0, 2)
    assert [lock[:2] for lock in found.locks] == [(0, 0), (2, 2)]
    assert (found.acquired, found.omitted_locks) == (7, 2)
    assert found.limited(0).omitted_locks == 4


def test_records_that_nobody_holds_are_counted_by_state() -> None:
    share = partition()
    acquire(share, "ann", 0, 9)
    acknowledge(share, "ann", (1, 1, RELEASE), (2, 3, ACCEPT), (4, 6, REJECT))
    assert share.in_flight_records(0, ALL).others == UnheldRecords(1, 2, 0, 3)
    with_letters = partition(dead_letters=True)
    acquire(with_letters, "ann", 0, 9)
    acknowledge(with_letters, "ann", (4, 6, REJECT))
    assert with_letters.in_flight_records(0, ALL).others == UnheldRecords(0, 0, 3, 0)
