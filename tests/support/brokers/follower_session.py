"""A broker that leads partitions in memory files, and the fetch session of one follower."""

from collections.abc import Sequence
from random import Random

from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.fetch_session_at_leader import FetchPosition, FollowerFetchSession
from headrace.clock import SystemClock
from headrace.cluster.topology import Partition
from headrace.protocol.messages.fetch import FetchPartitionData
from headrace.records.record import Record, build_batch
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem

TOPIC_ID = b"t" * 16
NOW_MS = 1_700_000_000_000
PARTITION = Partition(replicas=(1, 2), isr=(1, 2), leader=1)
ME, FOLLOWER, LIFE = 1, 2, 20
ENOUGH = 1 << 20
RATE = 1 << 20  # bytes per second, for a follower that lags


class Unthrottled:
    def is_throttled(self, leader: Leader, replica_id: int) -> bool:
        return False

    def sent(self, leader: Leader, replica_id: int, size_bytes: int) -> None:
        pass


class Led:
    """A broker that leads some partitions, and one follower's fetch session."""

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
        self.now = 0.0
        self.session = FollowerFetchSession(7, FOLLOWER, LIFE, Unthrottled(), CatchUpThrottle(RATE))

    def _open(self, replica: Replica, config: LogConfig) -> Log:
        return self._logs.get_or_create(replica.topic, replica.index, replica.topic_id, config)

    def lead(self, index: int, epoch: int = 0, isr: tuple[int, ...] = PARTITION.isr) -> Leader:
        leader = Leader(
            "t",
            TOPIC_ID,
            index,
            PARTITION._replace(leader_epoch=epoch, isr=isr),
            self.table.open,
            broker_id=ME,
            min_isr=1,
            high_watermark=0,
            now=0.0,
        )
        self._topic.put(index, leader)
        return leader

    def fetch(self, *positions: tuple[int, int], last_epoch: int = -1, epoch: int = 0) -> None:
        """The follower's request contains these positions: (partition, offset)."""
        wanted = [
            FetchPosition(TOPIC_ID, index, offset, last_epoch, epoch, 0, ENOUGH)
            for index, offset in positions
        ]
        self.session.apply_positions(self.table, wanted, now=self.now)

    @property
    def is_ready(self) -> bool:
        return self.session.check_ready(self.table, self.now)

    def answer(self, max_bytes: int = ENOUGH) -> dict[int, FetchPartitionData]:
        sent = self.session.answer(self.table, max_bytes, self.now)
        return {data.partition_index: data for _, data in sent}


def append(leader: Leader, values: Sequence[bytes] = (b"value",)) -> int:
    batch = build_batch([Record(at, NOW_MS, None, value, ()) for at, value in enumerate(values)])
    return leader.append(memoryview(bytearray(batch)), NOW_MS).last_offset + 1
