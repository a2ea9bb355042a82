"""Brings a broker to its steady speed before the measurement: a JVM compiles frequent code."""

from bench import topics
from bench.peers.peer import Peer

PARTITIONS = 6
ROUNDS = 3
BATCHED_MESSAGES = 1_000_000
SINGLE_MESSAGES = 10_000
TIMEOUT_MS = 40_000


def warm_up(peer: Peer) -> None:
    for round_number in range(ROUNDS):
        with topics.topic(peer, f"warm-up-{round_number}", PARTITIONS) as topic:
            for mode in ("produce", "consume"):
                peer.load.run(
                    mode,
                    peer.bootstrap,
                    topic=topic,
                    count=BATCHED_MESSAGES,
                    partitions=PARTITIONS,
                    timeout_ms=TIMEOUT_MS,
                )
            peer.load.run(
                "produce",
                peer.bootstrap,
                topic=topic,
                count=SINGLE_MESSAGES,
                partitions=PARTITIONS,
                batch_messages=1,
                linger_ms=0,
                in_flight=1000,
                timeout_ms=TIMEOUT_MS,
            )
