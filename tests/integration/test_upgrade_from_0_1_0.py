"""A broker opens the data of version 0.1.0, after a clean stop and after `kill -9`.

tests/data/0.1.0/README.md says what the archives hold. The brokers here run on a virtual clock that
starts where 0.1.0's ended, so that nothing has expired unless a test says so.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordinator.common.result import ProducerIdentity
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.records.batch_header import read_header
from headrace.records.codec import Codec
from headrace.records.record import Record
from headrace.testing import Broker, VirtualClock
from support.storage.old_data import unpack
from support.waiting import wait_for
from support.wire import batches
from support.wire.batches import (
    batch,
    fetch,
    fetch_request,
    produce,
    records_of,
    topic_id_of,
    whole_batches,
)
from support.wire.connection import Wire
from support.wire.groups import wait_for_coordinator
from support.wire.share_member import ShareMember
from support.wire.transactional_producer import (
    V1,
    V2,
    TransactionalProducer,
    committed_offset,
    read_committed,
)

START_MS = 1_767_225_600_000
END_MS = START_MS + 150_000
TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
EARLIEST, LATEST = -2, -1
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


class OldBroker:
    """The current broker on a copy of 0.1.0's log directories, and a connection to it."""

    def __init__(self, home: Path, *, was_stopped: bool) -> None:
        self.home = home
        self.was_stopped = was_stopped
        self.clock = VirtualClock(start_ms=END_MS)
        dirs = ",".join(str(home / name) for name in ("logs-1", "logs-2"))
        self.broker = Broker(settings={**SETTINGS, "log.dirs": dirs}, data=home, clock=self.clock)
        self.broker.start()
        self.wire = Wire(self.broker.bootstrap_servers, timeout_s=60)

    def close(self) -> None:
        self.wire.close()
        self.broker.close()

    def records(self, topic: str, partition: int = 0, start: int = 0) -> list[Record]:
        """All records that a consumer gets from `start`, without markers."""
        found: list[Record] = []
        while True:
            data = fetch(self.wire, fetch_request(topic, start, partition=partition))
            assert data.error_code == ErrorCode.NONE
            if start >= data.high_watermark:
                return found
            for one in whole_batches(data.records):
                header = read_header(one)
                found += [] if header.is_control else records_of(one)
                start = header.last_offset + 1

    def offset(self, topic: str, timestamp: int) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        )
        (answered,) = self.wire.call(request, ListOffsetsResponse).topics
        return answered.partitions[0].offset

    def committed(self, group: str) -> dict[int, tuple[int, str | None]]:
        """Offset and metadata by partition of `orders`."""
        wait_for_coordinator(self.wire, group)
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1, 2])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])]
        )
        (answer,) = self.wire.call(request, OffsetFetchResponse, 9).groups
        return {
            one.partition_index: (one.committed_offset, one.metadata)
            for one in answer.topics[0].partitions
            if one.committed_offset >= 0
        }

    def configs(self, kind: int, name: str) -> dict[str, str | None]:
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)]
        )
        (answer,) = self.wire.call(request, DescribeConfigsResponse).results
        assert answer.error_code == ErrorCode.NONE
        return {one.name: one.value for one in answer.configs}

    def producer(self, transactional_id: str) -> TransactionalProducer:
        """Continues like a client whose connection closed when the broker stopped."""
        found = TransactionalProducer(self.wire, V1, transactional_id)

        def described() -> bool:
            state = found.describe()
            found.become(ProducerIdentity(state.producer_id, state.producer_epoch))
            return not state.error_code

        wait_for(described, f"the state of {transactional_id}")
        return found


