"""Partition roles follow the metadata: leaders, followers, deleted logs and notifications."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from headrace.broker.partitions.metadata_publisher import MetadataPublisher
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.partitions.replica_roles import ReplicaRoles, Role
from headrace.clock import SystemClock
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.topology import NO_LEADER, Partition
from headrace.protocol.errors import ErrorCode
from headrace.records.record import Record, build_batch
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem

ME = 1
T = b"t" * 16
NOW_MS = 1_700_000_000_000
ALL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=ME)


class Host:
    """One broker's table, logs and metadata, without sockets."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.files.mkdir("/data")
        new_id = Random(1).randbytes
        self.logs = LogManager(
            ["/data"], self.files, SystemClock(), new_id=lambda: new_id(16), node_id=ME
        )
        self.logs.open()
        self.table = PartitionTable(self._open)
        self.told: list[tuple[str, int, Role | None, Role | None]] = []
        roles = ReplicaRoles(
            ME, self.table, self.logs, SystemClock(), [lambda *change: self.told.append(change)]
        )
        self.config = LogConfig()
        self.image = MetadataImage()
        self.hosting = MetadataPublisher(
            roles, self.table, self.logs, lambda _image, _topic: self.config, lambda _image: None
        )

    def _open(self, replica: Replica, config: LogConfig) -> Log:
        log = self.logs.get_or_create(replica.topic, replica.index, replica.topic_id, config)
        log.load()
        return log

    def publish(self, *records: MetadataRecord) -> None:
        self.image = self.image.apply(records)
        asyncio.run(self.hosting.publish(self.image, records))

    def create(self, *partitions: Partition) -> None:
        self.publish(TopicCreated("t", T, partitions))

    def change(self, partition: Partition, index: int = 0) -> None:
        self.publish(PartitionChanged(T, index, partition))

    def replica(self, index: int = 0) -> Role | None:
        return self.table.replica("t", index)

    def leader(self, index: int = 0) -> Leader:
        leader = self.replica(index)
        assert isinstance(leader, Leader)
        return leader


def append(leader: SoleLeader, values: Sequence[bytes] = (b"v",)) -> int:
    batch = build_batch([Record(at, NOW_MS, None, value, ()) for at, value in enumerate(values)])
    return leader.append(memoryview(bytearray(batch)), NOW_MS).last_offset + 1


def moved(leader: int, epoch: int, **changes: object) -> Partition:
    return ALL._replace(leader=leader, leader_epoch=epoch, partition_epoch=epoch, **changes)


def test_a_partition_has_the_role_that_the_metadata_gives_it() -> None:
    host = Host()
    elsewhere = Partition(replicas=(2, 3), isr=(2, 3), leader=2)
    alone = Partition(replicas=(1,), isr=(1,), leader=ME)
    host.create(ALL, moved(2, 0), elsewhere, alone)
    roles = [host.replica(index) for index in range(4)]
    assert [type(role) for role in roles] == [Leader, Follower, type(None), SoleLeader]
    assert sorted(log.partition for log in host.logs) == [0, 1, 3]
    assert [(index, after) for _, index, _, after in host.told] == [
        (0, roles[0]),
        (1, roles[1]),
        (3, roles[3]),
    ]


