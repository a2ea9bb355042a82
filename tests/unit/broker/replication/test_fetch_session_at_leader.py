"""A follower's session receives only changes, each error once, and starves no partition."""

from headrace.protocol.errors import ErrorCode
from support.brokers.follower_session import FOLLOWER, TOPIC_ID, Led, append


def test_only_changed_partitions_are_in_the_response() -> None:
    led = Led()
    led.fetch((0, 0), (1, 0), (2, 0))
    assert not led.is_ready
    assert set(led.answer()) == {0, 1, 2}
    assert led.answer() == {}
    append(led.leaders[1])
    assert led.is_ready
    assert list(led.answer()) == [1]
    assert not led.is_ready  # until the follower says that it has it


def test_a_new_high_watermark_is_sent_with_the_next_records_not_alone() -> None:
    led = Led()
    led.fetch((0, 0), (1, 0))
    led.answer()
    end = append(led.leaders[0])
    assert led.answer()[0].high_watermark == 0
    led.fetch((0, end))
    assert led.leaders[0].high_watermark == end
    assert not led.is_ready
    append(led.leaders[1])
    sent = led.answer()
    assert (sent[0].high_watermark, sent[0].records) == (end, b"")
    assert sent[1].records
    assert 0 not in led.answer()


def test_a_position_that_diverges_is_answered_and_does_not_count() -> None:
    led = Led()
    append(led.leaders[0])
    leader = led.lead(0, epoch=3)
    append(leader)
    append(leader)
    led.fetch((0, 2), last_epoch=2, epoch=3)
    assert led.is_ready
    diverging = led.answer()[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)
    assert leader.progress[FOLLOWER].log_end == -1
    assert leader.high_watermark == 0


def test_a_fetch_of_another_epoch_is_rejected_and_does_not_count() -> None:
    led = Led()
    leader = led.lead(0, epoch=2)
    append(leader)
    for epoch, code in (
        (1, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        led.fetch((0, 1), epoch=epoch)
        assert led.is_ready
        assert led.answer()[0].error_code == code
        assert led.answer() == {}  # once, and not again until it is named again
    assert leader.progress[FOLLOWER].log_end == -1


def test_a_lost_leadership_is_reported_immediately() -> None:
    led = Led()
    led.fetch((0, 0))
    led.answer()
    before = led.leaders[0]
    led.table.by_name["t"].put(0, None)
    before.close()
    assert led.is_ready
    assert led.answer()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_without_a_replica_gets_nothing() -> None:
    led = Led()
    append(led.leaders[0])
    led.session.replica_id = 9
    led.fetch((0, 0))
    data = led.answer()[0]
    assert (data.error_code, data.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


def test_a_busy_partition_does_not_starve_the_others() -> None:
    led = Led()
    for leader in led.leaders:
        append(leader, [bytes(600)])
        append(leader, [bytes(600)])
    offsets = {0: 0, 1: 0, 2: 0}
    served: list[int] = []
    led.fetch(*offsets.items())
    while any(offset < 2 for offset in offsets.values()):
        for index, data in led.answer(max_bytes=700).items():
            if data.records:
                served.append(index)
                offsets[index] += 1
                led.fetch((index, offsets[index]))
    assert served == [0, 1, 2, 0, 1, 2]


def test_a_forgotten_partition_is_not_sent_and_has_no_listener() -> None:
    led = Led()
    led.fetch((0, 0), (1, 0))
    led.answer()
    led.session.forget([(TOPIC_ID, 0)])
    append(led.leaders[0])
    assert not led.is_ready
    led.session.close()
    append(led.leaders[1])
    assert led.answer() == {}
