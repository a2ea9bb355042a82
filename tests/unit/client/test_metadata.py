"""The metadata cache merges responses, ignores older leaders and forgets deleted topics."""

import pytest

from headrace.client.errors import LeaderUnknown, UnknownBroker
from headrace.client.metadata import MetadataCache, metadata_request
from headrace.client.network.connection import Address
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = b"0123456789abcdef"


def _answer(
    leader: int, epoch: int, *, topic_id: bytes = ID, error_code: int = 0, name: str = "t"
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
    )
    return MetadataResponse(
        controller_id=2,
        cluster_id="c",
        brokers=[MetadataResponseBroker(node_id=1, host="a", port=9092)],
        topics=[
            MetadataResponseTopic(
                error_code=error_code, name=name, topic_id=topic_id, partitions=[partition]
            )
        ],
    )


def test_topics_are_found_by_name_and_by_id() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    assert cache.cluster_id == "c"
    assert cache.controller_id == 2
    assert cache.address_of(1) == Address("a", 9092)
    assert cache.leader_of("t", 0) == 1
    assert cache.topic("t") == cache.topic_by_id(ID)
    assert [topic.name for topic in cache.topics()] == ["t"]


def test_responses_about_other_topics_are_merged() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(_answer(2, 1, name="u", topic_id=b"u" * 16))
    assert (cache.leader_of("t", 0), cache.leader_of("u", 0)) == (1, 2)


def test_a_leader_of_an_older_epoch_is_ignored() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(_answer(2, 4))
    assert cache.leader_of("t", 0) == 1
    cache.update(_answer(2, 6))
    assert cache.leader_of("t", 0) == 2


def test_a_leader_without_an_epoch_is_accepted() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(_answer(2, -1))
    assert cache.leader_of("t", 0) == 2


def test_a_topic_that_was_created_again_starts_over() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(_answer(2, 0, topic_id=b"f" * 16))
    assert cache.leader_of("t", 0) == 2
    assert cache.topic_by_id(ID) is None


def test_a_topic_with_an_error_is_forgotten() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(_answer(1, 5, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert cache.topic("t") is None
    assert cache.topic_by_id(ID) is None


def test_unknown_brokers_and_partitions_are_named_in_errors() -> None:
    cache = MetadataCache()
    cache.update(_answer(-1, 5))
    with pytest.raises(LeaderUnknown, match="t-0"):
        cache.leader_of("t", 0)
    with pytest.raises(LeaderUnknown, match="t-9"):
        cache.leader_of("t", 9)
    with pytest.raises(UnknownBroker, match="7"):
        cache.address_of(7)


def test_rebootstrap_required_clears_the_cache() -> None:
    cache = MetadataCache()
    cache.update(_answer(1, 5))
    cache.update(MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    assert cache.brokers == {}
    assert cache.topics() == ()


def test_metadata_requests_never_create_topics() -> None:
    assert metadata_request(None).topics is None
    request = metadata_request(["a"])
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["a"]
    assert not request.allow_auto_topic_creation