def test_the_wrong_broker_does_not_answer_unknown_topic() -> None:
    host = Host()
    host.create(ALL, moved(2, 0), Partition(replicas=(2,), isr=(2,), leader=2))
    assert isinstance(host.table.find("t", 0), SoleLeader)
    assert host.table.find("t", 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.table.find("t", 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.table.find("t", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert host.table.find("t", -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert host.table.find("u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_requests_waiting_on_a_role_are_answered_when_it_ends() -> None:
    host = Host()
    host.create(ALL)
    leader = host.leader()
    heard: list[ErrorCode] = []
    leader.when_committed(append(leader), heard.append)
    host.change(moved(2, 1))
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert isinstance(host.replica(), Follower)
    with pytest.raises(StorageError) as refused:
        append(leader)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.when_committed(1, heard.append)
    assert heard[1:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_new_role_starts_with_the_old_high_watermark() -> None:
    host = Host()
    host.create(ALL)
    leader = host.leader()
    end = append(leader)
    append(leader)
    for follower in (2, 3):
        leader.fetched(follower, 1, end, 0, now=0.0)
    host.change(moved(2, 1))
    follower = host.replica()
    assert isinstance(follower, Follower)
    assert (follower.log.log_end_offset, follower.high_watermark) == (2, 1)
    host.change(moved(ME, 2))
    assert (host.leader().log.log_end_offset, host.leader().high_watermark) == (2, 1)
    assert host.leader().log.latest_epoch == 2


def test_a_leader_that_stays_in_a_new_epoch_keeps_its_waiting_requests() -> None:
    host = Host()
    host.create(ALL)
    leader = host.leader()
    heard: list[ErrorCode] = []
    end = append(leader)
    leader.when_committed(end, heard.append)
    host.change(moved(ME, 1, replicas=(1, 2), isr=(1, 2)))
    assert host.leader() is leader
    assert (leader.epoch, leader.log.latest_epoch) == (1, 1)
    assert host.told[-1] == ("t", 0, leader, leader)
    leader.fetched(2, 1, end, 0, now=0.0)
    assert heard == [ErrorCode.NONE]


def test_a_removed_replica_deletes_its_log() -> None:
    host = Host()
    host.create(ALL)
    append(host.leader())
    host.change(moved(2, 1, replicas=(2, 3), isr=(2, 3)))
    assert host.replica() is None
    assert len(host.logs) == 0
    assert host.table.find("t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.change(moved(2, 2))
    follower = host.replica()
    assert isinstance(follower, Follower)
    assert follower.log.log_end_offset == 0


def test_a_sole_leader_gets_followers() -> None:
    host = Host()
    host.create(Partition(replicas=(1,), isr=(1,), leader=ME))
    alone = host.replica()
    assert isinstance(alone, SoleLeader)
    append(alone)
    host.change(Partition(replicas=(1, 2), isr=(1,), leader=ME, partition_epoch=1, adding=(2,)))
    leader = host.leader()
    assert alone.closed
    assert leader.log.log_end_offset == leader.high_watermark == 1
    heard: list[ErrorCode] = []
    leader.when_committed(append(leader), heard.append)
    assert heard == [ErrorCode.NONE]


def test_a_follower_without_a_leader_waits_for_one() -> None:
    host = Host()
    host.create(moved(2, 0))
    follower = host.replica()
    assert isinstance(follower, Follower)
    host.change(moved(NO_LEADER, 1))
    assert (follower.leader_id, follower.epoch) == (NO_LEADER, 1)
    host.change(moved(3, 2))
    assert host.replica() is follower
    assert (follower.leader_id, follower.epoch) == (3, 2)


def test_metadata_that_is_older_than_the_role_changes_nothing() -> None:
    host = Host()
    host.create(moved(ME, 5))
    leader = host.leader()
    asyncio.run(host.hosting.publish(host.image, [PartitionChanged(T, 0, moved(2, 4))]))
    assert host.replica() is leader
    assert not leader.closed


def test_a_returned_broker_leads_and_is_followed_in_a_new_epoch() -> None:
    host = Host()
    host.create(ALL, moved(2, 0))
    host.publish(LeaderRestarted(2))
    assert [role.epoch for index in (0, 1) if (role := host.replica(index))] == [0, 1]


def test_added_partitions_are_hosted_and_deleted_ones_are_removed() -> None:
    host = Host()
    host.create(ALL)
    host.publish(PartitionsAdded(T, (moved(2, 0), ALL)))
    assert [type(host.replica(index)) for index in range(3)] == [
        Leader,
        Follower,
        Leader,
    ]
    before = host.replica(1)
    host.publish(TopicDeleted(T))
    assert len(host.logs) == 0
    assert ("t", 1, before, None) in host.told


def test_min_insync_replicas_takes_effect_on_leaders() -> None:
    host = Host()
    host.create(ALL._replace(isr=(1,)))
    assert host.leader().enough_in_sync
    host.table.reconfigure(host.table.by_name["t"], LogConfig(min_insync_replicas=2))
    assert not host.leader().enough_in_sync
    host.change(ALL._replace(isr=(1, 2), partition_epoch=1))
    assert host.leader().enough_in_sync
