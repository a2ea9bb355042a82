"""Under random faults acknowledged records survive and the replicas agree."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.brokers.replica_set import ReplicaSet

EXAMPLES = settings(max_examples=40, deadline=None)


def play(rng: Random, replicas: ReplicaSet, *, power: bool, steps: int = 150) -> None:
    brokers = list(replicas.nodes)
    for _ in range(steps):
        replicas.now += rng.choice((0.01, 0.5, 4.0))
        broker_id = rng.choice(brokers)
        replicas.late |= {id_ for id_ in brokers if rng.random() < 0.05}
        leader_id = max(1, replicas.partition.leader)
        match rng.choice(STEPS):
            case "produce":
                replicas.produce(leader_id)
            case "produce to anyone":
                replicas.produce(broker_id, acks_all=rng.random() < 0.5)
            case "consume":
                replicas.consume()
            case "replicate":
                replicas.replicate(broker_id, max_bytes=rng.choice((1, 200, 5000)))
            case "isr":
                replicas.isr_check(broker_id)
            case "controller":
                replicas.isr_decide()
            case "news":
                replicas.tell(broker_id)
            case "kill":
                if power and rng.random() < 0.5:
                    replicas.lose_power(broker_id, rng)
                else:
                    replicas.kill(broker_id, noticed=rng.random() < 0.7)
            case "restart":
                replicas.restart(broker_id)
            case "isolate":
                replicas.isolate(broker_id)
            case "rejoin":
                replicas.rejoin(broker_id)
        replicas.check()
    replicas.heal()
    replicas.check()
    whole = replicas.values(replicas.partition.leader)
    for id_ in brokers:
        assert replicas.values(id_) == whole


STEPS = [
    *["produce"] * 6,
    *["produce to anyone"] * 2,
    "consume",
    *["replicate"] * 10,
    *["isr"] * 3,
    *["controller"] * 2,
    *["news"] * 3,
    "kill",
    *["restart"] * 2,
    "isolate",
    *["rejoin"] * 2,
]


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@EXAMPLES
@given(seed=st.integers(0, 2**32))
def test_acknowledged_records_survive_process_crashes(min_isr: int, seed: int) -> None:
    play(Random(seed), ReplicaSet(min_isr=min_isr), power=False)


@EXAMPLES
@given(seed=st.integers(0, 2**32))
def test_acknowledged_records_survive_power_loss_when_each_ack_is_flushed(seed: int) -> None:
    play(Random(seed), ReplicaSet(min_isr=2, flush=True), power=True)


def test_the_model_acknowledges_something() -> None:
    replicas = ReplicaSet()
    replicas.produce(1)
    assert replicas.acknowledged == []
    for _ in range(2):
        for broker_id in (2, 3):
            replicas.replicate(broker_id)
    assert replicas.acknowledged == [(0, b"1")]
