"""A leader with followers: which records are committed, and which replicas are in sync."""

from random import Random

import pytest

from headrace.clock import SystemClock
from headrace.cluster.topology import Partition
from headrace.protocol.errors import ErrorCode
from headrace.records.record import Record, build_batch
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.damage import Damage
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem

NOW_MS = 1_700_000_000_000
ALL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
LIVE = {1: 10, 2: 20, 3: 30}
MAX_LAG_S = 30.0


def led(partition: Partition = ALL, *, min_isr: int = 2, config: LogConfig | None = None) -> Leader:
    files = MemoryFileSystem()
    files.mkdir("/data")
    new_id = Random(1).randbytes
    logs = LogManager(["/data"], files, SystemClock(), new_id=lambda: new_id(16), node_id=1)
    logs.open()

    def open_log(_replica: Replica) -> Log:
        return logs.get_or_create("t", 0, b"t" * 16, config or LogConfig())

    return Leader(
        "t",
        b"t" * 16,
        0,
        partition,
        open_log,
        broker_id=1,
        min_isr=min_isr,
        high_watermark=0,
        now=0.0,
    )


def append(leader: Leader) -> int:
    batch = build_batch([Record(0, NOW_MS, None, b"value", ())])
    return leader.append(memoryview(bytearray(batch)), NOW_MS).last_offset + 1


def test_a_record_is_committed_when_the_slowest_in_sync_replica_has_it() -> None:
    leader = led()
    heard: list[ErrorCode] = []
    end = append(leader)
    leader.when_committed(end, heard.append)
    leader.fetched(2, 20, end, 0, now=1.0)
    assert (leader.high_watermark, heard) == (0, [])
    leader.fetched(3, 30, end, 0, now=1.0)
    assert (leader.high_watermark, heard) == (end, [ErrorCode.NONE])


def test_an_earlier_incarnation_of_a_follower_and_an_unknown_broker_do_not_count() -> None:
    leader = led()
    append(leader)
    leader.fetched(2, 20, 0, 0, now=1.0)
    assert not leader.fetched(2, 19, 1, 0, now=1.0)
    assert not leader.fetched(9, 90, 1, 0, now=1.0)
    assert leader.progress[2].log_end == 0


def test_a_wait_that_was_given_up_is_not_notified() -> None:
    """Methods too: each look-up makes another object, which is equal and not the same."""
    leader = led()
    heard: list[ErrorCode] = []
    end = append(leader)
    leader.when_committed(end, heard.append)
    leader.stop_waiting(heard.append)
    for id_ in (2, 3):
        leader.fetched(id_, LIVE[id_], end, 0, now=1.0)
    assert heard == []


def test_nothing_is_committed_while_too_few_replicas_are_in_sync() -> None:
    leader = led(ALL._replace(isr=(1,)))
    heard: list[ErrorCode] = []
    end = append(leader)
    assert not leader.enough_in_sync
    leader.when_committed(end, heard.append)
    assert leader.high_watermark == 0
    leader.partition_changed(ALL._replace(isr=(1, 2), partition_epoch=1), now=1.0)
    leader.fetched(2, 20, end, 0, now=1.0)
    assert heard == [ErrorCode.NONE]


def test_a_dead_follower_does_not_join_while_the_watermark_does_not_move() -> None:
    leader = led(ALL._replace(isr=(1,)))
    leader.fetched(2, 20, 0, 0, now=0.0)
    append(leader)
    assert leader.has_caught_up(2)  # by the watermark, which stands still
    assert leader.propose(LIVE, now=1.0, max_lag_s=MAX_LAG_S) is None


def test_a_silent_follower_with_all_records_does_not_lag_at_the_next_append() -> None:
    leader = led()
    for id_ in (2, 3):
        leader.fetched(id_, LIVE[id_], leader.log.log_end_offset, 0, now=0.0)
    assert leader.propose(LIVE, now=1_000.0, max_lag_s=MAX_LAG_S) is None
    append(leader)
    assert leader.propose(LIVE, now=1_015.0, max_lag_s=MAX_LAG_S) is None
    shrunk = leader.propose(LIVE, now=1_031.0, max_lag_s=MAX_LAG_S)
    assert shrunk is not None
    assert shrunk.ids == {1}


def test_a_joining_follower_counts_at_once_and_a_leaving_one_until_that_is_committed() -> None:
    leader = led(ALL._replace(isr=(1, 2)))
    leader.fetched(3, 30, leader.log.log_end_offset, 0, now=0.0)
    joining = leader.propose_joining([3], LIVE)
    assert joining is not None
    assert joining.ids == {1, 2, 3}
    end = append(leader)
    leader.fetched(2, 20, end, 0, now=1.0)
    assert leader.high_watermark == 0
    leader.fetched(3, 30, end, 0, now=1.0)
    assert leader.high_watermark == end
    leader.partition_changed(ALL._replace(partition_epoch=1), now=1.0)
    end = append(leader)
    leader.fetched(2, 20, end, 0, now=40.0)
    assert leader.propose(LIVE, now=40.0, max_lag_s=MAX_LAG_S) is not None
    assert leader.high_watermark == end - 1
    leader.partition_changed(ALL._replace(isr=(1, 2), partition_epoch=2), now=40.0)
    assert leader.high_watermark == end


def test_a_follower_does_not_join_with_an_epoch_that_the_metadata_lacks() -> None:
    leader = led(ALL._replace(isr=(1, 2)))
    leader.fetched(3, 31, leader.log.log_end_offset, 0, now=0.0)
    assert leader.propose_joining([3], LIVE) is None


