"""The cluster under test, each process on its own host and disk, and its faults.

A fault begins with `begin` and ends with `heal`, which leaves every process running, every link up
and every disk in its normal state.
"""

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import artifacts
from bench.load_generator import LoadGenerator
from bench.peers import zookeeper
from bench.peers.cluster import BROKERS, Cluster
from bench.peers.headrace_cluster import HeadraceCluster
from bench.peers.kafka_cluster import KafkaWithKRaft, KafkaWithZooKeeper
from bench.peers.node import Node
from bench.peers.peer import LOOPBACK, PeerError

from chaos.clients import PARTITIONS, TOPIC
from chaos.faults import Planned
from chaos.machines import Machine, library
from chaos.network import Host, Network
from chaos.secured_cluster import SecuredCluster

PEERS = ("headrace", "headrace-secured", "kafka", "kafka-zk")
SLOW_WRITE_MS, SLOW_FLUSH_MS = 20, 200
AHEAD_S = 1800  # less than the hour by which a record may be ahead of its broker
FLAP_S, BREAK_S = 0.4, 0.5


@dataclass(slots=True)
class Rig:
    """`network` is None if namespaces cannot be created: then no link is ever cut."""

    cluster: Cluster
    machines: dict[int, Machine]
    network: Network | None = None
    hosts: dict[str, Host] = field(default_factory=dict)
    # Processes that ended without a fault that ends them; they are started again.
    fallen: list[str] = field(default_factory=list)
    _again: "_Again | None" = None

    def begin(self, fault: Planned) -> str:
        """Starts the fault; returns the affected process."""
        if "zookeeper" in fault.kind and fault.kind != "cut-from-zookeeper":
            return self._on_zookeeper(fault.kind)
        victim = self._victim(fault)
        machine = self.machines[victim.number]
        match fault.kind:
            case "kill":
                victim.kill()
            case "stop":
                victim.stop()
            case "pause":
                victim.pause()
            case "slow-disk":
                machine.slow(SLOW_WRITE_MS, SLOW_FLUSH_MS)
            case "full-disk":
                machine.fill()
            case "failing-flushes":
                machine.fail_flushes()
            case "wrong-clock":
                machine.set_clock(AHEAD_S if fault.partition % 2 else -AHEAD_S)
            case "kill-two" | "kill-all":
                spared = victim if fault.kind == "kill-two" else None
                for broker in self.cluster.brokers:
                    if broker is not spared:
                        broker.kill()
                return f"all but {spared}" if spared else "all brokers"
            case "slow-link" | "flapping-link" | "broken-connections":
                self._trouble_link(fault.kind, self.hosts[str(victim)])
            case _:
                self._cut(fault.kind, victim)
        return f"{fault.role} {victim}"

    def heal(self) -> None:
        if self._again is not None:
            self._again.end()
            self._again = None
        if self.network is not None:
            self.network.heal()
        for machine in self.machines.values():
            machine.heal()
        for node in self.cluster.nodes:
            if node.paused:
                node.resume()
            if not node.running:
                if not node.ended_by_us:
                    self.fallen.append(f"{node}: {node.log_tail()[-300:]}")
                    node.kill()
                node.launch()

    def close(self) -> None:
        self.cluster.discard()
        for machine in self.machines.values():
            machine.close()
        if self.network is not None:
            self.network.close()

    def _on_zookeeper(self, kind: str) -> str:
        nodes = self.cluster.zookeepers
        if kind == "lose-zookeeper":
            for node in nodes:
                node.pause()
            return "all of ZooKeeper"
        leaders = [node for node in nodes if zookeeper.mode(node) in ("leader", "standalone")]
        victim = leaders[0] if leaders else nodes[0]
        if kind == "kill-zookeeper":
            victim.kill()
        else:
            victim.pause()
        return str(victim)

    def _victim(self, fault: Planned) -> Node:
        """The broker with that role now; any broker if the cluster cannot answer."""
        any_broker = self.cluster.brokers[fault.partition % BROKERS]
        with suppress(OSError, StopIteration, ValueError, IndexError):
            if fault.role == "controller":
                return self.cluster.controller()
            leader = self.cluster.partition(TOPIC, fault.partition % PARTITIONS).leader_id
            if fault.role == "leader":
                return self.cluster.broker(leader)
            if fault.role == "follower":
                others = [each for each in self.cluster.brokers if each.number != leader]
                return others[fault.partition % len(others)]
        return any_broker

    def _trouble_link(self, kind: str, host: Host) -> None:
        network = self.network
        assert network is not None
        if kind == "slow-link":
            network.slow(host)
        elif kind == "broken-connections":
            self._again = _Again(lambda: network.break_connections(host), BREAK_S)
        else:
            others = [each for each in self.hosts.values() if each is not host]

            def flap(cut: bool) -> None:
                if not cut:
                    network.mend_cuts()
                    return
                for other in others:
                    network.cut(host, other)
                    network.cut(other, host)

            turns = itertools.cycle((True, False))
            self._again = _Again(lambda: flap(next(turns)), FLAP_S)

    def _cut(self, kind: str, victim: Node) -> None:
        assert self.network is not None
        here = self.hosts[str(victim)]
        brokers = [self.hosts[str(each)] for each in self.cluster.brokers if each is not victim]
        zookeepers = [self.hosts[str(each)] for each in self.cluster.zookeepers]
        others = {
            "cut-from-zookeeper": zookeepers,
            "cut-from-brokers": brokers,
        }.get(kind, [*brokers, *zookeepers])
        for other in others:
            if kind != "deafen":
                self.network.cut(here, other)
            if kind != "mute":
                self.network.cut(other, here)


