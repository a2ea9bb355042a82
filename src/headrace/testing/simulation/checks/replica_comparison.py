"""After all faults have ended: every replica of a partition has the same log."""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.replication.follower import Follower
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import Log
from headrace.testing.simulation.batches import batches_of
from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.checks.history import Place, Violation

REPLICAS_ALIKE: Final = "replicas are the same after all faults have ended"


def all_is_committed(brokers: Mapping[int, BrokerProcess], places: Sequence[Place]) -> bool:
    """Whether all replicas have the same log end, and their leaders know it."""
    for place in places:
        nodes = [each.node for each in brokers.values() if each.node is not None]
        replicas = [node.partitions.replica(*place) for node in nodes]
        leaders = [each for each in replicas if isinstance(each, SoleLeader)]
        ends = {log.log_end_offset for log in _logs(brokers, place).values()}
        if len(leaders) != 1 or ends != {leaders[0].high_watermark}:
            return False
    return True


def check_replicas(brokers: Mapping[int, BrokerProcess], places: Sequence[Place]) -> None:
    """Raises `Violation` unless all replicas have the same batches, each once."""
    for place in places:
        logs = _logs(brokers, place)
        batches_by_id = {
            id_: batches_of(log, log.log_start_offset, log.log_end_offset)
            for id_, log in logs.items()
        }
        first = next(iter(batches_by_id), None)
        for id_, batches in batches_by_id.items():
            if first is not None and batches != batches_by_id[first]:
                apart = sorted(set(batches) ^ set(batches_by_id[first]))[:3]
                raise Violation(REPLICAS_ALIKE, f"{place}: {first} and {id_}: {apart}")


def _logs(brokers: Mapping[int, BrokerProcess], place: Place) -> dict[int, Log]:
    """The logs of the partition, by broker id."""
    logs = {}
    for id_, broker in brokers.items():
        node = broker.node
        replica = node.partitions.replica(*place) if node is not None else None
        if isinstance(replica, SoleLeader | Follower):
            logs[id_] = replica.log
    return logs
