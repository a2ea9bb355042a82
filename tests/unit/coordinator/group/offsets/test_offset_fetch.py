"""OffsetFetch: named partitions, all of them, and topics by id."""

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import TopicCreated
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from support.groups.classic_groups import GROUP
from support.groups.group_offsets import OffsetsDriver

T0, U0 = ("t", 0), ("u", 0)


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    driver = OffsetsDriver()
    assert driver.offsets(T0, group_id="nobody") == {T0: -1}
    answer = driver.fetch(group_id="nobody")
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])
    assert "nobody" not in driver.shard.groups


def test_a_partition_that_does_not_exist_has_no_offset() -> None:
    driver = OffsetsDriver()
    assert driver.offsets(("t", 99), ("gone", 0)) == {("t", 99): -1, ("gone", 0): -1}


def test_topics_can_be_asked_for_by_id() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    (topic,) = driver.fetch(T0, version=10).topics
    assert topic.topic_id == driver.topic_id("t")
    assert topic.partitions[0].committed_offset == 5


def test_an_unknown_id_is_an_error_of_its_partitions() -> None:
    driver = OffsetsDriver()
    asked = OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0, 1])
    request = OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])
    (topic,) = driver.shard.offsets.fetch(10, request, stable=False).topics
    assert topic.topic_id == b"?" * 16
    for partition in topic.partitions:
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert partition.committed_offset == -1


def test_all_offsets_by_id_are_those_of_topics_that_exist() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5, U0: 7})
    answer = driver.fetch(version=10)
    assert {topic.topic_id for topic in answer.topics} == {
        driver.topic_id("t"),
        driver.topic_id("u"),
    }
    # As on a broker that learns of the deletion before its offsets are cleaned up.
    driver.image = MetadataImage()
    assert driver.fetch(version=10).topics == []
    assert len(driver.fetch(version=9).topics) == 2


def test_an_offset_of_a_deleted_topic_of_that_name_is_not_returned_by_id() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    # As on a broker whose offsets are not cleaned up yet: "t" is another topic now.
    created = TopicCreated("t", b"another topic id", driver.image.topics["t"].partitions)
    driver.image = MetadataImage().apply([created])
    (topic,) = driver.fetch(T0, version=10).topics
    assert topic.topic_id == b"another topic id"
    assert topic.partitions[0].committed_offset == -1
    assert driver.offsets(T0) == {T0: 5}