@pytest.fixture(params=["stopped", "killed"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OldBroker]:
    home = unpack("0.1.0", request.param, tmp_path)
    opened = OldBroker(home, was_stopped=request.param == "stopped")
    monkeypatch.setattr(batches, "now_ms", opened.clock.wall_ms)
    yield opened
    opened.close()


def written_order(partition: int, offset: int) -> Record:
    """The record that 0.1.0 received for this offset."""
    number, n = divmod(offset, 4)
    stamp = START_MS + 2000 * number
    headers = (("codec", Codec(number).name.encode()), ("empty", None))
    return Record(
        offset,
        stamp + n,
        None if n == 0 else b"key-%d" % n,
        None if n == 1 else b"orders-%d-%d-%d" % (partition, number, n),
        () if n == 2 else headers,
    )


def test_every_record_is_read_back(old: OldBroker) -> None:
    """Records of every codec, with headers, null keys and null values."""
    for partition in range(3):
        expected = [written_order(partition, offset) for offset in range(20)]
        assert old.records("orders", partition) == expected


def test_an_idempotent_producer_continues_its_sequence(old: OldBroker) -> None:
    """The next batch is accepted, a duplicate is recognized, a gap is rejected."""
    last = read_header(whole_batches(fetch(old.wire, fetch_request("orders", 16)).records)[-1])
    assert last.base_sequence == 16

    def send(sequence: int) -> tuple[ErrorCode, int]:
        sent = batch(
            b"a",
            b"b",
            b"c",
            b"d",
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch,
            base_sequence=sequence,
        )
        answer = produce(old.wire, "orders", sent)
        return ErrorCode(answer.error_code), answer.base_offset

    assert send(16) == (ErrorCode.NONE, 16)
    assert send(24)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(20) == (ErrorCode.NONE, 20)
    assert len(old.records("orders")) == 24


def test_committed_and_aborted_transactions_keep_their_outcome(old: OldBroker) -> None:
    assert read_committed(old.wire, "ledger") == [b"committed-1", b"committed-2"]
    assert read_committed(old.wire, "ledger", partition=1) == [b"committed-3"]
    values = [record.value for record in old.records("ledger")]
    assert values == [b"committed-1", b"committed-2", b"aborted", b"open-1"]
    states = {
        name: old.producer(f"txn-{name}").describe().transaction_state
        for name in ("committed", "aborted", "open")
    }
    assert states == {"committed": "CompleteCommit", "aborted": "CompleteAbort", "open": "Ongoing"}


def test_an_open_transaction_continues_and_commits(old: OldBroker) -> None:
    wait_for_coordinator(old.wire, "txn-readers")
    producer = old.producer("txn-open")
    producer.sequences[("ledger", 0)] = 1
    assert producer.send("ledger", b"open-3") is ErrorCode.NONE
    producer.commit()
    assert read_committed(old.wire, "ledger")[2:] == [b"open-1", b"open-3"]
    assert read_committed(old.wire, "ledger", partition=1)[1:] == [b"open-2"]
    wait_for(
        lambda: committed_offset(old.wire, "txn-readers", "ledger").committed_offset == 3,
        "the offset of the transaction",
    )
    assert committed_offset(old.wire, "txn-readers", "orders").committed_offset == 7


def test_an_open_transaction_times_out(old: OldBroker) -> None:
    producer = old.producer("txn-open")

    def aborted() -> bool:
        old.clock.advance(minutes=1)
        return producer.describe().transaction_state == "CompleteAbort"

    wait_for(aborted, "the transaction is aborted", deadline_s=60)
    assert read_committed(old.wire, "ledger") == [b"committed-1", b"committed-2"]
    assert committed_offset(old.wire, "txn-readers", "ledger").committed_offset == -1


def test_a_transactional_id_is_taken_over_with_a_higher_epoch(old: OldBroker) -> None:
    before = old.producer("txn-committed").producer
    after = TransactionalProducer(old.wire, V2, "txn-committed").init()
    assert after.producer.producer_id == before.producer_id
    assert after.producer.epoch > before.epoch
    assert after.send("ledger", b"next", partition=1) is ErrorCode.NONE
    after.commit()


def test_new_producer_ids_are_not_those_of_0_1_0(old: OldBroker) -> None:
    known = {
        read_header(one).producer_id
        for topic in ("orders", "ledger")
        for one in whole_batches(fetch(old.wire, fetch_request(topic)).records)
    }
    fresh = TransactionalProducer(old.wire, V2, "fresh").init()
    assert fresh.producer.producer_id not in known


def test_a_compacted_topic_keeps_its_gaps_and_its_tombstone(old: OldBroker) -> None:
    found = [(each.offset, each.key, each.value) for each in old.records("latest")]
    assert found == [
        (12, b"gone", None),
        *[(13 + n, b"k%d" % n, b"4-%d" % n) for n in range(3)],
        *[(16 + n, b"k%d" % n, b"5-%d" % n) for n in range(3)],
    ]
    assert produce(old.wire, "latest", batch(b"new", key=b"k0")).base_offset == 19


def test_deleted_records_stay_deleted(old: OldBroker) -> None:
    assert (old.offset("trimmed", EARLIEST), old.offset("trimmed", LATEST)) == (3, 4)
    refused = fetch(old.wire, fetch_request("trimmed", 2))
    assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [each.value for each in old.records("trimmed", start=3)] == [b"d"]


def test_settings_are_kept(old: OldBroker) -> None:
    orders = old.configs(TOPIC_RESOURCE, "orders")
    assert (orders["segment.ms"], orders["max.message.bytes"]) == ("1000", "500000")
    trimmed = old.configs(TOPIC_RESOURCE, "trimmed")
    assert trimmed["cleanup.policy"] == "delete,compact"
    assert trimmed["retention.ms"] == "86400000"
    assert old.configs(BROKER_RESOURCE, "1")["log.retention.ms"] == "259200000"
    group = old.configs(GROUP_RESOURCE, "share-workers")
    assert group["share.auto.offset.reset"] == "earliest"


def test_groups_keep_their_offsets(old: OldBroker) -> None:
    assert old.committed("simple-readers") == {2: (9, "")}
    assert old.committed("classic-readers") == {0: (5, "noted"), 1: (6, "noted")}
    assert old.committed("consumer-readers") == {0: (11, ""), 2: (12, "")}


def test_a_member_of_a_classic_group_stays_a_member(old: OldBroker) -> None:
    wait_for_coordinator(old.wire, "classic-readers")
    request = DescribeGroupsRequest(groups=["classic-readers"])
    (group,) = old.wire.call(request, DescribeGroupsResponse).groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    (member,) = group.members
    assert bytes(member.member_assignment) == b"mine"
    beat = HeartbeatRequest(group_id="classic-readers", generation_id=1, member_id=member.member_id)
    assert old.wire.call(beat, HeartbeatResponse).error_code == ErrorCode.NONE


def test_a_member_of_a_consumer_group_stays_a_member(old: OldBroker) -> None:
    wait_for_coordinator(old.wire, "consumer-readers")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="consumer-readers", member_id="member-1", member_epoch=2
    )
    answer = old.wire.call(beat, ConsumerGroupHeartbeatResponse, 1)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)


