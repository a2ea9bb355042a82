"""Whether a paused leader that was replaced meanwhile still acknowledges anything.

Requests are written to the sockets of the paused process. When it resumes, it reads them first,
before it can learn of its successor.
"""

import time

from bench.peers.node import Node
from bench.wire import Wire
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch

PRODUCE_BY_NAME = 9
REQUESTS = 5
ALL_REPLICAS = -1
PRODUCE_TIMEOUT_MS = 5000
ANSWER_TIMEOUT_S = 20.0
MARK = b"sent to a leader that stood still"


class ZombieProbe:
    """Connects while the broker still answers; `send` while it is paused, `acks` later."""

    def __init__(self, broker: Node, topic: str) -> None:
        self._topic = topic
        self._wires = [Wire(broker.address, timeout_s=ANSWER_TIMEOUT_S) for _ in range(REQUESTS)]

    def send(self) -> None:
        for wire in self._wires:
            batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, MARK)])
            data = PartitionProduceData(index=0, records=batch)
            request = ProduceRequest(
                acks=ALL_REPLICAS,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
            )
            wire.send(request, PRODUCE_BY_NAME)

    def acks(self) -> int:
        """How many requests were acknowledged; errors and closed connections do not count."""
        count = 0
        for wire in self._wires:
            try:
                answer = wire.receive(ProduceResponse, PRODUCE_BY_NAME)
            except OSError:
                continue
            count += not answer.responses[0].partition_responses[0].error_code
        self.close()
        return count

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
