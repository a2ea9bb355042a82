"""What a share partition promises, case by case."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.share.batch_size import BatchLimit
from headrace.share.errors import AcknowledgeError
from headrace.share.record_state import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    RecordState,
    StateBatch,
)
from headrace.share.share_partition import SharePartition
from headrace.share.share_rules import ShareRules

ALL = BatchLimit(max_records=500, batch_size=500)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW, GAP = AcknowledgeType.REJECT, AcknowledgeType.RENEW, AcknowledgeType.GAP
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def partition(start: int = 0, **rules: int) -> SharePartition:
    return SharePartition(lambda: ShareRules()._replace(**rules), start)


def fetch(
    share: SharePartition,
    *batches: tuple[int, int],
    member: str = "ann",
    take: BatchLimit = ALL,
    now_ms: int = 0,
) -> list[Acquired]:
    offset = share.next_fetch_offset()
    read = [batch for batch in batches if batch[1] >= offset]
    return share.acquire(member, offset, read, take, now_ms)


def acknowledge(
    share: SharePartition,
    *said: tuple[int, int, AcknowledgeType],
    member: str = "ann",
    now_ms: int = 0,
) -> None:
    write = share.acknowledge(member, [Acknowledgement(*one) for one in said], now_ms)
    if write is not None:
        share.committed(write)


def test_accepting_everything_moves_the_start_to_the_end() -> None:
    share = partition(7)
    assert fetch(share, (7, 9), (10, 19)) == [Acquired(7, 19, 1)]
    acknowledge(share, (7, 19, ACCEPT))
    assert (share.start_offset, share.end_offset, share.in_flight) == (20, 20, 0)
    assert share.states() == []


def test_a_record_that_is_held_is_not_given_to_another_member() -> None:
    share = partition()
    fetch(share, (0, 9))
    assert fetch(share, (0, 9), member="bob") == []
    assert fetch(share, (0, 9), (10, 12), member="bob") == [Acquired(10, 12, 1)]


def test_released_records_are_delivered_first_with_a_higher_count() -> None:
    share = partition()
    fetch(share, (0, 9))
    acknowledge(share, (0, 3, ACCEPT), (4, 5, RELEASE), (6, 9, ACCEPT))
    assert share.next_fetch_offset() == 4
    assert fetch(share, (0, 9), (10, 11), member="bob") == [Acquired(4, 5, 2), Acquired(10, 11, 1)]


def test_a_record_that_used_up_its_deliveries_is_archived() -> None:
    share = partition(max_deliveries=2)
    for deliveries in (1, 2):
        assert fetch(share, (0, 0)) == [Acquired(0, 0, deliveries)]
        acknowledge(share, (0, 0, RELEASE))
    assert fetch(share, (0, 0)) == []
    assert share.start_offset == 1


def test_rejected_records_and_gaps_are_not_offered_again() -> None:
    share = partition()
    fetch(share, (0, 2))
    acknowledge(share, (0, 0, REJECT), (1, 1, GAP), (2, 2, RELEASE))
    assert share.start_offset == 2
    assert fetch(share, (0, 2)) == [Acquired(2, 2, 2)]


def test_records_whose_state_is_being_stored_are_not_delivered() -> None:
    share = partition()
    fetch(share, (0, 4))
    write = share.acknowledge("ann", [Acknowledgement(0, 4, RELEASE)], 0)
    assert write is not None
    assert write.batches == (StateBatch(0, 4, AVAILABLE, 1),)
    assert share.next_fetch_offset() == 5
    with pytest.raises(AcknowledgeError) as refused:
        share.acknowledge("ann", [Acknowledgement(0, 0, ACCEPT)], 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    share.committed(write)
    assert share.next_fetch_offset() == 0


def test_a_lock_that_ends_after_a_write_failed_is_stored_and_counted_once() -> None:
    share = partition(max_deliveries=1, lock_ms=100)
    fetch(share, (0, 0))  # keeps what comes behind it in the window
    fetch(share, (1, 2), now_ms=10)
    write = share.acknowledge("ann", [Acknowledgement(1, 2, ACCEPT)], 20)
    assert write is not None
    share.failed(write)
    write = share.expire(110)
    assert write is not None
    assert write.batches == (StateBatch(0, 2, ARCHIVED, 1),)
    assert write.complete_count == 3


def test_a_write_that_failed_leaves_the_records_with_their_member() -> None:
    share = partition()
    fetch(share, (0, 4))
    write = share.acknowledge("ann", [Acknowledgement(0, 4, ACCEPT)], 0)
    assert write is not None
    share.failed(write)
    assert share.holder(0) == "ann"
    acknowledge(share, (0, 4, ACCEPT))
    assert share.start_offset == 5


def test_a_lock_that_ends_while_its_acknowledgement_is_lost_ends_afterwards() -> None:
    share = partition(lock_ms=100)
    fetch(share, (0, 4))
    write = share.acknowledge("ann", [Acknowledgement(0, 4, ACCEPT)], 50)
    assert write is not None
    assert share.expire(200) is None
    share.failed(write)
    assert share.next_deadline_ms() == 100
    assert share.expire(200) is not None
    assert share.next_fetch_offset() == 0


def test_a_lock_ends_at_its_deadline_unless_it_is_renewed() -> None:
    share = partition(lock_ms=100)
    fetch(share, (0, 4))
    acknowledge(share, (0, 1, RENEW), now_ms=60)
    assert share.next_deadline_ms() == 100
    write = share.expire(100)
    assert write is not None
    assert write.batches == (StateBatch(2, 4, AVAILABLE, 1),)
    assert share.next_deadline_ms() == 160
    assert share.holder(0) == "ann"
    assert share.holder(2) == ""


def test_renewing_can_be_switched_off() -> None:
    share = SharePartition(lambda: ShareRules(renew_enabled=False), 0)
    fetch(share, (0, 4))
    with pytest.raises(AcknowledgeError) as refused:
        acknowledge(share, (0, 4, RENEW))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_one_bad_acknowledgement_refuses_all_of_them() -> None:
    share = partition()
    fetch(share, (0, 4))
    fetch(share, (5, 9), member="bob")
    with pytest.raises(AcknowledgeError) as refused:
        acknowledge(share, (0, 4, ACCEPT), (5, 5, ACCEPT))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert share.holder(0) == "ann"


def test_offsets_that_were_never_handed_out_cannot_be_acknowledged() -> None:
    share = partition()
    with pytest.raises(AcknowledgeError) as refused:
        acknowledge(share, (0, 4, ACCEPT))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    fetch(share, (0, 4))
    with pytest.raises(AcknowledgeError) as refused:
        acknowledge(share, (3, 7, ACCEPT))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_member_that_leaves_gives_back_what_it_holds() -> None:
    share = partition()
    fetch(share, (0, 4))
    fetch(share, (5, 9), member="bob")
    write = share.release("ann")
    assert write is not None
    assert write.batches == (StateBatch(0, 4, AVAILABLE, 1),)
    share.committed(write)
    assert share.holder(5) == "bob"
    assert share.release("ann") is None


def test_a_full_window_with_holes_gives_only_what_is_free_in_it() -> None:
    share = partition(max_locks=10)
    fetch(share, (0, 4), (5, 9))
    assert not share.can_acquire()
    acknowledge(share, (5, 9, ACCEPT))
    assert not share.can_acquire()
    acknowledge(share, (2, 2, RELEASE))
    assert share.can_acquire()
    assert fetch(share, (0, 4), (10, 14), member="bob") == [Acquired(2, 2, 2)]
    acknowledge(share, (0, 1, ACCEPT), (3, 4, ACCEPT))
    acknowledge(share, (2, 2, ACCEPT), member="bob")
    assert share.can_acquire()
    assert share.start_offset == 10


def test_whole_batches_are_acquired_unless_the_limit_is_strict() -> None:
    share = partition()
    assert fetch(share, (0, 9), take=BatchLimit(3, 500)) == [Acquired(0, 9, 1)]
    share = partition()
    assert fetch(share, (0, 9), take=BatchLimit(3, 500, strict=True)) == [Acquired(0, 2, 1)]
    assert fetch(share, (0, 9), take=BatchLimit(3, 500, strict=True)) == [Acquired(3, 5, 1)]


def test_groups_end_where_batches_do() -> None:
    share = partition()
    batches = [(0, 2), (3, 5), (6, 8), (9, 9)]
    assert fetch(share, *batches, take=BatchLimit(500, 4)) == [Acquired(0, 5, 1), Acquired(6, 9, 1)]


def test_records_that_failed_often_are_delivered_in_smaller_parts_and_finally_alone() -> None:
    share = partition(max_deliveries=5)
    sizes = []
    while share.start_offset == 0 or share.in_flight:
        acquired = fetch(share, (0, 7))
        sizes.append(sum(last - first + 1 for first, last, _ in acquired))
        for first, last, deliveries in acquired:
            acknowledge(share, (first, last, RELEASE if deliveries < 5 else ACCEPT))
    assert sizes[:3] == [8, 8, 8]
    assert sizes[3:5] == [4, 1]
    assert set(sizes[5:]) <= {1, 2, 3, 4}
    assert share.start_offset == 8


def test_retention_removes_records_from_the_window() -> None:
    share = partition()
    fetch(share, (0, 4), (5, 9))
    share.move_start(7)
    assert (share.start_offset, share.in_flight) == (7, 3)
    acknowledge(share, (0, 4, ACCEPT))  # too late, and not an error
    acknowledge(share, (5, 9, ACCEPT))
    assert share.start_offset == 10
    share.move_start(50)
    assert (share.start_offset, share.end_offset) == (50, 50)


def test_records_that_compaction_took_are_archived() -> None:
    share = partition()
    fetch(share, (0, 4))
    acknowledge(share, (0, 4, RELEASE))
    assert share.acquire("bob", 0, [(3, 4), (8, 9)], ALL, 0) == [
        Acquired(3, 4, 2),
        Acquired(5, 9, 1),
    ]
    assert share.start_offset == 3


def test_records_of_aborted_transactions_are_skipped() -> None:
    share = partition()
    acquired = fetch(share, (0, 4), (5, 9), (10, 14))
    assert share.archive_aborted("ann", acquired, [(0, 4), (7, 7)]) == [
        Acquired(5, 6, 1),
        Acquired(8, 14, 1),
    ]
    assert share.start_offset == 5
    assert share.complete_count == 1


def test_a_window_of_aborted_records_only_does_not_get_stuck() -> None:
    share = partition(max_locks=10)
    acquired = fetch(share, (0, 19))
    assert share.archive_aborted("ann", acquired, [(0, 19)]) == []
    assert (share.start_offset, share.can_acquire()) == (20, True)


def test_what_was_stored_is_kept_and_the_rest_is_offered_again() -> None:
    stored = [StateBatch(3, 4, ACKNOWLEDGED, 1), StateBatch(8, 9, AVAILABLE, 2)]
    share = SharePartition(ShareRules, 2, stored)
    assert share.states() == [
        StateBatch(2, 2, AVAILABLE, 0),
        StateBatch(3, 4, ACKNOWLEDGED, 1),
        StateBatch(5, 7, AVAILABLE, 0),
        StateBatch(8, 9, AVAILABLE, 2),
    ]
    assert fetch(share, (0, 9), (10, 10)) == [
        Acquired(2, 2, 1),
        Acquired(5, 7, 1),
        Acquired(8, 9, 3),
        Acquired(10, 10, 1),
    ]


def test_a_start_that_was_stored_late_moves_over_what_is_finished() -> None:
    stored = [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(5, 5, ARCHIVED, 5)]
    assert SharePartition(ShareRules, 0, stored).start_offset == 6


def test_the_count_of_finished_records_is_stored_with_the_change() -> None:
    share = partition()
    fetch(share, (0, 9))
    write = share.acknowledge("ann", [Acknowledgement(5, 9, ACCEPT)], 0)
    assert write is not None
    assert (write.start_offset, write.complete_count) == (0, 5)
    share.committed(write)
    write = share.acknowledge("ann", [Acknowledgement(3, 3, REJECT)], 0)
    assert write is not None
    assert write.complete_count == 6


def test_a_rejected_record_waits_for_its_dead_letter() -> None:
    share = SharePartition(lambda: ShareRules(dead_letters=True), 0)
    fetch(share, (0, 1))
    acknowledge(share, (0, 0, REJECT), (1, 1, ACCEPT))
    assert share.states()[0].state is RecordState.ARCHIVING
    [letter] = share.take_dead_letters()
    assert letter == (0, 0, 1, True)
    assert share.take_dead_letters() == []
    write = share.copied(0, 0)
    assert write is not None
    share.failed(write)
    write = share.copied(0, 0)
    assert write is not None
    assert write.batches == (StateBatch(0, 0, ARCHIVED, 1),)
    share.committed(write)
    assert share.start_offset == 2


def test_a_dead_letter_that_was_not_written_is_found_after_a_restart() -> None:
    stored = [StateBatch(0, 0, RecordState.ARCHIVING, 5), StateBatch(1, 1, AVAILABLE, 1)]
    share = SharePartition(lambda: ShareRules(dead_letters=True), 0, stored)
    assert share.take_dead_letters() == [(0, 0, 5, False)]


def test_gaps_make_no_dead_letters() -> None:
    share = SharePartition(lambda: ShareRules(dead_letters=True), 0)
    fetch(share, (0, 1))
    acknowledge(share, (0, 1, GAP))
    assert share.take_dead_letters() == []
    assert share.start_offset == 2
