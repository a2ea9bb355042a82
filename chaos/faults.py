"""Plans the faults of a run. Pure: a seed always gives the same plan.

The affected broker depends on the leaders at that time. Every kind occurs once before any occurs
again, in an order that depends on the seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

# Seconds without faults before each fault, and the duration of a fault.
PEACE_S = (1.0, 5.0)
LASTS_S: dict[str, tuple[float, float]] = {
    "kill": (0.5, 8.0),
    "stop": (0.5, 5.0),
    "pause": (2.0, 14.0),
    "isolate": (3.0, 15.0),
    "deafen": (3.0, 15.0),
    "mute": (3.0, 15.0),
    "cut-from-zookeeper": (3.0, 15.0),
    "cut-from-brokers": (3.0, 15.0),
    "slow-link": (3.0, 15.0),
    "flapping-link": (3.0, 12.0),
    "broken-connections": (2.0, 8.0),
    "slow-disk": (3.0, 12.0),
    "full-disk": (3.0, 10.0),
    "failing-flushes": (1.0, 6.0),
    "wrong-clock": (3.0, 15.0),
    "kill-two": (0.5, 6.0),
    "kill-all": (0.5, 6.0),
    "kill-zookeeper": (0.5, 6.0),
    "pause-zookeeper": (2.0, 10.0),
    "lose-zookeeper": (3.0, 12.0),
}
# The roles of the broker that a fault affects.
ROLES = ("leader", "controller", "follower", "any")
NETWORK = (
    "isolate",
    "deafen",
    "mute",
    "cut-from-zookeeper",
    "cut-from-brokers",
    "slow-link",
    "flapping-link",
    "broken-connections",
)
ON_ZOOKEEPER = ("kill-zookeeper", "pause-zookeeper", "lose-zookeeper", "cut-from-zookeeper")
DISKS = ("full-disk",)


@dataclass(frozen=True, slots=True)
class Planned:
    """`partition` is the one whose leader or follower is affected, if the role requires one."""

    kind: str
    role: str
    partition: int
    peace_s: float
    lasts_s: float


def kinds(*, network: bool, zookeeper: bool, mounts: bool) -> list[str]:
    """The kinds of faults that are possible here."""
    return [
        kind
        for kind in LASTS_S
        if (network or kind not in NETWORK)
        and (zookeeper or kind not in ON_ZOOKEEPER)
        and (mounts or kind not in DISKS)
    ]


def plan(seed: int, seconds: float, possible: Sequence[str], partitions: int) -> list[Planned]:
    generator = random.Random(seed)
    planned: list[Planned] = []
    bag: list[str] = []
    used = 0.0
    while True:
        if not bag:
            bag = list(possible)
            generator.shuffle(bag)
        kind = bag.pop()
        fault = Planned(
            kind,
            generator.choice(ROLES),
            generator.randrange(partitions),
            generator.uniform(*PEACE_S),
            generator.uniform(*LASTS_S[kind]),
        )
        used += fault.peace_s + fault.lasts_s
        if used > seconds and planned:
            return planned
        planned.append(fault)