class _Again:
    """Repeats an action until it is ended."""

    def __init__(self, act: Callable[[], None], pause_s: float) -> None:
        self._act, self._pause_s = act, pause_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._act()
        while not self._ended.wait(self._pause_s):
            self._act()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def build(peer: str, home: Path, *, isolated: bool) -> Rig:
    """A rig that is not started. Only the rig's own disks can fill up."""
    home.mkdir(parents=True)
    network = Network() if isolated else None
    names = [f"broker-{number}" for number in range(1, BROKERS + 1)]
    if peer != "kafka":
        names += [f"zookeeper-{number}" for number in range(1, BROKERS + 1)]
    hosts = {name: network.attach(name) for name in names} if network is not None else {}
    addresses = [hosts[name].address if hosts else LOOPBACK for name in names]
    cluster = _cluster(peer, home / "cluster", addresses)
    shim = library(home)
    machines = {}
    for node in cluster.nodes:
        if hosts:
            node.before = hosts[str(node)].before
    for broker in cluster.brokers:
        machine = Machine(broker.home, broker.data, shim, mounted=isolated)
        machines[broker.number] = machine
        broker.environment = machine.environment
    return Rig(cluster, machines, network, hosts)


def _cluster(peer: str, home: Path, addresses: list[str]) -> Cluster:
    load = LoadGenerator(Path("unused"))
    brokers, zookeepers = addresses[:BROKERS], addresses[BROKERS:]
    if peer == "kafka":
        return KafkaWithKRaft(home, load, artifacts.kafka_jars(), hosts=brokers)
    if peer == "kafka-zk":
        jars = artifacts.kafka_jars(artifacts.KAFKA_WITH_ZOOKEEPER_VERSION)
        return KafkaWithZooKeeper(home, load, jars, hosts=brokers, zookeeper_hosts=zookeepers)
    if peer == "headrace-secured":
        return SecuredCluster(home, load, hosts=brokers, zookeeper_hosts=zookeepers)
    return HeadraceCluster(home, load, hosts=brokers, zookeeper_hosts=zookeepers)


def await_whole(rig: Rig, timeout_s: float) -> str:
    """Waits until all replicas are in sync; returns the remaining problems.

    A broker that meets its own old registration may exit: it is started again, as its service
    manager would do.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            rig.cluster.await_in_sync(max(1.0, deadline - time.monotonic()))
        except PeerError as problem:
            if time.monotonic() > deadline:
                return str(problem)
            rig.heal()
        else:
            return ""
