"""Each producer id is allocated once."""

from headrace.cluster.metadata_records import ProducerIdsReserved
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller


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


def test_producer_ids_run_out_before_they_overflow() -> None:
    made = controller()
    made.image = made.image.apply([ProducerIdsReserved(2**63 - 10)])
    outcome = made.allocate_producer_ids(1, made.image.brokers[1].epoch)
    assert outcome.records == ()
    assert outcome.results[0].error.code == ErrorCode.UNKNOWN_SERVER_ERROR
