"""The brokers that are compared: with the HTTP port, without it, and while they are scraped."""

import asyncio
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import SystemRandom
from typing import Final

from bench.load_generator import LoadGenerator
from bench.peers.headrace import Headrace
from bench.peers.peer import LOOPBACK, PeerError, free_port
from headrace.client.admin.offsets import commit_offsets
from headrace.client.admin.topics import NewTopic, create_topics
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.clock import SystemClock

TOPICS: Final = 1000
PARTITIONS_PER_TOPIC: Final = 10
GROUPS: Final = 200
TOPICS_A_REQUEST: Final = 100
TIMEOUT_S: Final = 120.0
SCRAPE_INTERVAL_S: Final = 1.0
"""More often than any Prometheus, so that a short run has many scrapes."""

Administer = Callable[[ClusterClient], Awaitable[None]]


class WithMetrics(Headrace):
    """A broker that serves metrics, and that nothing scrapes."""

    name = "metrics"

    def __init__(self, home: Path, load: LoadGenerator) -> None:
        super().__init__(home, load)
        self.http_port = free_port()
        self.settings["headrace.http.listener"] = f"http://{LOOPBACK}:{self.http_port}"

    def scrape(self, *, compressed: bool = False) -> bytes:
        """One scrape, as Prometheus does it."""
        headers = {"Accept": "application/openmetrics-text;version=1.0.0"}
        if compressed:
            headers["Accept-Encoding"] = "gzip"
        url = f"http://{LOOPBACK}:{self.http_port}/metrics"
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            body: bytes = response.read()
        return body


class Filled(WithMetrics):
    """A broker with 10,000 partitions, 1,000 topics and 200 groups."""

    name = "not scraped"

    def start(self) -> float:
        started_ms = super().start()
        administer(self, _fill)
        return started_ms


class Scraped(Filled):
    """The same broker while it is scraped each second."""

    name = "scraped"

    def start(self) -> float:
        started_ms = super().start()
        self._stop = threading.Event()
        self._scraping = threading.Thread(target=self._scrape_repeatedly, daemon=True)
        self._scraping.start()
        return started_ms

    def stop(self) -> float:
        if self.running:
            self._stop.set()
            self._scraping.join(TIMEOUT_S)
        return super().stop()

    def _scrape_repeatedly(self) -> None:
        while not self._stop.wait(SCRAPE_INTERVAL_S):
            self.scrape(compressed=True)


def administer(broker: Headrace, work: Administer) -> None:
    """Runs `work` with a client of the broker."""

    async def main() -> None:
        async with ClusterClient(
            broker.bootstrap, client_id="bench", clock=SystemClock(), random=SystemRandom()
        ) as client:
            await work(client)

    asyncio.run(main())


async def _fill(client: ClusterClient) -> None:
    names = [f"operate-{number:04d}" for number in range(TOPICS)]
    for at in range(0, TOPICS, TOPICS_A_REQUEST):
        topics = [NewTopic(each, PARTITIONS_PER_TOPIC, 1) for each in names[at:][:TOPICS_A_REQUEST]]
        outcomes = await create_topics(client, topics, timeout_s=TIMEOUT_S)
        refused = next(filter(None, outcomes.values()), None)
        if refused is not None:
            raise PeerError(f"the broker refused a topic: {refused}")
    for number in range(GROUPS):
        offsets = {TopicPartition(names[(number * 5 + each) % TOPICS], 0): 0 for each in range(10)}
        await commit_offsets(client, f"group-{number}", offsets, timeout_s=TIMEOUT_S)


def timed_scrape(broker: WithMetrics, *, compressed: bool) -> tuple[float, bytes]:
    """Milliseconds of one scrape, and its text."""
    began = time.perf_counter()
    body = broker.scrape(compressed=compressed)
    return (time.perf_counter() - began) * 1000, body