def test_a_leader_whose_disk_failed_proposes_the_others() -> None:
    leader = led()
    proposal = leader.propose_resigning(LIVE)
    assert proposal is not None
    assert proposal.ids == {2, 3}
    assert led(ALL._replace(isr=(1,))).propose_resigning(LIVE) is None


def test_a_joining_follower_counts_although_the_leader_resigns() -> None:
    """The controller may have agreed to it: then that one may be elected."""
    leader = led(ALL._replace(isr=(1, 2)))
    end = append(leader)
    leader.fetched(3, 30, 0, 0, now=1.0)
    assert leader.propose_joining([3], LIVE) is not None
    resigning = leader.propose_resigning(LIVE)
    assert resigning is not None
    assert resigning.ids == {2}
    leader.fetched(2, 20, end, 0, now=1.0)
    assert leader.high_watermark == 0
    leader.refused(resigning)
    assert leader.high_watermark == 0
    leader.partition_changed(ALL._replace(isr=(1, 2), partition_epoch=9), now=1.0)
    assert leader.high_watermark == end


def test_a_leader_whose_log_is_offline_knows_its_partition_in_the_next_epoch() -> None:
    """What it proposes is refused for ever otherwise. Its log learns of the epoch in the end."""
    leader = led()
    append(leader)
    log = leader.log
    log.local.record_damage(Damage("a file", 0, 0, 1, "a reason"))
    log.take_damaged_offline()
    later = ALL._replace(isr=(1, 2), leader_epoch=1, partition_epoch=1)
    with pytest.raises(StorageError):
        leader.begin_leader_epoch(later, now=1.0)
    assert leader.partition == later
    proposal = leader.propose_resigning(LIVE)
    assert proposal is not None
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 1)
    assert log.serve_undamaged_records()
    leader.resume()
    assert log.latest_epoch == 1
    append(leader)


def test_unflushed_records_are_not_committed_if_a_flush_was_promised() -> None:
    leader = led(config=LogConfig(flush_messages=1))
    end = append(leader)
    for id_ in (2, 3):
        leader.fetched(id_, LIVE[id_], end, 0, now=1.0)
    assert leader.high_watermark == 0
    log = leader.log
    again = Leader(
        "t",
        b"t" * 16,
        0,
        ALL._replace(leader_epoch=1, partition_epoch=1),
        lambda _replica: log,
        broker_id=1,
        min_isr=2,
        high_watermark=0,
        now=1.0,
    )
    assert again.log is log
    for id_ in (2, 3):
        again.fetched(id_, LIVE[id_], end, 0, now=1.0)
    assert (again.high_watermark, again.flush_pending) == (0, True)
    log.flush()
    again.flushed(end)
    assert again.high_watermark == end


def test_nothing_is_committed_while_an_out_of_sync_replica_may_be_elected() -> None:
    leader = led(ALL._replace(isr=(1,), eligible_leaders=(2,)), min_isr=1)
    end = append(leader)
    assert (leader.enough_in_sync, leader.high_watermark) == (False, 0)
    leader.partition_changed(ALL._replace(isr=(1,), partition_epoch=1), now=1.0)
    assert (leader.enough_in_sync, leader.high_watermark) == (True, end)


def test_a_new_leader_knows_its_watermark_after_its_followers_have_fetched() -> None:
    before = led()
    end = append(before)
    for follower, life in ((2, 20), (3, 30)):
        before.fetched(follower, life, end, 0, now=1.0)
    assert before.knows_watermark
    after = Leader(
        "t",
        b"t" * 16,
        0,
        before.partition._replace(leader_epoch=1),
        lambda _replica: before.log,
        broker_id=1,
        min_isr=1,
        high_watermark=0,  # as a follower that has not heard of the commit yet
        now=2.0,
    )
    assert after.log.log_end_offset == end
    assert not after.knows_watermark
    after.fetched(2, 20, end, 0, now=3.0)
    assert not after.knows_watermark
    after.fetched(3, 30, end, 0, now=3.0)
    assert after.knows_watermark


def test_a_follower_is_out_of_sync_from_the_moment_when_it_leaves_the_in_sync_set() -> None:
    leader = led()
    assert leader.out_of_sync_followers(now=50.0) == []
    without_two = ALL._replace(isr=(1, 3), partition_epoch=1)
    leader.partition_changed(without_two, now=100.0)
    (out,) = leader.out_of_sync_followers(now=112.5)
    assert (out.broker_id, out.out_of_sync_s, out.since_takeover) == (2, 12.5, False)
    leader.partition_changed(without_two._replace(isr=(1,), partition_epoch=2), now=110.0)
    assert [each.out_of_sync_s for each in leader.out_of_sync_followers(now=112.5)] == [12.5, 2.5]
    leader.partition_changed(ALL._replace(partition_epoch=3), now=113.0)
    assert leader.out_of_sync_followers(now=114.0) == []


def test_a_follower_that_was_out_of_sync_before_this_leader_has_a_minimum_age() -> None:
    leader = led(ALL._replace(isr=(1, 3)))
    (out,) = leader.out_of_sync_followers(now=7.0)
    assert (out.out_of_sync_s, out.since_takeover, out.log_end) == (7.0, True, -1)
    append(leader)
    leader.fetched(2, 20, 0, 0, now=8.0)
    (out,) = leader.out_of_sync_followers(now=8.0)
    assert out.log_end == 0


def test_an_added_replica_is_out_of_sync_since_it_was_added() -> None:
    leader = led(Partition(replicas=(1, 2), isr=(1, 2), leader=1))
    leader.partition_changed(
        Partition(replicas=(1, 2, 3), isr=(1, 2), leader=1, partition_epoch=1), now=20.0
    )
    (out,) = leader.out_of_sync_followers(now=21.0)
    assert (out.broker_id, out.out_of_sync_s, out.since_takeover) == (3, 1.0, False)
