"""The usual answer to Produce: one partition, no error. Five numbers in bytes that never change.

Most small requests are for one partition. Their answers differ in numbers only, so what stands
around these is encoded once for each topic and version, from the message's own declaration.
"""

import struct
from typing import Final

from headrace.broker.partitions.partition_table import HostedTopic, ProduceResponseTemplate
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.storage.log.log import AppendResult

FIRST_VERSION_WITH_LOG_START: Final = 5

# Partition, error code, base offset, append time, log start: side by side from version 5 on.
_NUMBERS: Final = struct.Struct(">ihqqq")
_PLACE: Final = (0x0A1B2C3D, 0, 0x1122334455667788, 0x2233445566778899, 0x33445566778899AA)


class ResponseTemplate:
    """What stands before and after the numbers."""

    __slots__ = ("_after", "_before")

    def __init__(self, topic: HostedTopic, version: int) -> None:
        index, error_code, base_offset, append_time_ms, log_start = _PLACE
        partition = PartitionProduceResponse(
            index=index,
            error_code=error_code,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log_start,
        )
        encoded = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=[partition]
                )
            ]
        ).encode(version)
        self._before, _, self._after = encoded.rpartition(_NUMBERS.pack(*_PLACE))

    def encode(self, index: int, result: AppendResult, log_start_offset: int) -> bytes:
        return b"%b%b%b" % (
            self._before,
            _NUMBERS.pack(
                index, 0, result.first_offset, result.log_append_time_ms, log_start_offset
            ),
            self._after,
        )


def response_template(topic: HostedTopic, version: int) -> ProduceResponseTemplate:
    """Cached with the topic: it is dropped when the topic is."""
    template = topic.response_templates.get(version)
    if template is None:
        template = topic.response_templates[version] = ResponseTemplate(topic, version)
    return template
