"""A node without metadata imports the topics in its log directory, as Kafka wrote them."""

from pathlib import Path

from headrace.broker.membership.standalone import METADATA_FILE
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.testing import Broker
from support.wire.batches import batch, produce
from support.wire.connection import Wire


def topic_of(wire: Wire, name: str) -> tuple[bytes, int]:
    ask = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    (topic,) = wire.call(ask, MetadataResponse).topics
    return topic.topic_id, len(topic.partitions)


def test_topics_are_imported_from_the_log_directory_if_the_metadata_is_lost(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            topic = CreatableTopic(name="kept", num_partitions=3, replication_factor=1)
            wire.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
            assert produce(wire, "kept", batch(b"a")).base_offset == 0
            before = topic_of(wire, "kept")
        broker.stop()
        for file in tmp_path.glob(f"{METADATA_FILE}*"):
            file.unlink()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            assert topic_of(wire, "kept") == before
            assert produce(wire, "kept", batch(b"b")).base_offset == 1
