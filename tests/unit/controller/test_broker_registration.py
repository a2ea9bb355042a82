"""Brokers register with growing epochs."""

from headrace.cluster.topology import Endpoint
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller

HERE = [Endpoint("PLAINTEXT", "localhost", 9092)]


def test_every_registration_has_a_higher_epoch() -> None:
    made = controller()
    first = made.image.brokers[1].epoch
    assert commit(made, made.fence_broker(1)).code == ErrorCode.NONE
    second = commit(made, made.register_broker(1, HERE)).broker_epoch
    assert second > first
    assert made.image.brokers[1].epoch == second


def test_a_second_live_process_with_the_same_id_is_refused() -> None:
    made = controller()
    outcome = made.register_broker(1, HERE, incarnation_id=b"x" * 16)
    assert outcome.records == ()
    assert outcome.results[0].error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_an_unclean_restart_raises_leader_epochs_and_a_clean_one_does_not() -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a", 2)]))
    commit(made, made.fence_broker(1))
    commit(made, made.register_broker(1, HERE, clean_restart=True))
    assert made.image.topics["a"].partitions[0].leader_epoch == 0
    commit(made, made.fence_broker(1))
    commit(made, made.register_broker(1, HERE))
    assert [item.leader_epoch for item in made.image.topics["a"].partitions] == [1, 1]


def test_an_unknown_broker_cannot_be_fenced() -> None:
    made = controller()
    assert made.fence_broker(9).results[0].code == ErrorCode.BROKER_ID_NOT_REGISTERED
