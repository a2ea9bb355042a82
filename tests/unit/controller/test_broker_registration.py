"""Brokers register with growing epochs; each producer id is allocated once."""

from random import Random

from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ProducerIdsReserved
from headrace.cluster.topology import Endpoint
from headrace.controller.decisions import Decisions
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller

HERE = [Endpoint("PLAINTEXT", "localhost", 9092)]


def test_a_new_store_gets_a_cluster_id_features_and_a_controller() -> None:
    made = Decisions(MetadataImage(), ControllerSettings(node_id=4), Random(7))
    image = MetadataImage().apply(made.bootstrap())
    assert len(image.cluster_id) == 22
    assert image.features["transaction.version"] == 2
    assert (image.controller_id, image.controller_epoch) == (4, 1)


def test_an_old_store_keeps_its_id_and_features_and_raises_the_controller_epoch() -> None:
    made = controller()
    before = made.image
    made.image = made.image.apply(made.bootstrap("another"))
    assert made.image.cluster_id == before.cluster_id
    assert made.image.features == before.features
    assert made.image.controller_epoch == before.controller_epoch + 1


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


def test_blocks_of_producer_ids_never_overlap() -> None:
    made = controller(2)
    epochs = {id_: broker.epoch for id_, broker in made.image.brokers.items()}
    taken: list[int] = []
    for id_ in (1, 2, 1):
        block = commit(made, made.allocate_producer_ids(id_, epochs[id_]))
        assert block.size == 1000
        taken.extend(range(block.first, block.first + block.size))
    assert len(set(taken)) == len(taken)


def test_a_stale_or_unknown_broker_gets_no_producer_ids() -> None:
    made = controller()
    stale = made.allocate_producer_ids(1, made.image.brokers[1].epoch - 1)
    assert stale.results[0].error.code == ErrorCode.STALE_BROKER_EPOCH
    unknown = made.allocate_producer_ids(9, 1)
    assert unknown.results[0].error.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert stale.records == unknown.records == ()
    assert made.fence_broker(9).results[0].code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_run_out_before_they_overflow() -> None:
    made = controller()
    made.image = made.image.apply([ProducerIdsReserved(2**63 - 10)])
    outcome = made.allocate_producer_ids(1, made.image.brokers[1].epoch)
    assert outcome.records == ()
    assert outcome.results[0].error.code == ErrorCode.UNKNOWN_SERVER_ERROR
