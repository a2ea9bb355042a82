"""ZooKeeper's znodes hold the same image as the controller's records.

A crash may stop after any write of a batch; the znodes then hold a valid image.
"""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.image import ImageError, MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.metadata_store import Elected
from headrace.cluster.resources import ConfigResource, ConfigResourceType, topic_resource
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.multi_packing import pack_steps
from headrace.cluster.stores.znode_planner import ZnodePlanner
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from headrace.testing.simulated_znodes import ZnodeTree
from support.brokers.security_records import SECURITY_TYPES, security_record_for
from support.brokers.znode_tables import new_tree, read_tree

ELECTED = Elected(1, 7, 0)

BROKER_IDS = st.integers(0, 2**31 - 1)
SOME_IDS = st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple)
REPLICAS = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)
EPOCHS = st.integers(0, 2**31 - 1)
PARTITIONS = st.builds(
    Partition, REPLICAS, SOME_IDS, st.integers(-1, 9), EPOCHS, EPOCHS, SOME_IDS, SOME_IDS, SOME_IDS
)
PARTITION_LISTS = st.lists(PARTITIONS, min_size=1, max_size=6).map(tuple)
HOSTS = st.one_of(st.sampled_from(["localhost", "::1", "10.0.0.1", ""]), st.from_regex("[a-z.]+"))
ENDPOINTS = st.lists(
    st.builds(
        Endpoint,
        st.sampled_from(["PLAINTEXT", "SSL", "INTERNAL", "A-B"]),
        HOSTS,
        st.integers(0, 65535),
        st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    ),
    max_size=3,
    unique_by=lambda endpoint: endpoint.listener,
).map(tuple)
BROKERS = st.builds(
    BrokerRegistration,
    st.integers(0, 4),
    st.integers(0, 2**63 - 1),
    ENDPOINTS,
    st.none() | st.text(),
    st.binary(min_size=16, max_size=16),
    st.booleans(),
    st.booleans(),
)
TOPIC_NAMES = st.sampled_from(["a", "b.c", "__consumer_offsets"])
TEXTS = st.text(max_size=5)


def configs(topics: list[str]) -> st.SearchStrategy[ConfigResource]:
    others = st.builds(
        ConfigResource,
        st.sampled_from([t for t in znode_paths.CONFIG_TYPES if t is not ConfigResourceType.TOPIC]),
        st.one_of(st.sampled_from(["", "1", ".", "..", "a/b", "<x>"]), TEXTS),
    ).filter(lambda resource: resource.name != znode_paths.DEFAULT_ENTITY)
    return st.one_of(others, st.sampled_from(topics).map(topic_resource)) if topics else others


def record_for(draw: st.DrawFn, image: MetadataImage) -> MetadataRecord | None:
    """A record that fits the image, of any type; None where the type has nothing to refer to."""
    kind = draw(st.sampled_from(get_args(MetadataRecord)))
    topics = list(image.topics.values())
    topic = draw(st.sampled_from(topics)) if topics else None
    broker_id = draw(st.sampled_from(sorted(image.brokers))) if image.brokers else None
    if kind in SECURITY_TYPES:
        return security_record_for(draw, image, kind)
    if kind in (BrokerFenced, BrokerLeaving, BrokerUnregistered):
        return None if broker_id is None else kind(broker_id)
    if kind in (PartitionsAdded, PartitionChanged, TopicDeleted) and topic is None:
        return None
    if kind is TopicCreated:
        name = draw(TOPIC_NAMES)
        topic_id = draw(st.binary(min_size=16, max_size=16))
        if name in image.topics or topic_id in image.topics_by_id:
            return None
        return TopicCreated(name, topic_id, draw(PARTITION_LISTS))
    if kind is ConfigChanged:
        resource = draw(configs(sorted(image.topics)))
        return ConfigChanged(resource, draw(st.sampled_from(["x", "y"])), draw(st.none() | TEXTS))
    if kind is PartitionChanged:
        assert topic is not None
        index = draw(st.integers(0, len(topic.partitions) - 1))
        return PartitionChanged(topic.topic_id, index, draw(PARTITIONS))
    made: dict[type, st.SearchStrategy[MetadataRecord]] = {
        ClusterNamed: st.just(ClusterNamed(image.cluster_id or "c-1")),
        ControllerElected: st.just(ControllerElected(1, 7)),
        BrokerRegistered: st.builds(BrokerRegistered, BROKERS),
        LeaderRestarted: st.builds(LeaderRestarted, st.integers(0, 9)),
        FeatureSet: st.builds(FeatureSet, st.sampled_from(["f", "g"]), st.integers(0, 3)),
        ProducerIdsReserved: st.builds(ProducerIdsReserved, st.integers(0, 2**63 - 1)),
    }
    if topic is not None:
        made[PartitionsAdded] = st.builds(PartitionsAdded, st.just(topic.topic_id), PARTITION_LISTS)
        made[TopicDeleted] = st.just(TopicDeleted(topic.topic_id))
    return draw(made[kind])


