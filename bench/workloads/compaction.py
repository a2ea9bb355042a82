"""The speed of compaction, and its effect on producers."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench import topics
from bench.peers.peer import Peer, PeerError
from bench.warmup import warm_up
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.produce import PARTITIONS

MB = 1_000_000
SIZE = 100
KEYS = 100_000
# The cleaner checks often, so that it starts at once and not up to 15 s later.
LOOK_MS = 100
CLEAN_TIMEOUT_S = 300.0
POLL_S = 0.02
SPEED_GOAL_MB = 30.0
KEPT_GOAL = 0.8
# The file in which both brokers store the offset up to which a log is clean.
CHECKPOINT = "cleaner-offset-checkpoint"
DIRTY_LOG = {"segment.bytes": str(20 * MB), "min.cleanable.dirty.ratio": "0.01"}
METRICS = (
    Metric(
        "alone",
        "log compacted, alone",
        "MB/s",
        "higher",
        Goal("value", SPEED_GOAL_MB),
        headline=True,
    ),
    Metric("beside", "log compacted, beside a producer", "MB/s", "higher"),
    Metric("produce_alone", "produce, no compaction", "msg/s", "higher"),
    Metric("produce_beside", "produce, beside compaction", "msg/s", "higher"),
    Metric("produce_kept", "produce, beside / alone", "x", "higher", Goal("value", KEPT_GOAL)),
)


class DirtyLog:
    """A topic of one partition, full of keyed records, that is not compacted until `compact`."""

    def __init__(self, peer: Peer, name: str, count: int) -> None:
        self._peer = peer
        self._name = name
        self._checkpoint = peer.data / CHECKPOINT
        self._began = 0.0
        peer.load.run(
            "produce", peer.bootstrap, topic=name, count=count, size=SIZE, keyed=1, keys=KEYS
        )
        # The last segment is active and not compacted.
        *closed, active = sorted((peer.data / f"{name}-0").glob("*.log"))
        self._bytes = sum(segment.stat().st_size for segment in closed)
        self._end = int(active.stem)
        if not closed:
            raise PeerError(f"{count} records do not fill a segment")

    def compact(self) -> None:
        topics.configure(self._peer, self._name, "cleanup.policy", "compact")
        self._began = time.time()

    def is_clean(self) -> bool:
        """Whether the cleaner has recorded that everything that may be cleaned is clean.

        Raises `PeerError` when that takes too long.
        """
        if time.time() > self._began + CLEAN_TIMEOUT_S:
            raise PeerError(f"{self._name} was not compacted in {CLEAN_TIMEOUT_S:g} s")
        try:
            lines = self._checkpoint.read_text().splitlines()
        except FileNotFoundError:
            return False
        noted = [line.split() for line in lines if line.startswith(f"{self._name} ")]
        return any(int(offset) >= self._end for _, _, offset in noted)

    def await_clean(self) -> float:
        """MB per second from `compact` to the time of the cleaner's checkpoint file."""
        while not self.is_clean():
            time.sleep(POLL_S)
        return self._bytes / MB / (self._checkpoint.stat().st_mtime - self._began)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Two logs of 100 B records with 100,000 keys: one compacted alone, one beside a producer.

    Speed is the log's size over the time from the moment when it may be cleaned to the cleaner's
    checkpoint. Goals: 30 MB/s alone, and a producer of 100 B records to another topic keeps 0.8 of
    its speed while a log is compacted.
    """

    count: int
    produced: int
    name: str = "compaction"
    title: str = "Compaction of 100 B keyed records"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1
    _peers: dict[int, Peer] = field(default_factory=dict)

    def prepare(self, contestant: Contestant) -> None:
        peer = contestant.fresh()
        self._peers[id(contestant)] = peer
        peer.settings["log.cleaner.backoff.ms"] = str(LOOK_MS)
        peer.start()
        warm_up(peer)

    def run(self, contestant: Contestant) -> Sample:
        peer = self._peers[id(contestant)]
        figures: dict[str, float] = {}
        with self._dirty_log(peer) as log:
            log.compact()
            figures["alone"] = log.await_clean()
        with self._dirty_log(peer) as log, topics.topic(peer, "beside", PARTITIONS) as other:
            before = self._produce(peer, other)
            log.compact()
            figures["produce_beside"] = self._produce_until_clean(peer, other, log)
            figures["beside"] = log.await_clean()
            # In both directions, so that a machine that slows down or recovers does not decide.
            figures["produce_alone"] = statistics.harmonic_mean(
                [before, self._produce(peer, other)]
            )
        figures["produce_kept"] = figures["produce_beside"] / figures["produce_alone"]
        return figures

    @contextmanager
    def _dirty_log(self, peer: Peer) -> Iterator[DirtyLog]:
        name = f"dirty-{time.monotonic_ns()}"
        with topics.topic(peer, name, 1, config=DIRTY_LOG):
            yield DirtyLog(peer, name, self.count)

    def _produce_until_clean(self, peer: Peer, topic: str, log: DirtyLog) -> float:
        """The producer's speed; its last run counts only if there is no other.

        The compaction ends during that run, so it would flatter the broker.
        """
        rates = [self._produce(peer, topic)]
        while not log.is_clean():
            rates.append(self._produce(peer, topic))
        return statistics.harmonic_mean(rates[:-1] or rates)

    def _produce(self, peer: Peer, topic: str) -> float:
        answer = peer.load.run(
            "produce",
            peer.bootstrap,
            topic=topic,
            count=self.produced,
            size=SIZE,
            partitions=PARTITIONS,
            in_flight=1000,
        )
        return answer["per_second"]

    def finish(self, contestant: Contestant) -> None:
        peer = self._peers.pop(id(contestant), None)
        if peer is not None:
            peer.discard()
