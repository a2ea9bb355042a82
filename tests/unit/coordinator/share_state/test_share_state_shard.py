"""What a shard of `__share_group_state` promises."""

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import TopicCreated, TopicDeleted
from headrace.cluster.topology import Partition
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.share_state.share_state_shard import (
    PruneLog,
    ReadState,
    ShareStateConfig,
    ShareStateShard,
    StateChange,
    StateSummary,
)
from headrace.coordinator.share_state.state_batches import combine
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.share.record_state import RecordState, StateBatch
from support.groups.shards import ShardDriver

TOPIC = bytes(range(16))
OTHER = bytes(range(16, 32))
KEY = SharePartitionKey("g", TOPIC, 0)
AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED


class Rig:
    """A shard with its log and a cluster of two topics."""

    def __init__(self, **config: int) -> None:
        partition = Partition(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
        self.image = MetadataImage().apply(
            [TopicCreated("t", TOPIC, (partition,)), TopicCreated("o", OTHER, (partition,))]
        )
        self.driver = ShardDriver(
            lambda: ShareStateShard(0, lambda: self.image, ShareStateConfig(**config))
        )

    def initialize(self, key: SharePartitionKey = KEY, *, epoch: int = 1, start: int = -1) -> None:
        self.driver.run(lambda s, now: s.initialize(key, epoch, start, now))

    def read(self, *, leader_epoch: int = 0) -> ReadState:
        return self.driver.run(lambda s, now: s.read(KEY, leader_epoch, now))

    def write(
        self,
        *batches: StateBatch,
        start: int = 0,
        count: int = 0,
        epoch: int = 1,
        leader_epoch: int = 0,
        key: SharePartitionKey = KEY,
    ) -> None:
        change = StateChange(epoch, leader_epoch, start, count, batches)
        self.driver.run(lambda s, now: s.write(key, change, now))

    def summary(self, key: SharePartitionKey = KEY) -> StateSummary:
        return self.driver.run(lambda s, now: s.summary(key))


def code_of(error: pytest.ExceptionInfo[CoordinatorError]) -> ErrorCode:
    return error.value.code


def test_a_state_must_be_started_before_it_is_used() -> None:
    rig = Rig()
    with pytest.raises(CoordinatorError) as refused:
        rig.read()
    assert code_of(refused) is ErrorCode.INVALID_REQUEST
    with pytest.raises(CoordinatorError) as refused:
        rig.write()
    assert code_of(refused) is ErrorCode.INVALID_REQUEST
    assert rig.summary() == StateSummary(start_offset=-1)


def test_what_was_written_is_read_also_after_a_restart() -> None:
    rig = Rig()
    rig.initialize(start=10)
    rig.write(StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 19, AVAILABLE, 1), start=10)
    rig.write(StateBatch(15, 16, ACKNOWLEDGED, 2), start=15, count=2)
    expected = ReadState(
        1, 15, (StateBatch(15, 16, ACKNOWLEDGED, 2), StateBatch(17, 19, AVAILABLE, 1))
    )
    assert rig.read() == expected
    rig.driver.restart()
    assert rig.read() == expected
    assert rig.summary() == StateSummary(1, 0, 15, 2, first_unfinished=17)


def test_an_older_leader_is_refused() -> None:
    rig = Rig()
    rig.initialize()
    rig.read(leader_epoch=5)
    for _ in range(2):
        with pytest.raises(CoordinatorError) as refused:
            rig.write(leader_epoch=4)
        assert code_of(refused) is ErrorCode.FENCED_LEADER_EPOCH
        with pytest.raises(CoordinatorError) as refused:
            rig.read(leader_epoch=4)
        assert code_of(refused) is ErrorCode.FENCED_LEADER_EPOCH
        rig.driver.restart()
    rig.write(leader_epoch=5)


