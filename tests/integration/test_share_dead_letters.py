"""Dead letters of share groups (KIP-1191)."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from headrace.broker.share.share_dead_letters import DeadLetterQueue
from headrace.records.record import Record, build_batch
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce, records_of, topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, set_group_config, start_state, summary
from support.wire.topics import create_topic

ACCEPT, RELEASE, REJECT = 1, 2, 3
NOW_MS = time.time_ns() // 1_000_000
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


class Rig:
    """A broker with a topic `t` and a share group `g` that reads it."""

    def __init__(self, broker: Broker, wire: Wire) -> None:
        self.broker = broker
        self.wire = wire
        self.opened: list[Wire] = []
        create_topic(wire, "t", 2)
        self.topic_id = topic_id_of(wire, "t")
        start_state(wire, "g", self.topic_id, partitions=(0, 1))

    def reconnect(self) -> None:
        self.wire = self.connect()

    def connect(self) -> Wire:
        self.opened.append(Wire(self.broker.bootstrap_servers))
        return self.opened[-1]

    def member(self, name: str = "ann", partition: int = 0) -> ShareMember:
        return ShareMember(self.connect(), "g", self.topic_id, name, partitions=(partition,))

    def configure(self, **configs: str) -> None:
        settings = {f"errors_deadletterqueue_{name}": value for name, value in configs.items()}
        set_group_config(self.wire, "g", **settings)

    def produce(self, *values: bytes, key: bytes | None = None, partition: int = 0) -> None:
        result = produce(self.wire, "t", batch(*values, key=key), partition=partition)
        assert result.error_code == 0

    def letters(self, topic: str = "dlq.g", partition: int = 0) -> list[Record]:
        return records_of(fetch(self.wire, fetch_request(topic, partition=partition)).records)

    def wait_for_letters(
        self, count: int, topic: str = "dlq.g", partition: int = 0
    ) -> list[Record]:
        wait_for(lambda: len(self.letters(topic, partition)) >= count, "dead letters are there")
        return self.letters(topic, partition)

    def start(self, partition: int = 0) -> int:
        return summary(self.wire, "g", self.topic_id, partition).start_offset


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        rig = Rig(broker, wire)
        yield rig
        for opened in rig.opened:
            opened.close()


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_a_rejected_record_becomes_a_dead_letter_with_its_origin(rig: Rig) -> None:
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a", b"b", b"c", key=b"k")
    ann = rig.member()
    assert ann.acquire() == [(0, 2, 1)]
    ann.acknowledge((0, 2, [ACCEPT, REJECT, ACCEPT]))
    (letter,) = rig.wait_for_letters(1)
    assert (letter.key, letter.value) == (None, None)
    assert headers(letter) == {
        "__dlq.errors.topic": "t",
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": "1",
        "__dlq.errors.group": "g",
        "__dlq.errors.delivery.count": "1",
        "__dlq.errors.message": "Offset rejected by client.",
    }


def test_a_record_at_the_delivery_limit_becomes_a_dead_letter(rig: Rig) -> None:
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.configure(topic_name="dlq.g")
    set_group_config(rig.wire, "g", share_delivery_count_limit="2")
    rig.produce(b"a")
    ann = rig.member()
    for _ in range(2):
        ann.acquire()
        ann.acknowledge((0, 0, [RELEASE]))
    (letter,) = rig.wait_for_letters(1)
    assert headers(letter)["__dlq.errors.delivery.count"] == "2"
    message = headers(letter)["__dlq.errors.message"]
    assert message == "Offset delivery count exceeded the threshold."


def test_dead_letters_copy_the_record_if_the_group_is_configured_so(rig: Rig) -> None:
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.configure(topic_name="dlq.g", copy_record_enable="true")
    rig.produce(b"a", b"b", key=b"k", partition=1)
    ann = rig.member(partition=1)
    ann.fetch()
    ann.acknowledge((0, 1, [REJECT]), index=1)
    letters = rig.wait_for_letters(2)
    assert [(letter.key, letter.value) for letter in letters] == [(b"k", b"a"), (b"k", b"b")]
    assert [headers(one)["__dlq.errors.partition"] for one in letters] == ["1", "1"]


def moved_past(rig: Rig, member: ShareMember, offset: int) -> bool:
    """Whether the group's start offset moved; it is stored with the next change."""
    rig.produce(b"x")
    acquired = member.acquire()
    if acquired:
        member.acknowledge((acquired[0][0], acquired[-1][1], [ACCEPT]))
    return rig.start() > offset


