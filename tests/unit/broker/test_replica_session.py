"""What a follower's session is told, and when: news only, errors once, nobody starved."""

from collections.abc import Sequence
from random import Random

from headrace.broker.partitions import PartitionTable
from headrace.broker.replica_session import Fetched, ReplicaSession
from headrace.clock import SystemClock
from headrace.cluster.topology import Partition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import FetchPartitionData
from headrace.records.record import Record, build_batch
from headrace.replication.replica import Replica
from headrace.replication.replicated_leader import ReplicatedLeader
from headrace.storage.config import LogConfig
from headrace.storage.log import Log
from headrace.storage.manager import LogManager
from headrace.testing.memory_files import MemoryFileSystem

TOPIC_ID = b"t" * 16
NOW_MS = 1_700_000_000_000
PARTITION = Partition(replicas=(1, 2), isr=(1, 2), leader=1)
ME, FOLLOWER, LIFE = 1, 2, 20
ENOUGH = 1 << 20


class Unthrottled:
    def holds_back(self, leader: ReplicatedLeader, replica_id: int) -> bool:
        return False

    def sent(self, leader: ReplicatedLeader, replica_id: int, size_bytes: int) -> None:
        pass


class Led:
    """A broker that leads some partitions, and one follower's session."""

    def __init__(self, partitions: int = 3) -> None:
        files = MemoryFileSystem()
        files.mkdir("/data")
        new_id = Random(1).randbytes
        self._logs = LogManager(
            ["/data"], files, SystemClock(), new_id=lambda: new_id(16), node_id=ME
        )
        self._logs.open()
        self.table = PartitionTable(self._open)
        self._topic = self.table.add_topic("t", TOPIC_ID, LogConfig())
        self.leaders = [self.lead(index) for index in range(partitions)]
        self.session = ReplicaSession(7, FOLLOWER, LIFE, Unthrottled())

    def _open(self, replica: Replica, config: LogConfig) -> Log:
        return self._logs.get_or_create(replica.topic, replica.index, replica.topic_id, config)

    def lead(self, index: int, epoch: int = 0) -> ReplicatedLeader:
        leader = ReplicatedLeader(
            "t",
            TOPIC_ID,
            index,
            PARTITION._replace(leader_epoch=epoch),
            self.table.open,
            broker_id=ME,
            min_isr=1,
            high_watermark=0,
            now=0.0,
        )
        self._topic.put(index, leader)
        return leader

    def ask(self, *positions: tuple[int, int], last_epoch: int = -1, epoch: int = 0) -> None:
        """The follower names these: (partition, offset)."""
        wanted = [
            Fetched(TOPIC_ID, index, offset, last_epoch, epoch, 0, ENOUGH)
            for index, offset in positions
        ]
        self.session.ask(self.table, wanted, now=0.0)

    @property
    def is_due(self) -> bool:
        return self.session.is_due(self.table)

    def answer(self, max_bytes: int = ENOUGH) -> dict[int, FetchPartitionData]:
        told = self.session.answer(self.table, max_bytes)
        return {data.partition_index: data for _, data in told}


def append(leader: ReplicatedLeader, values: Sequence[bytes] = (b"value",)) -> int:
    batch = build_batch([Record(at, NOW_MS, None, value, ()) for at, value in enumerate(values)])
    return leader.append(memoryview(bytearray(batch)), NOW_MS).last_offset + 1


def test_only_partitions_with_news_are_told() -> None:
    led = Led()
    led.ask((0, 0), (1, 0), (2, 0))
    assert not led.is_due
    assert set(led.answer()) == {0, 1, 2}
    assert led.answer() == {}
    append(led.leaders[1])
    assert led.is_due
    assert list(led.answer()) == [1]
    assert not led.is_due  # until the follower says that it has it


def test_a_watermark_is_told_with_what_comes_next_and_does_not_come_alone() -> None:
    led = Led()
    led.ask((0, 0), (1, 0))
    led.answer()
    end = append(led.leaders[0])
    assert led.answer()[0].high_watermark == 0
    led.ask((0, end))
    assert led.leaders[0].high_watermark == end
    assert not led.is_due
    append(led.leaders[1])
    told = led.answer()
    assert (told[0].high_watermark, told[0].records) == (end, b"")
    assert told[1].records
    assert 0 not in led.answer()


def test_a_position_that_diverges_is_answered_and_does_not_count() -> None:
    led = Led()
    append(led.leaders[0])
    leader = led.lead(0, epoch=3)
    append(leader)
    append(leader)
    led.ask((0, 2), last_epoch=2, epoch=3)
    assert led.is_due
    diverging = led.answer()[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)
    assert leader.progress[FOLLOWER].log_end == -1
    assert leader.high_watermark == 0


def test_another_epoch_is_refused_and_does_not_count() -> None:
    led = Led()
    leader = led.lead(0, epoch=2)
    append(leader)
    for epoch, code in (
        (1, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        led.ask((0, 1), epoch=epoch)
        assert led.is_due
        assert led.answer()[0].error_code == code
        assert led.answer() == {}  # once, and not again until it is named again
    assert leader.progress[FOLLOWER].log_end == -1


def test_a_leader_that_is_gone_is_told_at_once() -> None:
    led = Led()
    led.ask((0, 0))
    led.answer()
    before = led.leaders[0]
    led.table.by_name["t"].put(0, None)
    before.close()
    assert led.is_due
    assert led.answer()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_holds_no_replica_gets_nothing() -> None:
    led = Led()
    append(led.leaders[0])
    led.session.replica_id = 9
    led.ask((0, 0))
    data = led.answer()[0]
    assert (data.error_code, data.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


def test_a_busy_partition_does_not_starve_the_others() -> None:
    led = Led()
    for leader in led.leaders:
        append(leader, [bytes(600)])
        append(leader, [bytes(600)])
    offsets = {0: 0, 1: 0, 2: 0}
    served: list[int] = []
    led.ask(*offsets.items())
    while any(offset < 2 for offset in offsets.values()):
        for index, data in led.answer(max_bytes=700).items():
            if data.records:
                served.append(index)
                offsets[index] += 1
                led.ask((index, offsets[index]))
    assert served == [0, 1, 2, 0, 1, 2]


def test_what_is_forgotten_is_not_told_and_listens_no_more() -> None:
    led = Led()
    led.ask((0, 0), (1, 0))
    led.answer()
    led.session.forget([(TOPIC_ID, 0)])
    append(led.leaders[0])
    assert not led.is_due
    led.session.close()
    append(led.leaders[1])
    assert led.answer() == {}
