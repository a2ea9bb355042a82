"""Writes the data directories of one broker: after a clean stop, and after `kill -9`.

Runs with the source and the test support of version 0.1.0; README.md says how.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from random import Random

from archives import pack
from support.batches import batch, fetch, fetch_request, produce, records_of, topic_id_of
from support.shares import ShareMember, set_group_config
from support.topics import create_topic
from support.transaction_wire import V1, V2, TransactionalProducer, find_coordinator
from support.wire_groups import join, sync, wait_for_coordinator

from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.testing import Broker, VirtualClock
from support import batches
from support.waiting import wait_for
from support.wire import Wire

START_MS = 1_767_225_600_000  # 2026-01-01 00:00 UTC
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, APPEND = 0, 2
ACCEPT, RELEASE, REJECT = 1, 2, 3
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "20",
    "log.segment.delete.delay.ms": "0",
    "replica.alter.log.dirs.io.max.bytes.per.second": "1",  # a move stops after its first piece
}


class Maker:
    """One broker on two log directories, and a connection to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = VirtualClock(start_ms=START_MS)
        batches.now_ms = self.clock.wall_ms
        dirs = ",".join(str(home / name) for name in ("logs-1", "logs-2"))
        self.broker = Broker(
            settings={**SETTINGS, "log.dirs": dirs}, data=home, clock=self.clock, random=Random(1)
        ).start()
        self.wire = Wire(self.broker.bootstrap_servers, timeout_s=60)

    def write(self) -> None:
        self.write_orders()
        self.write_latest()
        self.write_trimmed()
        self.clock.advance(minutes=2)  # log start offsets are written every minute
        self.write_ledger()
        self.write_classic_group()
        self.write_consumer_group()
        self.write_share_group()
        self.change_settings()
        self.begin_move()

    def write_orders(self) -> None:
        """Three partitions, every codec, headers, nulls, an idempotent producer."""
        create_topic(self.wire, "orders", 3, {"segment.ms": "1000", "max.message.bytes": "500000"})
        answer = self.wire.call(
            InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
        )
        assert answer.error_code == 0
        for partition in range(3):
            for number, codec in enumerate(Codec):
                stamp = self.clock.wall_ms() + 2000 * number  # each in a segment of its own
                records = [
                    Record(
                        n,
                        stamp + n,
                        None if n == 0 else b"key-%d" % n,
                        None if n == 1 else b"orders-%d-%d-%d" % (partition, number, n),
                        () if n == 2 else (("codec", codec.name.encode()), ("empty", None)),
                    )
                    for n in range(4)
                ]
                sent = build_batch(
                    records,
                    codec=codec,
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                    base_sequence=4 * number,
                )
                assert produce(self.wire, "orders", sent, partition=partition).error_code == 0

    def write_ledger(self) -> None:
        """Transactions of both protocols: committed, aborted, and one that stays open."""
        create_topic(self.wire, "ledger", 2)
        wait_for_coordinator(self.wire, "txn-readers")
        first = TransactionalProducer(self.wire, V2, "txn-committed").init()
        assert not first.send("ledger", b"committed-1", b"committed-2")
        assert not first.send("ledger", b"committed-3", partition=1)
        assert not first.commit_offset("txn-readers", "orders", 7)
        first.commit()
        second = TransactionalProducer(self.wire, V1, "txn-aborted").init()
        assert not second.send("ledger", b"aborted")
        second.abort()
        third = TransactionalProducer(self.wire, V1, "txn-open").init(timeout_ms=900_000)
        assert not third.send("ledger", b"open-1")
        assert not third.send("ledger", b"open-2", partition=1)
        find_coordinator(self.wire, "txn-readers", 0)
        assert not third.add_offsets("txn-readers")
        assert not third.commit_offset("txn-readers", "ledger", 3)

    def write_latest(self) -> None:
        """A compacted topic after a cleaning."""
        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "1000",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": "315360000000",
        }
        create_topic(self.wire, "latest", 1, compacted)
        for second in range(6):
            self.clock.advance(2)
            stamp = self.clock.wall_ms()
            pairs = [(b"k%d" % n, b"%d-%d" % (second, n)) for n in range(3)]
            if second == 3:
                pairs.append((b"gone", None))
            records = [Record(n, stamp, key, value) for n, (key, value) in enumerate(pairs)]
            assert produce(self.wire, "latest", build_batch(records)).error_code == 0

        def is_cleaned() -> bool:
            self.clock.advance(0.05)
            data = fetch(self.wire, fetch_request("latest"))
            return [each.offset for each in records_of(data.records)] == [12, 13, 14, 15]

        wait_for(is_cleaned, "the log is compacted", deadline_s=20)

    def write_trimmed(self) -> None:
        """A partition whose first records were deleted."""
        create_topic(self.wire, "trimmed")
        for value in (b"a", b"b", b"c", b"d"):
            assert produce(self.wire, "trimmed", batch(value)).error_code == 0
        partition = DeleteRecordsPartition(partition_index=0, offset=3)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="trimmed", partitions=[partition])], timeout_ms=5000
        )
        (topic,) = self.wire.call(request, DeleteRecordsResponse).topics
        assert topic.partitions[0].error_code == 0

    def write_classic_group(self) -> None:
        """A stable group of one member that has committed, and one without members."""
        wait_for_coordinator(self.wire, "classic-readers")
        wait_for_coordinator(self.wire, "simple-readers")
        member, generation = join(self.wire, "classic-readers", "orders")
        sync(self.wire, "classic-readers", member, generation)
        self.commit("classic-readers", {0: 5, 1: 6}, member, generation, metadata="noted")
        self.commit("simple-readers", {2: 9})

    def write_consumer_group(self) -> None:
        """The same in the protocol of KIP-848."""
        group = "consumer-readers"
        wait_for_coordinator(self.wire, group)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="member-1",
            member_epoch=0,
            subscribed_topic_names=["orders"],
            rebalance_timeout_ms=60_000,
            topic_partitions=[],
        )
        answer = self.wire.call(request, ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == 0, answer.error_message
        self.commit(group, {0: 11, 2: 12}, "member-1", answer.member_epoch)

    def commit(
        self,
        group: str,
        offsets: dict[int, int],
        member: str = "",
        generation: int = -1,
        metadata: str = "",
    ) -> None:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
        )
        (topic,) = self.wire.call(request, OffsetCommitResponse, 9).topics
        assert all(one.error_code == 0 for one in topic.partitions)

    def write_share_group(self) -> None:
        """Ten records: four accepted, one released, one rejected, four not acknowledged."""
        group = "share-workers"
        create_topic(self.wire, "jobs")
        values = [b"job-%d" % number for number in range(10)]
        assert produce(self.wire, "jobs", batch(*values)).error_code == 0
        set_group_config(self.wire, group, share_auto_offset_reset="earliest")
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        self.wire.call(asked, FindCoordinatorResponse)
        beat = ShareGroupHeartbeatRequest(
            group_id=group, member_id="ann", member_epoch=0, subscribed_topic_names=["jobs"]
        )

        def joined() -> bool:
            answer = self.wire.call(beat, ShareGroupHeartbeatResponse)
            return answer.error_code == 0 and answer.assignment is not None

        wait_for(joined, "a member of the share group")
        member = ShareMember(self.wire, group, topic_id_of(self.wire, "jobs"), "ann", max_wait_ms=0)
        got = []
        wait_for(lambda: got.extend(member.acquire()) or got, "the records are acquired")
        assert got == [(0, 9, 1)], got
        result = member.acknowledge((0, 3, [ACCEPT]), (4, 4, [RELEASE]), (5, 5, [REJECT]))
        assert result.error_code == 0

    def change_settings(self) -> None:
        """Of a topic, by one value and by an element of a list; of the broker."""
        self.alter(TOPIC_RESOURCE, "trimmed", "cleanup.policy", APPEND, "compact")
        self.alter(TOPIC_RESOURCE, "trimmed", "retention.ms", SET, "86400000")
        self.alter(BROKER_RESOURCE, "", "log.retention.ms", SET, "259200000")

    def alter(self, kind: int, name: str, setting: str, operation: int, value: str) -> None:
        change = IncrementalAlterConfigsAlterableConfig(
            name=setting, config_operation=operation, value=value
        )
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = self.wire.call(request, IncrementalAlterConfigsResponse).responses
        assert answer.error_code == 0, answer.error_message

    def begin_move(self) -> None:
        """A partition is copied to the other log directory when the broker ends."""
        create_topic(self.wire, "moving")
        for number in range(3):
            assert produce(self.wire, "moving", batch(b"%d" % number * 600_000)).error_code == 0
        source = next(self.home.glob("*/moving-0")).parent.name
        target = self.home / ("logs-2" if source == "logs-1" else "logs-1")
        move = AlterReplicaLogDir(
            path=str(target), topics=[AlterReplicaLogDirTopic(name="moving", partitions=[0])]
        )
        request = AlterReplicaLogDirsRequest(dirs=[move])
        (topic,) = self.wire.call(request, AlterReplicaLogDirsResponse).results
        assert topic.partitions[0].error_code == 0
        wait_for(lambda: list(target.glob("moving-0.*-future")), "the copy has begun")


def make(home: Path, ending: str) -> None:
    maker = Maker(home)
    maker.write()
    if ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    maker.wire.close()
    maker.broker.stop()


def main() -> None:
    target = Path(sys.argv[1])
    for ending in ("stopped", "killed"):
        home = Path("/tmp/headrace-0.1.0") / ending
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        child = os.fork()
        if not child:
            make(home, ending)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        wanted = signal.SIGKILL if ending == "killed" else 0
        assert status == wanted, f"{ending}: the child ended with {status}"
        pack(home, target / f"{ending}.tar.xz")


if __name__ == "__main__":
    main()
