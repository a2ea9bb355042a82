"""ShareFetch and ShareAcknowledge over the wire."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.share_fetch import ShareFetchResponse
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, set_group_config, start_state, summary, values
from support.wire.topics import MakeTopic

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LONG_MS = 20_000


@dataclass
class Share:
    """A topic, and a share group that reads it from its first record."""

    wire: Wire
    topic: str
    topic_id: bytes
    group: str
    connect: Callable[[], Wire]

    def member(self, name: str, *, wire: Wire | None = None, **options: int) -> ShareMember:
        return ShareMember(wire or self.connect(), self.group, self.topic_id, name, **options)  # type: ignore[arg-type]

    def produce(self, *values: bytes, **options: int) -> None:
        result = produce(self.wire, self.topic, batch(*values, **options))  # type: ignore[arg-type]
        assert result.error_code == 0

    def start(self) -> int:
        return summary(self.wire, self.group, self.topic_id).start_offset


@pytest.fixture
def share(
    wire: Wire, make_topic: MakeTopic, new_name: Callable[[], str], connect: Callable[[], Wire]
) -> Share:
    topic = make_topic()
    topic_id = topic_id_of(wire, topic)
    group = new_name()
    start_state(wire, group, topic_id)
    return Share(wire, topic, topic_id, group, connect)


def test_members_share_the_records_of_a_partition(share: Share) -> None:
    share.produce(b"a", b"b")
    share.produce(b"c")
    ann, bob = share.member("ann"), share.member("bob")
    data = ann.fetch(max_records=2)[0]
    assert [(a.first_offset, a.last_offset) for a in data.acquired_records] == [(0, 1)]
    assert values(data) == {0: b"a", 1: b"b"}
    assert ann.last.acquisition_lock_timeout_ms == 30_000
    data = bob.fetch()[0]
    assert [(a.first_offset, a.last_offset) for a in data.acquired_records] == [(2, 2)]
    assert values(data) == {2: b"c"}


def test_acknowledged_records_advance_the_start_offset_and_are_not_redelivered(
    share: Share,
) -> None:
    share.produce(b"a", b"b", b"c")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 2, 1)]
    result = ann.acknowledge((0, 2, [ACCEPT]))
    assert result.error_code == 0  # type: ignore[union-attr]
    share.produce(b"d")
    assert ann.acquire() == [(3, 3, 1)]
    ann.acknowledge((3, 3, [ACCEPT]))
    assert share.member("bob").acquire(max_wait_ms=0) == []
    assert share.start() == 3  # stored with the second acknowledgement


def test_acknowledgements_can_be_sent_with_a_fetch(share: Share) -> None:
    share.produce(b"a", b"b", b"c")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 2, 1)]
    data = ann.fetch((0, 2, [ACCEPT, RELEASE, ACCEPT]))[0]
    assert data.acknowledge_error_code == 0
    assert [(a.first_offset, a.delivery_count) for a in data.acquired_records] == [(1, 2)]


def test_an_invalid_acknowledgement_does_not_fail_its_fetch(share: Share) -> None:
    share.produce(b"a")
    ann, bob = share.member("ann"), share.member("bob")
    assert ann.acquire() == [(0, 0, 1)]
    bob.fetch(max_wait_ms=0)
    share.produce(b"b")
    data = bob.fetch((0, 0, [ACCEPT]))[0]
    assert data.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    assert data.error_code == 0
    assert [a.first_offset for a in data.acquired_records] == [1]


def test_a_fetch_waits_for_records_and_is_woken_by_the_first(share: Share) -> None:
    ann = share.member("ann")
    sent = ann.wire.send(ann.request(max_wait_ms=LONG_MS), 2)
    share.produce(b"a")
    answered, response = ann.wire.receive(APIS[ApiKey.SHARE_FETCH], 2)
    assert answered == sent
    assert isinstance(response, ShareFetchResponse)
    assert values(ann.took(response)[0]) == {0: b"a"}


def test_a_fetch_is_woken_by_a_released_record(share: Share) -> None:
    share.produce(b"a")
    ann, bob = share.member("ann"), share.member("bob")
    assert ann.acquire() == [(0, 0, 1)]
    bob.fetch(max_wait_ms=0)
    bob.wire.send(bob.request(max_wait_ms=LONG_MS), 2)
    ann.acknowledge((0, 0, [RELEASE]))
    _, response = bob.wire.receive(APIS[ApiKey.SHARE_FETCH], 2)
    assert isinstance(response, ShareFetchResponse)
    assert [a.delivery_count for a in bob.took(response)[0].acquired_records] == [2]


def test_an_empty_fetch_returns_no_partitions_after_max_wait(share: Share) -> None:
    ann = share.member("ann")
    assert ann.fetch(max_wait_ms=1) == {}
    assert ann.fetch(max_wait_ms=1) == {}
    assert ann.last.error_code == 0


def test_a_strict_record_limit_is_never_exceeded(share: Share) -> None:
    share.produce(*[b"x"] * 10)
    ann = share.member("ann")
    assert ann.acquire(max_records=3, strict=True) == [(0, 2, 1)]
    assert ann.acquire(max_records=3, strict=True) == [(3, 5, 1)]


def test_closing_the_session_releases_the_records(share: Share) -> None:
    share.produce(b"a", b"b")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 1, 1)]
    closing = ann.acknowledge((0, 0, [ACCEPT]), epoch=-1)
    assert closing.error_code == 0  # type: ignore[union-attr]
    assert share.member("bob").acquire() == [(1, 1, 2)]
    assert ann.acknowledge((1, 1, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_lost_connection_releases_the_records(share: Share) -> None:
    share.produce(b"a", b"b")
    ann, bob = share.member("ann"), share.member("bob")
    assert ann.acquire() == [(0, 1, 1)]
    bob.fetch(max_wait_ms=0)
    bob.wire.send(bob.request(max_wait_ms=LONG_MS), 2)
    ann.wire.close()
    _, response = bob.wire.receive(APIS[ApiKey.SHARE_FETCH], 2)
    assert isinstance(response, ShareFetchResponse)
    assert [a.delivery_count for a in bob.took(response)[0].acquired_records] == [2]


def test_a_rejected_record_is_not_redelivered(share: Share) -> None:
    share.produce(b"a", b"b")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 1, 1)]
    ann.acknowledge((0, 1, [REJECT, RELEASE]))
    assert ann.acquire() == [(1, 1, 2)]


def test_deliveries_are_counted_up_to_the_limit(share: Share) -> None:
    set_group_config(share.wire, share.group, share_delivery_count_limit="3")
    share.produce(b"a")
    ann = share.member("ann")
    for deliveries in (1, 2, 3):
        assert ann.acquire() == [(0, 0, deliveries)]
        ann.acknowledge((0, 0, [RELEASE]))
    share.produce(b"b")
    assert ann.acquire() == [(1, 1, 1)]


def test_a_lock_can_be_renewed_in_version_2_only(share: Share) -> None:
    share.produce(b"a")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 0, 1)]
    refused = ann.acknowledge((0, 0, [RENEW]))
    assert refused.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]
    renewed = ann.acknowledge((0, 0, [RENEW]), renew=True)
    assert renewed.error_code == 0  # type: ignore[union-attr]
    ann.version = 1
    refused = ann.acknowledge((0, 0, [RENEW]))
    assert refused.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]
    accepted = ann.acknowledge((0, 0, [ACCEPT]))
    assert accepted.error_code == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "said",
    [
        (1, 0, [ACCEPT]),
        (0, 2, [ACCEPT, ACCEPT]),
        (0, 0, []),
        (0, 0, [7]),
        (0, 0, [-1]),
    ],
)
def test_invalid_acknowledgements_are_rejected(
    share: Share, said: tuple[int, int, list[int]]
) -> None:
    share.produce(b"a", b"b", b"c")
    ann = share.member("ann")
    ann.acquire()
    result = ann.acknowledge(said)
    assert result.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]


def test_a_session_has_one_epoch_at_a_time(share: Share) -> None:
    ann = share.member("ann")
    assert ann.acknowledge(epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ann.fetch(epoch=3, max_wait_ms=0)
    assert ann.last.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    ann.fetch(max_wait_ms=0)
    ann.fetch(epoch=7, max_wait_ms=0)
    assert ann.last.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ann.fetch((0, 0, [ACCEPT]), epoch=0, max_wait_ms=0)
    assert ann.last.error_code == ErrorCode.INVALID_REQUEST
    ann.fetch(max_wait_ms=0)
    assert ann.last.error_code == 0
    ann.fetch(epoch=-1, max_wait_ms=0)
    ann.fetch(epoch=-1, max_wait_ms=0)
    assert ann.last.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_invalid_member_ids_are_rejected(share: Share) -> None:
    for name in ("", "x" * 37):
        member = share.member(name)
        member.fetch(max_wait_ms=0)
        assert member.last.error_code == ErrorCode.INVALID_REQUEST


def test_unknown_topics_and_partitions_return_errors(share: Share) -> None:
    lost = ShareMember(share.wire, share.group, bytes(range(16)), "ann")
    assert lost.fetch()[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    far = ShareMember(share.connect(), share.group, share.topic_id, "bob", partitions=(9,))
    assert far.fetch()[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_uninitialized_share_state_is_an_error(share: Share, new_name: Callable[[], str]) -> None:
    stranger = ShareMember(share.wire, new_name(), share.topic_id, "ann", max_wait_ms=LONG_MS)
    assert stranger.fetch()[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_that_does_not_acknowledge_is_limited_by_the_window(share: Share) -> None:
    set_group_config(share.wire, share.group, share_partition_max_record_locks="100")
    for _ in range(3):
        share.produce(*[b"x"] * 60)
    ann = share.member("ann")
    assert ann.acquire(max_records=60) == [(0, 59, 1)]
    assert ann.acquire(max_records=60) == [(60, 119, 1)]
    assert ann.acquire(max_wait_ms=0) == []
    ann.acknowledge((1, 119, [ACCEPT]))
    assert ann.acquire(max_wait_ms=0) == []
    ann.acknowledge((0, 0, [ACCEPT]))
    assert ann.acquire() == [(120, 179, 1)]


@pytest.mark.parametrize(
    ("strategy", "first"), [("earliest", 0), ("latest", 2), ("by_duration:PT1H", 0)]
)
def test_a_new_group_starts_where_its_settings_say(
    share: Share, new_name: Callable[[], str], strategy: str, first: int
) -> None:
    share.produce(b"a", b"b")
    group = new_name()
    set_group_config(share.wire, group, share_auto_offset_reset=strategy)
    start_state(share.wire, group, share.topic_id, start=-1)
    member = ShareMember(share.connect(), group, share.topic_id, "ann")
    before = member.acquire(max_wait_ms=1)
    share.produce(b"c")
    acquired = before or member.acquire()
    assert acquired[0][0] == first


def test_a_deleted_topic_ends_its_share_partitions(
    share: Share, new_name: Callable[[], str]
) -> None:
    share.produce(b"a")
    ann = share.member("ann")
    assert ann.acquire() == [(0, 0, 1)]
    ann.wire.send(ann.request(max_wait_ms=LONG_MS), 2)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=share.topic)], timeout_ms=10_000)
    assert share.wire.call(request, DeleteTopicsResponse).responses[0].error_code == 0
    _, response = ann.wire.receive(APIS[ApiKey.SHARE_FETCH], 2)
    assert isinstance(response, ShareFetchResponse)
    assert ann.took(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ann.fetch()[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_retention_advances_the_start_offset(share: Share) -> None:
    share.produce(b"a", b"b")
    share.produce(b"c", b"d")
    ann = share.member("ann")
    assert ann.acquire(max_records=2) == [(0, 1, 1)]
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=share.topic,
                partitions=[DeleteRecordsPartition(partition_index=0, offset=2)],
            )
        ],
        timeout_ms=10_000,
    )
    share.wire.call(request, DeleteRecordsResponse)
    late = ann.acknowledge((0, 1, [ACCEPT]))
    assert late.error_code == 0  # type: ignore[union-attr]
    assert ann.acquire() == [(2, 3, 1)]
    ann.acknowledge((2, 3, [ACCEPT]))
    wait_for(lambda: share.start() >= 2, "the start has moved")
