"""Share groups over time: locks expire, stored state is pruned."""

from collections.abc import Iterator

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.share_fetch import ShareFetchResponse
from headrace.testing import Broker, VirtualClock
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, start_state
from support.wire.topics import create_topic

ACCEPT, RENEW = 1, 4
LONG_MS = 20_000
LOCK_S = 30
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}


class Rig:
    """A broker with a stopped clock, a topic with three records, two members."""

    def __init__(self, broker: Broker, clock: VirtualClock) -> None:
        self.clock = clock
        self.wires = [Wire(broker.bootstrap_servers) for _ in range(2)]
        create_topic(self.wires[0], "t")
        topic_id = topic_id_of(self.wires[0], "t")
        start_state(self.wires[0], "g", topic_id)
        assert produce(self.wires[0], "t", batch(b"a", b"b", b"c")).error_code == 0
        self.ann, self.bob = (
            ShareMember(wire, "g", topic_id, name)
            for wire, name in zip(self.wires, ("ann", "bob"), strict=True)
        )


@pytest.fixture
def rig() -> Iterator[Rig]:
    clock = VirtualClock()
    with Broker(clock=clock, settings=SETTINGS) as broker:
        rig = Rig(broker, clock)
        yield rig
        for wire in rig.wires:
            wire.close()


def test_a_lock_expires_exactly_after_its_duration(rig: Rig) -> None:
    assert rig.ann.acquire() == [(0, 2, 1)]
    rig.clock.advance(LOCK_S - 1)
    assert rig.bob.acquire(max_wait_ms=0) == []
    rig.clock.advance(2)
    assert rig.bob.acquire() == [(0, 2, 2)]


def test_a_waiting_fetch_is_woken_when_a_lock_expires(rig: Rig) -> None:
    assert rig.ann.acquire() == [(0, 2, 1)]
    rig.bob.fetch(max_wait_ms=0)
    rig.bob.wire.send(rig.bob.request(max_wait_ms=LONG_MS), 2)
    rig.clock.advance(LOCK_S + 1)
    _, response = rig.bob.wire.receive(APIS[ApiKey.SHARE_FETCH], 2)
    assert isinstance(response, ShareFetchResponse)
    assert [a.delivery_count for a in rig.bob.took(response)[0].acquired_records] == [2]


def test_a_renewed_lock_lasts_longer(rig: Rig) -> None:
    assert rig.ann.acquire() == [(0, 2, 1)]
    rig.clock.advance(LOCK_S - 1)
    renewed = rig.ann.acknowledge((1, 1, [RENEW]), renew=True)
    assert renewed.error_code == 0  # type: ignore[union-attr]
    rig.clock.advance(2)
    assert rig.bob.acquire() == [(0, 0, 2), (2, 2, 2)]
    accepted = rig.ann.acknowledge((1, 1, [ACCEPT]))
    assert accepted.error_code == 0  # type: ignore[union-attr]


def test_a_record_is_archived_after_its_last_delivery(rig: Rig) -> None:
    for deliveries in range(1, 6):
        seen = rig.ann.acquire()
        assert {count for _, _, count in seen} == {deliveries}
        while seen:
            seen = rig.ann.acquire(max_wait_ms=0)
        rig.clock.advance(LOCK_S + 1)
    assert produce(rig.ann.wire, "t", batch(b"d")).error_code == 0
    assert rig.ann.acquire() == [(3, 3, 1)]


def test_superseded_share_state_is_pruned(rig: Rig) -> None:
    for offset in range(3):
        rig.ann.acquire(max_records=1, strict=True)
        rig.ann.acknowledge((offset, offset, [ACCEPT]))
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="__share_group_state",
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)],
            )
        ],
    )

    def earliest() -> int:
        (topic,) = rig.ann.wire.call(request, ListOffsetsResponse).topics
        return topic.partitions[0].offset

    assert earliest() == 0
    rig.clock.advance(minutes=6)
    wait_for(lambda: earliest() > 0, "the state topic is pruned")
