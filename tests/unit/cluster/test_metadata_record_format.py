"""Metadata records are decoded as they were encoded."""

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_records import records_of
from headrace.cluster.metadata_record_format import UnknownRecord, decode, encode
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
from headrace.cluster.resources import CLUSTER_DEFAULT, topic_resource
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from support.brokers.security_records import SECRET, SECURITY_RECORDS, SECURITY_REMOVALS

TOPIC_ID = bytes(range(16))
PARTITION = Partition((1, 2, 3), (1, 2), 2, 7, 9, (3,), (4,), (1,))
BROKER = BrokerRegistration(
    2,
    2**40,
    (Endpoint("PLAINTEXT", "höst", 9092), Endpoint("X", "h", 1)),
    "r",
    TOPIC_ID,
    True,
    True,
    ("one", "two"),
)
EVERY_RECORD: list[MetadataRecord] = [
    ClusterNamed("abc"),
    ControllerElected(3, 8),
    BrokerRegistered(BROKER),
    BrokerRegistered(BrokerRegistration(1, 5, ())),
    BrokerFenced(2),
    BrokerLeaving(2),
    BrokerUnregistered(2),
    TopicCreated("t", TOPIC_ID, (PARTITION, PARTITION, Partition((1,), (1,), 1))),
    PartitionsAdded(TOPIC_ID, (PARTITION,)),
    PartitionChanged(TOPIC_ID, 1, PARTITION),
    LeaderRestarted(1),
    TopicDeleted(TOPIC_ID),
    ConfigChanged(topic_resource("t"), "retention.ms", "1"),
    ConfigChanged(CLUSTER_DEFAULT, "retention.ms", None),
    FeatureSet("group.version", 1),
    ProducerIdsReserved(2**50),
    *SECURITY_RECORDS,
    *SECURITY_REMOVALS,
]


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_a_record_is_decoded_as_it_was_encoded(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record


def test_every_type_of_record_is_covered() -> None:
    assert {type(record) for record in EVERY_RECORD} == set(MetadataRecord.__args__)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x63abc"])
def test_a_record_of_a_newer_controller_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownRecord):
        decode(data)


def test_a_snapshot_builds_the_same_image() -> None:
    image = MetadataImage().apply(
        [
            ClusterNamed("abc"),
            ControllerElected(1, 4),
            ProducerIdsReserved(3000),
            FeatureSet("group.version", 1),
            BrokerRegistered(BROKER),
            TopicCreated("t.x", TOPIC_ID, (PARTITION,)),
            TopicCreated("u", bytes(15) + b"\1", (PARTITION, PARTITION)),
            ConfigChanged(topic_resource("u"), "retention.ms", "1"),
            *SECURITY_RECORDS,
        ]
    )
    assert MetadataImage().apply(records_of(image)) == image


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_the_text_of_a_record_shows_no_secret(record: MetadataRecord) -> None:
    assert SECRET.decode() not in f"{record!r} {record}"
    assert SECRET.decode() not in repr(MetadataImage().apply(SECURITY_RECORDS))
