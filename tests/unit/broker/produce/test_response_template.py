"""The Produce response template equals the declared message, byte for byte."""

import pytest

from headrace.broker.partitions.partition_table import HostedTopic
from headrace.broker.produce.response_template import (
    FIRST_VERSION_WITH_LOG_START,
    response_template,
)
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.storage.log.log import AppendResult
from headrace.storage.state.log_config import LogConfig

assert ProduceResponse.versions is not None
VERSIONS = range(FIRST_VERSION_WITH_LOG_START, ProduceResponse.versions[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_template_equals_the_encoded_message(version: int) -> None:
    topic = HostedTopic("a-topic", bytes(range(16)), LogConfig())
    result = AppendResult(2**40, 2**40 + 7, 1_700_000_000_000, False, False)
    partition = PartitionProduceResponse(
        index=5,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=77,
    )
    declared = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[partition]
            )
        ]
    )
    assert response_template(topic, version).encode(5, result, 77) == declared.encode(version)
