"""Connections with TLS: the cost of a handshake, and the memory of many idle connections."""

import re
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench import topics
from bench.peers.peer import Peer
from bench.security import Security
from bench.wire import Wire
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.memory import MB, settled_memory
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch

CLIENTS: Final = 2
LOAD_BYTES: Final = 300_000
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
TIMEOUT_MS: Final = 10_000
IDLE_S: Final = 16
"""A broker frees the receive buffers of a connection that was quiet for 10 s, every 5 s."""
KIB_GOAL: Final = 100.0
CONNECTED: Final = re.compile(r"(\d+) connections in (\d+) real seconds")

HANDSHAKE_METRICS: Final = (
    Metric("per_second", "rate", "/s", "higher", Goal("ratio", 1.0), headline=True),
    Metric("broker_cpu_ms", "broker CPU per handshake", "ms", "lower"),
)
MEMORY_METRICS: Final = (
    Metric(
        "kib", "resident per connection", "KiB", "lower", Goal("value", KIB_GOAL), headline=True
    ),
)


@dataclass(frozen=True, slots=True)
class Handshakes:
    """OpenSSL's `s_time` in two processes: full handshakes of TLS 1.3, one after another."""

    seconds: int
    name: str = "tls-handshakes"
    title: str = "TLS handshakes"
    metrics: tuple[Metric, ...] = HANDSHAKE_METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        contestant.warm()

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        command = ["openssl", "s_time", "-new", "-tls1_3", "-CAfile", str(_security(peer).files.ca)]
        command += ["-connect", peer.bootstrap, "-time", str(self.seconds)]
        before = peer.cpu_seconds()
        clients = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(CLIENTS)
        ]
        done = [CONNECTED.search(client.communicate()[0]) for client in clients]
        used_s = peer.cpu_seconds() - before
        counts = [(int(found[1]), int(found[2])) for found in done if found is not None]
        assert len(counts) == CLIENTS, "openssl s_time failed"
        total = sum(count for count, _ in counts)
        return {
            "per_second": sum(count / seconds for count, seconds in counts),
            "broker_cpu_ms": used_s * 1000 / total,
        }

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: handshakes leave nothing behind."""


@dataclass(frozen=True, slots=True)
class TlsConnections:
    """Each connection logs in, produces and fetches 300 kB, and is idle afterwards."""

    count: int
    name: str = "tls-connections"
    title: str = "Idle TLS connections after load"
    metrics: tuple[Metric, ...] = MEMORY_METRICS
    warm_ups: int = 0

    def prepare(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.fresh()
        try:
            peer.start()
            with topics.topic(peer, self.name, 1) as topic, ExitStack() as opened:
                warm = opened.enter_context(_security(peer).connect(peer.bootstrap))
                _load(warm, topic)  # what the first connection loads is not counted
                before_mb, _ = settled_memory(peer)
                for _ in range(self.count):
                    wire = opened.enter_context(_security(peer).connect(peer.bootstrap))
                    _load(wire, topic)
                time.sleep(IDLE_S)
                after_mb, _ = settled_memory(peer)
        finally:
            peer.discard()
        return {"kib": (after_mb - before_mb) * MB / 1024 / self.count}

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""


def _security(peer: Peer) -> Security:
    assert peer.security is not None, "for script/bench --secure only"
    return peer.security


def _load(wire: Wire, topic: str) -> None:
    records = build_batch([Record(0, 0, None, bytes(LOAD_BYTES))])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    produce = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[data])
    produced = wire.call(produce, ProduceResponse, PRODUCE_VERSION)
    (partition,) = produced.responses[0].partition_responses
    assert not partition.error_code, partition.error_code
    wanted = FetchPartition(
        partition=0, fetch_offset=partition.base_offset, partition_max_bytes=LOAD_BYTES * 2
    )
    fetch = FetchRequest(
        max_wait_ms=TIMEOUT_MS,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    fetched = wire.call(fetch, FetchResponse, FETCH_VERSION)
    assert len(fetched.responses[0].partitions[0].records or b"") > LOAD_BYTES
