"""Leaders and followers over real sockets: copies, commits, the ISR, leader changes."""

import asyncio
import random
from pathlib import Path

import pytest

from headrace.broker.fetch.replica_selector import RACK_AWARE
from headrace.client.network.connection import ClientConnection
from headrace.cluster.topology import Partition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from headrace.records.record import Record, build_batch
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.tolerated_gaps import ToleratedGaps
from support.brokers.handmade_cluster import (
    DEADLINE_S,
    TOPIC_ID,
    HandmadeCluster,
    handmade_cluster,
    produce,
    produce_batch,
)

ALL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
QUICK_LAG = {"replica.lag.time.max.ms": "600", "replica.fetch.wait.max.ms": "100"}


def leader_of(cluster: HandmadeCluster, broker_id: int, index: int = 0) -> Leader:
    leader = cluster.brokers[broker_id].partitions.replica("t", index)
    assert isinstance(leader, Leader)
    return leader


def test_records_are_acknowledged_when_every_in_sync_replica_has_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL, ALL._replace(leader=2), min_insync_replicas="2")
            for at in range(20):
                answer = await cluster.produce(1, b"a%d" % at)
                assert (answer.error_code, answer.base_offset) == (0, at)
                assert len(cluster.held(2)) == len(cluster.held(3)) == len(cluster.held(1))
            answer = await cluster.produce(2, b"other", index=1)
            assert answer.error_code == 0
            await cluster.until_alike(1, 2, 3)
            await cluster.until_alike(1, 2, 3, index=1)

    asyncio.run(run())


def test_followers_learn_the_high_watermark_without_new_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            await cluster.produce(1, b"a", b"b")
            for broker_id in (2, 3):
                follower = cluster.brokers[broker_id].partitions.replica("t", 0)
                assert isinstance(follower, Follower)
                await cluster.until(lambda f=follower: f.high_watermark == 2, "the watermark")

    asyncio.run(run())


def test_a_broker_that_is_not_the_leader_returns_the_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster, cluster.client(2) as line:
            await cluster.create(ALL)
            request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[])
            answer = await cluster.produce(2, b"a")
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.current_leader.leader_id == 1
            empty = await line.request(request, ProduceResponse, version=12, timeout_s=5)
            assert empty.responses == []

    asyncio.run(run())


def test_an_offline_follower_blocks_commits_until_it_leaves_the_isr(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=QUICK_LAG) as cluster:
            await cluster.create(ALL, min_insync_replicas="2")
            await cluster.produce(1, b"a")
            await cluster.stop(3, clean=False)
            answer = await cluster.produce(1, b"b")
            assert answer.error_code == 0
            assert cluster.partition().isr == (1, 2)
            await cluster.start(3)
            await cluster.until(lambda: cluster.partition().isr == (1, 2, 3), "3 is back in sync")
            await cluster.until_alike(1, 2, 3)

    asyncio.run(run())


def test_records_are_rejected_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=QUICK_LAG) as cluster:
            await cluster.create(ALL, min_insync_replicas="2")
            await cluster.produce(1, b"a")
            for broker_id in (2, 3):
                await cluster.stop(broker_id, clean=False)
            waiting = await cluster.produce(1, b"b", timeout_ms=2_000)
            assert waiting.error_code in (
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                ErrorCode.REQUEST_TIMED_OUT,
            )
            await cluster.until(lambda: cluster.partition().isr == (1,), "2 and 3 leave the ISR")
            refused = await cluster.produce(1, b"c")
            assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            taken = await cluster.produce(1, b"d", acks=1)
            assert taken.error_code == 0
            leader = leader_of(cluster, 1)
            assert leader.high_watermark == 1
            await cluster.start(2)
            await cluster.until(lambda: leader.high_watermark == 3, "2 is back in sync")

    asyncio.run(run())


async def send_numbered(cluster: HandmadeCluster, broker_id: int, sequence: int) -> ErrorCode:
    """Sends one record of an idempotent producer; returns the error code."""
    record = Record(0, 1_700_000_000_000, None, b"%d" % sequence, ())
    batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
    async with cluster.client(broker_id) as line:
        answer = await produce_batch(line, batch)
    return ErrorCode(answer.error_code)


