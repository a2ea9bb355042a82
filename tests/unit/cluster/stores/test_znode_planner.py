"""Large batches are split into writes that fit; a crash after any of them leaves a valid state."""

import json

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    ConfigChanged,
    ControllerElected,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.metadata_store import Elected, StoreError, TooLarge
from headrace.cluster.resources import topic_resource
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.multi_packing import WRITE_BYTES, WRITE_OPS, pack_steps
from headrace.cluster.stores.znode_planner import ZnodePlanner
from headrace.cluster.stores.zookeeper_client import Create, Op, SetData
from headrace.cluster.topology import Partition
from headrace.testing.simulated_znodes import ZnodeTree
from support.brokers.znode_tables import new_tree, read_tree

ELECTED = Elected(1, 7, 0)
TOPIC_ID = b"t" * 16
PARTITIONS = 10_000
STATE = Partition((1, 2, 3), (1, 2, 3), 1)
MOVED = Partition((1, 2, 3, 4), (1, 2, 3), 1, 0, 1, adding=(4,), removing=(1,))


def big_topic() -> TopicCreated:
    return TopicCreated("big", TOPIC_ID, (STATE,) * PARTITIONS)


def writes_of(tree: ZnodeTree, *records: MetadataRecord) -> list[list[Op]]:
    return pack_steps(ZnodePlanner(read_tree(tree), ELECTED).plan(records))


def size(write: list[Op]) -> int:
    return sum(len(op.path) + len(getattr(op, "data", b"")) for op in write)


def stored(tree: ZnodeTree) -> MetadataImage:
    return read_tree(tree).image()


@pytest.mark.slow
def test_each_write_of_a_topic_with_ten_thousand_partitions_leaves_a_valid_topic() -> None:
    tree = new_tree()
    writes = writes_of(tree, big_topic(), ConfigChanged(topic_resource("big"), "x", "1"))
    assert len(writes) > 10
    assert max(map(len, writes)) <= WRITE_OPS
    assert max(map(size, writes)) <= WRITE_BYTES
    before = 0
    for write in writes:
        tree.write(write, 0)
        image = stored(tree)
        partitions = image.topics["big"].partitions
        assert len(partitions) == PARTITIONS
        assert dict(image.config(topic_resource("big"))) == {"x": "1"}  # never without it
        ready = sum(partition == STATE for partition in partitions)
        new = sum(partition.partition_epoch == znodes.NEW_EPOCH for partition in partitions)
        assert ready + new == PARTITIONS
        assert ready >= before
        before = ready
    assert before == PARTITIONS


def test_after_a_crash_during_a_large_deletion_the_leftovers_are_removed() -> None:
    """Otherwise partitions without states would look new, and the topic would reappear."""
    tree = new_tree()
    for write in writes_of(tree, big_topic()):
        tree.write(write, 0)
    deletion = writes_of(tree, TopicDeleted(TOPIC_ID))
    assert len(deletion) > 10
    for write in deletion[:-3]:
        tree.write(write, 0)
        assert not stored(tree).topics
    assert "big" in tree.nodes[znode_paths.TOPICS].children
    for write in writes_of(tree, TopicCreated("big", b"n" * 16, (STATE,))):
        tree.write(write, 0)
    assert stored(tree).topics["big"].partitions == (STATE,)
    assert tree.nodes[znode_paths.partitions_path("big")].children == {"0"}


@pytest.mark.slow
def test_a_reassignment_of_a_large_topic_never_shows_a_partition_half_moved() -> None:
    """A partition's replicas and its in-sync set are in two znodes and change in one write."""
    tree = new_tree()
    for write in writes_of(tree, big_topic()):
        tree.write(write, 0)
    moves = [PartitionChanged(TOPIC_ID, index, MOVED) for index in range(PARTITIONS)]
    writes = writes_of(tree, *moves)
    assert len(writes) > 10
    assert max(map(size, writes)) <= WRITE_BYTES
    moved = 0
    for write in writes:
        tree.write(write, 0)
        partitions = stored(tree).topics["big"].partitions
        assert set(partitions) <= {STATE, MOVED}
        assert partitions.count(MOVED) > moved
        moved = partitions.count(MOVED)
    assert moved == PARTITIONS


def test_added_partitions_are_loaded_before_they_have_a_state() -> None:
    tree = new_tree()
    for write in writes_of(tree, TopicCreated("small", TOPIC_ID, (STATE,))):
        tree.write(write, 0)
    first, *rest = writes_of(tree, PartitionsAdded(TOPIC_ID, (STATE,) * 3_000))
    tree.write(first, 0)
    assert len(stored(tree).topics["small"].partitions) == 3_001
    for write in rest:
        tree.write(write, 0)
    assert set(stored(tree).topics["small"].partitions) == {STATE}


