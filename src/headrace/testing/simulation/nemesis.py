"""Random faults: their kind, place and duration. The seed decides.

There are two profiles. In `MINORITY` one broker at a time may lose its page cache, and must
be back in sync before the next does: then no acknowledged record may be lost. In `STORM` any number
of brokers may lose power at once, and only topics that flush each message keep all records.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Final

from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.cluster import ZOOKEEPER, SimulatedCluster

MEAN_CALM_S: Final = 2.5
LONGEST_DOWN_S: Final = 6.0
SUPERVISION_S: Final = 1.0
SHORT_OUTAGE_S: Final = 0.3
LONGEST_GAP_S: Final = 1.5
LONGEST_PAUSE_S: Final = 7.0
LONGEST_CUT_S: Final = 7.0
LONGEST_SLOW_S: Final = 5.0
ALONE_S: Final = (3.2, 6.0)
"""After this time the sessions of the other brokers have expired, and one broker is in sync."""

LONGEST_ZOOKEEPER_AWAY_S: Final = 2.0
SLOW_NET_S: Final = 0.05
SLOW_DISK: Final = 300.0
LITTLE_ROOM_BYTES: Final = 20_000


class FaultProfile(Enum):
    MINORITY = "one broker at a time loses unflushed bytes"
    STORM = "any number of brokers lose unflushed bytes"


class Nemesis:
    """Injects faults until it is stopped; then it ends all of them."""

    def __init__(self, cluster: SimulatedCluster, profile: FaultProfile, chance: Random) -> None:
        self._cluster = cluster
        self._schedule = cluster.simulation.schedule
        self._profile = profile
        self._random = chance
        self._stopped = False
        self._damaged: dict[int, None] = {}  # brokers that may have lost acknowledged records
        self.faults: dict[str, int] = {}
        self._deeds: list[tuple[int, Callable[[], str | None]]] = [
            (4, self._kill),
            (4, self._lose_power),
            (3, self._bounce),
            (3, self._stop_one),
            (4, self._pause),
            (3, self._isolate),
            (3, self._cut_one_way),
            (2, self._cut_from_zookeeper),
            (3, self._cut_from_brokers),
            (3, self._bounce_apart),
            (2, self._bounce_alone),
            (2, self._slow_net),
            (2, self._reset),
            (2, self._expire),
            (1, self._restart_zookeeper),
            (1, self._slow_disk),
            (1, self._full_disk),
            (1, self._break_disk),
        ]
        if profile is FaultProfile.STORM:
            self._deeds.append((3, self._black_out))
        for broker in cluster.brokers.values():
            broker.on_failure = lambda broker=broker: self._failed(broker)

    def start(self) -> None:
        self._schedule.after(self._random.expovariate(1 / MEAN_CALM_S), self._act)

    def stop(self) -> None:
        """Ends all faults: hosts are up, links work, disks are fast and have free space."""
        self._stopped = True
        cluster = self._cluster
        cluster.heal()
        if not cluster.zookeeper.running:
            cluster.zookeeper.start()
        for broker in cluster.brokers.values():
            cluster.resume(broker.id)
            broker.process.host.disk.slowness = 1.0
            broker.process.host.disk.limit(None)
            broker.process.host.disk.fail_syncs(False)
        self._keep_running()

    def _keep_running(self) -> None:
        """Starts every broker that is down, also one whose shutdown ends only now."""
        for broker in self._cluster.brokers.values():
            if not broker.process.running:
                broker.process.start()
        self._schedule.after(SUPERVISION_S, self._keep_running)

    # --- timing ---------------------------------------------------------------------------------

    def _act(self) -> None:
        if self._stopped:
            return
        deeds = [deed for _, deed in self._deeds]
        weights = [weight for weight, _ in self._deeds]
        done = self._random.choices(deeds, weights)[0]()
        if done is not None:
            kind = done.split()[0]
            self.faults[kind] = self.faults.get(kind, 0) + 1
            self._schedule.note(f"nemesis: {done}")
        self._schedule.after(self._random.expovariate(1 / MEAN_CALM_S), self._act)

    def _later(self, longest_s: float, undo: Callable[[], None]) -> None:
        def act() -> None:
            if not self._stopped:
                undo()

        self._schedule.after(self._random.uniform(0.05, 1.0) * longest_s, act)

    def _any(self) -> BrokerProcess:
        return self._random.choice(list(self._cluster.brokers.values()))

    def _running(self) -> BrokerProcess | None:
        running = [each for each in self._cluster.brokers.values() if each.process.running]
        return self._random.choice(running) if running else None

    # --- processes ------------------------------------------------------------------------------

    def _may_damage(self, broker: BrokerProcess) -> bool:
        """Whether the profile allows an unclean end of this broker now."""
        cluster = self._cluster
        for id_ in list(self._damaged):
            other = cluster.brokers[id_]
            fine = other.node is not None and not other.process.host.disk.may_fail_process
            if fine and cluster.in_sync_everywhere(id_):
                del self._damaged[id_]
        return self._profile is FaultProfile.STORM or not (self._damaged.keys() - {broker.id})

    def _crash(self, broker: BrokerProcess, end: Callable[[], None]) -> None:
        self._damaged[broker.id] = None
        end()
        self._later(LONGEST_DOWN_S, lambda: self._start(broker))

    def _failed(self, broker: BrokerProcess) -> None:
        """Handles a broker that has ended because of its disk."""
        self._damaged[broker.id] = None
        self._later(LONGEST_DOWN_S, lambda: self._start(broker))

    def _kill(self) -> str | None:
        broker = self._running()
        if broker is None or not self._may_damage(broker):
            return None
        self._crash(broker, broker.process.kill)
        return f"kill {broker.id}"

    def _lose_power(self) -> str | None:
        broker = self._running()
        if broker is None or not self._may_damage(broker):
            return None
        self._crash(broker, broker.process.lose_power)
        return f"power {broker.id}"

    def _bounce(self) -> str | None:
        """Two short power failures: so short that other brokers may miss the restart."""
        broker = self._running()
        if broker is None or not self._may_damage(broker):
            return None

        def again() -> None:
            if broker.process.running and self._may_damage(broker):
                self._crash_shortly(broker)

        self._crash_shortly(broker)
        self._later(LONGEST_GAP_S, again)
        return f"bounce {broker.id}"

    def _bounce_alone(self) -> str | None:
        """Pauses all others; then the only in-sync broker loses its power.

        The records that it had not flushed are committed, and the others have them.
        """
        broker = self._running()
        others = [
            each
            for each in self._cluster.brokers.values()
            if each is not broker and each.process.running and not each.process.paused
        ]
        if broker is None or broker.process.paused or not self._may_damage(broker):
            return None

        def lose_power() -> None:
            if not self._stopped and broker.process.running and self._may_damage(broker):
                self._crash_shortly(broker)

        for other in others:
            self._cluster.pause(other.id)
        alone_s = self._random.uniform(*ALONE_S)
        self._schedule.after(alone_s, lose_power)
        for other in others:
            back_s = alone_s + self._random.random() * LONGEST_GAP_S
            self._schedule.after(back_s, partial(self._cluster.resume, other.id))
        return f"bounce-alone {broker.id}"

    def _crash_shortly(self, broker: BrokerProcess) -> None:
        self._damaged[broker.id] = None
        broker.process.lose_power()
        self._later(SHORT_OUTAGE_S, lambda: self._start(broker))

    def _black_out(self) -> str | None:
        for broker in self._cluster.brokers.values():
            if broker.process.running and self._random.random() < 0.8:
                self._crash(broker, broker.process.lose_power)
        return "blackout"

    def _stop_one(self) -> str | None:
        broker = self._running()
        if broker is None or broker.node is None or broker.process.paused:
            return None
        broker.stop()
        self._later(LONGEST_DOWN_S, lambda: self._start(broker))
        return f"stop {broker.id}"

    def _start(self, broker: BrokerProcess) -> None:
        if self._stopped:
            return
        if not broker.process.running:
            broker.process.start()
            # A broker that cannot start (full disk, no ZooKeeper) is started again later.
            self._later(LONGEST_DOWN_S, lambda: self._start(broker))

    def _pause(self) -> str | None:
        broker = self._running()
        if broker is None or broker.process.paused:
            return None
        self._cluster.pause(broker.id)
        self._later(LONGEST_PAUSE_S, lambda: self._cluster.resume(broker.id))
        return f"pause {broker.id}"

    # --- the network ----------------------------------------------------------------------------

    def _isolate(self) -> str:
        broker = self._any()
        zookeeper = self._random.random() < 0.5
        self._cluster.isolate(broker.id, zookeeper=zookeeper)
        self._later(LONGEST_CUT_S, self._cluster.heal)
        return f"isolate {broker.id} {'with' if zookeeper else 'without'} ZooKeeper"

    def _cut_one_way(self) -> str:
        broker = self._any()
        others = [name for name in self._cluster.simulation.hosts if name != broker.host]
        other = self._random.choice(others)
        self._cluster.cut(broker.id, other, both=False)
        self._later(LONGEST_CUT_S, self._cluster.heal)
        return f"one-way {broker.id} {other}"

    def _cut_from_zookeeper(self) -> str:
        broker = self._any()
        self._cluster.cut(broker.id, ZOOKEEPER)
        self._later(LONGEST_CUT_S, self._cluster.heal)
        return f"no-zookeeper {broker.id}"

    def _cut_from_brokers(self) -> str:
        """Cuts a broker off from other brokers. Clients still reach it, and get its old
        metadata."""
        broker = self._any()
        zookeeper = self._random.random() < 0.7
        for other in self._cluster.brokers.values():
            if other is not broker:
                self._cluster.cut(broker.id, other.host)
        if zookeeper:
            self._cluster.cut(broker.id, ZOOKEEPER)
        self._later(LONGEST_CUT_S, self._cluster.heal)
        return f"no-brokers {broker.id} {'without' if zookeeper else 'with'} ZooKeeper"

    def _bounce_apart(self) -> str | None:
        """A short power failure that also cuts the broker off from one of its leaders."""
        broker = self._running()
        if broker is None or not self._may_damage(broker):
            return None
        others = [each for each in self._cluster.brokers.values() if each is not broker]
        other = self._random.choice(others)
        self._cluster.cut(broker.id, other.host)
        self._crash_shortly(broker)
        self._later(LONGEST_CUT_S, self._cluster.heal)
        return f"bounce-apart {broker.id} {other.id}"

    def _slow_net(self) -> str:
        broker = self._any()
        network = self._cluster.simulation.network
        mean_s = self._random.random() * SLOW_NET_S
        for other in self._cluster.simulation.hosts:
            network.slow_down(broker.host, other, mean_s)
            network.slow_down(other, broker.host, mean_s)
        self._later(LONGEST_SLOW_S, self._cluster.heal)
        return f"slow-net {broker.id}"

    def _reset(self) -> str:
        one, two = self._any(), self._any()
        self._cluster.simulation.network.reset(one.host, two.host)
        return f"reset {one.id} {two.id}"

    # --- ZooKeeper ------------------------------------------------------------------------------

    def _expire(self) -> str:
        broker = self._any()
        self._cluster.expire(broker.id)
        return f"expire {broker.id}"

    def _restart_zookeeper(self) -> str | None:
        zookeeper = self._cluster.zookeeper
        if not zookeeper.running:
            return None
        zookeeper.stop()
        self._later(LONGEST_ZOOKEEPER_AWAY_S, zookeeper.start)
        return "zookeeper restarts"

    # --- disks ----------------------------------------------------------------------------------

    def _slow_disk(self) -> str:
        broker = self._any()
        disk = broker.process.host.disk
        disk.slowness = 1 + self._random.random() * SLOW_DISK
        self._later(LONGEST_SLOW_S, lambda: setattr(disk, "slowness", 1.0))
        return f"slow-disk {broker.id}"

    def _full_disk(self) -> str | None:
        broker = self._any()
        if not self._may_damage(broker):
            return None
        self._damaged[broker.id] = None
        disk = broker.process.host.disk
        disk.limit(int(self._random.random() * LITTLE_ROOM_BYTES))
        self._later(LONGEST_SLOW_S, lambda: disk.limit(None))
        return f"full-disk {broker.id}"

    def _break_disk(self) -> str | None:
        """Makes syncs fail until the broker has ended, or for a while."""
        broker = self._running()
        if broker is None or not self._may_damage(broker):
            return None
        self._damaged[broker.id] = None
        disk = broker.process.host.disk
        disk.fail_syncs()
        self._later(LONGEST_SLOW_S, lambda: disk.fail_syncs(False))
        return f"bad-disk {broker.id}"
