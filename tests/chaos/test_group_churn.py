"""Groups under churn: ten minutes of random faults on a clock that is moved by hand.

Members of the classic protocol (eager and cooperative), of the consumer protocol, and of both in a
group that is upgraded and downgraded, join, leave, crash, pause for longer than their session and
have slow connections; answers get lost, commits come out of the network a minute late, appends
fail, the coordinator moves, topics grow, vanish and come back. Meanwhile no partition may have two
owners and no commit may go back: `support.groups.churn` checks every step.
Two minutes after the last
fault every record must have been delivered, and every partition must be owned and committed.

HEADRACE_CHURN_SEEDS sets the number of runs of each kind.
"""

import os
from itertools import count

import pytest

from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from support.groups.churn import World
from support.groups.churn_assignors import COOPERATIVE, EAGER
from support.groups.churn_members import TOPICS, ClassicClient, Client, ModernClient
from support.groups.classic_groups import GROUP

SEEDS = range(int(os.environ.get("HEADRACE_CHURN_SEEDS", "4")))
FAULTS_MS = 10 * 60_000
CALM_MS = 2 * 60_000
LAST_RECORDS_MS = 60_000
MOST_MEMBERS = 6
PRODUCE_EVERY_MS = 1_000
FAULT_EVERY_MS = 6_000
MOVE_NEXT = 0.3
"""How often the coordinator moves in the middle of what follows from a fault."""


class Churn:
    """The random events of one group."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.world = World(seed, t1=3, t2=2, t3=4)
        self.random = self.world.random
        self.protocol = COOPERATIVE if seed % 2 else EAGER
        self.started_ms = self.world.now_ms
        self.clients: list[Client] = []
        self.numbers = count(1)
        self.absent: list[str] = []
        """Instance ids of static members that are to come back."""
        self.missing: list[str] = []
        """Topics that are to come back."""

    @property
    def elapsed_ms(self) -> int:
        return self.world.now_ms - self.started_ms

    def run(self) -> None:
        for _ in range(3):
            self.join()
        self.world.every(PRODUCE_EVERY_MS, self.produce)
        self.world.every(FAULT_EVERY_MS, self.fault)
        self.world.run(FAULTS_MS)
        self.calm()
        self.world.run(CALM_MS)

    def produce(self) -> bool:
        self.world.produce()
        return self.elapsed_ms < FAULTS_MS + LAST_RECORDS_MS

    # Faults

    def fault(self) -> bool:
        if self.elapsed_ms >= FAULTS_MS:
            return False
        self.clients = [one for one in self.clients if one.lives]
        faults = {
            self.join: 5,
            self.leave: 2,
            self.crash: 3,
            self.pause: 3,
            self.slow_down: 2,
            self.lose_answers: 2,
            self.fail_appends: 2,
            self.move: 2,
            self.grow: 1,
            self.delete: 1,
            self.reset: 1,
        }
        (act,) = self.random.choices(list(faults), list(faults.values()))
        self.world.happened[act.__name__] += 1
        act()
        if self.random.random() < MOVE_NEXT:
            self.world.later(self.random.randrange(50, 4_000), self.move)
        return True

    def join(self) -> None:
        if len(self.clients) >= MOST_MEMBERS:
            return
        instance_id = self.absent.pop() if self.absent else None
        if self.kind != "mixed" and instance_id is None and self.random.random() < 0.2:
            instance_id = f"i-{next(self.numbers)}"
        self.start(instance_id)

    def start(self, instance_id: str | None = None) -> None:
        name = f"m{next(self.numbers)}"
        if self.is_modern():
            self.clients.append(ModernClient(self.world, name, instance_id))
        else:
            self.clients.append(
                ClassicClient(self.world, name, instance_id, protocol=self.protocol)
            )

    def is_modern(self) -> bool:
        """A mixed group is upgraded in the first half and downgraded in the second."""
        if self.kind == "mixed":
            return self.random.random() < 1 - abs(self.elapsed_ms / FAULTS_MS * 2 - 1)
        return self.kind == "consumer"

    def any(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None

    def leave(self) -> None:
        if client := self.any():
            client.leave()
            self._gone(client)

    def crash(self) -> None:
        if client := self.any():
            client.die()
            self._gone(client)

    def _gone(self, client: Client) -> None:
        self.clients.remove(client)
        if client.instance_id is not None:
            self.absent.append(client.instance_id)

    def pause(self) -> None:
        """Another member may replace it meanwhile."""
        if client := self.any():
            client.paused_until_ms = self.world.now_ms + self.random.randrange(1_000, 40_000)
            if client.instance_id is not None and self.random.random() < 0.5:
                self.absent.append(client.instance_id)

    def slow_down(self) -> None:
        if client := self.any():
            client.slow_until_ms = self.world.now_ms + self.random.randrange(5_000, 20_000)

    def lose_answers(self) -> None:
        self.world.lossy_until_ms = self.world.now_ms + self.random.randrange(1_000, 10_000)

    def fail_appends(self) -> None:
        until_ms = self.world.now_ms + self.random.randrange(500, 5_000)
        self.world.driver.failing_until_ms = until_ms

    def move(self) -> None:
        self.world.restart()

    def grow(self) -> None:
        topics = self.world.driver.cluster.image.topics
        small = [name for name, topic in topics.items() if len(topic.partitions) < 5]
        if small:
            name = self.random.choice(small)
            self.world.driver.cluster.grow(name, 1)
            self.world.topics_changed(name)

    def delete(self) -> None:
        """The topic is created again, immediately or later."""
        cluster = self.world.driver.cluster
        name = self.random.choice(TOPICS)
        if name in cluster.image.topics:
            cluster.delete(name)
            if self.random.random() < 0.5:
                cluster.create(name, self.random.randrange(1, 5))
            else:
                self.missing.append(name)
                self.world.later(self.random.randrange(1_000, 30_000), self.create)
            self.world.topics_changed(name)

    def create(self) -> None:
        name = self.missing.pop()
        self.world.driver.cluster.create(name, self.random.randrange(1, 5))
        self.world.topics_changed(name)

    def reset(self) -> None:
        partition, log = self.random.choice(list(self.world.logs.items()))
        if log.committed > 0:
            self.world.reset(partition, self.random.randrange(log.committed))

    def calm(self) -> None:
        """Everything works again. A static member may still hear that it was replaced by one that
        has died since; another kind of member stays."""
        self.world.lossy_until_ms = self.world.driver.failing_until_ms = 0
        self.clients = [one for one in self.clients if one.lives]
        for client in self.clients:
            client.slow_until_ms = 0
        if all(one.instance_id is not None for one in self.clients):
            self.start()

    # The end

    def check_rest(self) -> None:
        owners: dict[object, str] = {}
        for client in self.world.members:
            for partition in client.owned:
                assert partition not in owners, "a partition is owned twice"
                owners[partition] = client.name
        assert set(owners) == set(self.world.logs), "a partition is not owned"
        for partition, log in self.world.logs.items():
            name = self.world.name(partition)
            assert log.delivered == log.end, f"a record of {name} was never delivered"
            assert max(log.committed, 0) == log.end, f"{name} is not committed to its end"
        group = self.world.driver.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup | ConsumerGroup)
        assert group.state_name(self.world.now_ms) == "Stable"
        living = [client for client in self.clients if client.lives and not client.locked_out]
        assert set(group.members) == {client.member_id for client in living}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["classic", "consumer", "mixed"])
def test_group_guarantees_hold_under_faults(kind: str, seed: int) -> None:
    churn = Churn(kind, seed)
    churn.run()
    churn.check_rest()
    assert churn.world.happened["commit"] > 100