@pytest.mark.slow
def test_a_topic_too_large_for_a_znode_is_refused_before_anything_is_written() -> None:
    fine = TopicCreated("fine", b"f" * 16, (STATE,))
    huge = TopicCreated("huge", b"h" * 16, (STATE,) * 80_000)
    with pytest.raises(TooLarge, match=r"/brokers/topics/huge would need \d+ bytes"):
        writes_of(new_tree(), fine, huge)


def test_a_topic_and_its_configuration_appear_together() -> None:
    tree = new_tree()
    config = ConfigChanged(topic_resource("t"), "cleanup.policy", "compact")
    other = TopicCreated("other", b"o" * 16, (STATE,) * 1_000)
    writes = writes_of(tree, TopicCreated("t", TOPIC_ID, (STATE,)), other, config)
    paths = [op.path for op in writes[0]]
    assert {"/brokers/topics/t", "/config/topics/t"} <= set(paths)


def test_a_new_topic_does_not_inherit_a_leftover_configuration() -> None:
    tree = new_tree()
    tree.write([Create("/config/topics/t", b'{"version":1,"config":{"old":"1"}}')], 0)
    assert not stored(tree).configs
    for write in writes_of(tree, TopicCreated("t", TOPIC_ID, (STATE,))):
        tree.write(write, 0)
    assert not stored(tree).configs


def test_partitions_that_kafka_left_half_created_get_their_first_state() -> None:
    """Kafka writes a partition's znodes one by one; a crash may leave any of them."""
    tree = new_tree()
    document = znodes.write_topic(TOPIC_ID, [znodes.Assignment((1, 2))] * 2)
    tree.write([Create("/brokers/topics/t", document)], 0)
    for halfway in (0, 1):
        if halfway:
            tree.write([Create("/brokers/topics/t/partitions/1")], 0)
        (new, *_) = stored(tree).topics["t"].partitions[halfway:]
        assert (new.leader, new.isr, new.leader_epoch) == (-1, (), -1)
        state = Partition((1, 2), (1,), 1)
        for write in writes_of(tree, PartitionChanged(TOPIC_ID, halfway, state)):
            tree.write(write, 0)
        assert stored(tree).topics["t"].partitions[halfway] == state


def test_a_record_of_another_controllers_election_is_refused() -> None:
    with pytest.raises(StoreError, match="committed by"):
        writes_of(new_tree(), ControllerElected(2, 9))


def test_znodes_have_kafkas_paths_and_documents() -> None:
    """Paths and documents as Kafka 3.9 writes them, with Headrace's key added."""
    tree = new_tree()
    records = [TopicCreated("t", TOPIC_ID, (STATE._replace(eligible_leaders=(2,)),))]
    (write,) = writes_of(tree, *records)
    found = {op.path: op.data for op in write if isinstance(op, Create | SetData)}
    assert json.loads(found["/brokers/topics/t"]) == {
        "version": 3,
        "topic_id": "dHR0dHR0dHR0dHR0dHR0dA",
        "partitions": {"0": [1, 2, 3]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert json.loads(found["/brokers/topics/t/partitions/0/state"]) == {
        "controller_epoch": 7,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1, 2, 3],
        "partition_epoch": 0,
        "elr": [2],
    }


def test_znodes_written_by_kafka_are_read() -> None:
    tree = new_tree()
    tree.write(
        [
            Create(
                "/brokers/topics/k",
                b'{"partitions":{"0":[2,1]},"topic_id":"dHR0dHR0dHR0dHR0dHR0dA",'
                b'"adding_replicas":{},"removing_replicas":{},"version":3}',
            ),
            Create("/brokers/topics/k/partitions"),
            Create("/brokers/topics/k/partitions/0"),
            Create("/brokers/topics/k/partitions/0/state", b""),
            SetData(
                "/brokers/topics/k/partitions/0/state",
                b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[2]}',
            ),
            Create("/feature", b'{"features":{},"version":2,"status":1}'),
            Create(
                "/latest_producer_id_block",
                b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}',
            ),
            Create("/config/brokers/<default>", b'{"version":1,"config":{"a":"b"}}'),
        ],
        0,
    )
    image = stored(tree)
    assert image.partition("k", 0) == Partition((2, 1), (2,), 2, 3, 1)  # the znode's version
    assert image.next_producer_id == 2000
    registered = znodes.read_registration(
        0,
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://host:9092"],"jmx_port":-1,"features":{},"host":"host",'
        b'"timestamp":"1","port":9092,"version":5,"rack":"r"}',
        epoch=44,
    )
    assert registered.broker.endpoints[0][:3] == ("PLAINTEXT", "host", 9092)
    assert (registered.broker.epoch, registered.broker.rack) == (44, "r")
    assert registered.clean_shutdown_epoch is None
