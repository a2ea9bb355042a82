"""The surroundings of the workloads: one broker, its topics, and the sessions of the sides."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import artifacts, topics
from bench.load_generator import LoadGenerator
from bench.peers.headrace import Headrace
from bench.peers.kafka import Kafka
from bench.peers.peer import Peer
from bench.pipelines import connector, orders
from bench.pipelines.rounds import OURS, TUNED
from bench.pipelines.side import Side

PARTITIONS = 6


class Stage:
    """A broker that all sides read from."""

    def __init__(self, broker: Peer, home: Path) -> None:
        self.broker = broker
        self.home = home
        jars = [str(jar) for jar in connector.jars()]
        self._headrace = Side("headrace", home / "headrace", [sys.executable, "headrace"])
        self._connector = Side(
            "connector", home / "connector", [str(connector.python()), "connector", *jars]
        )

    def fill(self, topic: str, count: int, size: int, *, partitions: int = PARTITIONS) -> None:
        topics.create(self.broker, {topic: partitions})
        self.broker.load.run(
            "produce",
            self.broker.bootstrap,
            topic=topic,
            count=count,
            size=size,
            partitions=partitions,
        )

    def fill_orders(self, topic: str, count: int) -> None:
        topics.create(self.broker, {topic: PARTITIONS})
        if count:
            orders.fill(self.broker.bootstrap, topic, PARTITIONS, count)

    def drop(self, topic: str) -> None:
        if self.broker.running:
            topics.delete(self.broker, topic)

    def ask(self, side: str, action: str, topic: str, **request: str) -> dict[str, float]:
        session = self._headrace if side == OURS else self._connector
        tuned = {"tuned": "yes"} if side == TUNED else {}
        return session.ask(action, bootstrap=self.broker.bootstrap, topic=topic, **tuned, **request)

    @property
    def headrace_pid(self) -> int:
        return self._headrace.pid

    def close(self) -> None:
        self._headrace.close()
        self._connector.close()
        self.broker.discard()


@contextmanager
def stage(broker: str, work: Path) -> Iterator[Stage]:
    """Everything under one scratch directory, which is removed afterwards."""
    load = LoadGenerator(artifacts.load_generator())
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=work))
    at = home / "broker"
    peer = Headrace(at, load) if broker == "headrace" else Kafka(at, load, artifacts.kafka_jars())
    ready = Stage(peer, home)
    try:
        peer.start()
        yield ready
    finally:
        ready.close()
        shutil.rmtree(home, ignore_errors=True)