def test_a_reinitialized_state_fences_writers_of_the_old_one() -> None:
    rig = Rig()
    rig.initialize(epoch=1)
    rig.write(StateBatch(0, 4, ACKNOWLEDGED, 1))
    rig.initialize(epoch=2, start=3)
    assert rig.read() == ReadState(2, 3, ())
    with pytest.raises(CoordinatorError) as refused:
        rig.write(epoch=1)
    assert code_of(refused) is ErrorCode.FENCED_STATE_EPOCH
    with pytest.raises(CoordinatorError) as refused:
        rig.initialize(epoch=1)
    assert code_of(refused) is ErrorCode.FENCED_STATE_EPOCH


def test_a_deleted_state_is_gone_and_deleting_twice_is_fine() -> None:
    rig = Rig()
    rig.initialize(start=3)
    for _ in range(2):
        rig.driver.run(lambda s, now: s.delete(KEY))
        assert rig.summary().start_offset == -1
    rig.driver.restart()
    assert rig.summary().start_offset == -1


def test_unknown_topics_and_partitions_are_refused() -> None:
    rig = Rig()
    for key, expected in (
        (SharePartitionKey("g", bytes(16), 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SharePartitionKey("g", TOPIC, 7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SharePartitionKey("g", TOPIC, -1), ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(CoordinatorError) as refused:
            rig.initialize(key)
        assert code_of(refused) is expected


def test_the_state_of_a_deleted_topic_is_deleted() -> None:
    rig = Rig()
    rig.initialize()
    other = SharePartitionKey("g", OTHER, 0)
    rig.initialize(other, start=4)
    rig.image = rig.image.apply([TopicDeleted(TOPIC)])
    rig.driver.start(lambda s, now: s.metadata_changed(["t"], now))
    assert rig.driver.log[-1][1] is None
    assert rig.summary(other).start_offset == 4
    with pytest.raises(CoordinatorError) as refused:
        rig.summary()
    assert code_of(refused) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_updates_end_in_a_snapshot_and_the_log_before_it_can_go() -> None:
    rig = Rig(updates_per_snapshot=3)
    rig.initialize()
    for offset in range(5):
        rig.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    before = rig.read()
    rig.driver.advance(300_000)
    [prune] = [effect for effect in rig.driver.effects if isinstance(effect, PruneLog)]
    assert prune.offset >= 4
    rig.driver.log[: prune.offset] = []
    rig.driver.restart()
    assert rig.read() == before == ReadState(1, 0, (StateBatch(0, 4, ACKNOWLEDGED, 1),))


def test_a_state_without_writes_does_not_block_pruning() -> None:
    rig = Rig(updates_per_snapshot=1, prune_interval_ms=600_000)
    rig.initialize(SharePartitionKey("quiet", TOPIC, 0), start=7)
    rig.initialize()
    for offset in range(20):
        rig.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    rig.driver.advance(600_000)
    prunes = [effect.offset for effect in rig.driver.effects if isinstance(effect, PruneLog)]
    assert prunes[-1] > 20
    assert rig.summary(SharePartitionKey("quiet", TOPIC, 0)).start_offset == 7


def test_the_key_of_a_share_partition_is_what_find_coordinator_expects() -> None:
    assert KEY.coordinator_key == "g:AAECAwQFBgcICQoLDA0ODw:0"


@pytest.mark.parametrize(
    ("batches", "start", "expected"),
    [
        ([(0, 9, 0, 1), (3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(3, 5, 2, 1), (0, 9, 0, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 4, 2, 1), (5, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1), (5, 9, 2, 2)], 3, [(3, 4, 2, 1), (5, 9, 2, 2)]),
        ([(0, 4, 0, 3), (2, 9, 2, 1)], 0, [(0, 4, 0, 3), (5, 9, 2, 1)]),
        ([(0, 4, 2, 1)], 5, []),
        ([(5, 4, 2, 1)], 0, []),
        ([(0, 4, 2, 1), (7, 9, 2, 1)], -1, [(0, 4, 2, 1), (7, 9, 2, 1)]),
    ],
)
def test_batches_are_put_together_as_kafka_does(
    batches: list[tuple[int, int, int, int]],
    start: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    combined = combine([StateBatch(a, b, RecordState(c), d) for a, b, c, d in batches], start)
    assert [tuple(batch) for batch in combined] == expected
