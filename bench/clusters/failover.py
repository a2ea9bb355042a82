"""The longest time without acknowledgements after a broker fails, in each of its roles.

One partition on three brokers, one idempotent librdkafka producer with acks=all. Afterwards the log
must contain each acknowledged record exactly once; otherwise the result is an error, not a figure.
"""

import random
import signal
import sys
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench import topics
from bench.clusters.steady_producer import SteadyProducer
from bench.clusters.workload import Build, Samples
from bench.clusters.zombie import ZombieProbe
from bench.load_generator import LoadError
from bench.peers.cluster import SESSION_MS, Cluster
from bench.peers.node import Node
from bench.peers.peer import PeerError
from bench.workload import Goal, Metric

RATE = 500
# Faults start at a random moment during a load.
CALM_S = (0.5, 1.5)
# librdkafka's default, and one that gives up a silent broker within a session.
DEFAULT_PATIENCE_MS, PATIENCE_MS = 60_000, 3000
WATCH_S = 2.0
STEADY_WINDOW_S = 0.5
RESUME_TIMEOUT_S = 90.0
CHECK_TIMEOUT_S = 30.0
PAUSE_S = SESSION_MS / 1000 + 4
KILL_GOAL_MS, STOP_GOAL_MS, PAUSE_GOAL_MS = 1000.0, 300.0, SESSION_MS + 2000.0

METRICS = (
    Metric("kill_leader", "kill -9 leader", "ms", "lower", Goal("value", KILL_GOAL_MS), True),
    Metric(
        "kill_controller", "kill -9 controller", "ms", "lower", Goal("value", KILL_GOAL_MS), True
    ),
    Metric(
        "kill_both", "kill -9 leader and controller", "ms", "lower", Goal("value", KILL_GOAL_MS)
    ),
    Metric("kill_follower", "kill -9 follower", "ms", "lower", Goal("value", KILL_GOAL_MS), True),
    Metric("stop_leader", "SIGTERM leader", "ms", "lower", Goal("value", STOP_GOAL_MS), True),
    Metric("pause_leader", "SIGSTOP leader", "ms", "lower", Goal("value", PAUSE_GOAL_MS), True),
    Metric("stale_acks", "stale acks of the paused leader", "", "lower", Goal("value", 0)),
)


@dataclass(frozen=True, slots=True)
class Failover:
    """`trials` of each case in one run of a cluster."""

    trials: int
    cases: tuple[str, ...] = tuple(metric.key for metric in METRICS[:-1])
    name: str = "failover"
    title: str = "Longest time without acks"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        wanted = {*self.cases, *(("stale_acks",) if "pause_leader" in self.cases else ())}
        return tuple(metric for metric in METRICS if metric.key in wanted)

    def run(self, build: Build) -> Samples:
        samples: dict[str, list[float]] = {metric.key: [] for metric in self.metrics}
        left = [(case, trial) for trial in range(self.trials) for case in self.cases]
        while left:
            self._run_some(build, left, samples)
        return samples

    def _run_some(
        self, build: Build, left: list[tuple[str, int]], samples: dict[str, list[float]]
    ) -> None:
        """Runs as many trials as one cluster survives; prints the failure of the next one."""
        cluster = build()
        try:
            cluster.start()
            warm_up(cluster)
            while left:
                case, trial = left.pop(0)
                figures = _trial(cluster, case, f"{case.replace('_', '-')}-{trial}")
                print(f"  {cluster.name} {figures}", file=sys.stderr)
                for key, value in figures.items():
                    samples[key].append(value)
        except (LoadError, PeerError) as problem:
            if not any(samples.values()):
                raise
            print(f"  {problem}", file=sys.stderr)
        finally:
            cluster.discard()


def warm_up(cluster: Cluster) -> None:
    """Warms up code and connections, so that the first fault affects a busy cluster."""
    with topics.topic(cluster, "warm-up", 6, replicas=3) as topic:
        cluster.load.run(
            "produce",
            cluster.bootstrap,
            topic=topic,
            count=300_000,
            partitions=6,
            acks="all",
            idempotence=1,
        )


def _trial(cluster: Cluster, case: str, topic: str) -> dict[str, float]:
    victim = _arrange(cluster, case, topic)
    figures: dict[str, float] = {}
    # The client's timeout matters only for a paused broker.
    patience_ms = PATIENCE_MS if case == "pause_leader" else DEFAULT_PATIENCE_MS
    load = SteadyProducer(cluster.bootstrap, topic, rate=RATE, patience_ms=patience_ms)
    try:
        load.start()
        time.sleep(random.uniform(*CALM_S))
        if case == "pause_leader":
            figures["stale_acks"] = _pause(victim, topic)
        elif case == "stop_leader":
            victim.ended_by_us = True
            victim.signal(signal.SIGTERM)
        else:
            victim.kill()
        _await_steady(load)
        if case == "stop_leader":
            victim.await_end()
        load.finish()
    except (LoadError, PeerError) as problem:
        raise PeerError(f"{cluster.name}, {case}: {problem}") from None
    finally:
        load.abandon()
    figures[case] = load.longest_gap_s * 1000
    if not victim.running:
        victim.launch()
    cluster.await_in_sync()
    _check(cluster, topic, load.acked, case)
    return figures


def _arrange(cluster: Cluster, case: str, topic: str) -> Node:
    """Places the topic so that the roles fit the case; returns the broker that will fail."""
    controller = cluster.controller()
    others = [broker for broker in cluster.brokers if broker is not controller]
    first, second = others
    leader, victim = {
        "kill_leader": (first, first),
        "stop_leader": (first, first),
        "pause_leader": (first, first),
        "kill_controller": (first, controller),
        "kill_both": (controller, controller),
        "kill_follower": (first, second),
    }[case]
    replicas = [leader, *(broker for broker in cluster.brokers if broker is not leader)]
    topics.place(cluster, topic, [broker.number for broker in replicas])
    cluster.await_in_sync()
    return victim


def _pause(victim: Node, topic: str) -> float:
    """SIGSTOP for longer than the session; returns the requests acknowledged after it resumed."""
    probe = ZombieProbe(victim, topic)
    try:
        victim.pause()
        probe.send()
        time.sleep(PAUSE_S)
        victim.resume()
        return probe.acks()
    finally:
        probe.close()
        victim.resume()


def _await_steady(load: SteadyProducer) -> None:
    """Waits until acknowledgements have arrived in each of three consecutive windows."""
    time.sleep(WATCH_S)
    deadline = time.monotonic() + RESUME_TIMEOUT_S
    windows = 0
    while windows < 3:
        before = load.acked
        time.sleep(STEADY_WINDOW_S)
        windows = windows + 1 if load.acked > before else 0
        if time.monotonic() > deadline:
            raise PeerError(f"no acknowledgements for {RESUME_TIMEOUT_S:g} s\n{load.words}")


def _check(cluster: Cluster, topic: str, acked: int, case: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "check"})
    try:
        end = _end_of(consumer, topic)
    finally:
        consumer.close()
    if end != acked:
        raise PeerError(f"{cluster.name}, {case}: {acked} acknowledged, the log ends at {end}")


def _end_of(consumer: Consumer, topic: str) -> int:
    """Retries while brokers disagree on the leader: a broker that has returned may be behind."""
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    while True:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        except KafkaException as problem:
            if time.monotonic() > deadline:
                raise PeerError(f"where {topic} ends is not answered: {problem}") from None
            time.sleep(STEADY_WINDOW_S)
        else:
            return int(end)
