"""The difference between two images, applied to the first, gives the second."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    MetadataRecord,
    ProducerIdsReserved,
    TopicCreated,
)
from headrace.cluster.resources import CLUSTER_DEFAULT, topic_resource
from headrace.cluster.topology import BrokerRegistration, Partition
from support.brokers.security_records import SECURITY_TYPES, security_record_for

NAMES = ("orders", "payments", "refunds")


@st.composite
def images(draw: st.DrawFn, least: int = 1, most: int = 3) -> MetadataImage:
    records: list[MetadataRecord] = [
        ClusterNamed(draw(st.sampled_from(["one", "two"]))),
        ControllerElected(draw(st.integers(1, 3)), draw(st.integers(1, 5))),
        ProducerIdsReserved(draw(st.integers(0, 3)) * 1000),
    ]
    for id_ in draw(st.sets(st.integers(1, 4))):
        fenced = draw(st.booleans())
        records.append(
            BrokerRegistered(BrokerRegistration(id_, draw(st.integers(1, 3)), (), fenced=fenced))
        )
    for name in draw(st.sets(st.sampled_from(NAMES))):
        # A small choice of ids: the same topic again, or another of the same name.
        topic_id = (name[:4] + draw(st.sampled_from("ab"))).encode().ljust(16)
        epochs = draw(st.lists(st.integers(0, 2), min_size=least, max_size=most))
        partitions = tuple(Partition((1, 2), (1,), 1, epoch, epoch) for epoch in epochs)
        records.append(TopicCreated(name, topic_id, partitions))
        for config in draw(st.sets(st.sampled_from(["retention.ms", "segment.bytes"]))):
            value = draw(st.sampled_from(["1", "2"]))
            records.append(ConfigChanged(topic_resource(name), config, value))
    if draw(st.booleans()):
        value = draw(st.sampled_from(["1", "2"]))
        records.append(ConfigChanged(CLUSTER_DEFAULT, "min.insync.replicas", value))
    if draw(st.booleans()):
        records.append(FeatureSet("metadata.version", draw(st.integers(1, 3))))
    image = MetadataImage().apply(records)
    for kind in draw(st.lists(st.sampled_from(SECURITY_TYPES), max_size=6)):
        record = security_record_for(draw, image, kind)
        if record is not None:
            image = image.apply([record])
    return image.at_version(1)


# A topic grows and never shrinks.
@given(images(1, 2), images(2, 4))
def test_applying_the_differences_to_one_image_gives_the_other(
    before: MetadataImage, after: MetadataImage
) -> None:
    reached = before.apply(tuple(records_between(before, after)))
    assert reached.at_version(0) == after.at_version(0)


@given(images())
def test_an_image_does_not_differ_from_itself(image: MetadataImage) -> None:
    assert not list(records_between(image, image))