def test_a_share_group_receives_unacknowledged_records(old: OldBroker) -> None:
    """Accepted and rejected records are not redelivered; a released one counts its delivery, and a
    clean stop has released those that were not acknowledged."""
    group = "share-workers"
    wait_for_coordinator(old.wire, group)
    beat = ShareGroupHeartbeatRequest(
        group_id=group, member_id="ann", member_epoch=0, subscribed_topic_names=["jobs"]
    )
    assert old.wire.call(beat, ShareGroupHeartbeatResponse).error_code == ErrorCode.NONE
    member = ShareMember(old.wire, group, topic_id_of(old.wire, "jobs"), "ann", max_wait_ms=0)
    seen: list[tuple[int, int, int]] = []

    def all_back() -> bool:
        old.clock.advance(0.1)  # the state is asked for again after a pause
        seen.extend(member.acquire())
        return sum(last - first + 1 for first, last, _ in seen) >= 5

    wait_for(all_back, "what was not accepted comes back")
    assert sorted(seen) == [(4, 4, 2), (6, 9, 2 if old.was_stopped else 1)]


def test_a_move_between_log_directories_is_finished(old: OldBroker) -> None:
    """All records are readable from the start, and the copy replaces the original."""
    values = [b"%d" % number * 600_000 for number in range(3)]
    assert [each.value for each in old.records("moving")] == values

    def moved() -> bool:
        old.clock.advance(seconds=1)
        names = {path.name for path in old.home.glob("*/moving-0*")}
        return names == {"moving-0"}

    wait_for(moved, "the move is finished", deadline_s=60)
    assert (old.home / "logs-2" / "moving-0").is_dir()
    assert [each.value for each in old.records("moving")] == values


def test_the_current_broker_reopens_the_directories(old: OldBroker) -> None:
    """Records of the current version are as readable as those of 0.1.0."""
    assert produce(old.wire, "orders", batch(b"today")).base_offset == 20
    old.wire.close()
    old.broker.restart()
    old.wire = Wire(old.broker.bootstrap_servers, timeout_s=60)
    expected = [written_order(0, offset) for offset in range(20)]
    assert old.records("orders")[:20] == expected
    assert old.records("orders", start=20)[0].value == b"today"
    assert old.committed("classic-readers") == {0: (5, "noted"), 1: (6, "noted")}