def test_batches_after_a_rejected_batch_wait_for_its_retry_at_a_new_leader(tmp_path: Path) -> None:
    """The producer knew of the new leader first: its first batch was rejected, its second not."""

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            assert await send_numbered(cluster, 1, 0) == ErrorCode.NONE
            assert await send_numbered(cluster, 2, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await cluster.lead(2)
            assert await send_numbered(cluster, 2, 2) == ErrorCode.NOT_ENOUGH_REPLICAS
            for sequence in (1, 2):
                assert await send_numbered(cluster, 2, sequence) == ErrorCode.NONE
            # Some seconds later a gap is a gap.
            leader_of(cluster, 2).gaps = ToleratedGaps()
            assert await send_numbered(cluster, 2, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    asyncio.run(run())


def test_batches_that_overtake_an_unanswered_batch_wait_for_its_retry(
    tmp_path: Path,
) -> None:
    """librdkafka gives up its wait for an answer long after the partition has another leader."""

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            assert await send_numbered(cluster, 1, 0) == ErrorCode.NONE
            await cluster.lead(2)
            leader_of(cluster, 2).gaps = ToleratedGaps()  # that was long ago
            assert await send_numbered(cluster, 2, 2) == ErrorCode.NOT_ENOUGH_REPLICAS
            for sequence in (1, 2):
                assert await send_numbered(cluster, 2, sequence) == ErrorCode.NONE
            # The leader knows the batches that it appended itself: a gap there is an error.
            assert await send_numbered(cluster, 2, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    asyncio.run(run())


def test_batches_after_a_batch_rejected_for_too_few_replicas_wait_for_its_retry(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL, min_insync_replicas="2")
            assert await send_numbered(cluster, 1, 0) == ErrorCode.NONE
            leader = leader_of(cluster, 1)
            leader.enough_in_sync = False
            assert await send_numbered(cluster, 1, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
            leader.enough_in_sync = True
            assert await send_numbered(cluster, 1, 2) == ErrorCode.NOT_ENOUGH_REPLICAS
            for sequence in (1, 2):
                assert await send_numbered(cluster, 1, sequence) == ErrorCode.NONE

    asyncio.run(run())


def test_a_new_producers_second_batch_waits_for_its_first(tmp_path: Path) -> None:
    """The first batch arrived before the leader knew of its leadership and must stay first."""

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            assert await send_numbered(cluster, 1, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
            await cluster.lead(2)
            assert await send_numbered(cluster, 2, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
            for sequence in (0, 1, 2):
                assert await send_numbered(cluster, 2, sequence) == ErrorCode.NONE

    asyncio.run(run())


def test_a_producer_whose_first_batches_are_gone_waits_only_seconds(tmp_path: Path) -> None:
    """Its state may have expired: then no earlier batch is missing (KIP-360)."""

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            assert await send_numbered(cluster, 1, 5) == ErrorCode.NOT_ENOUGH_REPLICAS
            leader_of(cluster, 1).gaps.starts_doubted_until = 0
            assert await send_numbered(cluster, 1, 5) == ErrorCode.NONE

    asyncio.run(run())


def test_a_sequence_gap_at_the_first_leader_is_rejected_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            assert await send_numbered(cluster, 1, 0) == ErrorCode.NONE
            assert await send_numbered(cluster, 1, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    asyncio.run(run())


def test_a_produce_request_that_is_not_committed_in_time_times_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL)
            await cluster.stop(3, clean=False)
            answer = await cluster.produce(1, b"a", timeout_ms=200)
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(run())


def test_waiting_producers_get_an_error_on_leader_change_and_no_committed_record_is_lost(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL, min_insync_replicas="2")
            await cluster.produce(1, b"committed")
            await cluster.stop(3, clean=False)
            waiting = asyncio.create_task(cluster.produce(1, b"waits"))
            await cluster.until(lambda: len(cluster.held(2)) == len(cluster.held(1)), "2 has it")
            await cluster.lead(2, isr=(2,))
            answer = await waiting
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.current_leader.leader_id == 2
            await cluster.until(lambda: leader_of(cluster, 2).enough_in_sync, "1 follows")
            assert (await cluster.produce(2, b"next")).error_code == 0
            await cluster.until_alike(1, 2)

    asyncio.run(run())


def test_a_returning_leader_truncates_its_unreplicated_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=QUICK_LAG) as cluster:
            await cluster.create(ALL)
            await cluster.produce(1, b"shared")
            await cluster.stop(2, clean=False)
            await cluster.stop(3, clean=False)
            assert (await cluster.produce(1, b"only here", acks=1)).error_code == 0
            alone = cluster.held(1)
            await cluster.stop(1)
            for broker_id in (2, 3):
                await cluster.start(broker_id)
            await cluster.lead(2, isr=(2, 3))
            assert (await cluster.produce(2, b"instead")).error_code == 0
            await cluster.start(1)
            await cluster.until_alike(1, 2, 3)
            assert cluster.held(1) != alone
            await cluster.until(lambda: cluster.partition().isr == (1, 2, 3), "all in sync")

    asyncio.run(run())


def test_a_follower_behind_the_log_start_resumes_at_the_log_start(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=QUICK_LAG) as cluster:
            await cluster.create(ALL)
            await cluster.produce(1, b"a")
            await cluster.stop(3, clean=False)
            for _ in range(3):
                assert (await cluster.produce(1, b"b")).error_code == 0
            leader = leader_of(cluster, 1)
            leader.log.delete_before(3)
            leader.interrupt()
            await cluster.start(3)
            await cluster.until_alike(1, 3)
            follower = cluster.brokers[3].partitions.replica("t", 0)
            assert follower is not None
            assert follower.log.log_start_offset == 3
            second = cluster.brokers[2].partitions.replica("t", 0)
            assert second is not None
            await cluster.until(lambda: second.log.log_start_offset == 3, "2 drops it too")

    asyncio.run(run())


def test_records_that_require_a_flush_are_acknowledged_when_all_replicas_have_flushed(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(ALL, flush_messages="1")
            for at in range(5):
                answer = await cluster.produce(1, b"a%d" % at)
                assert (answer.error_code, answer.base_offset) == (0, at)
                for broker_id in (1, 2, 3):
                    replica = cluster.brokers[broker_id].partitions.replica("t", 0)
                    assert replica is not None
                    assert replica.log.recovery_point == at + 1

    asyncio.run(run())


def test_many_partitions_are_copied_from_every_broker(tmp_path: Path) -> None:
    count = 600  # more than one fetch names

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster:
            await cluster.create(*(ALL._replace(leader=1 + at % 3) for at in range(count)))
            async with cluster.client(1) as line:
                for at in range(0, count, 60):
                    assert (await produce(line, b"x", index=at)).error_code == 0
            for at in range(0, count, 60):
                await cluster.until_alike(1, 2, 3, index=at)

    asyncio.run(run())


def test_delete_records_is_answered_when_every_replica_has_deleted_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster, cluster.client(1) as line:
            await cluster.create(ALL)
            for _ in range(5):
                assert (await cluster.produce(1, b"a")).error_code == 0
            answer = await line.request(
                delete_before(3), DeleteRecordsResponse, version=2, timeout_s=20
            )
            result = answer.topics[0].partitions[0]
            assert (result.error_code, result.low_watermark) == (0, 3)
            for broker_id in (1, 2, 3):
                replica = cluster.brokers[broker_id].partitions.replica("t", 0)
                assert replica is not None
                assert replica.log.log_start_offset == 3
            await cluster.stop(3, clean=False)
            answer = await line.request(
                delete_before(4, timeout_ms=300), DeleteRecordsResponse, version=2, timeout_s=20
            )
            result = answer.topics[0].partitions[0]
            assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert result.low_watermark == 3

    asyncio.run(run())


def delete_before(offset: int, timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(
        timeout_ms=timeout_ms, topics=[DeleteRecordsTopic(name="t", partitions=[partition])]
    )


def fetch_from(offset: int, *, rack: str = "", epoch: int = -1) -> FetchRequest:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        max_wait_ms=200,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        rack_id=rack,
    )


def test_a_consumer_is_redirected_to_a_replica_in_its_rack_and_reads_there(tmp_path: Path) -> None:
    settings = {"replica.selector.class": RACK_AWARE}

    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=settings, racks=True) as cluster:
            await cluster.create(ALL)
            await cluster.produce(1, b"a", b"b")
            follower = cluster.brokers[3].partitions.replica("t", 0)
            assert follower is not None
            await cluster.until(lambda: follower.high_watermark == 2, "the watermark")
            async with cluster.client(1) as line:
                sent_on = await fetch(line, fetch_from(0, rack="rack-3"))
                assert (sent_on.preferred_read_replica, sent_on.records) == (3, b"")
                for rack in ("rack-1", "elsewhere", ""):
                    stays = await fetch(line, fetch_from(0, rack=rack))
                    assert stays.preferred_read_replica == -1
                    assert stays.records
                past = await fetch(line, fetch_from(3, rack="rack-3"))
                assert past.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            async with cluster.client(3) as line:
                read = await fetch(line, fetch_from(0, rack="rack-3", epoch=0))
                assert bytes(read.records or b"") == cluster.held(1)
                assert read.high_watermark == 2
                fenced = await fetch(line, fetch_from(0, rack="rack-3", epoch=1))
                assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
                # A follower may have lost its log: only leaders return OFFSET_OUT_OF_RANGE.
                past = await fetch(line, fetch_from(3, rack="rack-3"))
                assert past.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
                unasked = await fetch(line, fetch_from(0))
                assert unasked.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert unasked.current_leader.leader_id == 1

    asyncio.run(run())


def test_an_out_of_sync_follower_redirects_consumers_at_its_log_end_to_the_leader(
    tmp_path: Path,
) -> None:
    """At the follower they could wait an unknown time for new records."""

    async def run() -> None:
        async with handmade_cluster(tmp_path, racks=True) as cluster, cluster.client(3) as line:
            await cluster.create(ALL)
            await cluster.produce(1, b"a")
            follower = cluster.brokers[3].partitions.replica("t", 0)
            assert follower is not None
            await cluster.until(lambda: follower.high_watermark == 1, "the watermark")
            await cluster.change(ALL._replace(isr=(1, 2), partition_epoch=1))
            assert (await fetch(line, fetch_from(0, rack="rack-3"))).records
            cluster.brokers[3].replication.stop()  # before it can join again
            await cluster.change(ALL._replace(isr=(1, 2), partition_epoch=9))
            at_end = await fetch(line, fetch_from(1, rack="rack-3"))
            assert at_end.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await fetch(line, fetch_from(0, rack="rack-3"))).records

    asyncio.run(run())


def test_a_follower_without_contact_to_its_leader_redirects_consumers_to_it(tmp_path: Path) -> None:
    """Such a follower would not learn that it is out of sync either."""

    async def run() -> None:
        settings = {"replica.lag.time.max.ms": "500"}
        async with handmade_cluster(tmp_path, settings=settings) as cluster:
            await cluster.create(ALL)
            await cluster.produce(1, b"a")
            follower = cluster.brokers[3].partitions.replica("t", 0)
            assert follower is not None
            await cluster.until(lambda: follower.high_watermark == 1, "the watermark")
            cluster.hold = True
            async with cluster.client(3) as line:
                assert not (await fetch(line, fetch_from(1, rack="here"))).error_code
                cluster.brokers[3].replication.stop()
                async with asyncio.timeout(DEADLINE_S):
                    while not (await fetch(line, fetch_from(1, rack="here"))).error_code:
                        pass
                answer = await fetch(line, fetch_from(1, rack="here"))
                assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE

    asyncio.run(run())


def test_a_follower_does_not_report_uncopied_offsets_as_divergence(tmp_path: Path) -> None:
    """A consumer that sends its epoch (KIP-320) would otherwise go back."""

    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster, cluster.client(3) as line:
            await cluster.create(ALL)
            await cluster.produce(1, b"a")
            await cluster.until(lambda: cluster.held(3) == cluster.held(1), "3 has all")
            for offset, epoch in ((2, 0), (2, 1)):
                request = fetch_from(offset, rack="here")
                request.topics[0].partitions[0].last_fetched_epoch = epoch
                answer = await fetch(line, request)
                assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
                assert answer.diverging_epoch.epoch == -1

    asyncio.run(run())


def test_a_consumer_at_a_follower_is_woken_when_the_high_watermark_advances(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster, cluster.client(3) as line:
            await cluster.create(ALL)
            await cluster.produce(1, b"a")
            request = fetch_from(1, rack="here")
            request.max_wait_ms = 10_000
            waiting = asyncio.create_task(fetch(line, request))
            await cluster.produce(1, b"b")
            started = asyncio.get_running_loop().time()
            assert (await waiting).records
            assert asyncio.get_running_loop().time() - started < 9

    asyncio.run(run())


def test_a_fetch_from_the_wrong_broker_returns_the_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with handmade_cluster(tmp_path) as cluster, cluster.client(3) as line:
            await cluster.create(ALL._replace(replicas=(1, 2), isr=(1, 2)))
            answer = await line.request(
                fetch_from(0), FetchResponse, version=17, timeout_s=DEADLINE_S
            )
            data = answer.responses[0].partitions[0]
            assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert data.current_leader.leader_id == 1
            endpoint = answer.node_endpoints[0]
            assert (endpoint.node_id, endpoint.port) == (1, cluster.addresses[1].port)

    asyncio.run(run())


async def fetch(line: ClientConnection, request: FetchRequest) -> FetchPartitionData:
    answer = await line.request(request, FetchResponse, version=17, timeout_s=DEADLINE_S)
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_reassigned_replica_is_copied_within_the_throttle(tmp_path: Path, side: str) -> None:
    """In-sync replicas are not throttled."""
    settings = {f"{side}.replication.throttled.rate": "100000", "replica.fetch.max.bytes": "50000"}
    held = {f"{side}_replication_throttled_replicas": "*"}

    async def run() -> None:
        async with handmade_cluster(tmp_path, settings=settings) as cluster:
            loop = asyncio.get_running_loop()
            await cluster.create(ALL._replace(replicas=(1, 2), isr=(1, 2)), **held)
            started = loop.time()
            for _ in range(10):
                answer = await cluster.produce(1, random.randbytes(40_000))
                assert answer.error_code == 0
            in_sync_s = loop.time() - started
            started = loop.time()
            await cluster.change(
                cluster.partition()._replace(replicas=(1, 2, 3), partition_epoch=1, adding=(3,))
            )
            await cluster.until(lambda: cluster.partition().isr == (1, 2, 3), "3 is in sync")
            assert loop.time() - started > max(1.5, in_sync_s)
            await cluster.until_alike(1, 2, 3)

    asyncio.run(run())
