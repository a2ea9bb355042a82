"""Encoded template of the common Produce response: one partition without an error.

Most small requests have one partition. Their responses differ in five numbers only, so the bytes
around the numbers are encoded once per topic and version, from the message's declaration.
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

# Partition, error code, base offset, append time, log start offset: adjacent from v5 on.
_NUMBERS: Final = struct.Struct(">ihqqq")
_PLACEHOLDERS: Final = (0x0A1B2C3D, 0, 0x1122334455667788, 0x2233445566778899, 0x33445566778899AA)


class ResponseTemplate:
    """The encoded bytes before and after the five numbers."""

    __slots__ = ("_after", "_before")

    def __init__(self, topic: HostedTopic, version: int) -> None:
        index, error_code, base_offset, append_time_ms, log_start = _PLACEHOLDERS
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
        self._before, _, self._after = encoded.rpartition(_NUMBERS.pack(*_PLACEHOLDERS))

    def encode(self, index: int, result: AppendResult, log_start_offset: int) -> bytes:
        return b"%b%b%b" % (
            self._before,
            _NUMBERS.pack(
                index, 0, result.first_offset, result.log_append_time_ms, log_start_offset
            ),
            self._after,
        )


def response_template(topic: HostedTopic, version: int) -> ProduceResponseTemplate:
    """The template, cached in the topic's table entry and dropped with it."""
    template = topic.response_templates.get(version)
    if template is None:
        template = topic.response_templates[version] = ResponseTemplate(topic, version)
    return template