def test_dead_letters_wait_for_their_topic_and_block_the_start_offset(rig: Rig) -> None:
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a", b"b")
    ann = rig.member()
    ann.acquire()
    result = ann.acknowledge((0, 1, [REJECT, ACCEPT]))
    assert result.error_code == 0  # type: ignore[union-attr]
    rig.produce(b"c")
    assert ann.acquire() == [(2, 2, 1)]
    ann.acknowledge((2, 2, [ACCEPT]))
    assert rig.start() == 0
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.wait_for_letters(1)
    wait_for(lambda: moved_past(rig, ann, 2), "the start has moved past the dead letter")
    assert len(rig.letters()) == 1


def test_dead_letters_survive_group_deletion_and_a_restart(rig: Rig) -> None:
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a", b"b")
    ann = rig.member()
    ann.acquire()
    ann.acknowledge((0, 1, [REJECT]))
    rig.broker.restart()
    rig.reconnect()
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    bob = rig.member("bob")
    wait_for(lambda: bob.fetch(max_wait_ms=100) is not None and rig.letters(), "letters are there")
    assert sorted(headers(one)["__dlq.errors.offset"] for one in rig.wait_for_letters(2)) == [
        "0",
        "1",
    ]


def test_a_dead_letter_of_an_unarchived_record_is_written_once_after_a_crash(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later records do not hide a written dead letter, and missing dead letters are written."""
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a", b"b", b"c", b"d")
    written: list[int] = []

    async def never(self: DeadLetterQueue, first: int, last: int) -> None:
        written.append(last)
        await asyncio.Event().wait()

    monkeypatch.setattr(DeadLetterQueue, "_archive", never)
    ann = rig.member()
    ann.acquire()
    ann.acknowledge((0, 3, [ACCEPT, REJECT, ACCEPT, REJECT]))
    rig.wait_for_letters(1)
    wait_for(lambda: written == [1], "the first letter is written, its record is not archived")
    others = build_batch([Record(at, NOW_MS, None, b"another group's") for at in range(3000)])
    assert produce(rig.wire, "dlq.g", others).error_code == 0
    rig.broker.kill()
    monkeypatch.undo()
    rig.broker.start()
    rig.reconnect()
    bob = rig.member("bob")
    wait_for(lambda: moved_past(rig, bob, 3), "everything is archived")
    letters = [headers(each) for each in rig.letters() if each.headers]
    assert [each["__dlq.errors.offset"] for each in letters] == ["1", "3"]


@pytest.mark.parametrize("name", ["letters", "__dlq", "dlq.closed"])
def test_an_ineligible_topic_gets_no_dead_letters(rig: Rig, name: str) -> None:
    """The name has the wrong prefix, is reserved, or the topic does not allow it."""
    create_topic(rig.wire, name, 1, ENABLED if name != "dlq.closed" else {})
    create_topic(rig.wire, "dlq.g", 1, ENABLED)
    rig.configure(topic_name=name)
    rig.produce(b"a")
    ann = rig.member()
    ann.acquire()
    ann.acknowledge((0, 0, [REJECT]))
    rig.configure(topic_name="dlq.g")
    rig.wait_for_letters(1)
    assert rig.letters(name) == []


def test_a_group_without_a_dead_letter_topic_archives_without_dead_letters(rig: Rig) -> None:
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a")
    ann = rig.member()
    ann.acquire()
    ann.acknowledge((0, 0, [REJECT]))
    rig.configure(topic_name="")

    def moved() -> bool:
        rig.produce(b"x")
        acquired = ann.acquire()
        if acquired:
            ann.acknowledge((acquired[0][0], acquired[-1][1], [ACCEPT]))
        return rig.start() > 0

    wait_for(moved, "the record is archived")


def test_the_topic_is_created_if_the_broker_allows_it(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig({"errors.deadletterqueue.auto.create.topics.enable": "true"})
    rig.configure(topic_name="dlq.g")
    rig.produce(b"a")
    ann = rig.member()
    ann.acquire()
    ann.acknowledge((0, 0, [REJECT]))
    rig.wait_for_letters(1)


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    opened: list[Broker] = []
    rigs: list[Rig] = []

    def make(settings: dict[str, str]) -> Rig:
        opened.append(Broker(settings=settings).start())
        rig = Rig(opened[-1], Wire(opened[-1].bootstrap_servers))
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        for wire in (rig.wire, *rig.opened):
            wire.close()
    for broker in opened:
        broker.close()
