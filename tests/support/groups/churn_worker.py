"""A consumer in its own process, for tests that kill and pause it. It keeps a journal.

    python churn_worker.py BOOTSTRAP GROUP TOPIC PROTOCOL JOURNAL

Each line of the journal is "R partition offset" when a record was processed, or "C partition
offset" when the commit of that offset was acknowledged. The worker commits explicitly, only
processed records, and never for a partition that it has lost.
"""

import os
import random
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

POLL_S = 0.1
COMMIT_EVERY = 40


class Worker:
    def __init__(self, config: dict[str, object], topic: str, journal: Path) -> None:
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._processed: dict[tuple[str, int], int] = {}
        """The next offset to commit of each partition with processed records."""
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_revoke=self._revoked, on_lost=self._lost)

    def run(self) -> None:
        while True:
            message = self._consumer.poll(POLL_S)
            if message is None:
                self._commit(list(self._processed))
            elif not message.error():
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                self._note("R", partition, offset)
                self._processed[topic, partition] = offset + 1
                if random.randrange(COMMIT_EVERY) == 0:
                    self._commit(list(self._processed))

    def _commit(self, partitions: list[tuple[str, int]]) -> None:
        offsets = [
            TopicPartition(*where, self._processed[where])
            for where in partitions
            if where in self._processed
        ]
        if not offsets:
            return
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # commits later, if it still owns the partitions
        for one in done or ():
            if one.error is None:
                self._note("C", one.partition, one.offset)
                if self._processed.get((one.topic, one.partition)) == one.offset:
                    del self._processed[one.topic, one.partition]

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit([(one.topic, one.partition) for one in partitions])
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._processed.pop((one.topic, one.partition), None)

    def _note(self, what: str, partition: int, offset: int) -> None:
        os.write(self._journal, f"{what} {partition} {offset}\n".encode())


def main() -> None:
    bootstrap, group, topic, protocol, journal = sys.argv[1:]
    config: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 200,
        "fetch.wait.max.ms": 50,
        "log_level": 0,
    }
    if protocol == "classic":
        config |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000}
    Worker(config, topic, Path(journal)).run()


if __name__ == "__main__":
    main()