@st.composite
def batches(draw: st.DrawFn) -> list[list[MetadataRecord]]:
    image = MetadataImage()
    found: list[list[MetadataRecord]] = []
    for _ in range(draw(st.integers(1, 4))):
        batch: list[MetadataRecord] = []
        for _ in range(draw(st.integers(1, 5))):
            record = record_for(draw, image)
            if record is not None:
                batch.append(record)
                image = image.apply([record])
        found.append(batch)
    return found


def same(stored: MetadataImage, applied: MetadataImage) -> bool:
    """Equal but for the version and the controller, which elections write."""
    skipped = {"version", "controller_id", "controller_epoch"}
    fields = [name for name in MetadataImage.__slots__ if name not in skipped]
    return all(getattr(stored, name) == getattr(applied, name) for name in fields)


def check_valid(tree: ZnodeTree, before: MetadataImage) -> None:
    """It can be read; each partition has a state, or never had one: no deletion is half seen."""
    image = read_tree(tree).image()
    for topic in image.topics.values():
        assert topic.partitions
        was = before.topics_by_id.get(topic.topic_id)
        for index, partition in enumerate(topic.partitions):
            assert partition.replicas
            if partition.partition_epoch == znodes.NEW_EPOCH:
                assert (partition.leader, partition.isr) == (-1, ())
                earlier = was.partition(index) if was else None
                assert earlier is None or earlier.partition_epoch == znodes.NEW_EPOCH


@settings(deadline=None, max_examples=40)
@given(batches(), st.integers(4, 12), st.integers(300, 4000))
def test_znodes_hold_the_image_and_every_prefix_of_writes_is_valid(
    found: list[list[MetadataRecord]], write_ops: int, write_bytes: int
) -> None:
    tree = new_tree()
    image = MetadataImage()
    stored = read_tree(tree)
    for batch in found:
        plan = ZnodePlanner(stored, ELECTED).plan(batch)
        for write in pack_steps(plan, write_ops=write_ops, write_bytes=write_bytes):
            tree.write(write, session_id=0)
            check_valid(tree, image)
        image = image.apply(batch)
        anew = read_tree(tree)
        assert same(anew.image(), image)
        assert same(stored.image(), image)  # the writer's view


@settings(deadline=None, max_examples=40)
@given(batches(), st.integers(4, 8), st.data())
def test_a_new_controller_continues_from_any_interrupted_write(
    found: list[list[MetadataRecord]], write_ops: int, data: st.DataObject
) -> None:
    """Leftovers of a half-deleted topic do not block later writes."""
    tree = new_tree()
    for batch in found:
        # Some records do not apply after the interruption; a controller would decide again.
        before = read_tree(tree).image()
        records = fitting(before, batch)
        writes = pack_steps(
            ZnodePlanner(read_tree(tree), ELECTED).plan(records), write_ops=write_ops
        )
        for write in writes[: data.draw(st.integers(0, len(writes)))]:
            tree.write(write, session_id=0)
            check_valid(tree, before)
    name = data.draw(TOPIC_NAMES)
    stored = read_tree(tree)
    last: list[MetadataRecord] = [
        TopicDeleted(topic.topic_id) for topic in stored.image().topics.values()
    ]
    last.append(TopicCreated(name, b"n" * 16, (Partition((1,), (1,), 1),)))
    for write in pack_steps(ZnodePlanner(stored, ELECTED).plan(last), write_ops=write_ops):
        tree.write(write, session_id=0)
    assert set(read_tree(tree).image().topics) == {name}
    assert tree.nodes[znode_paths.TOPICS].children == {name}  # and no leftovers remain


def fitting(image: MetadataImage, batch: list[MetadataRecord]) -> list[MetadataRecord]:
    """The records that can be applied to the image, one after the other."""
    found: list[MetadataRecord] = []
    for record in batch:
        try:
            after = image.apply([record])
        except (ImageError, KeyError):
            continue
        if not _orphan(record, image):
            found.append(record)
            image = after
    return found


def _orphan(record: MetadataRecord, image: MetadataImage) -> bool:
    return (
        isinstance(record, ConfigChanged)
        and record.resource.type is ConfigResourceType.TOPIC
        and record.resource.name not in image.topics
    )
