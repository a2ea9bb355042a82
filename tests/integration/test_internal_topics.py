"""Internal topics are created when coordinators need them and reject client writes."""

import pytest

import headrace.testing
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch
from support.wire.connection import Wire

TOPIC_RESOURCE = 2
POLICIES = {
    "__consumer_offsets": "compact",
    "__transaction_state": "compact",
    "__share_group_state": "delete",
}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_an_internal_topic_has_all_partitions_and_only_coordinators_write_to_it(name: str) -> None:
    with headrace.testing.Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        ask = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (topic,) = wire.call(ask, MetadataResponse).topics
        assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=name,
            configuration_keys=["cleanup.policy", "segment.bytes"],
        )
        described = wire.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
        values = {config.name: config.value for config in described.results[0].configs}
        assert values == {"cleanup.policy": POLICIES[name], "segment.bytes": "104857600"}
        batch = build_batch([Record(0, 1, b"key", b"value", ())])
        data = TopicProduceData(
            name=name,
            partition_data=[PartitionProduceData(index=0, records=batch)],
        )
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
        answer = wire.call(request, ProduceResponse, 9)
        refused = answer.responses[0].partition_responses[0].error_code
        assert refused == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_offsets_join_a_transaction_before_the_groups_coordinator_is_looked_up() -> None:
    """A producer adds the group at its own coordinator, before the offsets topic exists."""
    with headrace.testing.Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["writer"])
        wire.call(find, FindCoordinatorResponse)
        begin = InitProducerIdRequest(transactional_id="writer", transaction_timeout_ms=60_000)
        begun = wire.call(begin, InitProducerIdResponse)
        assert begun.error_code == 0
        add = AddOffsetsToTxnRequest(
            transactional_id="writer",
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            group_id="readers",
        )
        assert wire.call(add, AddOffsetsToTxnResponse, 3).error_code == 0
